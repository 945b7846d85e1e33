"""Brokers that check no more: cursors of their checks that stand, and the halves behind. Limits are in the rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from txmq_lib.errors import TableMissingError
from txmq_lib.views.column_sql import in_utc, utc
from txmq_lib.views.reader import Scan, WarehouseReader, sql_literal

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
