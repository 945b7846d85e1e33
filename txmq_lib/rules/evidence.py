"""The figures a verdict follows from, counted over everything that landed or was written for a transaction. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import (
    DIVERTING_TOPICS,
    HALF_TOPICS,
    OUTCOME_CONTRADICTING,
    PROPERTY_REAL_TOPIC,
    ROCKSDB_QUEUE_ID,
    TRANSACTION_KEY,
)
from txmq_lib.rules.orphans import with_same_id
from txmq_lib.rules.pending import messages_there, named_by_ops

FIGURES = ("visible_count", "op_count", "half_count", "given_up_count", "contradicting_count")

HALF, GIVEN_UP, OP, MESSAGE, DIVERTED, CHECK, CONTRADICTION, RESUME, ORPHAN = range(9)
# What a row of evidence says; a kind that lacks one leaves it null.
EVIDENCE_TYPES = {
    "at": "timestamp",
    "times": "int",
    "place": "bigint",
    "queue_offset": "bigint",
    "real_topic": "string",
    "real_queue_id": "int",
    "queue_id": "int",
    "is_true": "boolean",
    "immunity": "string",
}


@dataclass(frozen=True)
class Evidence:
    """All rows, of the tables named, that concern the transactions to judge; rows of others do these no harm.

    resumed  what rules.decisions.resumes gives
    orphans  committed messages without a half, by broker_name and transaction_id
    """

    halves: DataFrame
    ops: DataFrame
    visible: DataFrame
    given_up: DataFrame
    diverted: DataFrame
    checks: DataFrame
    outcomes: DataFrame
    resumed: DataFrame
    orphans: DataFrame


def diverted_halves(messages: DataFrame) -> DataFrame:
    """Rows of `message` that are halves diverted by a delay or a timer (R8)."""
    is_half = F.col("properties")[PROPERTY_REAL_TOPIC].isin(*HALF_TOPICS)
    has_key = F.col("transaction_id").isNotNull()
    return messages.where(F.col("topic").isin(*DIVERTING_TOPICS) & is_half & has_key)


def transaction_figures(evidence: Evidence) -> DataFrame:
    """One row per transaction with a half, given-up or diverted row: the figures its verdict follows from.

    Everything said of a transaction is put in one column of kinds and grouped once: a join per kind costs Spark's
    planner seconds, whatever the data.
    """
    halves, given_up = evidence.halves, evidence.given_up
    contradictions = evidence.outcomes.where(F.col("outcome") == OUTCOME_CONTRADICTING)
    rows = [
        _said(
            HALF,
            halves.withColumn("_is_original", _is_original()),
            at="store_timestamp", times="broker_check_times", place="commit_log_offset",
            queue_id="queue_id", queue_offset="queue_offset",
            is_true="_is_original", immunity="check_immunity", **_REAL,
        ),
        _said(
            GIVEN_UP,
            given_up.withColumn("_place", F.coalesce("half_commit_log_offset", "commit_log_offset")),
            at="store_timestamp", times="broker_check_times", place="_place", queue_offset="queue_offset", **_REAL,
        ),
        _said(
            OP, named_by_ops(halves, evidence.ops), at="op_store_timestamp", place="op_place", is_true="is_op_landed",
            queue_offset="op_queue_offset", times="op_position",
        ),
        _said(
            MESSAGE,
            messages_there(halves, given_up, evidence.visible),
            at="visible_store_timestamp", real_topic="topic", place="visible_place", is_true="is_committed",
        ),
        _said(DIVERTED, evidence.diverted, at="store_timestamp"),
        _said(CHECK, evidence.checks, times="check_times"),
        _said(CONTRADICTION, contradictions),
        _said(RESUME, evidence.resumed, queue_offset="given_up_queue_offset"),
        _said(ORPHAN, with_same_id(halves, given_up, evidence.orphans)),
    ]  # fmt: skip
    return _counted(reduce(DataFrame.unionByName, rows))


_REAL = {"real_topic": "real_topic", "real_queue_id": "real_queue_id"}


def _said(kind: int, rows: DataFrame, **columns: str) -> DataFrame:
    values = [
        (F.col(columns[name]) if name in columns else F.lit(None)).cast(data_type).alias(name)
        for name, data_type in EVIDENCE_TYPES.items()
    ]
    return rows.select(*TRANSACTION_KEY, F.lit(kind).alias("kind"), *values)


def _gathered(said: DataFrame) -> DataFrame:
    """One row per transaction of `said`: counts, newest places and times of each kind, messages as a list."""
    kind, times = F.col("kind"), F.col("times")
    real = F.struct("real_topic", "real_queue_id")
    first_copy = F.when((kind == HALF) & F.col("real_topic").isNotNull(), F.col("place"))
    first_given_up = F.when(kind == GIVEN_UP, F.col("queue_offset"))
    message = F.when(kind == MESSAGE, F.struct("real_topic", "at", "place", "is_true"))
    original = F.when((kind == HALF) & F.col("is_true"), F.col("place"))
    others_at = F.when(kind != MESSAGE, F.col("at"))
    return said.groupBy(*TRANSACTION_KEY).agg(
        *[_count_of(number).alias(name) for number, name in _COUNTS.items()],
        F.collect_list(message).alias("_messages"),
        F.min_by(real, first_copy).alias("_real"),
        F.min_by(real, first_given_up).alias("_given_up_real"),
        F.coalesce(F.max(F.when(kind == CHECK, times)), F.lit(0)).alias("check_times"),
        F.coalesce(F.max(F.when(kind.isin(HALF, GIVEN_UP), times)), F.lit(0)).alias("broker_check_times"),
        F.min(others_at).alias("_first_timestamp"),
        F.max(others_at).alias("_last_timestamp"),
        F.min(original).alias("original_place"),
        F.min(F.when(kind == HALF, F.col("queue_id"))).alias("half_queue_id"),
        F.max(F.when(kind == HALF, F.col("queue_id"))).alias("_highest_queue"),
        F.collect_set(F.when(kind == HALF, F.col("queue_offset"))).alias("half_offsets"),
        F.max(F.when(kind == HALF, F.col("immunity"))).alias("check_immunity"),
        F.max(F.when(kind == HALF, F.col("at"))).alias("half_store_timestamp"),
        F.min(F.when(kind == HALF, F.col("at"))).alias("first_half_timestamp"),
        F.max(F.when(kind == OP, F.col("place"))).alias("op_place"),
        F.collect_set(F.when(kind == OP, _op())).alias("_ops"),
        F.count_if((kind == OP) & F.col("is_true")).alias("landed_op_count"),
        F.max(F.when(kind == HALF, F.col("place"))).alias("_newest_half"),
        F.max(F.when(kind == GIVEN_UP, F.col("place"))).alias("_last_given_up"),
        F.max(F.when(kind == GIVEN_UP, F.col("queue_offset"))).alias("_given_up_offset"),
        F.max(F.when(kind == RESUME, F.col("queue_offset"))).alias("_resumed_upto"),
    )


def _counted(said: DataFrame) -> DataFrame:
    """The figures of the transactions of `said` that have a half, a given-up or a diverted message."""
    # A half row behind it has resumed it (R73), or txmq has, which writes no half.
    is_newest = F.coalesce(F.col("_newest_half") <= F.col("_last_given_up"), F.lit(True))
    is_final = is_newest & F.coalesce(F.col("_given_up_offset") > F.col("_resumed_upto"), F.lit(True))
    there = _gathered(said).where("half_count > 0 or given_up_count > 0 or diverted_count > 0")
    placed = there.withColumn("real_topic", F.coalesce("_real.real_topic", "_given_up_real.real_topic"))
    is_visible = F.filter(
        "_messages", lambda message: message["is_true"] & (message["real_topic"] == F.col("real_topic"))
    )
    counted = placed.withColumn("_visible", is_visible)
    # Messages that name a place of it, or its id, and are none of its visible ones.
    elsewhere = F.size("_messages") - F.size("_visible") + F.col("orphan_count")
    return counted.select(
        *TRANSACTION_KEY,
        "real_topic",
        F.coalesce("_real.real_queue_id", "_given_up_real.real_queue_id").alias("real_queue_id"),
        _records("_visible").alias("visible_count"),
        F.size("_ops").alias("op_count"),
        *_COUNTS.values(),
        *("check_times", "broker_check_times"),
        F.least("_first_timestamp", F.array_min("_visible.at")).alias("first_timestamp"),
        F.greatest("_last_timestamp", F.array_max("_visible.at")).alias("last_timestamp"),
        *("original_place", "half_queue_id", "half_offsets"),
        *("op_place", "landed_op_count"),
        F.col("_ops.at").alias("op_timestamps"),
        F.greatest("_newest_half", "_last_given_up").alias("newest_place"),
        F.array_max("_visible.place").alias("visible_place"),
        elsewhere.alias("elsewhere_count"),
        ((F.col("given_up_count") > 0) & is_final).alias("is_discarded"),
        (F.col("_highest_queue") == ROCKSDB_QUEUE_ID).alias("is_in_rocksdb"),
        *("check_immunity", "half_store_timestamp", "first_half_timestamp"),
    )


_COUNTS = {
    HALF: "half_count",
    GIVEN_UP: "given_up_count",
    DIVERTED: "diverted_count",
    CONTRADICTION: "contradicting_count",
    ORPHAN: "orphan_count",
}


def _op() -> Column:
    """What tells one op from another: its place in the log and in the body, where a broker wrote it.

    A record whose queue or offset was misread in one copy of the log has a row for each of them.
    """
    own_offset = F.when(F.col("place").isNull(), F.col("queue_offset"))
    return F.struct("place", own_offset.alias("own_offset"), "times", "at")


def _records(rows: str) -> Column:
    """How many records an array of rows is of: what lies at one place of the log is one; txmq's own have no place."""
    places = F.filter(f"{rows}.place", F.isnotnull)
    return F.size(F.array_distinct(places)) + F.size(F.filter(f"{rows}.place", F.isnull))


def _is_original() -> Column:
    """Whether a half row is no copy of another: copies tell how often, or where the first one lies (R44, R51)."""
    return F.col("broker_check_times").isNull() & F.col("prepared_queue_offset").isNull()


def _count_of(kind: int) -> Column:
    return F.count_if(F.col("kind") == kind)
