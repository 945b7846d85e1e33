"""A broker's own check cursors, followed from landing to landing: does it still check? (R36, R57, R131) Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Final, NamedTuple

ROUNDS: Final = 2
WALK_MS: Final = 60_000  # a round looks at one queue no longer (R38)


class Place(NamedTuple):
    """Where a broker's checks stand in one half queue; None where its table of offsets has no entry."""

    half_offset: int | None
    op_offset: int | None


@dataclass(frozen=True)
class Cursor:
    """A row of check_cursor, but for whose it is.

    passed_offset  every half below it that nobody has decided was passed over: the cursor stood there before a landing
                   that read both topics to their ends; None where no landing did
    """

    queue_id: int
    half_offset: int | None
    op_offset: int | None
    first_seen_timestamp: datetime
    last_seen_timestamp: datetime
    landings: int
    transaction_timeout_ms: int
    longest_stand_ms: int
    passed_offset: int | None = None


def followed(
    known: Iterable[Cursor],
    places: Mapping[int, Place],
    moment: datetime,
    *,
    transaction_timeout_ms: int,
    transaction_check_interval_ms: int,
    passed: Mapping[int, int] = MappingProxyType({}),
) -> list[Cursor]:
    """The cursors of `places` (by queue id), read at `moment`, with how long each has stood where it is.

    A reading that is no later than the one before it tells nothing new: the table was landed again, or an older one.
    passed  where they stood before the halves and ops were read that land with this reading, all of them
    """
    before = {cursor.queue_id: cursor for cursor in known}
    limits = (transaction_timeout_ms, longest_stand_ms(transaction_check_interval_ms, len(places)))
    return [
        _followed(before.get(queue_id), Cursor(queue_id, *place, moment, moment, 1, *limits, passed.get(queue_id)))
        for queue_id, place in sorted(places.items())
    ]


def with_passed(known: Iterable[Cursor], passed: Mapping[int, int]) -> list[Cursor]:
    """`known` with what each has passed, where halves and ops were read without the broker's table of offsets.

    passed  where they stood before that, all of them; one that was never read with the table waits for it
    """
    return [
        replace(cursor, passed_offset=_passed(cursor, replace(cursor, passed_offset=passed.get(cursor.queue_id))))
        for cursor in known
    ]


def longest_stand_ms(transaction_check_interval_ms: int, queues: int) -> int:
    """How long a cursor may stand where it is while the broker checks: rounds come one after the other."""
    return ROUNDS * transaction_check_interval_ms + WALK_MS * queues


def _followed(before: Cursor | None, reading: Cursor) -> Cursor:
    now = replace(reading, passed_offset=_passed(before, reading))
    if before is None:
        return now
    if now.last_seen_timestamp <= before.last_seen_timestamp:
        return replace(
            before,
            transaction_timeout_ms=now.transaction_timeout_ms,
            longest_stand_ms=now.longest_stand_ms,
        )
    if now.half_offset != before.half_offset:
        return now
    return replace(now, first_seen_timestamp=before.first_seen_timestamp, landings=before.landings + 1)


def _passed(before: Cursor | None, now: Cursor) -> int | None:
    """What the cursor has passed by now; where it went back it will look at the rest again."""
    known = now.passed_offset if now.passed_offset is not None or before is None else before.passed_offset
    return None if known is None or now.half_offset is None else min(known, now.half_offset)
