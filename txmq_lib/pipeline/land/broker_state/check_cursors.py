"""Where a broker's own checks stand, kept from each landing of its table of consumer offsets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from pyspark.sql import Row

from txmq_lib.config.settings import Settings
from txmq_lib.delta.conform import rows_at_hand
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.names import CHECK_GROUP, HALF_TOPIC, OP_TOPIC, ROLE_AUDIT
from txmq_lib.passes.current import Pass
from txmq_lib.rocketmq.store.consumer_offset_file import ConsumerOffsets
from txmq_lib.rules.cursors import Cursor, Place, followed, with_passed

TABLE = STEP = "check_cursor"
OF_RULE = tuple(field.name for field in fields(Cursor))


class Checks(NamedTuple):
    """What a landing learned of where the checks of one broker stood.

    moment       when its table of offsets was read
    offsets      that table; None where it does not land
    half_queues  the queues of the half topic that the broker has
    is_newest    whatever the time, this was read after all that was read before: clocks step back
    passed       by half queue where they stood before the halves and ops that land with them were read, all of them
    """

    moment: datetime
    offsets: ConsumerOffsets | None
    half_queues: Iterable[int] = ()
    is_newest: bool = False
    passed: Mapping[int, int] = MappingProxyType({})


def land(current: Pass, of_brokers: Mapping[str, Checks]) -> None:
    """Keep where the checks of audited brokers stood, where that is not known yet."""
    if TABLE not in current.input_versions:
        return  # planned by an older version
    rows = [
        {"broker_name": broker_name, "pass_number": current.number, **asdict(cursor)}
        for broker_name, checks in of_brokers.items()
        for cursor in _moved(current.warehouse, current.settings, broker_name, checks)
    ]
    current.upsert(TABLE, rows_at_hand(TABLE, rows), step=STEP)


def is_news(warehouse: Warehouse, settings: Settings, broker_name: str, checks: Checks) -> bool:
    """Whether `land` has anything to keep of this broker."""
    return any(_moved(warehouse, settings, broker_name, checks))


def _moved(warehouse: Warehouse, settings: Settings, broker_name: str, checks: Checks) -> Iterator[Cursor]:
    policy = settings.for_broker(broker_name)
    if policy.role != ROLE_AUDIT:
        return
    rows = warehouse.materialized_rows(TABLE)
    known = [_cursor(row) for row in rows if row["broker_name"] == broker_name]
    if checks.offsets is None:
        cursors = with_passed(known, checks.passed) if checks.passed else []
    else:
        seen = [cursor.last_seen_timestamp for cursor in known] if checks.is_newest else []
        cursors = followed(
            known,
            places(checks.offsets, checks.half_queues),
            max([checks.moment, *seen]),
            transaction_timeout_ms=policy.transaction_timeout_ms,
            transaction_check_interval_ms=policy.transaction_check_interval_ms,
            passed=checks.passed,
        )
    yield from (cursor for cursor in cursors if cursor not in known)


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
