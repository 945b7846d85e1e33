"""The reconcile job: settle, close, pending, give up, ask, for brokers of both roles."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.names import TRANSACTION_KEY
from txmq_lib.passes.current import Pass, PassReport
from txmq_lib.passes.runner import next_pass, run_passes
from txmq_lib.pipeline.reconcile import inputs
from txmq_lib.pipeline.reconcile.writes import write, write_judged_first
from txmq_lib.pipeline.shared.idle import is_idle
from txmq_lib.pipeline.shared.policies import policies_of
from txmq_lib.pipeline.shared.roles import record, require_same_role
from txmq_lib.rules import check, settle
from txmq_lib.rules.half import named_offset
from txmq_lib.rules.offset_bitmap import with_membership
from txmq_lib.rules.pending import closed, named_offsets, opened
from txmq_lib.rules.policy import Policies
from txmq_lib.rules.transaction import join_transaction

JOB = "reconcile"
MOST_KEYS_SENT = 500_000
INPUTS = ("half_message", "op_message", "message", "trans_check_max_time", "end_transaction", "manual_decision")


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
        is_idle=lambda current: is_idle(current, (*INPUTS, "landing_frontier")),
        input_bytes=_input_bytes,
        require=require_same_role,
    )


def _input_bytes(current: Pass) -> int | None:
    # Each pass goes over all that is pending, too.
    pending = current.warehouse.few_bytes("pending_half", current.input_versions["pending_half"])
    new = current.new_bytes(INPUTS)
    return None if pending is None or new is None else pending + new


def _reconcile(current: Pass) -> PassReport:
    record(current)
    policies = policies_of(current.settings)
    with current.timed("settle"):
        ends = _ends(current)
        outcomes = current.cached_if_small(_outcomes(current, ends, policies))
    if ends is not None and not current.is_small:
        outcomes = write_judged_first(current, outcomes, ends)
    effective = outcomes.where(settle.decides(policies))
    acted = _acted(current, effective, policies)
    checkpoints, next_due_ms = write(current, outcomes, acted, effective, policies)
    return current.commit(checkpoints=checkpoints, next_due_ms=next_due_ms)


def _previewed(current: Pass) -> PassReport:
    require_same_role(current)
    policies = policies_of(current.settings)
    outcomes = current.cached(_outcomes(current, _ends(current), policies))
    acted = _acted(current, outcomes.where(settle.decides(policies)), policies)
    judged = {f"ends_{row['outcome']}": row["count"] for row in outcomes.groupBy("outcome").count().collect()}
    actions = {row["action"]: row["count"] for row in acted.groupBy("action").count().collect()}
    current.release()
    return PassReport(current.job, current.number, {**judged, **actions}, dict(current.seconds))


def _has_new_rows(current: Pass) -> bool:
    return any(current.has_new_rows(table) for table in INPUTS)


def _ends(current: Pass) -> DataFrame | None:
    """Ends to judge; None where nobody sent one and none waits."""
    if not current.has_new_rows("end_transaction") and not inputs.has_held(current):
        return None
    return current.cached_if_small(inputs.candidate_ends(current))


def _outcomes(current: Pass, ends: DataFrame | None, policies: Policies) -> DataFrame:
    """Rows of end_outcome for `ends`, with `was_held`."""
    if ends is None:
        return current.warehouse.empty("end_outcome").withColumn("was_held", F.lit(False))
    halves = inputs.halves_named_by(current, ends)
    bitmap = None if current.is_small else current.broadcastable(settle.landed_offsets(halves))
    matched = current.cached_if_small(settle.matched_ends(ends, halves, bitmap, inputs.refused_places(current, ends)))
    prior = inputs.prior_decisions(current, matched if current.is_small else halves, halves)
    judged = settle.judged_ends(matched, prior, policies=policies, now=current.now)
    return settle.outcome_rows(judged, now=current.now, pass_number=current.number)


def _acted(current: Pass, effective: DataFrame, policies: Policies) -> DataFrame:
    """Undecided transactions with `action` and `reason`."""
    with current.timed("pending"):
        return _undecided(current, effective, policies)


def _undecided(current: Pass, effective: DataFrame, policies: Policies) -> DataFrame:
    pending = current.read("pending_half")
    if not _has_new_rows(current):
        as_it_is = check.with_action(pending.drop("next_check_timestamp"), policies=policies, now=current.now)
        # Read again faster than it is kept.
        return current.cached_if_small(as_it_is)
    halves = current.cached_if_small(inputs.touched_halves(current))
    ops = inputs.relevant_ops(current, halves)
    keys = effective.select(*TRANSACTION_KEY)
    bitmap = None if current.is_small else current.broadcastable(named_offsets(ops, effective))
    if bitmap is None:
        candidates = current.cached(opened(pending, halves))
    else:
        # Most are decided: those never become transactions here, only their keys are looked at.
        by_name = halves.withColumn("_queue_offset", F.col("queue_offset")).withColumn("queue_offset", named_offset())
        named = with_membership(by_name, bitmap, "is_named")
        marked = named.drop("queue_offset").withColumnRenamed("_queue_offset", "queue_offset")
        candidates = current.cached(opened(pending, marked.where("not is_named").drop("is_named")))
        keys = keys.unionByName(marked.where("is_named").select(*TRANSACTION_KEY))
        if (few := current.broadcastable(candidates.select(*TRANSACTION_KEY), most=MOST_KEYS_SENT)) is not None:
            keys = join_transaction(keys, F.broadcast(few), "left_semi")
    given_up = current.cached_if_small(inputs.relevant_given_up(current, candidates))
    decided = closed(
        candidates,
        ops,
        inputs.relevant_messages(current, halves, given_up),
        given_up,
        inputs.relevant_resumes(current, candidates),
    ).unionByName(keys.distinct())
    undecided = join_transaction(candidates, decided, "left_anti")
    return current.cached(check.with_action(undecided, policies=policies, now=current.now))
