"""Halves that no broker checks: behind a check cursor that stands, or passed over by one. Limits are in the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from txmq_lib import names
from txmq_lib.errors import TableMissingError
from txmq_lib.views.column_sql import in_utc, output, utc
from txmq_lib.views.reader import KeyValues, Scan, WarehouseReader, matching, sql_literal

COLUMNS = (
    "broker_name",
    "queue_id",
    "half_offset",
    "first_seen_timestamp",
    "last_seen_timestamp",
    "landings",
    "transaction_timeout_ms",
    "longest_stand_ms",
)
MOST_PASSED_OVER = 1_000  # that are looked at
KEY = f"broker_name, transaction_id, producer_group, {output('born_timestamp', 'timestamp')}"  # names.TRANSACTION_KEY
OP = ("broker_name", "queue_id", "half_queue_offset")
STANDS = "landings >= 2 AND epoch_ms(last_seen_timestamp) - epoch_ms(first_seen_timestamp) > longest_stand_ms"


@dataclass(frozen=True)
class StoppedChecks:
    """A half queue that its broker checks no more: where the cursor stands, seen there from when to when, how many half
    messages lie behind it, and the store time of the first of them. `half_offset` is None where it never moved."""

    broker_name: str
    queue_id: int
    half_offset: int | None
    first_seen_timestamp: datetime
    last_seen_timestamp: datetime
    waiting: int
    waiting_since: datetime


@dataclass(frozen=True)
class PassedOver:
    """Undecided halves of a queue that its broker's checks have passed over: how many (MOST_PASSED_OVER at most), the
    store time of the first, how far the checks had come, and which (names.TRANSACTION_KEY, as JSON has them)."""

    broker_name: str
    queue_id: int
    passed_offset: int
    count: int
    oldest_timestamp: datetime
    keys: tuple[tuple[Any, ...], ...]


def checked_brokers(reader: WarehouseReader) -> list[str]:
    """Brokers whose cursors have landed, by name; none in a warehouse of before."""
    scan = Scan("check_cursor", ("broker_name",))
    try:
        return [name for (name,) in reader.query("SELECT DISTINCT broker_name FROM c ORDER BY ALL", [], {"c": scan})]
    except TableMissingError:
        return []


def stopped_checks(reader: WarehouseReader) -> list[StoppedChecks]:
    """Half queues whose first half behind the cursor has been due for longer than the cursor may stand, the most first.

    A round takes a due half that no op names away from the cursor whatever becomes of it (R53), and steps over one that
    is decided (R39). So one that stays there was looked at by no round.
    """
    cursors = Scan("check_cursor", COLUMNS)
    try:
        standing = list(
            reader.query(
                f"SELECT broker_name, queue_id, coalesce(half_offset, 0) FROM c WHERE {STANDS}", [], {"c": cursors}
            )
        )
    except TableMissingError:
        return []
    if not standing:
        return []
    behind = " OR ".join(
        f"(broker_name = {sql_literal(name)} AND queue_id = {queue_id} AND queue_offset >= {offset})"
        for name, queue_id, offset in standing
    )
    sql = f"""
        SELECT broker_name, queue_id, half_offset, {utc("first_seen_timestamp")}, {utc("last_seen_timestamp")},
            count(*) AS waiting, {utc("arg_min(store_timestamp, queue_offset)")} AS since
        FROM (SELECT * FROM c WHERE {STANDS}) AS c JOIN h USING (broker_name, queue_id)
        WHERE queue_offset >= coalesce(half_offset, 0)
        GROUP BY {", ".join(f"c.{name}" for name in COLUMNS)}
        HAVING epoch_ms(last_seen_timestamp) - greatest(epoch_ms(first_seen_timestamp),
            epoch_ms(arg_min(store_timestamp, queue_offset)) + transaction_timeout_ms) > longest_stand_ms
        ORDER BY waiting DESC, broker_name, queue_id"""
    halves = Scan("half_message", ("broker_name", "queue_id", "queue_offset", "store_timestamp"), files=behind)
    return [
        StoppedChecks(name, queue_id, offset, in_utc(first), in_utc(last), waiting, in_utc(since))
        for name, queue_id, offset, first, last, waiting, since in reader.query(sql, [], {"c": cursors, "h": halves})
    ]


class _Half(NamedTuple):
    """The newest half of an undecided transaction below a cursor; `key` as KEY has it."""

    key: tuple[Any, ...]
    queue_id: int
    passed_offset: int
    place: int
    half_offsets: list[int]
    stored: datetime


def passed_over(reader: WarehouseReader) -> list[PassedOver]:
    """Undecided halves below a check cursor, by queue: a round puts each due half back or gives it up before it goes on
    (R53), so these were skipped, and no round looks at them again. Somebody moved the cursor, a replica took them
    elsewhere, or retention took them first.

    What reconcile listed as undecided may be decided by what landed since: that is looked at.
    """
    cursors = Scan("check_cursor", ("broker_name", "queue_id", "passed_offset"), may_be_missing=True)
    columns = ("queue_id", "queue_offset", "commit_log_offset", "half_offsets", "first_store_timestamp")
    sql = f"""
        SELECT {KEY}, queue_id, passed_offset, commit_log_offset, half_offsets,
            {utc("first_store_timestamp")}
        FROM p JOIN c USING (broker_name, queue_id) WHERE queue_offset < passed_offset
        ORDER BY first_store_timestamp LIMIT {MOST_PASSED_OVER}"""
    scans = {"c": cursors, "p": Scan("pending_half", (*names.TRANSACTION_KEY, *columns))}
    halves = [_Half(tuple(row[:4]), *row[4:]) for row in reader.query(sql, [], scans)]
    gone_on = _gone_on(reader, halves) if halves else set()
    queues: dict[tuple[str, int, int], list[_Half]] = {}
    for half in halves:
        if half.key not in gone_on:
            queues.setdefault((half.key[0], half.queue_id, half.passed_offset), []).append(half)
    return [
        PassedOver(*queue, len(those), in_utc(those[0].stored), tuple(half.key for half in those))
        for queue, those in queues.items()
    ]


def _gone_on(reader: WarehouseReader, halves: Sequence[_Half]) -> set[tuple[Any, ...]]:
    """Keys of those that an op names, or that were put back or given up later."""
    brokers = sorted({half.key[0] for half in halves})
    offsets = sorted({offset for half in halves for offset in half.half_offsets})
    named = Scan("op_message", OP, ({"broker_name": brokers, "half_queue_offset": offsets},))
    ops = {tuple(row[name] for name in OP) for row in reader.rows(named)}
    found = {half.key for half in halves if {(half.key[0], half.queue_id, each) for each in half.half_offsets} & ops}
    places = {half.key: half.place for half in halves}
    those: KeyValues = {"broker_name": brokers, "transaction_id": sorted({half.key[1] for half in halves})}
    condition, values = matching((those,))
    columns = (*names.TRANSACTION_KEY, "commit_log_offset")
    for table in ("half_message", "trans_check_max_time"):
        sql = f"SELECT {KEY}, commit_log_offset FROM scan WHERE {condition}"
        rows = reader.query(sql, [*values], {"scan": Scan(table, columns, (those,))})
        found |= {tuple(key) for *key, place in rows if place is not None and place > places.get(tuple(key), place)}
    return found
