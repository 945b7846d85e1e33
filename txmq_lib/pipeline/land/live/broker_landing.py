"""Landing of live brokers: their queues from where the tables end, and their consumer offsets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from txmq_lib.names import TRANSACTION_TOPICS
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.land.broker_state import broker_offsets, check_cursors, set_ups
from txmq_lib.pipeline.land.kinds import ROCKETMQ
from txmq_lib.pipeline.land.live import connected_producers
from txmq_lib.pipeline.land.live.broker_plan import queue_name
from txmq_lib.pipeline.land.live.broker_reading import UNREAD, BrokerReading
from txmq_lib.pipeline.land.live.connected_producers import Connected
from txmq_lib.pipeline.land.live.queue_landing import land_queues
from txmq_lib.rocketmq.store.consumer_offset_file import ConsumerOffsetFile
from txmq_lib.rules.moments import epoch_ms

UNTOLD = "told of no more (deleted, or beyond readQueueNums), so what came to them is not known"


def land(current: Pass, every: Sequence[BrokerReading]) -> None:
    """Land what the plan names. What cannot be read after all is told and left for the next landing.

    every  the brokers that were asked; those without news take no part
    """
    plans = current.arguments["brokers"]
    of_name = {reading.broker.name: reading for reading in every}
    readings = {plan["broker_name"]: of_name[plan["broker_name"]] for plan in plans}
    set_ups.land(current, plans)
    connected_producers.land(
        current,
        {
            name: Connected(reading.producers, reading.is_every_producer)
            for name, reading in readings.items()
            if reading.producers is not None
        },
    )
    for name, heard in land_queues(current, plans, readings).items():
        reading = readings[name]
        reading.counts[UNREAD] += len(heard.unread)
        if any(queue.topic in TRANSACTION_TOPICS for queue in heard.unread):
            reading.passed.clear()
        unread = [f"{queue_name(queue)}: {words}" for queue, words in heard.unread.items()]
        reading.tell_each("could not be read", unread)
        reading.tell_each(UNTOLD, [queue_name(queue) for queue in sorted(heard.untold)])
    _land_offsets(current, readings.values())
    current.counts.update(counts_of(every))


def counts_of(readings: Iterable[BrokerReading]) -> Counter[str]:
    """What was counted of all these brokers together."""
    counts: Counter[str] = Counter()
    for reading in readings:
        counts.update(reading.counts)
    return counts


def _land_offsets(current: Pass, readings: Iterable[BrokerReading]) -> None:
    tables, checks = {}, {}
    for reading in readings:
        name, offsets = reading.broker.name, reading.offsets
        checks[name] = check_cursors.Checks(
            current.now, offsets, reading.half_ends, is_newest=True, passed=reading.passed
        )
        if offsets is not None:
            place = f"{ROCKETMQ}:{reading.broker.address}"
            tables[name] = [ConsumerOffsetFile(offsets, place, epoch_ms(current.now))]
    if tables:
        broker_offsets.land(current, tables, is_newest=True)
    check_cursors.land(current, checks)
