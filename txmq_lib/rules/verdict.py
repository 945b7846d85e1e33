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
    REASON_FILE_END,
    REASON_NO_OP,
    REASON_OP_UNREAD,
    REASON_TWO_OPS,
    REASONS,
    RESOLVED_UNKNOWN,
    ROLE_AUDIT,
    ROLE_ENGINE,
    ROLLED_BACK,
    TRANSACTION_KEY,
)
from txmq_lib.rules.figures import FIGURES
from txmq_lib.rules.policy import Policies
from txmq_lib.rules.proof import with_proof
from txmq_lib.rules.transaction import join_transaction, transactions_of

UNSETTLED = (PENDING, RESOLVED_UNKNOWN)
UNSETTLED_REASONS = (REASON_FILE_END, REASON_OP_UNREAD)


def judged(
    figures: DataFrame,
    frontier: DataFrame,
    quarantine: DataFrame,
    *,
    policies: Policies,
    now: datetime,
    pass_number: int,
) -> DataFrame:
    """Rows of `verdict` from transaction_figures, landing_frontier and quarantine; the first rule that fits decides."""
    read = figures.join(F.broadcast(_brokers(frontier, now)), on="broker_name", how="left")
    placed = with_proof(read, frontier, quarantine)
    rules = [
        (DUPLICATED, F.col("visible_count") >= 2),
        (CONFLICT, _is_conflict(policies)),
        (COMMITTED_AND_DISCARDED, (F.col("visible_count") == 1) & (F.col("given_up_count") > 0)),
        (COMMITTED_OP_LOST, (F.col("visible_count") == 1) & (F.col("op_count") == 0)),
        (COMMITTED, F.col("visible_count") == 1),
        # The engine writes its messages itself: what it did not write never was.
        (RESOLVED_UNKNOWN, policies.has_role(ROLE_AUDIT) & (F.col("op_count") >= 1) & F.col("_proof").isNull()),
        (ROLLED_BACK, F.col("op_count") >= 1),
        (DISCARDED, F.col("is_discarded")),
        (DIVERTED, (F.col("half_count") == 0) & (F.col("diverted_count") > 0)),
        (EXPIRED_UNSEEN, _is_expired(policies)),
    ]
    verdict = F.coalesce(*[F.when(holds, F.lit(name)) for name, holds in rules], F.lit(PENDING))
    reasoned = placed.withColumn("verdict", verdict).withColumn("reason", _reason(policies))
    may_change = F.col("verdict").isin(*UNSETTLED) | F.col("reason").isin(*UNSETTLED_REASONS)
    return reasoned.select(
        *TRANSACTION_KEY,
        "real_topic",
        "real_queue_id",
        "verdict",
        "reason",
        *[F.col(name).cast("bigint").alias(name) for name in FIGURES],
        "check_times",
        "broker_check_times",
        "first_timestamp",
        "last_timestamp",
        F.lit(pass_number).cast("bigint").alias("pass_number"),
        (~may_change).alias("is_settled"),
    )


def _reason(policies: Policies) -> Column:
    is_engine = policies.has_role(ROLE_ENGINE)
    told = {
        CONFLICT: F.when(F.col("visible_count") == 1, REASON_TWO_OPS).otherwise(REASON_CONTRADICTING_ENDS),
        COMMITTED_OP_LOST: F.when(is_engine | F.col("_is_op_read"), REASON_NO_OP).otherwise(REASON_OP_UNREAD),
        ROLLED_BACK: F.when(is_engine, REASON_DECIDED).otherwise(F.col("_proof")),
        RESOLVED_UNKNOWN: F.col("_missing"),
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
    """Keys of unsettled verdicts that time has changed, or what was read may have: expired unseen, or not proved."""
    placed = unsettled.join(F.broadcast(_brokers(frontier, now)), on="broker_name", how="left")
    is_unproven = F.col("verdict") != PENDING
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
    """Per broker how far anything of it has been read.

    _frontier_timestamp is at most `now`: where a broker's clock once ran ahead, all undecided would expire at once.
    """
    highest = F.max("highest_store_timestamp")
    return frontier.groupBy("broker_name").agg(
        highest.alias("_highest_timestamp"),
        F.when(highest.isNotNull(), F.least(highest, F.lit(now))).alias("_frontier_timestamp"),
    )
