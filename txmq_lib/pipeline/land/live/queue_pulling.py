"""Ranges of the queues of live brokers, pulled and written by tasks; what was heard of each broker meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import pyarrow as pa

from txmq_lib.files.materialized import MATERIALIZED_BYTES
from txmq_lib.names import HALF_TOPICS, ROLE_ENGINE
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.land.live.broker_reading import BrokerReading
from txmq_lib.pipeline.land.live.live_reports import Plan
from txmq_lib.pipeline.land.live.queue_task import Peer, Share, Told, packed, pull_and_write_each
from txmq_lib.pipeline.land.live.read_queues import Facts, halves_held_back
from txmq_lib.pipeline.land.records import files_of_tasks
from txmq_lib.pipeline.land.records.record_files import RecordReading, Written
from txmq_lib.pipeline.land.records.record_rows import Landing
from txmq_lib.rocketmq.live_source import MESSAGES_PER_TASK, grouped
from txmq_lib.rocketmq.remoting.queue_reader import QueueRange
from txmq_lib.rules.moments import epoch_us
from txmq_lib.rules.reach import QueueKey
from txmq_lib.spark.tasks import in_tasks


@dataclass
class Pulled:
    """What tasks have pulled of one broker."""

    written: list[Written] = field(default_factory=list)
    heard: Told = field(default_factory=Told)

    @property
    def held_back(self) -> list[str]:
        """Half topics of which nothing lands now."""
        return halves_held_back(self.heard.unread)

    @property
    def can_stand(self) -> bool:
        """Whether what was written can be committed, and the suspects are at hand."""
        # Rows of both pairs of half topics lie in one file.
        halves_read = {queue.topic for queue in self.heard.facts} & {*HALF_TOPICS}
        can_leave_halves = halves_read <= {*self.held_back} or not self.held_back
        return can_leave_halves and all(each.kept is not None for each in self.written)

    @property
    def suspects(self) -> list[pa.RecordBatch]:
        """The records that are in no file, as far as they are at hand."""
        return [batch for each in self.written for batch in each.kept or ()]


def pulled(current: Pass, plans: Sequence[Plan], readings: Mapping[str, BrokerReading]) -> dict[str, Pulled]:
    """Pull the ranges of all plans by tasks of one job, and write their records beyond doubt."""
    spark = current.warehouse.spark
    planned = sum(each.stop - each.start for plan in plans for each in ranges_of(plan))
    # Each task makes a file per table: many messages are no reason for many files.
    most = max(MESSAGES_PER_TASK, -(-planned // files_of_tasks.tasks(current.warehouse)))
    shares = [(plan, ranges) for plan in plans for ranges in grouped(ranges_of(plan), most)]
    parts = [Share(ranges, *_peer_and_reading(current, plan, readings, len(shares))) for plan, ranges in shares]
    found = {plan["broker_name"]: Pulled() for plan in plans}
    # Read once, here and now: asked again a broker may have less, and the frontier would move past what is missing.
    of_parts = chain.from_iterable(in_tasks(spark, pull_and_write_each, packed(parts, most)))
    for (plan, _), (written, heard) in zip(shares, of_parts, strict=True):
        own = found[plan["broker_name"]]
        own.written.append(written)
        own.heard.add(heard)
    return found


def ranges_of(plan: Plan) -> list[QueueRange]:
    """What is read of a broker."""
    return [QueueRange(topic, queue_id, start, stop) for topic, queue_id, _, start, stop, *_ in plan["queues"]]


def _peer_and_reading(
    current: Pass, plan: Plan, readings: Mapping[str, BrokerReading], shares: int
) -> tuple[Peer, RecordReading]:
    broker_name, settings = plan["broker_name"], current.settings
    is_engine = settings.for_broker(broker_name).role == ROLE_ENGINE
    reading = RecordReading(
        landing=Landing(broker_name, current.number, is_engine, settings.land.trace_topic),
        table_paths=files_of_tasks.paths(current.warehouse),
        topics=None,
        max_body_bytes=settings.land.max_body_bytes,
        most_suspect_bytes=MATERIALIZED_BYTES // shares,
    )
    return Peer(plan["address"], readings[broker_name].access, settings.rocketmq.consumer_group), reading


def facts_of_queues(pulled_of: Mapping[str, Pulled]) -> dict[QueueKey, Facts]:
    """The facts of all queues."""
    return {
        (name, *queue): Facts(
            None if facts.newest is None else epoch_us(facts.newest),
            facts.first_offset,
            None if facts.first_good is None else epoch_us(facts.first_good[1]),
            ":".join("" if part is None else str(part) for part in facts.last),
        )
        for name, own in pulled_of.items()
        for queue, facts in own.heard.facts.items()
    }
