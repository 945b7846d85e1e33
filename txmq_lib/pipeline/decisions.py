"""Manual decisions: `settle` ends a transaction, `resume` has a given-up one checked again, `hold` has none checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txmq_lib.config.settings import Settings
from txmq_lib.delta.conform import rows_at_hand
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import UsageError
from txmq_lib.names import (
    ACTION_RESUME,
    GIVEN_UP_IN_A_ROW,
    ORIGIN_MANUAL,
    OUTCOME_ACCEPTED,
    PLAN_RESUMED_BEFORE,
    PLAN_SETTLED_BEFORE,
    STILL_ASKED,
    TRANSACTION_KEY,
    UNDECIDED,
)
from txmq_lib.passes.current import Pass, PassReport
from txmq_lib.passes.job import job_of_steps
from txmq_lib.passes.runner import run_passes
from txmq_lib.pipeline.decision_request import DecisionRequest, Planned, findings, left_alone, to_do
from txmq_lib.pipeline.holds import HOLDING, hold_plan
from txmq_lib.pipeline.reconcile.inputs import ends_without_outcome, prior_decisions, quarantined_places
from txmq_lib.pipeline.shared.policies import policies_of
from txmq_lib.pipeline.shared.roles import require_same_role
from txmq_lib.pipeline.shared.standing import collected, requested_rows, standing_now
from txmq_lib.rules.answers import DEFINITE, end_of_answers
from txmq_lib.rules.decisions import RESUMABLE, resumes, with_resume_action
from txmq_lib.rules.end import END_COLUMNS, judged_ends, matched_ends
from txmq_lib.rules.transaction_key import join_transaction, transactions_of
from txmq_lib.spark.local_frame import local_frame

SETTLE, RESUME, HOLD = "settle", "resume", "hold"
DECISIONS = "manual_decision"


def decide(
    warehouse: Warehouse,
    settings: Settings,
    request: DecisionRequest,
    *,
    now: datetime,
    wall_clock: Callable[[], datetime],
    sends_to: Sequence[str] = (),
) -> PassReport:
    """Record the decision and, for a commit or rollback, write the end that the next reconcile applies.

    sends_to  name servers by which the broker is told afterwards, for what is said of it
    Idle where it was decided so before. UsageError where nothing can be decided as wanted.
    """
    plan: list[Planned] = []

    def is_idle(current: Pass) -> bool:
        plan[:] = _plan(current)
        return not to_do(plan)

    def work(current: Pass) -> PassReport:
        # A pass of our own reads what `is_idle` has read.
        return _decide(current, plan if current.is_own else _plan(current))

    job = job_of_steps(_job(request.decision), work, is_idle=is_idle, require=require_same_role)
    report = run_passes(
        warehouse, job, now=now, settings=settings, wall_clock=wall_clock, arguments=request.to_arguments
    )
    return replace(report, findings=tuple(findings(plan, sends_to)))


def _job(decision: str) -> str:
    return {ACTION_RESUME: RESUME, **dict.fromkeys(HOLDING, HOLD)}.get(decision, SETTLE)


def _decide(current: Pass, plan: Sequence[Planned]) -> PassReport:
    rows_to_do = to_do(plan)
    rows = [_decision_row(current, row) for row in rows_to_do]
    current.append(DECISIONS, rows_at_hand(DECISIONS, rows), step=DECISIONS)
    if current.arguments["decision"] in DEFINITE:
        current.append("end_transaction", _ends(current, rows_to_do), step="end_transaction", count=len(rows))
    return current.commit(left_alone(plan))


def _plan(current: Pass) -> list[Planned]:
    if current.arguments["decision"] in HOLDING:
        return hold_plan(current)
    if current.arguments["decision"] == ACTION_RESUME:
        return _resume_plan(current)
    return _settle_plan(current)


# --- settle


def _settle_plan(current: Pass) -> list[Planned]:
    decision, name = current.arguments["decision"], ", ".join(current.arguments["transaction_ids"])
    found = collected(standing_now(current, transactions_of(requested_rows(current, "half_message"))))
    if not found:
        raise UsageError(f"no half message of transaction {name} has landed: land the half topic first")
    undecided = [row for row in found if row["verdict"] in UNDECIDED]
    if not undecided:
        verdicts = " and ".join(row["verdict"] for row in found)
        raise UsageError(f"transaction {name} is {verdicts} already: only an undecided one can be settled")
    if len(undecided) > 1:
        names = "; ".join(_named(row) for row in undecided)
        raise UsageError(f"{len(undecided)} transactions have the id {name}: {names}; choose by --broker or --born")
    (row,) = undecided
    before = _settled_before(current, row)
    if before is not None and before["action"] != decision:
        by = f"{before['decided_by']} ({before['reason']})"
        raise UsageError(f"transaction {name} was settled as {before['action']} by {by}; reconcile applies it")
    if before is not None:
        return [{**row, "action": PLAN_SETTLED_BEFORE}]
    _require_acceptance(current, row)
    return [{**row, "action": decision}]


def _named(row: Mapping[str, Any]) -> str:
    born = row["born_timestamp"].isoformat(timespec="milliseconds")
    return f"broker {row['broker_name']}, group {row['producer_group']}, born {born}, {row['verdict']}"


def _is_of(row: Planned) -> Column:
    same = [F.col(name).eqNullSafe(F.lit(row[name])) for name in TRANSACTION_KEY]
    return reduce(lambda a, b: a & b, same)


def _settled_before(current: Pass, row: Planned) -> Planned | None:
    """The decision that ended this transaction by hand already, or None."""
    decisions = current.read(DECISIONS).where(F.col("action").isin(*DEFINITE) & _is_of(row))
    return next(iter(decisions.toArrow().to_pylist()), None)


def _require_acceptance(current: Pass, row: Planned) -> None:
    """UsageError where reconcile would not accept the end: a half without a real topic, an end that comes before it."""
    end = _ends(current, [{**row, "action": current.arguments["decision"]}]).select(*END_COLUMNS)
    halves = current.read("half_message").where(F.col("broker_name") == row["broker_name"])
    copies = halves.where(_is_of(row)).select("commit_log_offset").collect()
    # An end of any copy decides the transaction.
    place = (F.col("broker_name") == row["broker_name"]) & F.col("commit_log_offset").isin([each[0] for each in copies])
    ends = end.unionByName(ends_without_outcome(current, place))
    halves = halves.where(place)
    matched = matched_ends(ends, halves, quarantined_places=quarantined_places(current, ends))
    policies = policies_of(current.settings)
    prior = prior_decisions(current, matched, halves)
    judged_so = judged_ends(matched, prior, policies=policies, now=current.now)
    ours = [
        each
        for each in judged_so.where(F.col("landed_pass") == current.number).collect()
        if each["origin"] == ORIGIN_MANUAL and each["transaction_id"] == row["transaction_id"]
    ]
    if not ours:  # two halves may lie at one place (a rebuilt broker)
        raise UsageError(f"another half lies where that of {row['transaction_id']} does; nothing can be settled here")
    judgement = ours[0]
    if judgement["outcome"] != OUTCOME_ACCEPTED:
        why = judgement["reason"] or "another end comes before it"
        raise UsageError(f"reconcile would find this end {judgement['outcome']}: {why}; nothing can be settled here")


def _ends(current: Pass, rows: Sequence[Planned]) -> DataFrame:
    schema = (
        "broker_name string, transaction_id string, producer_group string, born_timestamp timestamp,"
        " tran_state_table_offset bigint, commit_log_offset bigint, real_topic string, answer string"
    )
    names = [column.split()[0] for column in schema.split(",")]
    answered = [{name: {**row, "answer": row["action"]}[name] for name in names} for row in rows]
    answers = local_frame(current.warehouse.spark, answered, schema)
    return end_of_answers(answers, now=current.now, origin=ORIGIN_MANUAL, pass_number=current.number)


# --- resume


def _resume_plan(current: Pass) -> list[Planned]:
    given_up = transactions_of(requested_rows(current, "trans_check_max_time"))
    now_standing = current.cached(standing_now(current, given_up))
    plan = collected(with_resume_action(now_standing.where(F.col("verdict").isin(*GIVEN_UP_IN_A_ROW))))
    asked_for = {*current.arguments["transaction_ids"]}
    if not asked_for - {row["transaction_id"] for row in plan}:
        return plan
    # Named, and not given up now: an earlier run of the same command may have resumed it.
    resumed = transactions_of(resumes(current.read(DECISIONS)))
    plan += collected(
        join_transaction(now_standing, resumed, "left_semi")
        .where(F.col("verdict").isin(*STILL_ASKED))
        .withColumn("action", F.lit(PLAN_RESUMED_BEFORE))
    )
    missing = sorted(asked_for - {row["transaction_id"] for row in plan})
    if missing:
        raise UsageError(f"not given up now, so there is nothing to resume: {', '.join(missing)}")
    return plan


def _decision_row(current: Pass, row: Planned) -> dict[str, Any]:
    arguments = current.arguments
    return {
        **{name: row[name] for name in (*TRANSACTION_KEY, "action", "real_topic", "queue_id")},
        "tran_state_table_offset": row["tran_state_table_offset"],
        "commit_log_offset": row["commit_log_offset"],
        "reason": arguments["reason"],
        "decided_by": arguments["decided_by"],
        "decided_timestamp": current.now,
        "former_verdict": row["verdict"],
        "given_up_queue_offset": row["given_up_queue_offset"] if row["action"] == RESUMABLE else None,
        "is_planned_for_broker": row["is_brokers"],
        "pass_number": current.number,
    }
