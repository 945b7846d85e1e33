"""Halves that no broker checks: behind a check cursor that stands, or passed over by one. Limits are in the rows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from txmq_lib import names
from txmq_lib.errors import TableMissingError
from txmq_lib.rocketmq.set_ups import ROCKSDB_CHECKS, ROCKSDB_HALVES
from txmq_lib.views.column_sql import in_utc, output, utc
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.scan import Scan, sql_literal

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
# Set-ups in which a broker checks the halves that lie in RocksDB (docs/pages/which-brokers.md).
LOOKS_INTO_ROCKSDB = frozenset({ROCKSDB_CHECKS, ROCKSDB_HALVES})
MOST_PASSED_OVER = 1_000  # of a queue that are named
KEY = f"broker_name, transaction_id, producer_group, {output('born_timestamp', 'timestamp')}"  # names.TRANSACTION_KEY
OP = ("broker_name", "queue_id", "half_queue_offset")
FIRST_OFFSET = "list_min(half_offsets)"
# What reconcile listed as undecided, below a cursor.
BELOW = """
    WITH below AS MATERIALIZED (
        SELECT row_number() OVER () AS number, p.*, passed_offset
        FROM p JOIN c USING (broker_name, queue_id) WHERE queue_offset < passed_offset)"""
SAME_KEY = " AND ".join(f"below.{name} IS NOT DISTINCT FROM later.{name}" for name in names.TRANSACTION_KEY)
# Without those that an op names, or that were put back or given up later.
PASSED_OVER = f"""{BELOW},
    places AS (SELECT number, broker_name, queue_id, unnest(half_offsets) AS half_queue_offset FROM below),
    gone_on AS (
        SELECT number FROM places SEMI JOIN o USING (broker_name, queue_id, half_queue_offset)
        UNION SELECT number FROM below JOIN (SELECT * FROM h UNION ALL SELECT * FROM m) AS later
            ON {SAME_KEY} AND later.commit_log_offset > below.commit_log_offset),
    left_behind AS (SELECT * FROM below ANTI JOIN gone_on USING (number))
    SELECT {KEY}, queue_id, passed_offset, count(*) OVER queue, {utc("min(first_store_timestamp) OVER queue")}
    FROM left_behind
    WINDOW queue AS (PARTITION BY broker_name, queue_id, passed_offset)
    QUALIFY list_contains(?, transaction_id) OR {MOST_PASSED_OVER} >= row_number() OVER (
        PARTITION BY broker_name, queue_id, passed_offset ORDER BY first_store_timestamp, transaction_id)
    ORDER BY first_store_timestamp, transaction_id"""
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
    """Undecided halves of a queue that its broker's checks have passed over: how far the checks had come, how many,
    the store time of the first, and which (names.TRANSACTION_KEY, as JSON has them; the first MOST_PASSED_OVER)."""

    broker_name: str
    queue_id: int
    passed_offset: int
    count: int
    oldest_timestamp: datetime
    keys: tuple[tuple[Any, ...], ...]


def checked_brokers(reader: WarehouseReader) -> list[str]:
    """Brokers whose cursors have landed, by name; none in an older warehouse."""
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


def passed_over(reader: WarehouseReader, *, first: Collection[str] = ()) -> list[PassedOver]:
    """Undecided halves below a check cursor, by queue: a round puts each due half back or gives it up before it goes on
    (R53), so these were skipped, and no round looks at them again. Somebody moved the cursor, a replica took them
    elsewhere, or retention took them first.

    What reconcile listed as undecided may be decided by what landed since: that is looked at.
    first  ids of which all keys are told
    """
    lowest = next(
        iter(reader.query(f"{BELOW} SELECT min({FIRST_OFFSET}), min(commit_log_offset) FROM below", [], _listed()))
    )
    if lowest[0] is None:
        return []
    later = f"commit_log_offset > {lowest[1]}"
    columns = (*names.TRANSACTION_KEY, "commit_log_offset")
    scans = {
        **_listed(),
        "o": Scan("op_message", OP, files=f"half_queue_offset >= {lowest[0]}"),
        "h": Scan("half_message", columns, files=later),
        "m": Scan("trans_check_max_time", columns, files=later),
    }
    queues: dict[tuple[str, int, int, int, datetime], list[tuple[Any, ...]]] = {}
    for *key, queue_id, passed_offset, count, oldest in reader.query(PASSED_OVER, [list(first)], scans):
        queues.setdefault((key[0], queue_id, passed_offset, count, in_utc(oldest)), []).append(tuple(key))
    return [PassedOver(*queue, keys=tuple(keys)) for queue, keys in queues.items()]


def not_looking_into_rocksdb(reader: WarehouseReader) -> dict[str, str]:
    """Brokers that look for no halves in RocksDB, and when that was found; those alone that landed live, and so told
    all their settings (R116, R121)."""
    columns = ("broker_name", "kind", "set_ups", "recorded_timestamp")
    rows = reader.rows(Scan("broker_set_up", columns, may_be_missing=True))
    return {
        str(row["broker_name"]): str(row["recorded_timestamp"])
        for row in rows
        if row["kind"] == "rocketmq" and not LOOKS_INTO_ROCKSDB & {*str(row["set_ups"]).split(", ")}
    }


def _listed() -> dict[str, Scan]:
    columns = ("queue_id", "queue_offset", "commit_log_offset", "half_offsets", "first_store_timestamp")
    return {
        "c": Scan("check_cursor", ("broker_name", "queue_id", "passed_offset"), may_be_missing=True),
        "p": Scan("pending_half", (*names.TRANSACTION_KEY, *columns)),
    }
