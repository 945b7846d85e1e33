"""How far a landing of live brokers has read their queues: reports for landing_frontier.

All brokers have queues of the same names: whatever is looked up here is looked up by broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from txmq_lib.names import TRANSACTION_TOPICS
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.land.live.live_brokers import is_wanted
from txmq_lib.pipeline.land.live.read_queues import NO_FACTS, BrokerQueues, ReadQueues, halves_held_back
from txmq_lib.pipeline.land.topics import is_every_topic
from txmq_lib.pipeline.shared.watermark import Frontier
from txmq_lib.rocketmq.remoting.broker import Queue
from txmq_lib.rules.frontier import ALL_QUEUES_TOPIC, WHOLE_QUEUE_ID
from txmq_lib.rules.moments import epoch_us
from txmq_lib.rules.reach import Change, QueueKey, Reach, of_another_life
from txmq_lib.rules.run_lists import Run, highest, joined, last_place, within_log

Plan = Mapping[str, Any]  # of one broker: broker_plan.plan
Runs = Mapping[QueueKey, Sequence[Run]]


class ReadTo(NamedTuple):
    """How far the transaction topics of a broker were read before the ends of the real topics were asked for."""

    time_ms: int | None
    place: int | None


NOWHERE = ReadTo(None, None)


def frontier_reports(
    current: Pass,
    frontier: Frontier,
    plans: Sequence[Plan],
    read: ReadQueues,
    untold: Mapping[str, Iterable[Queue]],
) -> list[Reach]:
    """Frontier reports: per queue that was read, and for all queues of a broker together where all were read to their
    ends.

    plans   of the brokers of which queues were read
    untold  by broker the queues of which nobody tells (untold_queues): what they hold was not read
    """
    reports = untold_reports(untold)
    now_us = epoch_us(current.now)
    for plan in plans:
        broker_name = plan["broker_name"]
        # Nobody deletes these topics: their broker was made anew, and what is not looked at now may be of its former
        # life.
        is_anew = any(topic in TRANSACTION_TOPICS for topic, _ in plan["anew"])
        landed = frontier.rows(partial(_is_looked_at, broker_name, is_anew))
        runs = _runs_of(plan, read)
        read_to = _read_to(runs, read.newest_ms.get(broker_name), [] if is_anew else landed)
        own = [*_of_queues(plan, read, runs, read_to, now_us), *_whole_topics(plan, read.lost(broker_name), read_to)]
        if is_anew:
            own += [report for report in reports if report.broker_name == broker_name]
            reports = [report for report in reports if report.broker_name != broker_name]
            own = of_another_life(landed, own, now_us=now_us)
        reports += own
    return reports


def _is_looked_at(broker_name: str, is_anew: bool, key: QueueKey) -> bool:
    return key[0] == broker_name and (is_anew or key[1] in TRANSACTION_TOPICS)


def _runs_of(plan: Plan, read: ReadQueues) -> Runs:
    """Runs of the broker's queues, as far as they lie in its log."""
    own = {key: runs for key, runs in read.runs.items() if key[0] == plan["broker_name"]}
    if (log_end := plan["log_end"]) is None:
        return own
    return {key: within_log(runs, log_end) for key, runs in own.items()}


def _of_queues(plan: Plan, read: ReadQueues, runs_of: Runs, read_to: ReadTo, now_us: int) -> Iterator[Reach]:
    """Frontier reports of the queues that were read."""
    lost_queues = read.lost(plan["broker_name"])
    held_back, anew = halves_held_back(lost_queues), {Queue(*queue) for queue in plan["anew"]}
    for topic, queue_id, low, start, stop, lost, high in plan["queues"]:
        queue = Queue(topic, queue_id)
        if queue in lost_queues or topic in held_back:
            continue
        key = (plan["broker_name"], *queue)
        facts = read.facts.get(key, NO_FACTS)
        # What retention deletes between plan and read is passed over by the reader: the first record is then a later
        # one.
        is_first_missing = stop > start and facts.first_offset != start
        lost_before = now_us if facts.first_timestamp is None else facts.first_timestamp
        # Of one that has begun anew with nothing in it: it has no such record any more.
        no_record = f"{stop - 1}::" if queue in anew else None
        ends = (Run(stop, stop, read_to=read_to.place),) if stop == high else ()
        yield Reach(
            *key,
            next_offset=stop,
            highest_store_timestamp=facts.highest_store_timestamp,
            lowest_kept_offset=low,
            lost_before_timestamp=lost_before if lost > 0 or is_first_missing else None,
            is_end_known=True,
            source_identity=no_record if facts.identity is None else facts.identity,
            runs=(*runs_of.get(key, ()), *ends),
            told_end=high,
            is_untold=False,
            changes=(Change(None, plan["log_end"]),) if queue in anew else None,
        )


def untold_queues(patterns: Sequence[str], named: Iterable[Queue], of_broker: BrokerQueues) -> set[Queue]:
    """The queues of which the name servers tell no more, and those of landed topics that halves name (`named`) and of
    which nothing is known, nor told now."""
    landed = {queue for queue in named if is_wanted(queue.topic, patterns) and queue.topic not in of_broker.unreadable}
    return {*of_broker.gone} | (landed - of_broker.heard_of - of_broker.registered)


def untold_reports(untold: Mapping[str, Iterable[Queue]]) -> list[Reach]:
    """Frontier reports of queues, by broker, of which it tells no more: nothing but that."""
    return [
        Reach(broker_name, *queue, next_offset=0, is_untold=True)
        for broker_name, queues in untold.items()
        for queue in queues
    ]


def _read_to(runs_of: Runs, newest_ms: int | None, landed: Iterable[Reach]) -> ReadTo:
    """The newest record of the transaction topics of a broker, now or before (`landed`): time and place.

    Each of them is older than the ends of the real topics, and what an op speaks of is older than it (R23). A place
    that others of its queue contradict was misread, and tells nothing.
    """
    own = [row for row in landed if row.topic in TRANSACTION_TOPICS]
    before = {row.key: row.runs or () for row in own}
    now_read = {key: runs for key, runs in runs_of.items() if key[1] in TRANSACTION_TOPICS}
    of_each = [joined((*before.get(key, ()), *now_read.get(key, ()))) for key in {**before, **now_read}]
    times = [row.highest_store_timestamp for row in own]
    times_ms = [None if time_us is None else time_us // 1_000 for time_us in times]
    return ReadTo(highest(newest_ms if now_read else None, *times_ms), highest(*map(last_place, of_each)))


def _whole_topics(plan: Plan, lost: Iterable[Queue], read_to: ReadTo) -> list[Reach]:
    """A row for each topic of a broker, or one for them all, that says: all its queues were read to their ends."""
    if read_to.time_ms is None:
        return []
    topics = sorted({*plan["whole_topics"]} - {queue.topic for queue in lost})
    if is_every_topic(plan["topics"]):
        topics = [ALL_QUEUES_TOPIC] if plan["are_all_whole"] and not lost else []
    return [
        Reach(
            plan["broker_name"],
            topic,
            WHOLE_QUEUE_ID,
            next_offset=0,
            highest_store_timestamp=read_to.time_ms * 1_000,
            is_end_known=True,
            runs=(Run(0, 0, read_to=read_to.place),),
        )
        for topic in topics
    ]
