"""What a live broker says of itself beside its queues: its settings, its consumer offsets, who is connected."""

from __future__ import annotations

from typing import Any, NamedTuple

from pyspark.sql import functions as F

from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import RemotingError, UnreachableError
from txmq_lib.names import EVERY_GROUP, HALF_TOPIC
from txmq_lib.pipeline.land.broker_state import set_ups
from txmq_lib.pipeline.land.broker_state.broker_settings import live_findings
from txmq_lib.pipeline.land.kinds import ROCKETMQ
from txmq_lib.pipeline.land.live import connected_producers
from txmq_lib.pipeline.land.live.broker_reading import UNREAD, BrokerReading, Parts
from txmq_lib.rocketmq.remoting.broker import all_consumer_offsets, broker_config, max_offsets
from txmq_lib.rocketmq.remoting.connection import Connection
from txmq_lib.rocketmq.remoting.producers import producers_now, producers_of
from txmq_lib.rocketmq.remoting.runtime import Runtime, broker_runtime
from txmq_lib.rocketmq.set_ups import live_set_ups
from txmq_lib.rocketmq.store.consumer_offset_file import parse_consumer_offsets

MOST_GROUPS = 1_000  # that are asked about one by one


class Said(NamedTuple):
    """What a broker says of itself; nothing where it does not."""

    config: dict[str, str]
    runtime: Runtime = Runtime()


def broker_settings(reading: BrokerReading, connection: Connection) -> Said:
    """Its settings and what it says of its process; what could not be read is told."""
    try:
        return Said(broker_config(connection), broker_runtime(connection))
    except UnreachableError:
        raise
    except RemotingError as failure:
        reading.tell(f"its settings could not be read: {failure.message}")
        return Said({})


def told_set_up(reading: BrokerReading, connection: Connection, settings: Settings, said: Said) -> dict[str, Any]:
    """What the plan keeps of the broker's set-up; its own settings are compared and told."""
    if not said.config:
        return {}
    policy = settings.for_broker(reading.broker.name)
    for words in live_findings(said.config, policy):
        reading.tell(words)
    found = [*reading.set_ups, *live_set_ups(said.config)]
    version, booted_ms, _ = said.runtime
    row = set_ups.found(ROCKETMQ, connection.address, said.config, found, policy, version, booted_ms)
    return {set_ups.TABLE: row}


def is_booted_anew(reading: BrokerReading, said: Said) -> bool:
    """Whether the broker may be another process than the one that landed last: after a crash, or a failover, it may
    have used offsets again (R128)."""
    return said.runtime.booted_ms is not None and said.runtime.booted_ms != reading.known_boot()


def known_boot(warehouse: Warehouse, broker_name: str) -> int | None:
    """When the store of a broker was opened (ms), as its last landing was told."""
    rows = warehouse.materialized_rows(set_ups.TABLE)
    return next((row["booted_ms"] for row in rows if row["broker_name"] == broker_name), None)


def read_offsets(reading: BrokerReading, connection: Connection) -> None:
    """Its table of consumer offsets, and just before that the ends of its half queues."""
    halves = [queue for queue in reading.broker.queues if queue.topic == HALF_TOPIC]
    try:
        ends = zip(halves, max_offsets(connection, halves), strict=True)
        reading.half_ends.update({queue.queue_id: end for queue, end in ends if isinstance(end, int)})
        reading.offsets = parse_consumer_offsets(all_consumer_offsets(connection))
    except RemotingError as failure:
        # No answer in time is no reason to leave the queues, which are planned by now: the table may be large.
        if isinstance(failure, UnreachableError) and Parts.QUEUES not in reading.parts:
            raise
        reading.counts[UNREAD] += 1
        reading.tell(f"its consumer offsets could not be read: {failure.message}")


def read_producers(reading: BrokerReading, connection: Connection) -> None:
    """Who is connected to it."""
    try:
        reading.producers = producers_now(connection)
        reading.is_every_producer = reading.producers is not None
        if reading.producers is None:  # before 4.9.3 it tells of one group at a time
            reading.producers = producers_of(connection, reading.waiting_groups())
    except RemotingError as failure:
        reading.tell(f"which producers are connected is not known: {failure.message}")


def waiting_groups(warehouse: Warehouse, broker_name: str) -> list[str]:
    """The producer groups that are asked about one by one, MOST_GROUPS at most: of a broker's undecided transactions,
    those with the most first; then those that were asked about before, those that had clients then first."""
    pending, asked_before = (
        warehouse.read(table).where((F.col("broker_name") == broker_name) & F.col("producer_group").isNotNull())
        for table in ("pending_half", connected_producers.TABLE)
    )
    nobody = F.lit(0).alias("clients")
    groups = (
        pending.select("producer_group", F.lit(1).alias("waiting"), nobody)
        .union(asked_before.select("producer_group", F.lit(0), "clients"))
        .where(F.col("producer_group") != EVERY_GROUP)
        .groupBy("producer_group")
        .agg(F.sum("waiting").alias("waiting"), F.sum("clients").alias("clients"))
    )
    first = groups.orderBy(F.desc("waiting"), F.desc("clients"), "producer_group").limit(MOST_GROUPS)
    return [row["producer_group"] for row in first.collect()]
