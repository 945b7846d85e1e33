"""What a pass is to read of one live broker: ranges of its queues, fixed now, and what it says of itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from pyspark.sql import Row
from pyspark.sql import functions as F

from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import RemotingError, UnreachableError
from txmq_lib.names import HALF_TOPIC, OP_TOPIC_OF, OP_TOPICS, TRANSACTION_TOPICS
from txmq_lib.pipeline.land.broker_state import check_cursors
from txmq_lib.pipeline.land.live.broker_reading import BEHIND, UNREAD, BrokerReading, Parts
from txmq_lib.pipeline.land.live.broker_said import (
    Said,
    broker_settings,
    is_booted_anew,
    read_offsets,
    read_producers,
    told_set_up,
)
from txmq_lib.pipeline.land.live.live_brokers import LiveBroker, is_wanted
from txmq_lib.pipeline.land.live.live_ranges import REBUILT, SHRANK, KnownQueue, QueuePlan, plan_queues
from txmq_lib.pipeline.land.live.read_queues import BrokerQueues
from txmq_lib.pipeline.land.topics import ALWAYS_LANDED, is_every_topic
from txmq_lib.pipeline.land.unchanged_inputs import digest
from txmq_lib.rocketmq.remoting.broker import (
    Queue,
    check_offsets,
    odd_topics,
)
from txmq_lib.rocketmq.remoting.connection import Connection
from txmq_lib.rocketmq.remoting.runtime import broker_runtime
from txmq_lib.rocketmq.set_ups import COMPACTION, STATIC_TOPICS, TIERED, TIERED_WORDS, has_tiers
from txmq_lib.rules import frontier
from txmq_lib.rules.cursors import longest_stand_ms
from txmq_lib.rules.moments import epoch_ms


def plan(
    known: Mapping[str, Mapping[Queue, KnownQueue]], settings: Settings, reading: BrokerReading, now: datetime
) -> dict[str, Any]:
    """What a pass is to read of the broker: ranges of offsets fixed now. UnreachableError where it is down.

    known  what the tables know of the queues of each broker (known_queues)
    """
    broker = reading.broker
    reading.forget()
    if broker.address is None:
        raise UnreachableError(f"broker {broker.name} has no master now: the name servers know of none")
    queues: dict[str, Any] = {
        "queues": [],
        "untold": [],
        "anew": [],
        "log_end": None,
        "are_all_whole": False,
        "whole_topics": [],
    }
    with Connection(broker.address, reading.access) as connection:
        if Parts.QUEUES in reading.parts:
            halves = [each for each in broker.queues if each.topic == HALF_TOPIC]
            reading.passed.update(check_offsets(connection, halves))
            said = broker_settings(reading, connection)
            queues = _plan_queues(known.get(broker.name, {}), settings, reading, connection, said)
            queues |= told_set_up(reading, connection, settings, said)
        if Parts.OFFSETS in reading.parts:
            read_offsets(reading, connection)
            read_producers(reading, connection)
    return {
        "broker_name": broker.name,
        "address": broker.address,
        **queues,
        "topics": list(settings.land.topics),
        "offsets": _state(reading, settings, now),
    }


def _plan_queues(
    known: Mapping[Queue, KnownQueue],
    settings: Settings,
    reading: BrokerReading,
    connection: Connection,
    said: Said,
) -> dict[str, Any]:
    broker, ours = reading.broker, settings.rocketmq
    queues = _whole_queues(reading, connection)
    if has_tiers(said.config):
        queues = _without_tiers(reading, queues)
    is_anew = is_booted_anew(reading, said)
    plans, refusals = plan_queues(
        connection, ours.consumer_group, queues, known, most=ours.messages_per_run, looks_at_all=is_anew
    )
    _tell_unread(reading, refusals)
    plans = _with_ops(plans)
    _tell_plans(reading, plans)
    whole = {each.queue for each in plans if each.is_whole}
    if any(queue.topic in TRANSACTION_TOPICS and queue not in whole for queue in queues):
        reading.passed.clear()
    anew = sorted(each.queue for each in plans if _has_begun_anew(each, known.get(each.queue)))
    gone = frozenset(_newly_untold(broker, known, settings.land.topics))
    registered, unreadable = frozenset(broker.queues), frozenset(broker.unreadable)
    heard_of = frozenset(queue for queue, each in known.items() if each.is_untold or each.was_told_of)
    reading.queues = BrokerQueues(heard_of, registered, unreadable, gone)
    news = _with_news(plans, known)
    return {
        "queues": [[*each.queue, each.low, each.start, each.stop, each.lost, each.high] for each in news],
        "untold": sorted(reading.queues.gone),
        "anew": anew,
        # Asked for behind the ends of the queues: what they hold was stored by now, and what they held before.
        "log_end": broker_runtime(connection).log_end if news else None,
        "are_all_whole": not refusals
        and not broker.unreadable
        and queues == broker.queues
        and all(each.is_whole for each in plans),
        "whole_topics": _whole_topics(plans, broker.queues, settings.land.topics),
    }


def _with_ops(plans: Sequence[QueuePlan]) -> list[QueuePlan]:
    """Without its ops every half would look undecided."""
    untold = {half for half, op in OP_TOPIC_OF.items() if not _has(plans, op)}
    return [each for each in plans if each.queue.topic not in untold]


def _with_news(plans: Sequence[QueuePlan], known: Mapping[Queue, KnownQueue]) -> list[QueuePlan]:
    """Those that need a row. What stands still needs none: a broker may have thousands of queues."""
    # Where ops end then tells of each half that none of them has named it.
    is_half_new = any(each.stop > each.start and each.queue.topic in TRANSACTION_TOPICS for each in plans)
    return [
        each
        for each in plans
        if _is_news(each, known.get(each.queue)) or (is_half_new and each.queue.topic in OP_TOPICS)
    ]


def _has_begun_anew(plan_: QueuePlan, known: KnownQueue | None) -> bool:
    """Whether the queue may be another than the one known: its topic deleted and made again, its broker rebuilt."""
    # A queue that was empty shows no record by which it could be known again.
    is_back = known is not None and bool(known.is_untold) and known.identity is None and plan_.high > 0
    return plan_.change is not None or is_back


def _is_news(plan_: QueuePlan, known: KnownQueue | None) -> bool:
    if plan_.stop > plan_.start or plan_.change is not None or (known is not None and known.is_untold):
        return True
    if plan_.high == 0 and plan_.queue.topic not in TRANSACTION_TOPICS and (known is None or not known.was_told_of):
        return True  # once: that it is empty proves a rollback, whichever landing brings the half
    kept = None if known is None else known.lowest_kept_offset
    return plan_.high > 0 and (kept is None or plan_.low > kept)


def _without_tiers(reading: BrokerReading, queues: Sequence[Queue]) -> tuple[Queue, ...]:
    """Of a broker with tiered storage the queues that are never moved there."""
    kept = tuple(queue for queue in queues if queue.topic in ALWAYS_LANDED)
    reading.tell_each(f"{TIERED}: {TIERED_WORDS}", sorted({queue.topic for queue in {*queues} - {*kept}}))
    return kept


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
    if reading.passed:
        entries.append(sorted(reading.passed.items()))
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
    placed = [each for each in row["runs"] or () if each["last_commit_log_offset"] is not None]
    landed = (placed[-1]["end_offset"] - 1, placed[-1]["last_commit_log_offset"]) if placed else None
    return KnownQueue(row["next_offset"], row["lowest_kept_offset"], identity, row["is_untold"], landed)  # type: ignore[arg-type]


def _newly_untold(broker: LiveBroker, known: Mapping[Queue, KnownQueue], patterns: Sequence[str]) -> Iterator[Queue]:
    """Real queues that landed before, and of which the name servers tell no more."""
    registered = {*broker.queues}
    for queue, each in known.items():
        is_real = queue.topic not in TRANSACTION_TOPICS and is_wanted(queue.topic, patterns)
        if is_real and each.was_told_of and queue not in registered and queue.topic not in broker.unreadable:
            yield queue


def _has(plans: Sequence[QueuePlan], topic: str) -> bool:
    return any(each.queue.topic == topic for each in plans)


def _whole_topics(plans: Sequence[QueuePlan], queues: Iterable[Queue], patterns: Sequence[str]) -> list[str]:
    """Real topics read to the end of each of their `queues`, where not all topics are wanted."""
    if is_every_topic(patterns):
        return []
    whole = {each.queue for each in plans if each.is_whole}
    cut = {queue.topic for queue in queues if queue not in whole}
    return sorted({queue.topic for queue in whole} - cut - set(TRANSACTION_TOPICS))


def _tell_unread(reading: BrokerReading, refusals: Sequence[RemotingError]) -> None:
    unreadable = [f"{topic} is not readable" for topic in reading.broker.unreadable]
    unread = [*(refusal.message for refusal in refusals), *unreadable]
    reading.counts[UNREAD] += len(unread)
    reading.tell_each("could not be read", unread)


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
    """How a queue is told."""
    return f"{queue.topic} queue {queue.queue_id}"
