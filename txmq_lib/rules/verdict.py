"""The verdict of a transaction, from what landed or was written for it (design section 3). Pure."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import (
    COMMITTED,
    COMMITTED_AND_DISCARDED,
    COMMITTED_OP_LOST,
    CONFLICT,
    DISCARDED,
    DIVERTED,
    DUPLICATED,
    EXPIRED_UNSEEN,
    PENDING,
    REASON_CONTRADICTING_ENDS,
    REASON_DECIDED,
    REASON_NO_OP,
    REASON_READ_PAST_OP,
    REASON_TWO_OPS,
    REASON_UNREAD,
    REASONS,
    RESOLVED_UNKNOWN,
    ROLE_AUDIT,
    ROLE_ENGINE,
    ROLLED_BACK,
    TRANSACTION_KEY,
)
from txmq_lib.rules.figures import FIGURES
from txmq_lib.rules.frontier import ALL_QUEUES_TOPIC, WHOLE_LOG_TOPIC, WHOLE_QUEUE_ID
from txmq_lib.rules.policy import Policies
from txmq_lib.rules.transaction import join_transaction, transactions_of

UNSETTLED = (PENDING, RESOLVED_UNKNOWN)


def judged(
    figures: DataFrame, frontier: DataFrame, *, policies: Policies, now: datetime, pass_number: int
) -> DataFrame:
    """Rows of `verdict` from transaction_figures and landing_frontier; the first rule that fits decides."""
    placed = _with_frontier(figures, frontier, now)
    rules = [
        (DUPLICATED, F.col("visible_count") >= 2),
        (CONFLICT, _is_conflict(policies)),
        (COMMITTED_AND_DISCARDED, (F.col("visible_count") == 1) & (F.col("given_up_count") > 0)),
        (COMMITTED_OP_LOST, (F.col("visible_count") == 1) & (F.col("op_count") == 0)),
        (COMMITTED, F.col("visible_count") == 1),
        # The engine writes its messages itself: what it did not write never was.
        (RESOLVED_UNKNOWN, policies.has_role(ROLE_AUDIT) & (F.col("op_count") >= 1) & F.col("_may_have_been_visible")),
        (ROLLED_BACK, F.col("op_count") >= 1),
        (DISCARDED, F.col("is_discarded")),
        (DIVERTED, (F.col("half_count") == 0) & (F.col("diverted_count") > 0)),
        (EXPIRED_UNSEEN, _is_expired(policies)),
    ]
    verdict = F.coalesce(*[F.when(holds, F.lit(name)) for name, holds in rules], F.lit(PENDING))
    return placed.withColumn("verdict", verdict).select(
        *TRANSACTION_KEY,
        "real_topic",
        "real_queue_id",
        "verdict",
        _reason(policies).alias("reason"),
        *[F.col(name).cast("bigint").alias(name) for name in FIGURES],
        "check_times",
        "broker_check_times",
        "first_timestamp",
        "last_timestamp",
        F.lit(pass_number).cast("bigint").alias("pass_number"),
        (~F.col("verdict").isin(*UNSETTLED)).alias("is_settled"),
    )


def _reason(policies: Policies) -> Column:
    is_engine = policies.has_role(ROLE_ENGINE)
    told = {
        CONFLICT: F.when(F.col("visible_count") == 1, REASON_TWO_OPS).otherwise(REASON_CONTRADICTING_ENDS),
        COMMITTED_OP_LOST: F.lit(REASON_NO_OP),
        ROLLED_BACK: F.when(is_engine, REASON_DECIDED).otherwise(REASON_READ_PAST_OP),
        RESOLVED_UNKNOWN: F.lit(REASON_UNREAD),
    }
    only = {verdict: F.lit(reasons[0]) for verdict, reasons in REASONS.items() if len(reasons) == 1}
    return F.coalesce(*[F.when(F.col("verdict") == name, reason) for name, reason in {**told, **only}.items()])


def changed(verdicts: DataFrame, known: DataFrame) -> DataFrame:
    """`verdicts` less those that stand in `known` with the same figures already."""
    same = [name for name in verdicts.columns if name != "pass_number" and name not in TRANSACTION_KEY]
    before = known.select(*TRANSACTION_KEY, F.struct(*same).alias("_known"))
    joined = join_transaction(verdicts, before, "left")
    return joined.where(~F.struct(*same).eqNullSafe(F.col("_known"))).drop("_known")


def expiring(unsettled: DataFrame, frontier: DataFrame, *, policies: Policies, now: datetime) -> DataFrame:
    """Keys of unsettled verdicts that time has changed, or may have: expired unseen, or resolved without proof."""
    placed = unsettled.join(F.broadcast(_brokers(frontier, now)), on="broker_name", how="left")
    is_unproven = F.col("verdict") == RESOLVED_UNKNOWN
    return transactions_of(placed.where(is_unproven | _is_expired(policies)))


def unexpired(settled: DataFrame, frontier: DataFrame, *, policies: Policies, now: datetime) -> DataFrame:
    """Keys of `settled` verdicts that say expired unseen, and under these policies are not: a setting has changed."""
    expired = settled.where(F.col("verdict") == EXPIRED_UNSEEN)
    placed = expired.join(F.broadcast(_brokers(frontier, now)), on="broker_name", how="left")
    return transactions_of(placed.where(~_is_expired(policies)))


def next_expiry(unsettled: DataFrame, frontier: DataFrame, *, policies: Policies, now: datetime) -> DataFrame:
    """One row, due_ms: the epoch ms at which the clock alone expires the first of `unsettled`; null for none.

    That is where a store time that landed lies ahead of `now`: elsewhere nothing expires until more lands.
    """
    placed = unsettled.where(F.col("verdict") == PENDING).join(
        F.broadcast(_brokers(frontier, now)), on="broker_name", how="left"
    )
    due_ms = F.unix_millis("born_timestamp") + policies.column("file_reserved_time_ms") + 1
    is_ahead = F.coalesce(due_ms <= F.unix_millis("_highest_timestamp"), F.lit(False))
    waits = policies.has_role(ROLE_AUDIT) & is_ahead & ~_is_expired(policies)
    return placed.where(waits).agg(F.min(due_ms).alias("due_ms"))


def _is_conflict(policies: Policies) -> Column:
    both_accepted = (F.col("visible_count") == 1) & (F.col("op_count") >= 2)
    return both_accepted | (policies.has_role(ROLE_ENGINE) & (F.col("contradicting_count") > 0))


def _is_expired(policies: Policies) -> Column:
    # The engine gives such a half up itself; only a broker can have passed it over unseen (R41, R42).
    born_before = F.unix_millis("_frontier_timestamp") - policies.column("file_reserved_time_ms")
    is_older = F.coalesce(F.unix_millis("born_timestamp") < born_before, F.lit(False))
    return policies.has_role(ROLE_AUDIT) & is_older


def _brokers(frontier: DataFrame, now: datetime) -> DataFrame:
    """Per broker: how far anything of it has been read, how far its whole log, and whether a source knows its end.

    _frontier_timestamp is at most `now`: where a broker's clock once ran ahead, all undecided would expire at once.
    """
    is_all = (F.col("queue_id") == WHOLE_QUEUE_ID) & F.col("topic").isin(WHOLE_LOG_TOPIC, ALL_QUEUES_TOPIC)
    is_whole = F.col("is_end_known") & is_all
    highest = F.max("highest_store_timestamp")
    return frontier.groupBy("broker_name").agg(
        highest.alias("_highest_timestamp"),
        F.when(highest.isNotNull(), F.least(highest, F.lit(now))).alias("_frontier_timestamp"),
        F.max(F.when(is_whole, F.col("highest_store_timestamp"))).alias("_whole_timestamp"),
        F.max("is_end_known").alias("_knows_end"),
    )


def _with_frontier(figures: DataFrame, frontier: DataFrame, now: datetime) -> DataFrame:
    """Adds _frontier_timestamp, and _may_have_been_visible: a committed message could lie where nobody has read.

    Only a source that knows its end can have read a topic less far than the op; a landed file is complete.
    """
    is_all_queues = F.col("is_end_known") & (F.col("queue_id") == WHOLE_QUEUE_ID)
    topics = frontier.where(is_all_queues).select(
        "broker_name",
        F.col("topic").alias("real_topic"),
        F.col("highest_store_timestamp").alias("_topic_timestamp"),
    )
    queues = frontier.select(
        "broker_name",
        F.col("topic").alias("real_topic"),
        F.col("queue_id").alias("real_queue_id"),
        F.col("highest_store_timestamp").alias("_queue_timestamp"),
        F.col("lost_before_timestamp").alias("_lost_before"),
    )
    placed = (
        figures.join(F.broadcast(_brokers(frontier, now)), on="broker_name", how="left")
        .join(F.broadcast(topics), on=["broker_name", "real_topic"], how="left")
        .join(F.broadcast(queues), on=["broker_name", "real_topic", "real_queue_id"], how="left")
    )
    read_to = F.greatest("_queue_timestamp", "_topic_timestamp", "_whole_timestamp")
    is_unread = F.coalesce(read_to < F.col("op_timestamp"), F.lit(True))
    is_lost = F.coalesce(F.col("last_half_timestamp") < F.col("_lost_before"), F.lit(False))
    may_have_been = F.coalesce("_knows_end", F.lit(False)) & (is_unread | is_lost)
    return placed.withColumn("_may_have_been_visible", may_have_been)
