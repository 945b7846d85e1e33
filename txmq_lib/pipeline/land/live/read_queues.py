"""What a landing of live brokers read of their queues: all brokers have queues of the same names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import OP_TOPIC_OF, TRANSACTION_TOPICS
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.land.topics import real_queues
from txmq_lib.rocketmq.remoting.broker import Queue
from txmq_lib.rules.reach import QueueKey
from txmq_lib.rules.run_lists import Run
from txmq_lib.rules.runs import QUEUE, landed_runs


@dataclass(frozen=True)
class BrokerQueues:
    """What a plan learned of a broker's real queues beside the ranges that it reads.

    heard_of    an earlier live landing was told of them, or was not and said so
    registered  the name servers tell of them
    unreadable  topics that may not be read
    gone        the name servers told of them in the landing before, and do no more
    """

    heard_of: frozenset[Queue] = frozenset()
    registered: frozenset[Queue] = frozenset()
    unreadable: frozenset[str] = frozenset()
    gone: frozenset[Queue] = frozenset()


class Facts(NamedTuple):
    """What was read of one queue; times are µs since 1970.

    highest_store_timestamp  of good records
    first_timestamp          of the first good record
    identity                 of the last record
    """

    highest_store_timestamp: int | None
    first_offset: int | None
    first_timestamp: int | None
    identity: str | None


NO_FACTS = Facts(None, None, None, None)


@dataclass(frozen=True)
class ReadQueues:
    """What was read of the queues of brokers, and landed.

    facts        of each queue of which a record was read
    runs         of the good records that landed
    newest_ms    by broker the store time of its newest good record of transaction topics, where there is one
    real_queues  gives, by broker, those that halves name
    unread       by broker why queues could not be read to the end of their ranges
    """

    facts: Mapping[QueueKey, Facts]
    runs: Mapping[QueueKey, Sequence[Run]]
    newest_ms: Mapping[str, int | None]
    real_queues: Callable[[], Mapping[str, set[Queue]]]
    unread: Mapping[str, Mapping[Queue, str]]

    def lost(self, broker_name: str) -> set[Queue]:
        """The queues of a broker that could not be read to the end of their ranges."""
        return {*self.unread.get(broker_name, ())}


def halves_held_back(lost_queues: Iterable[Queue]) -> list[str]:
    """Half topics of a broker of which nothing lands now: an op of theirs may be among what could not be read."""
    lost = {queue.topic for queue in lost_queues}
    return [half for half, op in OP_TOPIC_OF.items() if op in lost]


def queues_of_rows(
    current: Pass, rows: DataFrame, good: DataFrame, unread: Mapping[str, Mapping[Queue, str]]
) -> ReadQueues:
    """What `rows` of the live source, in a frame, tell.

    All of them say how far a queue was read: bad ones are neither missing nor to be read again. Times are of `good`
    ones, of which those that did not land have no place.
    """
    in_them = good.where(F.col("topic").isin(*TRANSACTION_TOPICS))
    with current.timed("read_to"):
        newest = in_them.groupBy("broker_name").agg(F.max(F.unix_millis("store_timestamp")).alias("ms")).collect()
        facts = {tuple(row[:3]): Facts(*row[3:]) for row in _facts(rows).collect()}
        runs = {tuple(row[:3]): [Run(*one) for one in row[3]] for row in landed_runs(good).collect()}
    newest_ms = {row["broker_name"]: row["ms"] for row in newest}
    return ReadQueues(facts, runs, newest_ms, lambda: real_queues(good), unread)


def _facts(rows: DataFrame) -> DataFrame:
    """Of each queue: the newest time of a good record, the first offset and its time, what its last record was."""
    store_ms, store_us = F.unix_millis("store_timestamp"), F.unix_micros("store_timestamp")
    parts = [F.coalesce(part.cast("string"), F.lit("")) for part in (F.col("commit_log_offset"), store_ms)]
    is_good = F.col("reason").isNull()
    return rows.groupBy(*QUEUE).agg(
        F.max(F.when(is_good, store_us)).alias("highest_store_timestamp"),
        F.min("queue_offset").alias("first_offset"),
        F.min_by(store_us, F.when(is_good, F.col("queue_offset"))).alias("first_timestamp"),
        F.max_by(F.concat_ws(":", "queue_offset", *parts), "queue_offset").alias("identity"),
    )
