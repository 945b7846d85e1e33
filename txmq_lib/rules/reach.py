"""How far queues have been landed, a row at a time, and what a pass moves of it (table landing_frontier). Pure.

There is a row for a queue, not for a message: what a pass has read of them comes to the driver anyway, and a plan of
Spark's takes longer to make than to move thousands of them here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import NamedTuple

from txmq_lib.rules.frontier import ALL_QUEUES_TOPIC, WHOLE_QUEUE_ID
from txmq_lib.rules.run_lists import Run, highest, joined, lowest, told_to

QueueKey = tuple[str, str, int]  # broker_name, topic, queue_id
MOST_CHANGES = 100  # of one queue; of more the first two are one


class Change(NamedTuple):
    """When a queue may have begun anew: the places behind which it was not read, and before which it had begun."""

    behind: int | None
    before: int | None


class Reach(NamedTuple):
    """A row of landing_frontier without its pass_number, or a report that moves one. Times are µs since 1970."""

    broker_name: str
    topic: str
    queue_id: int
    next_offset: int
    highest_store_timestamp: int | None = None
    lowest_kept_offset: int | None = None
    lost_before_timestamp: int | None = None
    # A file does not know where its source ends.
    is_end_known: bool = False
    source_identity: str | None = None
    runs: tuple[Run, ...] | None = ()
    told_end: int | None = None
    file_end: int | None = None
    first_told_end: int | None = None
    is_untold: bool | None = None
    changes: tuple[Change, ...] | None = None
    former_timestamp: int | None = None

    @property
    def key(self) -> QueueKey:
        """Which queue it is of."""
        return self[:3]

    @property
    def is_whole(self) -> bool:
        """Whether it is about a whole log, or all queues of a broker or of a topic (frontier.py)."""
        return self.queue_id == WHOLE_QUEUE_ID


def together(parts: Iterable[Reach]) -> list[Reach]:
    """Reports of what was read in several parts, which share no row, as one for each queue."""
    of_queues: dict[QueueKey, list[Reach]] = {}
    for part in parts:
        of_queues.setdefault(part.key, []).append(part)
    return [_together(own) for own in of_queues.values()]


def advanced(known: Iterable[Reach], reports: Iterable[Reach]) -> Iterator[Reach]:
    """The rows that change when `reports`, one for each queue, come in.

    next_offset, told ends, the lowest offset kept and store time only move forward; runs are joined; what the source
    says of itself is taken as reported. So is where a whole log ends: another log may stand in its place. Of a queue
    that has begun anew `changes` has one, without where it was read to. Of a broker that has, former_timestamp says so
    in each row, and what was read before proves nothing any more.

    known  rows of the queues reported, and all rows that are about several queues of their brokers
    """
    before = {row.key: row for row in known}
    whole_reads = {
        (row.broker_name, row.topic): read_to
        for row in before.values()
        if row.is_whole and (read_to := highest(*[run.read_to for run in row.runs or ()])) is not None
    }
    for report in reports:
        of_all = whole_reads.get((report.broker_name, ALL_QUEUES_TOPIC))
        of_topic = whole_reads.get((report.broker_name, report.topic))
        row = before.get(report.key)
        before_it = Reach(*report.key, next_offset=report.next_offset, runs=None) if row is None else row
        moved = _moved(report, before_it, highest(of_all, of_topic))
        if moved != row:
            yield moved


def of_another_life(known: Iterable[Reach], reports: Sequence[Reach], *, now_us: int) -> list[Reach]:
    """`reports` of a broker that was made anew under its old name, and of all else that is known of it: what was read
    of its former life proves nothing of this one, nor the other way round.

    now_us  no record of the former life was stored later, whatever a damaged one says
    """
    rows, reported = list(known), {report.key for report in reports}
    newest = highest(*[row.highest_store_timestamp for row in rows])
    former = min(0 if newest is None else newest, now_us)
    others = [row._replace(runs=(), changes=None) for row in rows if row.key not in reported]
    return [row._replace(former_timestamp=former) for row in (*reports, *others)]


def _together(own: Sequence[Reach]) -> Reach:
    def furthest(one: Reach, other: Reach) -> Reach:
        return one._replace(
            next_offset=max(one.next_offset, other.next_offset),
            highest_store_timestamp=highest(one.highest_store_timestamp, other.highest_store_timestamp),
            told_end=highest(one.told_end, other.told_end),
            file_end=highest(one.file_end, other.file_end),
            first_told_end=lowest(one.first_told_end, other.first_told_end),
        )

    whole = reduce(furthest, own)
    runs = joined(run for part in own for run in part.runs or ())
    return whole._replace(runs=runs, told_end=highest(whole.told_end, whole.next_offset))


def _moved(report: Reach, row: Reach, whole_read_to: int | None) -> Reach:
    runs_before = _runs_before(report, row, whole_read_to)
    # Of a broker that is found to have been made anew what was read before says nothing, of whichever queue.
    kept_runs = runs_before if report.former_timestamp is None else ()
    return Reach(
        *report.key,
        next_offset=report.next_offset if report.is_whole else max(report.next_offset, row.next_offset),
        highest_store_timestamp=highest(report.highest_store_timestamp, row.highest_store_timestamp),
        lowest_kept_offset=_lowest_kept(report, row),
        lost_before_timestamp=highest(report.lost_before_timestamp, row.lost_before_timestamp),
        is_end_known=report.is_end_known or row.is_end_known,
        source_identity=row.source_identity if report.source_identity is None else report.source_identity,
        runs=joined((*kept_runs, *(report.runs or ()))),
        told_end=highest(report.told_end, row.told_end),
        file_end=highest(report.file_end, row.file_end),
        first_told_end=lowest(report.first_told_end, _first_told_before(row)),
        is_untold=row.is_untold if report.is_untold is None else report.is_untold,
        changes=_changes(report, row, runs_before),
        former_timestamp=highest(report.former_timestamp, row.former_timestamp),
    )


def _first_told_before(row: Reach) -> int | None:
    """The lowest end told before. A row of an older version has none: the lowest that is known to have been told."""
    known = next((end for end in (row.first_told_end, row.file_end) if end is not None), None)
    is_beyond = row.told_end is not None and row.told_end > row.next_offset and not row.is_end_known
    return row.told_end if known is None and is_beyond else known


def _lowest_kept(report: Reach, row: Reach) -> int | None:
    """Retention only moves it on: an older copy of a store takes nothing back, what began anew does."""
    has_begun_anew = report.former_timestamp is not None or report.changes
    # Of a log it is where the last copy of it begins.
    if (has_begun_anew or report.is_whole) and report.lowest_kept_offset is not None:
        return report.lowest_kept_offset
    return highest(report.lowest_kept_offset, row.lowest_kept_offset)


def _runs_before(report: Reach, row: Reach, whole_read_to: int | None) -> tuple[Run, ...]:
    """The runs known before, with what the last reading of all queues said of this one, before this one goes on."""
    runs = row.runs or ()
    if report.is_whole:
        return runs
    # Of a row of an older version nobody said whether that reading was told of it.
    said = (row.is_untold, True if report.changes else None, report.is_untold, True)
    return told_to(runs, whole_read_to, is_untold=next(one for one in said if one is not None))


def _changes(report: Reach, row: Reach, runs_before: Sequence[Run]) -> tuple[Change, ...] | None:
    """When the queue has begun anew: what was known, and what is reported now."""
    if not report.changes:
        return row.changes
    ends = [end for run in runs_before for end in (run.last_commit_log_offset, run.read_to)]
    read_to = max((-1, *[end for end in ends if end is not None]))

    def change(reported: Change) -> Change:
        # A broker made anew counts its places from 0 again: what was read lies below and says nothing of them.
        is_other_log = reported.before is not None and reported.before <= read_to
        return Change(-1, read_to + 1) if is_other_log else Change(read_to, reported.before)

    changes = (*(row.changes or ()), *map(change, report.changes))
    if len(changes) <= MOST_CHANGES:
        return changes
    first, second, *others = changes
    return (_one_of(first, second), *others[:MOST_CHANGES])


def _one_of(first: Change, second: Change) -> Change:
    is_known = first.before is not None and second.before is not None
    return Change(lowest(first.behind, second.behind), highest(first.before, second.before) if is_known else None)
