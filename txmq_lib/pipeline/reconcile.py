"""The reconcile job: settle, close, pending, give up, ask (design section 3), for brokers of both roles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import ROLE_ENGINE
from txmq_lib.pipeline import reconcile_inputs as inputs
from txmq_lib.pipeline.policies import policies_of
from txmq_lib.pipeline.reconcile_writes import write
from txmq_lib.rules import check, settle
from txmq_lib.rules.moments import epoch_ms
from txmq_lib.rules.pending import closed, opened
from txmq_lib.rules.policy import Policies
from txmq_lib.rules.transaction import join_transaction, transactions_of
from txmq_lib.settings import Settings
from txmq_lib.tables.passes import Pass, PassReport
from txmq_lib.tables.running import next_pass, run_passes
from txmq_lib.tables.warehouse import Warehouse

JOB = "reconcile"
INPUTS = ("half_message", "op_message", "message", "trans_check_max_time", "end_transaction", "manual_decision")


@dataclass(frozen=True)
class Reconciled:
    """What a pass found, before anything is written.

    outcomes  rows of end_outcome for ends judged now, with `was_held`
    acted     undecided transactions with `action` and `reason`
    """

    outcomes: DataFrame
    acted: DataFrame

    def effective(self, policies: Policies) -> DataFrame:
        """Ends that decide a transaction of an engine broker now; elsewhere the broker decides."""
        return self.outcomes.where("is_effective").where(policies.has_role(ROLE_ENGINE))


def run_reconcile(
    warehouse: Warehouse,
    settings: Settings,
    *,
    now: datetime,
    wall_clock: Callable[[], datetime],
    dry_run: bool = False,
) -> PassReport:
    """One reconcile pass; with `dry_run` nothing is written and the counts say what would be."""
    if dry_run:
        return _previewed(next_pass(warehouse, JOB, now=now, arguments={}, settings=settings, wall_clock=wall_clock))
    return run_passes(
        warehouse,
        JOB,
        _reconcile,
        now=now,
        settings=settings,
        wall_clock=wall_clock,
        is_idle=_is_idle,
        input_bytes=_input_bytes,
    )


def _is_idle(current: Pass) -> bool:
    due_ms = current.last_note.get("next_due_ms")
    is_due = due_ms is not None and epoch_ms(current.now) >= due_ms
    return current.is_settled((*INPUTS, "landing_frontier")) and not is_due


def _input_bytes(current: Pass) -> int | None:
    # Each pass goes over all that is pending, too.
    log = current.warehouse.log("pending_half")
    pending, new = log.bytes_between(max(log.version - 1, 0), log.version), current.new_bytes(INPUTS)
    return None if pending is None or new is None else pending + new


def _reconcile(current: Pass) -> PassReport:
    policies = policies_of(current.settings)
    found = _found(current, policies)
    checkpoints, next_due_ms = write(current, found.outcomes, found.acted, found.effective(policies), policies)
    return current.commit(checkpoints=checkpoints, next_due_ms=next_due_ms)


def _previewed(current: Pass) -> PassReport:
    found = _found(current, policies_of(current.settings))
    outcomes = {f"ends_{row['outcome']}": row["count"] for row in found.outcomes.groupBy("outcome").count().collect()}
    actions = {row["action"]: row["count"] for row in found.acted.groupBy("action").count().collect()}
    current.release()
    return PassReport(current.job, current.number, {**outcomes, **actions}, dict(current.seconds))


def _has_new_rows(current: Pass) -> bool:
    return any(current.has_new_rows(table) for table in INPUTS)


def _found(current: Pass, policies: Policies) -> Reconciled:
    with current.timed("settle"):
        outcomes = current.cached(_outcomes(current, policies))
    with current.timed("pending"):
        acted = current.cached(_acted(current, Reconciled(outcomes, outcomes).effective(policies), policies))
    return Reconciled(outcomes, acted)


def _outcomes(current: Pass, policies: Policies) -> DataFrame:
    if not current.has_new_rows("end_transaction") and not _has_held(current):
        return current.warehouse.empty("end_outcome").withColumn("was_held", F.lit(False))
    ends = current.cached(inputs.candidate_ends(current))
    matched = current.cached(settle.matched_ends(ends, inputs.halves_named_by(current, ends)))
    judged = settle.judged_ends(matched, inputs.prior_decisions(current, matched), policies=policies, now=current.now)
    return settle.outcome_rows(judged, now=current.now, pass_number=current.number)


def _has_held(current: Pass) -> bool:
    return current.read("end_outcome").where("is_held").limit(1).count() > 0


def _acted(current: Pass, effective: DataFrame, policies: Policies) -> DataFrame:
    pending = current.read("pending_half")
    if not _has_new_rows(current):
        return check.with_action(pending.drop("next_check_timestamp"), policies=policies, now=current.now)
    halves = current.cached(inputs.touched_halves(current))
    candidates = current.cached(opened(pending, halves))
    decided = closed(
        candidates,
        inputs.relevant_ops(current, halves),
        inputs.relevant_messages(current, halves),
        inputs.relevant_given_up(current, candidates),
        inputs.relevant_resumes(current, candidates),
    ).unionByName(transactions_of(effective))
    undecided = join_transaction(candidates, decided, "left_anti")
    return check.with_action(undecided, policies=policies, now=current.now)
