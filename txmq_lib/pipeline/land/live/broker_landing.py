"""Landing of a live broker: its queues from where the tables end, and its consumer offsets."""

from __future__ import annotations

from txmq_lib.names import TRANSACTION_TOPICS
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.land.broker_state import broker_offsets, check_cursors, set_ups
from txmq_lib.pipeline.land.kinds import ROCKETMQ
from txmq_lib.pipeline.land.live import connected_producers
from txmq_lib.pipeline.land.live.broker_plan import queue_name
from txmq_lib.pipeline.land.live.broker_reading import UNREAD, BrokerReading
from txmq_lib.pipeline.land.live.live_reports import untold_reports
from txmq_lib.pipeline.land.live.queue_landing import land_queues
from txmq_lib.pipeline.shared.watermark import move_frontier
from txmq_lib.rocketmq.store.consumer_offset_file import ConsumerOffsetFile
from txmq_lib.rules.moments import epoch_ms

UNTOLD = "told of no more (deleted, or beyond readQueueNums), so what came to them is not known"


def land(current: Pass, reading: BrokerReading) -> None:
    """Land what the plan names. What cannot be read after all is told and left for the next landing."""
    set_ups.land(current)
    if reading.producers is not None:
        connected_producers.land(current, reading.producers, is_every_group=reading.is_every_producer)
    if current.arguments["queues"]:
        heard = land_queues(current, reading.access, reading.queues)
        reading.counts[UNREAD] += len(heard.unread)
        if any(queue.topic in TRANSACTION_TOPICS for queue in heard.unread):
            reading.passed.clear()
        unread = [f"{queue_name(queue)}: {words}" for queue, words in heard.unread.items()]
        reading.tell_each("could not be read", unread)
        reading.tell_each(UNTOLD, [queue_name(queue) for queue in sorted(heard.untold)])
    elif gone := reading.queues.gone:
        move_frontier(current, untold_reports(current, gone))
        reading.tell_each(UNTOLD, [queue_name(queue) for queue in sorted(gone)])
    if reading.offsets is not None:
        place = f"{ROCKETMQ}:{current.arguments['address']}"
        table = ConsumerOffsetFile(reading.offsets, place, epoch_ms(current.now))
        broker_offsets.land(current, [table], broker_name=current.arguments["broker_name"], is_newest=True)
        ends, passed = reading.half_ends, reading.passed
        check_cursors.land(current, reading.offsets, ends, current.now, is_newest=True, passed=passed)
    elif reading.passed:
        check_cursors.land_passed(current, reading.passed)
    current.counts.update(reading.counts)
