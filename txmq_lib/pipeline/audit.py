"""The audit job: a verdict for every transaction, kept up to date by what is new."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.config.settings import Settings
from txmq_lib.delta.log_view import LEAST_ROW_BYTES
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.passes.current import Pass, PassReport
from txmq_lib.passes.job import Job
from txmq_lib.passes.runner import run_passes
from txmq_lib.pipeline.shared.evidence import evidence_of, whole_evidence
from txmq_lib.pipeline.shared.idle import is_idle
from txmq_lib.pipeline.shared.known_runs import frontier_with_runs
from txmq_lib.pipeline.shared.orphans import Orphans, find_orphans, write_orphans
from txmq_lib.pipeline.shared.policies import policies_of
from txmq_lib.pipeline.shared.pruning import Near, near_values
from txmq_lib.pipeline.shared.roles import record_roles, require_same_role
from txmq_lib.pipeline.touched import touched_transactions
from txmq_lib.rules.evidence import Evidence, transaction_figures
from txmq_lib.rules.policy import Policies
from txmq_lib.rules.transaction_key import join_transaction
from txmq_lib.rules.verdict import changed, judged, next_change

JOB = "audit"
# A pass has work when one of them has moved. It reads `verdict` and `orphan` as well, which it writes itself.
WAKING_TABLES = (
    "half_message",
    "op_message",
    "message",
    "trans_check_max_time",
    "check_request",
    "end_outcome",
    "landing_frontier",
    "manual_decision",
    "quarantine",
)


@dataclass(frozen=True)
class Inputs:
    """What a pass reads.

    touched   keys of the transactions to judge
    evidence  all that landed or was written for them
    near      where the rows of `verdict` lie that they have so far, if any
    """

    policies: Policies
    frontier: DataFrame
    orphans: Orphans
    touched: DataFrame
    evidence: Evidence
    near: Near


@dataclass(frozen=True)
class Decided:
    """What a pass has decided: verdicts that are new or have changed."""

    inputs: Inputs
    verdicts: DataFrame


def run_audit(
    warehouse: Warehouse, settings: Settings, *, now: datetime, wall_clock: Callable[[], datetime]
) -> PassReport:
    """Judge the transactions that new rows concern, and those that time has changed."""
    return run_passes(warehouse, AUDIT, now=now, settings=settings, wall_clock=wall_clock)


def _inputs(current: Pass) -> Inputs:
    policies = policies_of(current.settings)
    frontier = frontier_with_runs(current)
    orphans = find_orphans(current, policies)
    with current.timed("touched"):
        touched = current.cached(touched_transactions(current, frontier, orphans, policies))
    near = near_values("born_timestamp", touched, "born_timestamp")
    return Inputs(policies, frontier, orphans, touched, _evidence(current, touched, orphans, near), near)


def _decide(current: Pass, inputs: Inputs) -> Decided:
    verdicts = judged(
        transaction_figures(inputs.evidence),
        inputs.frontier,
        current.read("quarantine"),
        policies=inputs.policies,
        now=current.now,
        pass_number=current.number,
    )
    with current.timed("prune"):
        known = inputs.near.rows(current, "verdict")
    # Evidence of these may name others as well, whose own evidence was not read: they get no verdict here.
    of_touched = join_transaction(verdicts, inputs.touched, "left_semi")
    return Decided(inputs, current.cached(changed(of_touched, known)))


def _write(current: Pass, decided: Decided) -> PassReport:
    inputs, verdicts = decided.inputs, decided.verdicts
    current.upsert("verdict", verdicts, step="verdict", within=lambda: inputs.near.condition("t."))
    write_orphans(current, inputs.orphans)
    with current.timed("count"):
        tally = {f"verdict_{row['verdict']}": row["count"] for row in verdicts.groupBy("verdict").count().collect()}
    return current.commit(tally, next_due_ms=_next_due_ms(current, inputs.frontier, inputs.policies))


def _input_bytes(current: Pass) -> int | None:
    new = current.new_bytes(WAKING_TABLES)
    if new is None:
        return None
    # Each pass goes over all that is unsettled, too, and judges again what lacks proof. Its rows are counted, since the
    # bytes that the log tells are mostly those of settled ones.
    return new + current.read_part("verdict", "is_settled", value=False).count() * LEAST_ROW_BYTES


def _next_due_ms(current: Pass, frontier: DataFrame, policies: Policies) -> int | None:
    # Verdicts change by the store times that landed; by the clock only where one of them lies ahead of it.
    if frontier.where(F.col("highest_store_timestamp") > F.lit(current.now)).isEmpty():
        return None
    unsettled = current.warehouse.read("verdict").where("not is_settled")  # the newest, with what this pass has written
    due_ms: int | None = next_change(unsettled, frontier, policies=policies, now=current.now).collect()[0]["due_ms"]
    return due_ms


def _evidence(current: Pass, touched: DataFrame, orphans: Orphans, near: Near) -> Evidence:
    if current.is_first:  # everything is touched
        return whole_evidence(current, orphans.missing)
    return evidence_of(current, touched, orphans.missing, near)


AUDIT = Job(
    name=JOB,
    begin=record_roles,
    inputs=_inputs,
    decide=_decide,
    write=_write,
    is_idle=lambda current: is_idle(current, WAKING_TABLES),
    input_bytes=_input_bytes,
    require=require_same_role,
)
