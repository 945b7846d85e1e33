"""Where a broker's own checks stand, kept from each landing of its table of consumer offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from pyspark.sql import Row

from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.conform import struct_type
from txmq_lib.names import CHECK_GROUP, HALF_TOPIC, OP_TOPIC, ROLE_AUDIT
from txmq_lib.passes.current import Pass
from txmq_lib.rocketmq.store.consumer_offset_file import ConsumerOffsets
from txmq_lib.rules.cursors import Cursor, Place, followed, with_passed
from txmq_lib.spark.local_frame import local_frame

TABLE = STEP = "check_cursor"
OF_RULE = tuple(field.name for field in fields(Cursor))


def land(
    current: Pass,
    offsets: ConsumerOffsets,
    half_queues: Iterable[int],
    moment: datetime,
    *,
    is_newest: bool = False,
    passed: Mapping[int, int] = MappingProxyType({}),
) -> None:
    """Keep where the checks of an audited broker stood at `moment`.

    half_queues  the queues of the half topic that it has
    is_newest    whatever the time, this was read after all that was read before: clocks step back
    passed       by half queue where they stood before the halves and ops that land with them were read, all of them
    """
    broker_name = current.arguments["broker_name"]
    policy = current.settings.for_broker(broker_name)
    found = places(offsets, half_queues)
    if not found or not _are_kept(current):
        return
    known = _known(current)
    if is_newest:
        moment = max([moment, *(cursor.last_seen_timestamp for cursor in known)])
    cursors = followed(
        known,
        found,
        moment,
        transaction_timeout_ms=policy.transaction_timeout_ms,
        transaction_check_interval_ms=policy.transaction_check_interval_ms,
        passed=passed,
    )
    _keep(current, [cursor for cursor in cursors if cursor not in known])


def land_passed(current: Pass, passed: Mapping[int, int]) -> None:
    """Keep what the checks have passed, by half queue, where the queues land without the table of offsets."""
    if _are_kept(current):
        _keep(current, _moved(current, passed))


def is_news(current: Pass, passed: Mapping[int, int]) -> bool:
    """Whether `land_passed` has anything to keep."""
    return bool(passed) and _are_kept(current) and bool(_moved(current, passed))


def _moved(current: Pass, passed: Mapping[int, int]) -> list[Cursor]:
    known = _known(current)
    return [cursor for cursor in with_passed(known, passed) if cursor not in known]


def _are_kept(current: Pass) -> bool:
    policy = current.settings.for_broker(current.arguments["broker_name"])
    return policy.role == ROLE_AUDIT and TABLE in current.input_versions


def _known(current: Pass) -> list[Cursor]:
    broker_name = current.arguments["broker_name"]
    rows = current.warehouse.materialized_rows(TABLE)
    return [_cursor(row) for row in rows if row["broker_name"] == broker_name]


def _keep(current: Pass, cursors: Sequence[Cursor]) -> None:
    broker_name, new = current.arguments["broker_name"], [asdict(cursor) for cursor in cursors]
    common = {"broker_name": broker_name, "pass_number": current.number}
    frame = local_frame(current.warehouse.spark, [{**common, **row} for row in new], struct_type(table_spec(TABLE)))
    current.upsert(TABLE, frame, step=STEP, count=len(new))


def places(offsets: ConsumerOffsets, half_queues: Iterable[int]) -> dict[int, Place]:
    """Where a table of offsets has the checks of each half queue; a queue that it leaves out only where all of the
    table could be read."""
    of_checks = {(entry.topic, entry.queue_id): entry.offset for entry in offsets.entries if entry.group == CHECK_GROUP}
    named = {queue_id for topic, queue_id in of_checks if topic == HALF_TOPIC}
    queues = named if offsets.bad else {*named, *half_queues}
    return {queue: Place(of_checks.get((HALF_TOPIC, queue)), of_checks.get((OP_TOPIC, queue))) for queue in queues}


def _cursor(row: Row) -> Cursor:
    values: dict[str, Any] = {name: row[name] for name in OF_RULE}
    for name, value in values.items():
        if isinstance(value, datetime):
            values[name] = value.astimezone(UTC)  # Spark hands times over in the local zone and without it
    return Cursor(**values)
