"""The verdict of a transaction, from what landed or was written for it (design section 3). Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import (
    COMMITTED,
    COMMITTED_AND_DISCARDED,
    COMMITTED_OP_LOST,
    CONFLICT,
    DISCARDED,
    DIVERTED,
    DIVERTING_TOPICS,
    DUPLICATED,
    EXPIRED_UNSEEN,
    HALF_TOPIC,
    OUTCOME_CONTRADICTING,
    PENDING,
    PROPERTY_REAL_TOPIC,
    RESOLVED_UNKNOWN,
    ROLE_AUDIT,
    ROLE_ENGINE,
    ROLLED_BACK,
    TRANSACTION_KEY,
)
from txmq_lib.rules.frontier import WHOLE_LOG_TOPIC
from txmq_lib.rules.pending import copies_of, effectively_given_up, folded, made_visible, named_by_ops
from txmq_lib.rules.policy import Policies
from txmq_lib.rules.transaction import join_transaction, transactions_of

UNSETTLED = (PENDING, RESOLVED_UNKNOWN)
FIGURES = ("visible_count", "op_count", "half_count", "given_up_count", "contradicting_count")


@dataclass(frozen=True)
class Evidence:
    """All rows, of the tables named, that concern the transactions to judge; more rows do no harm."""

    halves: DataFrame
    ops: DataFrame
    visible: DataFrame
    given_up: DataFrame
    diverted: DataFrame
    checks: DataFrame
    outcomes: DataFrame


def diverted_halves(messages: DataFrame) -> DataFrame:
    """Rows of `message` that are halves diverted by a delay or a timer (R8)."""
    is_half = F.col("properties")[PROPERTY_REAL_TOPIC] == HALF_TOPIC
    has_key = F.col("transaction_id").isNotNull()
    return messages.where(F.col("topic").isin(*DIVERTING_TOPICS) & is_half & has_key)


def transaction_figures(evidence: Evidence) -> DataFrame:
    """One row per transaction with a half, given-up or diverted row: the figures its verdict follows from."""
    folds = folded(evidence.halves)
    copies = copies_of(folds)
    ops = named_by_ops(copies, evidence.ops)
    visible = made_visible(copies, evidence.given_up, evidence.visible)
    figures = [
        _per_transaction(evidence.given_up, "given_up_count", "store_timestamp", F.max("broker_check_times")),
        _per_transaction(ops, "op_count", "op_store_timestamp"),
        _per_transaction(visible, "visible_count", "visible_store_timestamp"),
        _per_transaction(effectively_given_up(copies, evidence.given_up), "_discarded_count"),
        _per_transaction(evidence.diverted, "_diverted_count", "store_timestamp"),
        _per_transaction(evidence.outcomes.where(F.col("outcome") == OUTCOME_CONTRADICTING), "contradicting_count"),
        evidence.checks.groupBy(*TRANSACTION_KEY).agg(F.max("check_times").alias("check_times")),
        _first_real_topic(evidence.given_up),
    ]
    keys = reduce(
        DataFrame.unionByName,
        [transactions_of(rows) for rows in (folds, evidence.given_up, evidence.diverted)],
    ).distinct()  # a transaction has rows of several kinds
    base = folds.select(
        *TRANSACTION_KEY,
        F.col("real_topic").alias("_half_topic"),
        F.col("real_queue_id").alias("_half_queue_id"),
        F.size("half_offsets").alias("half_count"),
        F.col("broker_check_times").alias("_half_check_times"),
        F.col("first_store_timestamp").alias("_first_half"),
        F.col("last_store_timestamp").alias("_last_half"),
    )
    joined = reduce(lambda left, right: join_transaction(left, right, "left"), [base, *figures], keys)
    return _summed(joined)


def judged(figures: DataFrame, frontier: DataFrame, *, policies: Policies, pass_number: int) -> DataFrame:
    """Rows of `verdict` from transaction_figures and landing_frontier; the first rule that fits decides."""
    placed = _with_frontier(figures, frontier)
    rules = [
        (DUPLICATED, F.col("visible_count") >= 2),
        (CONFLICT, _is_conflict(policies)),
        (COMMITTED_AND_DISCARDED, (F.col("visible_count") == 1) & (F.col("given_up_count") > 0)),
        (COMMITTED_OP_LOST, (F.col("visible_count") == 1) & (F.col("op_count") == 0)),
        (COMMITTED, F.col("visible_count") == 1),
        # The engine writes its messages itself: what it did not write never was.
        (RESOLVED_UNKNOWN, policies.has_role(ROLE_AUDIT) & (F.col("op_count") >= 1) & F.col("_may_have_been_visible")),
        (ROLLED_BACK, F.col("op_count") >= 1),
        (DISCARDED, F.col("_discarded_count") > 0),
        (DIVERTED, (F.col("half_count") == 0) & (F.col("_diverted_count") > 0)),
        (EXPIRED_UNSEEN, _is_expired(policies)),
    ]
    verdict = F.coalesce(*[F.when(holds, F.lit(name)) for name, holds in rules], F.lit(PENDING))
    return placed.withColumn("verdict", verdict).select(
        *TRANSACTION_KEY,
        "real_topic",
        "real_queue_id",
        "verdict",
        *[F.col(name).cast("bigint").alias(name) for name in FIGURES],
        "check_times",
        "broker_check_times",
        "first_timestamp",
        "last_timestamp",
        F.lit(pass_number).cast("bigint").alias("pass_number"),
        (~F.col("verdict").isin(*UNSETTLED)).alias("is_settled"),
    )


def changed(verdicts: DataFrame, known: DataFrame) -> DataFrame:
    """`verdicts` less those that stand in `known` with the same figures already."""
    same = [name for name in verdicts.columns if name != "pass_number" and name not in TRANSACTION_KEY]
    before = known.select(*TRANSACTION_KEY, F.struct(*same).alias("_known"))
    joined = join_transaction(verdicts, before, "left")
    return joined.where(~F.struct(*same).eqNullSafe(F.col("_known"))).drop("_known")


def expiring(unsettled: DataFrame, frontier: DataFrame, *, policies: Policies) -> DataFrame:
    """Keys of unsettled verdicts that time has changed, or may have: expired unseen, or resolved without proof."""
    placed = _with_frontier_time(unsettled, frontier)
    is_unproven = F.col("verdict") == RESOLVED_UNKNOWN
    return transactions_of(placed.where(is_unproven | _is_expired(policies)))


def _is_conflict(policies: Policies) -> Column:
    both_accepted = (F.col("visible_count") == 1) & (F.col("op_count") >= 2)
    return both_accepted | (policies.has_role(ROLE_ENGINE) & (F.col("contradicting_count") > 0))


def _is_expired(policies: Policies) -> Column:
    # The engine gives such a half up itself; only a broker can have passed it over unseen (R41, R42).
    born_before = F.unix_millis("_frontier_timestamp") - policies.column("file_reserved_time_ms")
    is_older = F.coalesce(F.unix_millis("born_timestamp") < born_before, F.lit(False))
    return policies.has_role(ROLE_AUDIT) & is_older


def _per_transaction(rows: DataFrame, name: str, time: str | None = None, times: Column | None = None) -> DataFrame:
    aggregates = [F.count("*").alias(name)]
    if time is not None:
        aggregates += [F.min(time).alias(f"_first_{name}"), F.max(time).alias(f"_last_{name}")]
    if name == "op_count":
        aggregates.append(F.max("op_store_timestamp").alias("_op_timestamp"))
    if times is not None:
        aggregates.append(times.alias("_given_up_check_times"))
    return rows.groupBy(*TRANSACTION_KEY).agg(*aggregates)


def _first_real_topic(given_up: DataFrame) -> DataFrame:
    return given_up.groupBy(*TRANSACTION_KEY).agg(
        F.min_by("real_topic", "queue_offset").alias("_given_up_topic"),
        F.min_by("real_queue_id", "queue_offset").alias("_given_up_queue_id"),
    )


def _summed(joined: DataFrame) -> DataFrame:
    counts = (*FIGURES, "_discarded_count", "_diverted_count")
    firsts = [name for name in joined.columns if name.startswith("_first_")]
    lasts = [name for name in joined.columns if name.startswith("_last_")]
    return joined.select(
        *TRANSACTION_KEY,
        F.coalesce("_half_topic", "_given_up_topic").alias("real_topic"),
        F.coalesce("_half_queue_id", "_given_up_queue_id").alias("real_queue_id"),
        *[F.coalesce(name, F.lit(0)).alias(name) for name in counts],
        F.coalesce("check_times", F.lit(0)).alias("check_times"),
        F.coalesce(F.greatest("_half_check_times", "_given_up_check_times"), F.lit(0)).alias("broker_check_times"),
        F.least(*firsts).alias("first_timestamp"),
        F.greatest(*lasts).alias("last_timestamp"),
        F.col("_op_timestamp"),
        F.col("_last_half"),
    )


def _with_frontier_time(rows: DataFrame, frontier: DataFrame) -> DataFrame:
    reached = frontier.groupBy("broker_name").agg(F.max("highest_store_timestamp").alias("_frontier_timestamp"))
    return rows.join(F.broadcast(reached), on="broker_name", how="left")


def _with_frontier(figures: DataFrame, frontier: DataFrame) -> DataFrame:
    """Adds _frontier_timestamp, and _may_have_been_visible: a committed message could lie where nobody has read.

    Only a source that knows its end can have read a topic less far than the op; a landed file is complete.
    """
    known = frontier.where("is_end_known")
    whole = known.where(F.col("topic") == WHOLE_LOG_TOPIC).select(
        "broker_name", F.col("highest_store_timestamp").alias("_whole_timestamp")
    )
    knows = known.groupBy("broker_name").agg(F.lit(True).alias("_knows_end"))
    queues = frontier.select(
        "broker_name",
        F.col("topic").alias("real_topic"),
        F.col("queue_id").alias("real_queue_id"),
        F.col("highest_store_timestamp").alias("_queue_timestamp"),
        F.col("lost_before_timestamp").alias("_lost_before"),
    )
    placed = (
        _with_frontier_time(figures, frontier)
        .join(F.broadcast(knows), on="broker_name", how="left")
        .join(F.broadcast(whole), on="broker_name", how="left")
        .join(F.broadcast(queues), on=["broker_name", "real_topic", "real_queue_id"], how="left")
    )
    read_to = F.greatest("_queue_timestamp", "_whole_timestamp")
    is_unread = F.coalesce(read_to < F.col("_op_timestamp"), F.lit(True))
    is_lost = F.coalesce(F.col("_last_half") < F.col("_lost_before"), F.lit(False))
    may_have_been = F.coalesce("_knows_end", F.lit(False)) & (is_unread | is_lost)
    return placed.withColumn("_may_have_been_visible", may_have_been)
