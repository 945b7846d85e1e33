"""What is to be sent to brokers: decided for them, undecided by what has landed, and not sent before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import (
    ACTION_RESUME,
    GIVEN_UP_IN_A_ROW,
    GIVEN_UP_UNSEEN,
    GIVEN_UP_VERDICTS,
    TRANSACTION_KEY,
    UNDECIDED,
)
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.decisions import DECISIONS, RESUME, SETTLE
from txmq_lib.pipeline.shared.standing import requested_rows, standing_now
from txmq_lib.pipeline.to_broker.resending import RESEND, left_out, resendable
from txmq_lib.rules.answers import DEFINITE
from txmq_lib.rules.requests import RECORDED, Done, done_before, may_be_sent
from txmq_lib.rules.transaction_key import join_transaction, transactions_of

REQUESTS = "broker_request"
RESOLVE = "resolve"

Request = dict[str, Any]


def planned_requests(current: Pass) -> list[Request]:
    """What was decided for brokers, is undecided by what has landed, and was not sent before."""
    requested_for = current.arguments["requested_for"]
    found = current.cached(
        {RESOLVE: _answered, SETTLE: _settled, RESUME: _resumable, RESEND: resendable}[requested_for](current)
    )
    rows = found.orderBy("born_timestamp", *TRANSACTION_KEY).toArrow().to_pylist()
    if not rows:
        return []
    done = _done_before(current, found)
    common = {
        "code": None,
        "remark": None,
        "address": None,
        "requested_for": requested_for,
        "requested_by": current.arguments["decided_by"],
        "requested_timestamp": current.now,
        "pass_number": current.number,
    }
    return [{**common, **row} for row in rows if may_be_sent(row, done)]


def findings_of_left_out(current: Pass, requests: Sequence[Request]) -> list[str]:
    """Why named transactions are not among `requests`."""
    # A group may have thousands that are no matter of a person; the body is sent of those that one has named.
    return left_out(current, requests) if current.arguments["requested_for"] == RESEND else []


def _done_before(current: Pass, planned: DataFrame) -> Done:
    """What requests for transactions of `planned` may have done."""
    requests = join_transaction(current.read(REQUESTS), transactions_of(planned), "left_semi")
    return done_before(requests.select(*RECORDED).toArrow().to_pylist())


def _undecided(current: Pass, decided: DataFrame) -> DataFrame:
    """Ends for `decided` (the key, action and reason), where a broker decides and nothing that landed says it has."""
    standing = standing_now(current, transactions_of(decided)).where(F.col("verdict").isin(*UNDECIDED))
    return join_transaction(standing.where("is_brokers"), decided, "inner").select(
        *TRANSACTION_KEY,
        *("action", "reason", "real_topic", "queue_id", "tran_state_table_offset", "commit_log_offset"),
        "given_up_queue_offset",
        F.col("verdict").alias("former_verdict"),
        F.lit(None).cast("string").alias("offset_msg_id"),
    )


def _answered(current: Pass) -> DataFrame:
    """Ends by answers; what a person has settled is the person's to send, whatever was answered."""
    answers = current.read("check_answer").where(F.col("is_planned_for_broker") & F.col("answer").isin(*DEFINITE))
    settled = transactions_of(current.read(DECISIONS).where(F.col("action").isin(*DEFINITE)))
    open_ones = join_transaction(answers, settled, "left_anti")
    last = open_ones.groupBy(*TRANSACTION_KEY).agg(
        F.max_by(F.struct("answer", "resolver"), F.struct("answered_timestamp", "pass_number")).alias("_last")
    )
    return _undecided(
        current,
        last.select(*TRANSACTION_KEY, F.col("_last.answer").alias("action"), F.col("_last.resolver").alias("reason")),
    )


def _settled(current: Pass) -> DataFrame:
    decisions = requested_rows(current, DECISIONS).where(F.col("action").isin(*DEFINITE))
    last = decisions.groupBy(*TRANSACTION_KEY).agg(F.max_by(F.struct("action", "reason"), "pass_number").alias("_last"))
    return _undecided(current, last.select(*TRANSACTION_KEY, "_last.action", "_last.reason"))


def _resumable(current: Pass) -> DataFrame:
    """Resumes for what brokers gave up; an expired one would be given up again at once (R45, R73).

    What they gave up without a trace is asked about by its half, which its broker stores again (R120).
    """
    given_up = requested_rows(current, "trans_check_max_time")
    # As of the last audit; that it still is, is judged anew.
    unseen = transactions_of(requested_rows(current, "verdict").where(F.col("verdict").isin(*GIVEN_UP_UNSEEN)))
    concerned = transactions_of(given_up).unionByName(unseen).distinct()
    standing = current.cached(
        standing_now(current, concerned)
        .where(F.col("verdict").isin(*GIVEN_UP_VERDICTS) & F.expr("is_brokers and not is_expired"))
        .select(*TRANSACTION_KEY, "verdict", "real_topic")
    )
    of_unseen = standing.where(F.col("verdict").isin(*GIVEN_UP_UNSEEN))
    halves = join_transaction(current.read("half_message"), transactions_of(of_unseen), "left_semi")
    questions = _questions(standing.where(F.col("verdict").isin(*GIVEN_UP_IN_A_ROW)), given_up, "queue_offset", current)
    return questions.unionByName(_questions(of_unseen, halves, "commit_log_offset", current))


def _questions(chosen: DataFrame, rows: DataFrame, order: str, current: Pass) -> DataFrame:
    """A resume of each of `chosen` by the last of its `rows`, in this order."""
    newest = rows.groupBy(*TRANSACTION_KEY).agg(
        F.max_by(F.struct("queue_offset", "commit_log_offset", "offset_msg_id"), order).alias("_row")
    )
    return join_transaction(chosen, newest, "inner").select(
        *TRANSACTION_KEY,
        F.lit(ACTION_RESUME).alias("action"),
        F.lit(current.arguments["reason"]).cast("string").alias("reason"),
        "real_topic",
        F.lit(0).alias("queue_id"),
        F.col("_row.queue_offset").alias("tran_state_table_offset"),
        "_row.commit_log_offset",
        F.col("verdict").alias("former_verdict"),
        "_row.offset_msg_id",
    )
