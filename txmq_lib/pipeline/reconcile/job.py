"""The reconcile job: ends are judged, transactions closed, given up or asked about, for brokers of both roles.

RECONCILE, at the end, names what a pass does: record_roles, read_inputs, _decide, write. _decide commits one table
ahead of the others, the outcomes of many ends (outcomes_ahead.py). write looks at the invariants before any effect.
"""

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
from txmq_lib.passes.frames import MOST_KEYS_SENT
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
from txmq_lib.pipeline.reconcile.many_ends import judged_into_files
from txmq_lib.pipeline.reconcile.outcomes_ahead import Outcomes, files_committed_ahead, written_ahead_if_many
from txmq_lib.pipeline.reconcile.tally import Decided
from txmq_lib.pipeline.reconcile.writes import write
from txmq_lib.pipeline.shared.idle import is_idle
from txmq_lib.pipeline.shared.pruning import Values
from txmq_lib.pipeline.shared.roles import record_roles, require_same_role
from txmq_lib.rules import check, end
from txmq_lib.rules.pending import RENEWED_COLUMNS, closed, decided_offset_bitmap, opened_unless_named
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
    """Carry unfinished passes on, then one of our own: its report, `idle` where nothing was to be done.

    With `dry_run` the next pass is decided and nothing of it written, an unfinished one at its own `now`. The report
    counts ends by outcome, and undecided transactions by action.
    """
    if dry_run:
        current = next_pass(warehouse, JOB, now=now, arguments={}, settings=settings, wall_clock=wall_clock)
        return _preview(replace(current, is_dry=True))
    return run_passes(warehouse, RECONCILE, now=now, settings=settings, wall_clock=wall_clock)


def _decide(current: Pass, inputs: Inputs) -> Decided:
    """What becomes of each end, of each undecided transaction, and what is pending then."""
    now, policies = current.now, inputs.policies
    outcomes = _outcomes(current, inputs)
    deciding = outcomes.rows.where(end.decides(policies))
    with current.timed("pending"):
        undecided = _undecided(current, inputs, deciding)
        still_pending = undecided.where(F.col("action") != check.GIVE_UP)
        pending = current.kept_in_small_pass(check.pending_after(still_pending, policies=policies, now=now))
    return Decided(
        policies=policies,
        outcomes=outcomes.rows,
        files=outcomes.files,
        waiting_ends=outcomes.waiting,
        deciding=deciding,
        undecided=undecided,
        pending=pending,
        giving_up=undecided.where(F.col("action") == check.GIVE_UP),
    )


def _outcomes(current: Pass, inputs: Inputs) -> Outcomes:
    """What becomes of the ends to judge. Where they are many it is committed here already: see outcomes_ahead.py."""
    if (ends := inputs.ends) is None:
        no_rows = current.warehouse.empty("end_outcome").withColumn("was_held", F.lit(False))
        return Outcomes(current.kept_in_small_pass(no_rows))
    if (in_arrow := current.by_files(lambda: judged_into_files(current, ends))) is None:
        return written_ahead_if_many(current, ends.rows, _judged(current, inputs, ends))
    by_spark = None if in_arrow.for_spark is None else current.cached(_judged(current, inputs, in_arrow.for_spark))
    return files_committed_ahead(current, in_arrow.files, by_spark)


def _judged(current: Pass, inputs: Inputs, ends: Ends) -> DataFrame:
    """Rows of end_outcome for `ends`, with `was_held`."""
    rows, halves, quarantined_places = ends
    with current.timed("judge"):
        landed_bitmap = current.few_or_none(lambda: end.landed_offset_bitmap(halves))
        matched = current.kept_in_small_pass(end.matched_ends(rows, halves, landed_bitmap, quarantined_places))
        # Decisions are read by times of birth: in a small pass those of the matched ends, else those of all halves.
        prior = prior_decisions(current, current.exact_in_small_pass(matched, halves), halves)
        judged = end.judged_ends(matched, prior, policies=inputs.policies, now=current.now)
        return end.outcome_rows(judged, now=current.now, pass_number=current.number)


def _undecided(current: Pass, inputs: Inputs, deciding: DataFrame) -> DataFrame:
    """Undecided transactions with `action` and `reason`."""
    if inputs.touched is None:  # nothing has landed: only what was pending is undecided
        still = check.with_held_by_people(inputs.pending.drop(*RENEWED_COLUMNS), inputs.held_by_people)
        return current.kept_in_small_pass(check.with_action(still, policies=inputs.policies, now=current.now))
    halves, places, ops = inputs.touched
    # Most transactions are decided by an op or an end that names a half of theirs: that half makes no candidate.
    decided_bitmap = current.few_or_none(lambda: decided_offset_bitmap(ops, deciding))
    candidates, named_keys = opened_unless_named(inputs.pending, halves, decided_bitmap)
    candidates = current.cached(candidates)
    closed_keys = _closed(current, places, ops, candidates).unionByName(
        _decided_keys(current, deciding, named_keys, candidates)
    )
    undecided = check.with_held_by_people(join_transaction(candidates, closed_keys, "left_anti"), inputs.held_by_people)
    return current.cached(check.with_action(undecided, policies=inputs.policies, now=current.now))


def _closed(current: Pass, places: Values, ops: DataFrame, candidates: DataFrame) -> DataFrame:
    """Keys of the candidates that an op, a visible message or a given-up row closes."""
    given_up = current.kept_in_small_pass(relevant_given_up(current, candidates))
    visible = relevant_messages(current, places, given_up)
    return closed(candidates, ops, visible, given_up, relevant_resumes(current, candidates))


def _decided_keys(current: Pass, deciding: DataFrame, named_keys: DataFrame | None, candidates: DataFrame) -> DataFrame:
    """Keys of what ends of this pass decide, with `named_keys`: another copy of these may be a candidate."""
    if named_keys is not None and current.known_to("half_message") is None:
        # The table of halves is read whole, so each was looked up in the bitmap, and `named_keys` has what ends decide.
        # Not of halves in RocksDB: the bitmap has queue offsets, and ends name these by their physical offset.
        deciding = deciding.where(F.col("half_queue_id") == ROCKSDB_QUEUE_ID)
    keys = deciding.select(*TRANSACTION_KEY)
    if named_keys is not None:
        keys = keys.unionByName(named_keys)
        # What is no candidate need not be taken off.
        candidate_keys = current.few_or_none(lambda: candidates.select(*TRANSACTION_KEY), most=MOST_KEYS_SENT)
        if candidate_keys is not None:
            keys = join_transaction(keys, F.broadcast(candidate_keys), "left_semi")
    return keys.distinct()


def _is_idle(current: Pass) -> bool:
    # How far each half queue was read is a checkpoint of the pass, and moves with what has landed.
    return is_idle(current, (*WAKING_TABLES, "landing_frontier"))


def _input_bytes(current: Pass) -> int | None:
    # Each pass goes over all that is pending, too.
    pending = current.warehouse.bytes_if_few("pending_half", current.input_versions["pending_half"])
    new = current.new_bytes(WAKING_TABLES)
    return None if pending is None or new is None else pending + new


def _preview(current: Pass) -> PassReport:
    """Decide, write nothing, and count."""
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
