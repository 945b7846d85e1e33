"""How far a landing of a live broker has read its queues: rows for landing_frontier."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.conform import struct_type
from txmq_lib.names import OP_TOPIC_OF, TRANSACTION_TOPICS
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.land.live.live_brokers import is_wanted
from txmq_lib.pipeline.land.topics import is_every_topic, real_queues
from txmq_lib.rocketmq.remoting.broker import Queue
from txmq_lib.rules import frontier
from txmq_lib.rules.moments import EPOCH
from txmq_lib.rules.runs import (
    QUEUE,
    RUN_FIELDS,
    RUN_TYPE,
    joined_runs,
    landed_runs,
    no_runs,
    within_log,
    without_misread,
)
from txmq_lib.spark.local_frame import local_frame


class ReadTo(NamedTuple):
    """How far the transaction topics were read before the ends of the real topics were asked for."""

    time_ms: int | None
    place: int | None


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


@dataclass(frozen=True)
class ReadQueues:
    """What was read of a broker's queues, and landed.

    facts        topic, queue_id, highest_store_timestamp (of good records), first_offset, first_timestamp (of the first
                 good record), identity (of the last record)
    runs         QUEUE, runs: of the good records that landed
    newest_ms    store time of the newest good record of transaction topics; None where there is none
    real_queues  gives those that halves name
    lost         queues that could not be read to the end of their ranges
    """

    facts: DataFrame
    runs: DataFrame
    newest_ms: int | None
    real_queues: Callable[[], set[Queue]]
    lost: set[Queue]


def queues_of_rows(current: Pass, rows: DataFrame, good: DataFrame, lost: set[Queue]) -> ReadQueues:
    """What `rows` of the live source, in a frame, tell.

    All of them say how far a queue was read: bad ones are neither missing nor to be read again. Times are of `good`
    ones, of which those that did not land have no place.
    """
    in_them = good.where(F.col("topic").isin(*TRANSACTION_TOPICS))
    with current.timed("read_to"):
        newest_ms = in_them.agg(F.max(F.unix_millis("store_timestamp"))).collect()[0][0]
    placed = good.withColumn("broker_name", F.lit(current.arguments["broker_name"]))
    return ReadQueues(_facts(rows), landed_runs(placed), newest_ms, lambda: real_queues(good), lost)


def frontier_reports(current: Pass, read: ReadQueues, of_broker: BrokerQueues) -> DataFrame:
    """Frontier reports: per queue that was read, and for all queues together where all were read to their ends.

    Queues of which nobody tells, though halves name them, get a row too: what they hold was not read.
    """
    broker_name, log_end = current.arguments["broker_name"], current.arguments.get("log_end")
    if log_end is not None:
        read = replace(read, runs=read.runs.withColumn("runs", within_log(F.col("runs"), log_end)))
    landed = current.read("landing_frontier").where(F.col("broker_name") == broker_name)
    # Nobody deletes these topics: their broker was made anew, and what is not looked at now may be of its former life.
    is_anew = any(topic in TRANSACTION_TOPICS for topic, _ in current.arguments.get("anew", ()))
    with current.timed("read_to"):
        read_to = _read_to(read, landed.limit(0) if is_anew else landed)
    reports = _of_queues(current, read, read_to).unionByName(untold_reports(current, untold(current, read, of_broker)))
    if read_to.time_ms is not None:
        topics = _read_to_the_end(current.arguments, read)
        whole = [_whole_topic(broker_name, topic, read_to.time_ms, read_to.place) for topic in topics]
        reports = reports.unionByName(local_frame(current.warehouse.spark, whole, reports.schema))
    return frontier.of_another_life(landed, reports, now=current.now) if is_anew else reports


def _of_queues(current: Pass, read: ReadQueues, read_to: ReadTo) -> DataFrame:
    """Frontier reports of the queues that were read."""
    queues = _queues_read(current, read.lost, read_to)
    # What retention deletes between plan and read is passed over by the reader: the first record is then a later one.
    is_first_missing = F.col("start").isNotNull() & ~F.col("first_offset").eqNullSafe(F.col("start"))
    has_begun_anew = F.col("is_begun_anew")
    arguments = current.arguments  # plans of an older version have `anew_before`
    before = F.lit(arguments.get("log_end", arguments.get("anew_before"))).cast("bigint").alias("before")
    change = F.struct(F.lit(None).cast("bigint").alias("behind"), before)
    lost_before = F.when(F.col("had_lost") | is_first_missing, F.coalesce("first_timestamp", F.lit(current.now)))
    return (
        queues.join(read.facts, on=["topic", "queue_id"], how="left")
        .join(read.runs, on=list(QUEUE), how="left")
        .select(
            *QUEUE,
            *("next_offset", "highest_store_timestamp", "lowest_kept_offset"),
            lost_before.alias("lost_before_timestamp"),
            F.lit(True).alias("is_end_known"),
            # Of one that has begun anew with nothing in it: it has no such record any more.
            F.coalesce("identity", F.when(has_begun_anew, F.format_string("%d::", F.col("next_offset") - 1))).alias(
                "source_identity"
            ),
            F.concat(F.coalesce("runs", no_runs()), "ends").alias("runs"),
            F.col("high").alias("told_end"),
            F.lit(None).cast("bigint").alias("file_end"),
            F.lit(None).cast("bigint").alias("first_told_end"),
            F.lit(False).alias("is_untold"),
            F.when(has_begun_anew, F.array(change)).alias("changes"),
            F.lit(None).cast("timestamp").alias("former_timestamp"),
        )
    )


def untold(current: Pass, read: ReadQueues, of_broker: BrokerQueues) -> set[Queue]:
    """The queues of which the name servers tell no more, those that halves name for the first time among them."""
    return _named_first(current, read, of_broker) | of_broker.gone


def _named_first(current: Pass, read: ReadQueues, of_broker: BrokerQueues) -> set[Queue]:
    """The wanted queues that halves name and of which nothing is known, nor told now."""
    patterns = current.arguments["topics"]
    named = {
        queue
        for queue in read.real_queues()
        if is_wanted(queue.topic, patterns) and queue.topic not in of_broker.unreadable
    }
    return named - of_broker.heard_of - of_broker.registered


def untold_reports(current: Pass, queues: Iterable[Queue]) -> DataFrame:
    """Frontier reports of queues of which the broker tells no more: nothing but that."""
    rows = [
        {**queue._asdict(), "broker_name": current.arguments["broker_name"], "next_offset": 0, "is_end_known": False,
         "runs": [], "is_untold": True}
        for queue in queues
    ]  # fmt: skip
    fields = [field for field in struct_type(table_spec("landing_frontier")) if field.name != "pass_number"]
    return local_frame(current.warehouse.spark, rows, StructType(fields))


def _queues_read(current: Pass, lost_queues: set[Queue], read_to: ReadTo) -> DataFrame:
    """One row per queue that was read: from and to where, what is kept of it, and where it ends if that was reached."""
    broker_name, held_back = current.arguments["broker_name"], halves_held_back(lost_queues)
    anew = {Queue(*queue) for queue in current.arguments.get("anew", ())}  # plans of older versions say nothing of it
    read = [
        (broker_name, topic, queue_id, stop, low, lost > 0, start if stop > start else None, high,
         Queue(topic, queue_id) in anew,
         [dict(zip(RUN_FIELDS, (stop, stop, None, None, read_to.place), strict=True))] if stop == high else [])
        for topic, queue_id, low, start, stop, lost, high in current.arguments["queues"]
        if Queue(topic, queue_id) not in lost_queues and topic not in held_back
    ]  # fmt: skip
    return local_frame(
        current.warehouse.spark,
        read,
        "broker_name string, topic string, queue_id int, next_offset bigint, lowest_kept_offset bigint,"
        f" had_lost boolean, start bigint, high bigint, is_begun_anew boolean, ends array<{RUN_TYPE}>",
    )


def _facts(rows: DataFrame) -> DataFrame:
    """Of each queue: the newest time of a good record, the first offset and its time, what its last record was."""
    store_ms = F.unix_millis("store_timestamp")
    parts = [F.coalesce(part.cast("string"), F.lit("")) for part in (F.col("commit_log_offset"), store_ms)]
    is_good = F.col("reason").isNull()
    return rows.groupBy("topic", "queue_id").agg(
        F.max(F.when(is_good, F.col("store_timestamp"))).alias("highest_store_timestamp"),
        F.min("queue_offset").alias("first_offset"),
        F.min_by("store_timestamp", F.when(is_good, F.col("queue_offset"))).alias("first_timestamp"),
        F.max_by(F.concat_ws(":", "queue_offset", *parts), "queue_offset").alias("identity"),
    )


def _whole_topic(broker_name: str, topic: str, time_ms: int, place: int | None) -> dict[str, Any]:
    """A row that says: all queues of the topic were read to their ends."""
    return {
        "broker_name": broker_name,
        "topic": topic,
        "queue_id": frontier.WHOLE_QUEUE_ID,
        "next_offset": 0,
        "highest_store_timestamp": EPOCH + timedelta(milliseconds=time_ms),
        "is_end_known": True,
        "runs": [dict(zip(RUN_FIELDS, (0, 0, None, None, place), strict=True))],
    }


def halves_held_back(lost_queues: Iterable[Queue]) -> list[str]:
    """Half topics of which nothing lands now: an op of theirs may be among what could not be read."""
    lost = {queue.topic for queue in lost_queues}
    return [half for half, op in OP_TOPIC_OF.items() if op in lost]


def _read_to(read: ReadQueues, landed: DataFrame) -> ReadTo:
    """The newest record of the transaction topics, now or before (rows of landing_frontier): time and place.

    Each of them is older than the ends of the real topics, and what an op speaks of is older than it (R23). A place
    that others of its queue contradict was misread, and tells nothing.
    """
    is_of_them = F.col("topic").isin(*TRANSACTION_TOPICS)
    rows = landed.where(is_of_them).withColumn("_at_ms", F.unix_millis("highest_store_timestamp"))
    now_read = read.runs.where(is_of_them).withColumn("_at_ms", F.lit(read.newest_ms).cast("bigint"))
    every = rows.unionByName(now_read, allowMissingColumns=True).groupBy(*QUEUE)
    runs = without_misread(joined_runs(F.flatten(F.collect_list("runs"))))
    queues = every.agg(
        F.max("_at_ms").alias("_at_ms"),
        F.array_max(F.transform(runs, lambda one: one["last_commit_log_offset"])).alias("_place"),
    )
    return ReadTo(*queues.agg(F.max("_at_ms"), F.max("_place")).collect()[0])


def _read_to_the_end(arguments: Mapping[str, Any], read: ReadQueues) -> list[str]:
    if is_every_topic(arguments["topics"]):
        return [frontier.ALL_QUEUES_TOPIC] if arguments["are_all_whole"] and not read.lost else []
    return sorted({*arguments["whole_topics"]} - {queue.topic for queue in read.lost})
