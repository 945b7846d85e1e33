"""Landing of a live broker: its queues from where the tables end, and its consumer offsets."""

from __future__ import annotations

from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.land.broker_state import broker_offsets, check_cursors, set_ups
from txmq_lib.pipeline.land.kinds import ROCKETMQ
from txmq_lib.pipeline.land.live import connected_producers
from txmq_lib.pipeline.land.live.broker_plan import queue_name
from txmq_lib.pipeline.land.live.broker_reading import UNREAD, BrokerReading
from txmq_lib.pipeline.land.live.queue_landing import land_queues
from txmq_lib.rocketmq.store.consumer_offset_file import ConsumerOffsetFile
from txmq_lib.rules.moments import epoch_ms


def land(current: Pass, reading: BrokerReading) -> None:
    """Land what the plan names. What cannot be read after all is told and left for the next landing."""
    set_ups.land(current)
    if reading.offsets is not None:
        place = f"{ROCKETMQ}:{current.arguments['address']}"
        table = ConsumerOffsetFile(reading.offsets, place, epoch_ms(current.now))
        broker_offsets.land(current, [table], broker_name=current.arguments["broker_name"], is_newest=True)
        check_cursors.land(current, reading.offsets, reading.half_ends, current.now, is_newest=True)
    if reading.producers is not None:
        connected_producers.land(current, reading.producers)
    if current.arguments["queues"]:
        unread = land_queues(current, reading.access)
        reading.counts[UNREAD] += len(unread)
        reading.tell_each("could not be read", [f"{queue_name(queue)}: {words}" for queue, words in unread.items()])
    current.counts.update(reading.counts)
