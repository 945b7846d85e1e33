"""How far consumer queues were behind over time, from offset reports and stored messages. The period is given."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from txmq_lib.report.period import PARTS, Period
from txmq_lib.views.declared.consumer_offsets import OFFSETS
from txmq_lib.views.figures import OffsetGroup
from txmq_lib.views.lag import LagWindow
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.scan import Scan
from txmq_lib.views.select import MOST_VALUES, ViewQuery, view_rows

GROUPS_DRAWN = 6

# A value at the end of each part of the period; None where it is not known.
Line: TypeAlias = list[int | None]
# (broker, consumer group, topic, queue)
QueueKey: TypeAlias = tuple[str, str, str, int]


@dataclass(frozen=True)
class Rewind:
    """An offset set back."""

    at: datetime
    from_offset: int
    to_offset: int
    client_id: str | None


@dataclass(frozen=True)
class Queue:
    """A consumer queue: its row in the view `offsets`, how far it was behind over time, its rewinds in the period."""

    key: QueueKey
    now: Mapping[str, Any]
    behind: Line
    rewinds: tuple[Rewind, ...]


@dataclass(frozen=True)
class OffsetHistory:
    """Lag at the end of each part: of groups (broker, group), and of their queues, the worst first."""

    groups: Mapping[tuple[str, str], Line]
    queues: tuple[Queue, ...]


def offset_history(
    reader: WarehouseReader, period: Period, groups: Sequence[OffsetGroup], window: LagWindow
) -> OffsetHistory:
    """The history of the GROUPS_DRAWN groups that lag most, then of those set back most often."""
    worst = sorted(groups, key=lambda group: (-group.lag, -group.rewinds, group.consumer_group))[:GROUPS_DRAWN]
    if not worst:
        return OffsetHistory({}, ())
    drawn = [(group.broker_name, group.consumer_group) for group in worst]
    query = ViewQuery(filters={"group": sorted({group for _, group in drawn})}, lag_window=window)
    rows = [dict(zip(SHOWN, row, strict=True)) for row in view_rows(reader, OFFSETS, query, columns=SHOWN)]
    now = {key: row for row in rows if (key := _queue_key(row))[:2] in drawn}
    behind = _behind(reader, period, now)
    queues = sorted((Queue(key, now[key], behind[key], _rewinds(now[key], period)) for key in now), key=_worst_first)
    totals = {group: _sum([queue.behind for queue in queues if queue.key[:2] == group]) for group in drawn}
    return OffsetHistory(totals, tuple(queues))


SHOWN = (
    *("broker_name", "consumer_group", "topic", "queue_id", "next_offset", "highest_offset", "lag", "lag_ms"),
    *("lag_state", "updated_timestamp", "rewind_count", "rewinds"),
)


def _queue_key(row: Mapping[str, Any]) -> QueueKey:
    return row["broker_name"], row["consumer_group"], row["topic"], row["queue_id"]


def _worst_first(queue: Queue) -> tuple[Any, ...]:
    peak = max((value for value in queue.behind if value is not None), default=0)
    return (-len(queue.rewinds), -(queue.now["lag"] or 0), -peak, queue.key)


def _rewinds(row: Mapping[str, Any], period: Period) -> tuple[Rewind, ...]:
    lines = [
        Rewind(datetime.fromisoformat(each["ts"]), each["from_offset"], each["to_offset"], each["client_id"])
        for each in row["rewinds"] or ()
    ]
    return tuple(each for each in lines if period.begin <= each.at <= period.end)


def _behind(reader: WarehouseReader, period: Period, now: Mapping[QueueKey, Mapping[str, Any]]) -> dict[QueueKey, Line]:
    reached = _lines(_reported(reader, period, sorted({group for _, group, _, _ in now})))
    ends = _lines(_stored(reader, period, sorted({topic for _, _, topic, _ in now})))
    behind = {}
    for key, row in now.items():
        broker_name, _, topic, queue_id = key
        end = list(ends.get((broker_name, topic, queue_id), UNKNOWN))
        # What has landed of a queue may be more than its messages tell: some were left out, or archived.
        end[-1] = row["highest_offset"]
        both = zip(end, reached.get(key, UNKNOWN), strict=True)
        behind[key] = [None if last is None or next_ is None else max(last - next_, 0) for last, next_ in both]
    return behind


UNKNOWN: Line = [None] * PARTS


def _reported(reader: WarehouseReader, period: Period, consumer_groups: Sequence[str]) -> Iterable[tuple[Any, ...]]:
    """Next offset at the end of each part with a report: the newest set, raised by increase-only reports after it."""
    queue = "broker_name, consumer_group, topic, queue_id"
    sql = f"""
        WITH chosen AS (
            SELECT * FROM reports WHERE consumer_group IN ({", ".join("?" * len(consumer_groups))})),
        numbered AS (
            SELECT *, count(*) FILTER (NOT is_increase_only) OVER (PARTITION BY {queue}
                ORDER BY ts, landed_pass, landing_order, is_increase_only, next_offset) AS set_number FROM chosen),
        parts AS (
            SELECT {queue}, part, set_number, max(next_offset) AS highest
            FROM (SELECT *, greatest({period.part("ts")}, -1) AS part FROM numbered) GROUP BY ALL),
        reached AS (
            SELECT * REPLACE (max(highest) OVER (PARTITION BY {queue}, set_number ORDER BY part) AS highest)
            FROM parts)
        SELECT {queue}, part, arg_max(highest, set_number) FROM reached WHERE part < {PARTS} GROUP BY ALL"""
    columns = (
        *("broker_name", "consumer_group", "topic", "queue_id", "ts", "landed_pass", "landing_order"),
        *("is_increase_only", "next_offset"),
    )
    scan = Scan("consumer_offset_commit", columns, where=({"consumer_group": consumer_groups},))
    return reader.query(sql, list(consumer_groups), {"reports": scan})


def _stored(reader: WarehouseReader, period: Period, topics: Sequence[str]) -> Iterable[tuple[Any, ...]]:
    """One past the highest offset stored by the end of each part with a message."""
    sql = f"""
        SELECT broker_name, topic, queue_id, part, max(queue_offset) + 1
        FROM (SELECT *, greatest({period.part("store_timestamp")}, -1) AS part FROM message)
        WHERE part < {PARTS} GROUP BY ALL"""
    where = ({"topic": topics},) if len(topics) <= MOST_VALUES else ()
    columns = ("broker_name", "topic", "queue_id", "queue_offset", "store_timestamp")
    return reader.query(sql, [], {"message": Scan("message", columns, where=where)})


def _lines(rows: Iterable[tuple[Any, ...]]) -> dict[tuple[Any, ...], Line]:
    """Rows of (key..., part, value), part -1 for all before the period, as values that hold until the next."""
    known: defaultdict[tuple[Any, ...], dict[int, int]] = defaultdict(dict)
    for *key, part, value in rows:
        known[tuple(key)][part] = value
    lines: dict[tuple[Any, ...], Line] = {}
    for whose, values in known.items():
        held, line = values.get(-1), list[int | None]()
        for part in range(PARTS):
            held = values.get(part, held)
            line.append(held)
        lines[whose] = line
    return lines


def _sum(lines: Sequence[Line]) -> Line:
    known = [[value for value in at if value is not None] for at in zip(*lines, strict=True)]
    return [sum(values) if values else None for values in known]
