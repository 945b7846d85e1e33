"""Committed messages whose half has never landed: evidence that something was not read (R23). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import (
    DIVERTING_TOPICS,
    ORPHAN,
    ORPHAN_BEFORE_FIRST,
    ORPHAN_HALF_LANDED,
    ROLE_AUDIT,
    SYSTEM_TOPIC_PREFIX,
    SYSTEM_TOPICS,
    TRANSACTION_KEY,
)
from txmq_lib.rules.frontier import WHOLE_QUEUE_ID
from txmq_lib.rules.pending import is_committed
from txmq_lib.rules.policy import Policies
from txmq_lib.rules.transaction_key import transactions_of

# What consumers send back keeps its bits.
SENT_BACK = ("%RETRY%", "%DLQ%")
KEY = ("broker_name", "topic", "queue_id", "queue_offset")
COLUMNS = (
    *KEY,
    *("commit_log_offset", "prepared_transaction_offset", "transaction_id", "producer_group", "born_timestamp"),
    "store_timestamp",
)
HALF = ("broker_name", "commit_log_offset", "transaction_id")


def committed_by_brokers(messages: DataFrame, policies: Policies) -> DataFrame:
    """COLUMNS of `messages` that a broker in the audit role has committed into their real topic.

    A delayed one that the broker delivered later keeps the bits, and names the place 0: it tells of no half.
    """
    topic = F.col("topic")
    is_real = ~topic.isin(*DIVERTING_TOPICS, *SYSTEM_TOPICS) & ~_begins(topic, (SYSTEM_TOPIC_PREFIX, *SENT_BACK))
    is_brokers = policies.has_role(ROLE_AUDIT) & (F.col("prepared_transaction_offset") > 0)
    return messages.where(is_committed() & is_real & is_brokers).select(*COLUMNS)


def _begins(text: Column, beginnings: Sequence[str]) -> Column:
    return reduce(lambda a, b: a | b, [text.startswith(beginning) for beginning in beginnings])


def without_half(messages: DataFrame, halves: DataFrame) -> DataFrame:
    """`messages` for which no row of `halves` (HALF; given-up rows count as well) is the one they were committed from.

    A message without an id was committed from a half without one, whose row has another: its place is enough.
    """
    there = halves.select(
        "broker_name", F.col("commit_log_offset").alias("_place"), F.col("transaction_id").alias("_id")
    )
    is_its = (
        (messages["broker_name"] == there["broker_name"])
        & (messages["prepared_transaction_offset"] == there["_place"])
        & F.coalesce(messages["transaction_id"] == there["_id"], F.lit(True))
    )
    return messages.join(there, on=is_its, how="left_anti")


def judged_orphans(missing: DataFrame, known: DataFrame, first_places: DataFrame, *, pass_number: int) -> DataFrame:
    """Rows of `orphan` that are new or have another state now.

    missing       messages without a half: new ones, and of those in `known` the ones still without
    known         rows of `orphan` that have no half yet
    first_places  broker_name, first_place: the lowest physical offset ever read of a broker
    """
    placed = missing.join(F.broadcast(first_places), on="broker_name", how="left")
    is_before = F.coalesce(F.col("prepared_transaction_offset") < F.col("first_place"), F.lit(False))
    now = placed.withColumn("state", F.when(is_before, ORPHAN_BEFORE_FIRST).otherwise(ORPHAN)).drop("first_place")
    before = known.select(*KEY, F.col("state").alias("_before"))
    changed = now.join(before, on=list(KEY), how="left").where(~F.col("state").eqNullSafe(F.col("_before")))
    found = known.join(missing.select(*KEY), on=list(KEY), how="left_anti")
    rows = changed.select(*COLUMNS, "state").unionByName(
        found.select(*COLUMNS, F.lit(ORPHAN_HALF_LANDED).alias("state"))
    )
    return rows.withColumn("pass_number", F.lit(pass_number).cast("bigint"))


def first_places(frontier: DataFrame) -> DataFrame:
    """broker_name, first_place: the lowest physical offset read of each broker, as landing_frontier tells it.

    What a broker's retention removed before anything was read lies below; null where older rows do not tell.
    """
    lowest = F.when(
        F.col("queue_id") == WHOLE_QUEUE_ID, F.array_min(F.transform("runs", lambda run: run["first_offset"]))
    ).otherwise(F.array_min(F.transform("runs", lambda run: run["first_commit_log_offset"])))
    is_silent = F.col("runs").isNull() & (F.col("queue_id") != WHOLE_QUEUE_ID)
    grouped = frontier.groupBy("broker_name").agg(F.min(lowest).alias("_lowest"), F.max(is_silent).alias("_is_silent"))
    return grouped.select("broker_name", F.when(~F.col("_is_silent"), F.col("_lowest")).alias("first_place"))


def with_same_id(halves: DataFrame, given_up: DataFrame, orphans: DataFrame) -> DataFrame:
    """Keys of the transactions that have the id of an orphan, once per orphan: it may be theirs."""
    keys = transactions_of(halves.select(*TRANSACTION_KEY).unionByName(given_up.select(*TRANSACTION_KEY)))
    return keys.join(orphans.select("broker_name", "transaction_id"), on=["broker_name", "transaction_id"], how="inner")
