"""The reconcile job: settle, close, pending, give up, ask, for brokers of both roles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.names import ROCKSDB_QUEUE_ID, TRANSACTION_KEY
from txmq_lib.passes.current import Pass, PassReport
from txmq_lib.passes.frames import KEYS
from txmq_lib.passes.job import Job
from txmq_lib.passes.runner import next_pass, run_passes
from txmq_lib.pipeline.reconcile.inputs import (
    WAKING_TABLES,
    Ends,
    Inputs,
    prior_decisions,
    read_inputs,
    relevant_given_up,
    relevant_messages,
    relevant_resumes,
)
from txmq_lib.pipeline.reconcile.many_ends import judged_in_arrow
from txmq_lib.pipeline.reconcile.outcomes_ahead import Kept, kept_outcomes, kept_with_files
from txmq_lib.pipeline.reconcile.tally import Decided
from txmq_lib.pipeline.reconcile.writes import write
from txmq_lib.pipeline.shared.idle import is_idle
from txmq_lib.pipeline.shared.roles import record_roles, require_same_role
from txmq_lib.rules import check, settle
from txmq_lib.rules.pending import OF_THE_PASS, closed, named_offsets, opened_unless_named
from txmq_lib.rules.transaction_key import join_transaction

JOB = "reconcile"


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
        current = next_pass(warehouse, JOB, now=now, arguments={}, settings=settings, wall_clock=wall_clock)
        return _previewed(replace(current, is_dry=True))
    return run_passes(warehouse, RECONCILE, now=now, settings=settings, wall_clock=wall_clock)


def _decide(current: Pass, inputs: Inputs) -> Decided:
    """What becomes of each end, of each undecided transaction, and what is pending then."""
    now, policies = current.now, inputs.policies
    kept = _outcomes(current, inputs)
    outcomes = kept.outcomes
    effective = outcomes.where(settle.decides(policies))
    with current.timed("pending"):
        undecided = _undecided(current, inputs, effective)
        still_pending = undecided.where(F.col("action") != check.GIVE_UP)
        pending = current.kept_if_small(check.asked(still_pending, policies=policies, now=now))
    return Decided(
        policies=policies,
        outcomes=outcomes,
        files=kept.files,
        held=kept.held,
        effective=effective,
        undecided=undecided,
        pending=pending,
        giving_up=undecided.where(F.col("action") == check.GIVE_UP),
    )


def _outcomes(current: Pass, inputs: Inputs) -> Kept:
    """What becomes of the ends to judge."""
    if inputs.ends is None:
        none = current.warehouse.empty("end_outcome").withColumn("was_held", F.lit(False))
        return Kept(current.kept_if_small(none))
    if (most := judged_in_arrow(current, inputs.ends)) is None:
        return kept_outcomes(current, inputs.ends.rows, _judged(current, inputs, inputs.ends))
    others = None if most.others is None else current.cached(_judged(current, inputs, most.others))
    return kept_with_files(current, most.files, others)


def _judged(current: Pass, inputs: Inputs, ends: Ends) -> DataFrame:
    """Rows of end_outcome for `ends`, with `was_held`."""
    rows, halves, refused_places = ends
    with current.timed("settle"):
        bitmap = current.broadcastable(settle.landed_offsets(halves))
        matched = current.kept_if_small(settle.matched_ends(rows, halves, bitmap, refused_places))
        prior = prior_decisions(current, current.exact_if_kept(matched, halves), halves)
        judged = settle.judged_ends(matched, prior, policies=inputs.policies, now=current.now)
        return settle.outcome_rows(judged, now=current.now, pass_number=current.number)


def _undecided(current: Pass, inputs: Inputs, effective: DataFrame) -> DataFrame:
    """Undecided transactions with `action` and `reason`."""
    if inputs.touched is None:
        as_before = check.with_held(inputs.pending.drop(*OF_THE_PASS), inputs.held)
        return current.kept_if_small(check.with_action(as_before, policies=inputs.policies, now=current.now))
    halves, ops = inputs.touched
    # Most transactions are decided by an op or an end that names a half of theirs: those never become candidates.
    bitmap = current.broadcastable(named_offsets(ops, effective))
    candidates, decided_by_name = opened_unless_named(inputs.pending, halves, bitmap)
    candidates = current.cached(candidates)
    decided = _closed(current, halves, ops, candidates).unionByName(
        _decided_keys(current, effective, decided_by_name, candidates)
    )
    undecided = check.with_held(join_transaction(candidates, decided, "left_anti"), inputs.held)
    return current.cached(check.with_action(undecided, policies=inputs.policies, now=current.now))


def _closed(current: Pass, halves: DataFrame, ops: DataFrame, candidates: DataFrame) -> DataFrame:
    """Keys of the candidates that an op, a visible message or a given-up row closes."""
    given_up = current.kept_if_small(relevant_given_up(current, candidates))
    visible = relevant_messages(current, halves, given_up)
    return closed(candidates, ops, visible, given_up, relevant_resumes(current, candidates))


def _decided_keys(
    current: Pass, effective: DataFrame, decided_by_name: DataFrame | None, candidates: DataFrame
) -> DataFrame:
    """Keys of what ends of this pass decide and of what was left out by name: another copy may be a candidate."""
    if decided_by_name is not None and current.known_to("half_message") is None:
        # All halves there are were looked at, so what ends decide is among `decided_by_name`. In RocksDB it is not:
        # ends name the queue offset there, and ops the physical one.
        effective = effective.where(F.col("half_queue_id") == ROCKSDB_QUEUE_ID)
    keys = effective.select(*TRANSACTION_KEY)
    if decided_by_name is not None:
        keys = keys.unionByName(decided_by_name)
        if (few := current.broadcastable(candidates.select(*TRANSACTION_KEY), most=KEYS)) is not None:
            keys = join_transaction(keys, F.broadcast(few), "left_semi")
    return keys.distinct()


def _is_idle(current: Pass) -> bool:
    return is_idle(current, (*WAKING_TABLES, "landing_frontier"))


def _input_bytes(current: Pass) -> int | None:
    # Each pass goes over all that is pending, too.
    pending = current.warehouse.few_bytes("pending_half", current.input_versions["pending_half"])
    new = current.new_bytes(WAKING_TABLES)
    return None if pending is None or new is None else pending + new


def _previewed(current: Pass) -> PassReport:
    require_same_role(current)
    try:
        decided = _decide(current, read_inputs(current))
        by_outcome = decided.outcomes.groupBy("outcome").count().collect()
        by_action = decided.undecided.groupBy("action").count().collect()
    finally:
        current.release()
    judged = {f"ends_{row['outcome']}": row["count"] for row in by_outcome}
    actions = {row["action"]: row["count"] for row in by_action}
    return PassReport(current.job, current.number, {**judged, **actions}, dict(current.seconds))


RECONCILE = Job(
    name=JOB,
    begin=record_roles,
    inputs=read_inputs,
    decide=_decide,
    write=write,
    is_idle=_is_idle,
    input_bytes=_input_bytes,
    require=require_same_role,
)
