"""What can be decided by hand, and what a resume undoes (R72, R73). Pure."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import (
    ACTION_HOLD,
    ACTION_RELEASE,
    ACTION_RESUME,
    PLAN_BROKERS,
    PLAN_EXPIRED,
    ROLE_AUDIT,
    TRANSACTION_KEY,
)
from txmq_lib.rules.moments import age_ms
from txmq_lib.rules.policy import Policies
from txmq_lib.rules.transaction_key import join_transaction

RESUMABLE, EXPIRED, BROKERS = ACTION_RESUME, PLAN_EXPIRED, PLAN_BROKERS


def standing(
    verdicts: DataFrame, halves: DataFrame, given_up: DataFrame, *, policies: Policies, now: datetime
) -> DataFrame:
    """One row per transaction of `verdicts` that has a half row: what it is now and where its newest half lies.

    Adds   queue_id, tran_state_table_offset, commit_log_offset, given_up_queue_offset (of its newest given-up row),
           is_brokers (a broker decides it), is_expired (older than the reserved time: given up whatever is done, R45)
    """
    newest = halves.groupBy(*TRANSACTION_KEY).agg(
        F.max_by(F.struct("queue_id", "queue_offset", "commit_log_offset"), "commit_log_offset").alias("_half")
    )
    last = given_up.groupBy(*TRANSACTION_KEY).agg(F.max("queue_offset").alias("given_up_queue_offset"))
    placed = join_transaction(
        join_transaction(verdicts.select(*TRANSACTION_KEY, "real_topic", "verdict"), newest, "inner"), last, "left"
    )
    return placed.select(
        *TRANSACTION_KEY,
        *("real_topic", "verdict", "_half.queue_id"),
        F.col("_half.queue_offset").alias("tran_state_table_offset"),
        *("_half.commit_log_offset", "given_up_queue_offset"),
        policies.has_role(ROLE_AUDIT).alias("is_brokers"),
        (age_ms(now, F.col("born_timestamp")) > policies.column("file_reserved_time_ms")).alias("is_expired"),
    )


def with_resume_action(discarded: DataFrame) -> DataFrame:
    """`discarded` rows of `standing` with `action`: resume, or why not.

    An expired one would be given up again by the next pass (R45, R73), and what a broker gave up only it can resume.
    """
    action = F.when(F.col("is_brokers"), BROKERS).when(F.col("is_expired"), EXPIRED).otherwise(RESUMABLE)
    return discarded.withColumn("action", action)


def resumes(decisions: DataFrame) -> DataFrame:
    """Rows of manual_decision that put a transaction back under check: its key and given_up_queue_offset."""
    return decisions.where(F.col("action") == ACTION_RESUME).select(*TRANSACTION_KEY, "given_up_queue_offset")


def held(decisions: DataFrame) -> DataFrame:
    """Keys of the transactions that rows of manual_decision hold: the last word about each is hold, not release."""
    words = decisions.where(F.col("action").isin(ACTION_HOLD, ACTION_RELEASE))
    last = words.groupBy(*TRANSACTION_KEY).agg(F.max_by("action", "pass_number").alias("_last"))
    return last.where(F.col("_last") == ACTION_HOLD).drop("_last")


def not_resumed(given_up: DataFrame, resumed: DataFrame) -> DataFrame:
    """`given_up` rows that no resume has undone: those at a higher offset than any that was resumed."""
    upto = resumed.groupBy(*TRANSACTION_KEY).agg(F.max("given_up_queue_offset").alias("_resumed_upto"))
    joined = join_transaction(given_up, upto, "left")
    return joined.where(F.coalesce(F.col("queue_offset") > F.col("_resumed_upto"), F.lit(True))).drop("_resumed_upto")
