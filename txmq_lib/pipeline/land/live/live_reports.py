"""How far a landing of live brokers has read their queues: rows for landing_frontier.

All brokers have queues of the same names: whatever is looked up here is looked up by broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import reduce
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.conform import struct_type
from txmq_lib.names import TRANSACTION_TOPICS
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.land.live.by_broker import value_of
from txmq_lib.pipeline.land.live.live_brokers import is_wanted
from txmq_lib.pipeline.land.live.read_queues import BrokerQueues, ReadQueues, halves_held_back
from txmq_lib.pipeline.land.topics import is_every_topic
from txmq_lib.rocketmq.remoting.broker import Queue
from txmq_lib.rules import frontier
from txmq_lib.rules.moments import EPOCH
from txmq_lib.rules.runs import (
    QUEUE,
    RUN_FIELDS,
    RUN_TYPE,
    joined_runs,
    no_runs,
    within_log,
    without_misread,
)
from txmq_lib.spark.local_frame import local_frame

Plan = Mapping[str, Any]  # of one broker: broker_plan.plan


class ReadTo(NamedTuple):
    """How far the transaction topics of a broker were read before the ends of the real topics were asked for."""

    time_ms: int | None
    place: int | None


NOWHERE = ReadTo(None, None)


def frontier_reports(
    current: Pass, plans: Sequence[Plan], read: ReadQueues, untold: Mapping[str, Iterable[Queue]]
) -> DataFrame:
    """Frontier reports: per queue that was read, and for all queues of a broker together where all were read to their
    ends.

    plans   of the brokers of which queues were read
    untold  by broker the queues of which nobody tells (untold_queues): what they hold was not read
    """
    log_end = value_of({plan["broker_name"]: plan["log_end"] for plan in plans}, "bigint")
    runs = F.when(log_end.isNull(), F.col("runs")).otherwise(within_log(F.col("runs"), log_end))
    read = replace(read, runs=read.runs.withColumn("runs", runs))
    landed = current.read("landing_frontier").where(F.col("broker_name").isin(*[each["broker_name"] for each in plans]))
    # Nobody deletes these topics: their broker was made anew, and what is not looked at now may be of its former life.
    anew = [plan["broker_name"] for plan in plans if any(topic in TRANSACTION_TOPICS for topic, _ in plan["anew"])]
    is_anew = F.col("broker_name").isin(*anew)
    with current.timed("read_to"):
        read_to = _read_to(read, landed.where(~is_anew) if anew else landed)
    reports = _of_queues(current, plans, read, read_to).unionByName(untold_reports(current, untold))
    whole = [
        row
        for plan in plans
        for row in _whole_topics(plan, read.lost(plan["broker_name"]), read_to.get(plan["broker_name"], NOWHERE))
    ]
    reports = reports.unionByName(local_frame(current.warehouse.spark, whole, reports.schema))
    if not anew:
        return reports
    of_each = [F.col("broker_name") == name for name in anew]
    lives = [frontier.of_another_life(landed.where(own), reports.where(own), now=current.now) for own in of_each]
    return reduce(DataFrame.unionByName, [reports.where(~is_anew), *lives])


def _of_queues(current: Pass, plans: Sequence[Plan], read: ReadQueues, read_to: Mapping[str, ReadTo]) -> DataFrame:
    """Frontier reports of the queues that were read."""
    queues = _queues_read(current, plans, read, read_to)
    # What retention deletes between plan and read is passed over by the reader: the first record is then a later one.
    is_first_missing = F.col("start").isNotNull() & ~F.col("first_offset").eqNullSafe(F.col("start"))
    has_begun_anew = F.col("is_begun_anew")
    change = F.struct(F.lit(None).cast("bigint").alias("behind"), F.col("log_end").alias("before"))
    lost_before = F.when(F.col("had_lost") | is_first_missing, F.coalesce("first_timestamp", F.lit(current.now)))
    return (
        queues.join(read.facts, on=list(QUEUE), how="left")
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


def untold_queues(patterns: Sequence[str], named: Iterable[Queue], of_broker: BrokerQueues) -> set[Queue]:
    """The queues of which the name servers tell no more, and those of landed topics that halves name (`named`) and of
    which nothing is known, nor told now."""
    landed = {queue for queue in named if is_wanted(queue.topic, patterns) and queue.topic not in of_broker.unreadable}
    return {*of_broker.gone} | (landed - of_broker.heard_of - of_broker.registered)


def untold_reports(current: Pass, untold: Mapping[str, Iterable[Queue]]) -> DataFrame:
    """Frontier reports of queues, by broker, of which it tells no more: nothing but that."""
    rows = [
        {**queue._asdict(), "broker_name": broker_name, "next_offset": 0, "is_end_known": False, "runs": [],
         "is_untold": True}
        for broker_name, queues in untold.items()
        for queue in queues
    ]  # fmt: skip
    fields = [field for field in struct_type(table_spec("landing_frontier")) if field.name != "pass_number"]
    return local_frame(current.warehouse.spark, rows, StructType(fields))


def _queues_read(current: Pass, plans: Sequence[Plan], read: ReadQueues, read_to: Mapping[str, ReadTo]) -> DataFrame:
    """One row per queue that was read: from and to where, what is kept of it, and where it ends if that was reached."""
    rows = [
        row
        for plan in plans
        for row in _queues_of(plan, read.lost(plan["broker_name"]), read_to.get(plan["broker_name"], NOWHERE))
    ]
    return local_frame(
        current.warehouse.spark,
        rows,
        "broker_name string, topic string, queue_id int, next_offset bigint, lowest_kept_offset bigint,"
        " had_lost boolean, start bigint, high bigint, log_end bigint, is_begun_anew boolean,"
        f" ends array<{RUN_TYPE}>",
    )


def _queues_of(plan: Plan, lost_queues: set[Queue], read_to: ReadTo) -> Iterable[tuple[object, ...]]:
    held_back, anew = halves_held_back(lost_queues), {Queue(*queue) for queue in plan["anew"]}
    for topic, queue_id, low, start, stop, lost, high in plan["queues"]:
        queue = Queue(topic, queue_id)
        if queue in lost_queues or topic in held_back:
            continue
        ends = [dict(zip(RUN_FIELDS, (stop, stop, None, None, read_to.place), strict=True))] if stop == high else []
        first = start if stop > start else None
        yield (plan["broker_name"], *queue, stop, low, lost > 0, first, high, plan["log_end"], queue in anew, ends)


def _read_to(read: ReadQueues, landed: DataFrame) -> dict[str, ReadTo]:
    """By broker the newest record of the transaction topics, now or before (rows of landing_frontier): time and place.

    Each of them is older than the ends of the real topics, and what an op speaks of is older than it (R23). A place
    that others of its queue contradict was misread, and tells nothing.
    """
    is_of_them = F.col("topic").isin(*TRANSACTION_TOPICS)
    rows = landed.where(is_of_them).withColumn("_at_ms", F.unix_millis("highest_store_timestamp"))
    now_read = read.runs.where(is_of_them).withColumn("_at_ms", value_of(read.newest_ms, "bigint"))
    every = rows.unionByName(now_read, allowMissingColumns=True).groupBy(*QUEUE)
    runs = without_misread(joined_runs(F.flatten(F.collect_list("runs"))))
    queues = every.agg(
        F.max("_at_ms").alias("_at_ms"),
        F.array_max(F.transform(runs, lambda one: one["last_commit_log_offset"])).alias("_place"),
    )
    of_brokers = queues.groupBy("broker_name").agg(F.max("_at_ms"), F.max("_place"))
    return {broker_name: ReadTo(*read_to) for broker_name, *read_to in of_brokers.collect()}


def _whole_topics(plan: Plan, lost: Iterable[Queue], read_to: ReadTo) -> list[dict[str, Any]]:
    """A row for each topic of a broker, or one for them all, that says: all its queues were read to their ends."""
    if read_to.time_ms is None:
        return []
    topics = sorted({*plan["whole_topics"]} - {queue.topic for queue in lost})
    if is_every_topic(plan["topics"]):
        topics = [frontier.ALL_QUEUES_TOPIC] if plan["are_all_whole"] and not lost else []
    common = {
        "broker_name": plan["broker_name"],
        "queue_id": frontier.WHOLE_QUEUE_ID,
        "next_offset": 0,
        "highest_store_timestamp": EPOCH + timedelta(milliseconds=read_to.time_ms),
        "is_end_known": True,
        "runs": [dict(zip(RUN_FIELDS, (0, 0, None, None, read_to.place), strict=True))],
    }
    return [{**common, "topic": topic} for topic in topics]
