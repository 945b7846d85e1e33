"""Which checks are open, and the END_TRANSACTION an answer makes (R65, R68, R69). Pure."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from txmq_lib.names import (
    ASKED_FOR_CHECK,
    ASKED_FOR_GIVEN_UP,
    COMMIT,
    END_COMMIT,
    END_ROLLBACK,
    GIVEN_UP_UNSEEN,
    ROLLBACK,
    TRANSACTION_KEY,
)
from txmq_lib.rules.contract_events import END_CONTENT
from txmq_lib.rules.transaction_key import join_transaction, transactions_of

DEFINITE = (COMMIT, ROLLBACK)
QUESTION = (
    *TRANSACTION_KEY,
    *("check_times", "check_timestamp", "asked_for", "queue_id", "tran_state_table_offset", "commit_log_offset"),
    *("offset_msg_id", "real_topic", "real_queue_id"),
)


def open_checks(pending: DataFrame, requests: DataFrame, answers: DataFrame) -> DataFrame:
    """The newest check of each pending transaction that nobody answered: QUESTION, and `known_reasons`.

    An unknown answers its check; the next check asks again (R69). A commit or rollback answers the transaction: that
    waits for the next reconcile, or for the broker. No answer leaves the check open.
    known_reasons  reasons that are recorded for this check already
    """
    last = pending.select(*TRANSACTION_KEY, "last_check_timestamp")
    newest = join_transaction(requests, last, "inner").where("check_timestamp = last_check_timestamp")
    questions = newest.withColumn("asked_for", F.lit(ASKED_FOR_CHECK)).select(*QUESTION)
    answered = _with_what_was_said(join_transaction(questions, _decided(answers), "left_anti"), answers)
    return answered.where(~F.coalesce("is_answered", F.lit(False))).drop("is_answered")


def when_given_up(given_up: DataFrame, verdicts: DataFrame) -> DataFrame:
    """The transaction key, given_up_timestamp, check_times and broker_check_times of all that was given up.

    given_up  rows of trans_check_max_time
    verdicts  rows of verdict; of those given up without a trace (R119) nothing else tells, as of the last audit
    """
    columns = (*TRANSACTION_KEY, "given_up_timestamp", "check_times", "broker_check_times")
    # In rows of an older version nothing says when the checks were over.
    checks_end = F.coalesce("checks_end_timestamp", "last_timestamp").alias("given_up_timestamp")
    unseen = verdicts.where(F.col("verdict").isin(*GIVEN_UP_UNSEEN)).withColumn("given_up_timestamp", checks_end)
    return given_up.select(*columns).unionByName(unseen.select(*columns))


def given_up_checks(undecided: DataFrame, given_up: DataFrame, halves: DataFrame, answers: DataFrame) -> DataFrame:
    """The same for given-up transactions whose state nobody knows; an unknown is asked about each time.

    undecided  their keys
    given_up   rows of `when_given_up`; the newest counts
    halves     half rows; the newest copy is asked about. A transaction without one cannot be ended, and is left out.
    """
    newest = halves.groupBy(*TRANSACTION_KEY).agg(
        F.max_by(
            F.struct("queue_id", "queue_offset", "commit_log_offset", "offset_msg_id", "real_topic", "real_queue_id"),
            "commit_log_offset",
        ).alias("_half")
    )
    last = given_up.groupBy(*TRANSACTION_KEY).agg(
        F.max("given_up_timestamp").alias("check_timestamp"),
        F.coalesce(F.max("check_times"), F.max("broker_check_times"), F.lit(0)).alias("check_times"),
    )
    found = join_transaction(join_transaction(last, newest, "inner"), transactions_of(undecided), "left_semi")
    questions = found.select(
        *TRANSACTION_KEY,
        *("check_times", "check_timestamp"),
        F.lit(ASKED_FOR_GIVEN_UP).alias("asked_for"),
        "_half.queue_id",
        F.col("_half.queue_offset").alias("tran_state_table_offset"),
        *("_half.commit_log_offset", "_half.offset_msg_id", "_half.real_topic", "_half.real_queue_id"),
    )
    unanswered = join_transaction(questions, _decided(answers), "left_anti")
    return _with_what_was_said(unanswered, answers).drop("is_answered")


def end_of_answers(answers: DataFrame, *, now: datetime, origin: str, pass_number: int) -> DataFrame:
    """Rows of end_transaction, one per row of `answers` that says commit or rollback: it answers a check (R68).

    answers  the transaction key, tran_state_table_offset, commit_log_offset, real_topic, answer
    """
    code = F.when(F.col("answer") == COMMIT, END_COMMIT).when(F.col("answer") == ROLLBACK, END_ROLLBACK)
    # At one ts a later place loses against an earlier one, so the place must not depend on how rows lie.
    in_order = Window.partitionBy("broker_name").orderBy(*TRANSACTION_KEY[1:], "commit_log_offset")
    ends = answers.where(F.col("answer").isin(*DEFINITE)).select(
        "broker_name",
        F.lit(now).alias("ts"),
        *("producer_group", "tran_state_table_offset", "commit_log_offset"),
        code.alias("commit_or_rollback"),
        F.lit(True).alias("from_transaction_check"),
        F.col("transaction_id").alias("msg_id"),
        "transaction_id",
        F.col("real_topic").alias("topic"),
        F.lit(0).alias("occurrence"),
        F.lit(origin).alias("origin"),
        F.lit(pass_number).cast("bigint").alias("landed_pass"),
        (F.row_number().over(in_order) - 1).cast("bigint").alias("landing_order"),
    )
    # With its origin, so that an equal end that lands later is not taken for this one.
    return ends.withColumn("content_hash", F.xxhash64(*END_CONTENT, "origin"))


def _decided(answers: DataFrame) -> DataFrame:
    return transactions_of(answers.where(F.col("answer").isin(*DEFINITE)))


def _with_what_was_said(questions: DataFrame, answers: DataFrame) -> DataFrame:
    """`questions`, one per transaction, with is_answered and known_reasons of the same check; null where none was."""
    this = questions.select(*TRANSACTION_KEY, F.col("check_timestamp").alias("_this_check"))
    same = join_transaction(answers, this, "inner").where("check_timestamp = _this_check")
    said = same.groupBy(*TRANSACTION_KEY).agg(
        F.max(F.col("answer").isNotNull()).alias("is_answered"),
        F.collect_set("reason").alias("known_reasons"),
    )
    return join_transaction(questions, said, "left")
