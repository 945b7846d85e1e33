"""The roll-up of one queue in plain Python, one report after the other: the reference for consumer offsets (R84, R102)."""

from __future__ import annotations

from typing import NamedTuple

WINDOW_MS = 3_000


class Report(NamedTuple):
    """One report: second, offset, whether increase-only, client, batch it landed in, place in the batch."""

    second: int
    offset: int
    is_increase_only: bool
    client: str | None
    batch: int
    place: int


class Outcome(NamedTuple):
    """What a history leaves."""

    next_offset: int
    ignored: int
    late: int
    rewinds: list[tuple[int, int, int]]
    jumps: list[tuple[int, int, int]]
    conflicts: int


def model(history: list[Report]) -> Outcome:
    """One report after the other, as the issue and R84, R102 say it."""
    events = sorted(history, key=lambda event: (event.second, event.batch, event.place))
    value, waiting, ignored, late = None, None, 0, 0
    rewinds, jumps = [], []
    for number, event in enumerate(events):
        landed = (event.batch, event.place)
        is_late = any(not e.is_increase_only and (e.batch, e.place) < landed for e in events[number + 1 :])
        after = event.offset if value is None or not event.is_increase_only else max(value, event.offset)
        late += is_late
        ignored += is_late or after == value
        if value is not None and after < value:
            rewinds.append((event.second, value, after))
            waiting = value
        elif after != value:
            if event.is_increase_only and waiting is not None and event.offset >= waiting:
                jumps.append((event.second, value, event.offset))
            waiting = None
        value = after
    return Outcome(
        value, ignored, late, rewinds, jumps, sum(in_conflict(events, number) for number in range(len(events)))
    )


def in_conflict(events: list[Report], number: int) -> bool:
    event = events[number]
    before = [e for e in events[:number] if e.client not in (None, event.client)]
    after = [e for e in events[number + 1 :] if e.client not in (None, event.client)]
    is_between = any(a.client == b.client and (b.second - a.second) * 1_000 <= WINDOW_MS for a in before for b in after)
    return event.client is not None and (is_between or any(e.second == event.second for e in before))
