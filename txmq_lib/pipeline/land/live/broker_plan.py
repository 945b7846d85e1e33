"""What a pass over a live broker is to read: ranges of its queues, fixed now, and what it says of itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from pyspark.sql import Row
from pyspark.sql import functions as F

from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import RemotingError, UnreachableError
from txmq_lib.names import HALF_TOPIC, OP_TOPIC_OF, TRANSACTION_TOPICS
from txmq_lib.pipeline.land.broker_state import check_cursors, set_ups
from txmq_lib.pipeline.land.broker_state.broker_settings import live_findings
from txmq_lib.pipeline.land.kinds import ROCKETMQ
from txmq_lib.pipeline.land.live.broker_reading import BEHIND, UNREAD, BrokerReading, Parts
from txmq_lib.pipeline.land.live.live_ranges import REBUILT, SHRANK, KnownQueue, QueuePlan, plan_queues
from txmq_lib.pipeline.land.topics import is_every_topic
from txmq_lib.pipeline.land.unchanged_inputs import digest
from txmq_lib.rocketmq.remoting.broker import (
    Queue,
    all_consumer_offsets,
    broker_config,
    broker_version,
    max_offsets,
    odd_topics,
)
from txmq_lib.rocketmq.remoting.connection import Connection
from txmq_lib.rocketmq.remoting.producers import producers_now
from txmq_lib.rocketmq.store.consumer_offset_file import parse_consumer_offsets
from txmq_lib.rocketmq.store.set_up import COMPACTION, STATIC_TOPICS, live_set_ups
from txmq_lib.rules import frontier
from txmq_lib.rules.cursors import longest_stand_ms
from txmq_lib.rules.moments import epoch_ms


def plan(
    known: Mapping[str, Mapping[Queue, KnownQueue]], settings: Settings, reading: BrokerReading, now: datetime
) -> dict[str, Any]:
    """What a pass over the broker is to read: ranges of offsets fixed now. UnreachableError where it is down.

    known  what the tables know of the queues of each broker (known_queues)
    """
    broker = reading.broker
    reading.findings.clear()
    reading.counts.clear()
    reading.offsets = reading.producers = None
    reading.half_ends.clear()
    reading.set_ups.clear()
    if broker.address is None:
        raise UnreachableError(f"broker {broker.name} has no master now: the name servers know of none")
    queues: dict[str, Any] = {"queues": [], "are_all_whole": False, "whole_topics": []}
    with Connection(broker.address, reading.access) as connection:
        if Parts.QUEUES in reading.parts:
            queues = _plan_queues(known.get(broker.name, {}), settings, reading, connection)
            queues |= _told_set_up(reading, connection, settings)
        if Parts.OFFSETS in reading.parts:
            _read_offsets(reading, connection)
            _read_producers(reading, connection)
    return {
        "kind": ROCKETMQ,
        "broker_name": broker.name,
        "address": broker.address,
        **queues,
        "topics": list(settings.land.topics),
        "offsets": _state(reading, settings, now),
    }


def _plan_queues(
    known: Mapping[Queue, KnownQueue], settings: Settings, reading: BrokerReading, connection: Connection
) -> dict[str, Any]:
    broker, ours = reading.broker, settings.rocketmq
    queues = _whole_queues(reading, connection)
    plans, refusals = plan_queues(connection, ours.consumer_group, queues, known, most=ours.messages_per_run)
    reading.counts[UNREAD] += len(refusals) + len(broker.unreadable)
    reading.tell_each(
        "could not be read",
        [*(refusal.message for refusal in refusals), *(f"{t} is not readable" for t in broker.unreadable)],
    )
    # Without its ops every half would look undecided.
    untold = {half for half, op in OP_TOPIC_OF.items() if not _has(plans, op)}
    plans = [each for each in plans if each.queue.topic not in untold]
    _tell_plans(reading, plans)
    return {
        # What stands still needs no row: a broker may have thousands of queues.
        "queues": [
            [*each.queue, each.low, each.start, each.stop, each.lost, each.high]
            for each in plans
            if each.stop > each.start or (each.high and each.low != _lowest(known.get(each.queue)))
        ],
        "are_all_whole": not refusals
        and not broker.unreadable
        and queues == broker.queues
        and all(each.is_whole for each in plans),
        "whole_topics": _whole_topics(plans, broker.queues, settings.land.topics),
    }


def _whole_queues(reading: BrokerReading, connection: Connection) -> tuple[Queue, ...]:
    """The wanted queues but those of compaction topics: what a later message of its key has taken away is not seen."""
    queues = reading.broker.queues
    try:
        odd = odd_topics(connection)
    except UnreachableError:
        raise
    except RemotingError as failure:
        reading.tell(f"whether any of its topics is compacted is not known: {failure.message}")
        return queues
    topics = {queue.topic for queue in queues}
    static = sorted(topics & {*odd.static})
    reading.tell_each(f"{STATIC_TOPICS}: read as this broker numbers their queues (R122)", static)
    compacted = sorted(topics & {*odd.compacted})
    reading.set_ups += [name for name, found in ((STATIC_TOPICS, static), (COMPACTION, compacted)) if found]
    reading.tell_each(
        f"{COMPACTION}: not read, a live broker shows less than was visible (R123); land its store", compacted
    )
    return tuple(queue for queue in queues if queue.topic not in compacted)


def _read_offsets(reading: BrokerReading, connection: Connection) -> None:
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


def _read_producers(reading: BrokerReading, connection: Connection) -> None:
    try:
        reading.producers = producers_now(connection)
    except RemotingError as failure:
        reading.tell(f"which producers are connected is not known: {failure.message}")


def _state(reading: BrokerReading, settings: Settings, now: datetime) -> str | None:
    """What two readings of the same offsets have in common; the broker's table has a version that always moves.

    Where halves wait behind a check cursor, that it stands still is news as well, once in a while.
    """
    offsets = reading.offsets
    if offsets is None:
        return None
    entries: list[Any] = [sorted(offsets.entries), sorted(offsets.bad)]
    if reading.producers:
        entries.append([[group, sorted(ids)] for group, ids in sorted(reading.producers.items())])
    places = check_cursors.places(offsets, reading.half_ends)
    if any((place.half_offset or 0) < reading.half_ends.get(queue_id, 0) for queue_id, place in places.items()):
        interval_ms = settings.for_broker(reading.broker.name).transaction_check_interval_ms
        entries.append(epoch_ms(now) // longest_stand_ms(interval_ms, len(places)))
    return digest(entries)


def known_queues(warehouse: Warehouse, broker_names: Sequence[str]) -> dict[str, dict[Queue, KnownQueue]]:
    """What the tables know of the queues of these brokers."""
    rows = warehouse.read("landing_frontier").where(
        F.col("broker_name").isin(*broker_names) & (F.col("queue_id") != frontier.WHOLE_QUEUE_ID)
    )
    known: dict[str, dict[Queue, KnownQueue]] = {name: {} for name in broker_names}
    for row in rows.collect():
        known[row["broker_name"]][Queue(row["topic"], row["queue_id"])] = _known_queue(row)
    return known


def _known_queue(row: Row) -> KnownQueue:
    stored = row["source_identity"]
    identity = tuple(int(part) if part else None for part in stored.split(":")) if stored else None
    return KnownQueue(row["next_offset"], row["lowest_kept_offset"], identity)  # type: ignore[arg-type]


def _lowest(known: KnownQueue | None) -> int | None:
    return known.lowest_kept_offset if known is not None else None


def _has(plans: Sequence[QueuePlan], topic: str) -> bool:
    return any(each.queue.topic == topic for each in plans)


def _whole_topics(plans: Sequence[QueuePlan], queues: Iterable[Queue], patterns: Sequence[str]) -> list[str]:
    """Real topics read to the end of each of their `queues`, where not all topics are wanted."""
    if is_every_topic(patterns):
        return []
    whole = {each.queue for each in plans if each.is_whole}
    cut = {queue.topic for queue in queues if queue not in whole}
    return sorted({queue.topic for queue in whole} - cut - set(TRANSACTION_TOPICS))


def _told_set_up(reading: BrokerReading, connection: Connection, settings: Settings) -> dict[str, Any]:
    """What the plan keeps of the broker's set-up; its own settings are compared and told."""
    policy = settings.for_broker(reading.broker.name)
    try:
        config = broker_config(connection)
        version = broker_version(connection)
    except UnreachableError:
        raise
    except RemotingError as failure:
        reading.tell(f"its settings could not be read: {failure.message}")
        return {}
    for words in live_findings(config, policy):
        reading.tell(words)
    names = [*reading.set_ups, *live_set_ups(config)]
    return {set_ups.TABLE: set_ups.found(ROCKETMQ, connection.address, config, names, policy, version=version)}


def _tell_plans(reading: BrokerReading, plans: Sequence[QueuePlan]) -> None:
    behind = sum(each.high - each.stop for each in plans)
    lost = [each for each in plans if each.lost]
    for change in (SHRANK, REBUILT):
        changed = [queue_name(each.queue) for each in plans if each.change == change]
        reading.counts[f"queues_{change}"] += len(changed)
        reading.tell_each(f"{change} since it was read, and is read again from its start", changed)
    reading.counts["lost_messages"] += sum(each.lost for each in lost)
    reading.tell_each(
        "deleted by retention before they were read",
        [f"{each.lost} messages of {queue_name(each.queue)}" for each in lost],
    )
    reading.counts[BEHIND] += behind
    if behind:
        reading.tell(f"{behind} messages are left for the next run (rocketmq.messages_per_run)")


def queue_name(queue: Queue) -> str:
    return f"{queue.topic} queue {queue.queue_id}"
