"""The reconcile job: settle, close, pending, give up, ask, for brokers of both roles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.names import END_KEY, TRANSACTION_KEY
from txmq_lib.passes.current import Pass, PassReport
from txmq_lib.passes.frames import KEYS
from txmq_lib.passes.job import Job
from txmq_lib.passes.runner import next_pass, run_passes
from txmq_lib.pipeline.reconcile import inputs
from txmq_lib.pipeline.reconcile.inputs import INPUTS, Inputs
from txmq_lib.pipeline.reconcile.writes import Outcome, write
from txmq_lib.pipeline.shared.idle import is_idle
from txmq_lib.pipeline.shared.roles import record, require_same_role
from txmq_lib.rules import check, settle
from txmq_lib.rules.pending import OF_THE_PASS, closed, named_offsets, opened_unless_named
from txmq_lib.rules.transaction import join_transaction

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


def _decide(current: Pass, known: Inputs) -> Outcome:
    """What becomes of each end, of each undecided transaction, and what is pending then."""
    now, policies = current.now, known.policies
    outcomes = _kept(current, known, _judged(current, known))
    effective = outcomes.where(settle.decides(policies))
    with current.timed("pending"):
        undecided = _undecided(current, known, effective)
        still = undecided.where(F.col("action") != check.GIVE_UP)
        pending = current.planned_once(check.asked(still, policies=policies, now=now))
    return Outcome(
        policies=policies,
        outcomes=outcomes,
        effective=effective,
        undecided=undecided,
        pending=pending,
        giving_up=undecided.where(F.col("action") == check.GIVE_UP),
    )


def _judged(current: Pass, known: Inputs) -> DataFrame:
    """Rows of end_outcome for the ends to judge, with `was_held`."""
    if known.ends is None:
        return current.planned_once(current.warehouse.empty("end_outcome").withColumn("was_held", F.lit(False)))
    ends, halves, refused_places = known.ends
    with current.timed("settle"):
        bitmap = current.broadcastable(settle.landed_offsets(halves))
        matched = current.planned_once(settle.matched_ends(ends, halves, bitmap, refused_places))
        prior = inputs.prior_decisions(current, current.narrowest(matched, halves), halves)
        judged = settle.judged_ends(matched, prior, policies=known.policies, now=current.now)
        return settle.outcome_rows(judged, now=current.now, pass_number=current.number)


def _kept(current: Pass, known: Inputs, outcomes: DataFrame) -> DataFrame:
    """`outcomes` for all that follows. Where they are many, those judged are written now, and read from end_outcome."""
    if known.ends is None:
        return outcomes
    judged = outcomes.where("not is_held").drop("was_held")
    # To look whether there are any is to join them all.
    even_if_empty = current.has_new_rows("end_transaction")
    written = current.append_ahead("end_outcome", judged, step="end_outcome", even_if_empty=even_if_empty)
    if written is None:
        with current.timed("settle"):
            return current.cached(outcomes)
    if inputs.has_waiting_ends(current):
        before = current.read("end_outcome").where("is_held").select(*END_KEY, F.lit(True).alias("was_held"))
        joined = written.join(current.sent_if_few(before), on=list(END_KEY), how="left")
        written = joined.withColumn("was_held", F.coalesce("was_held", F.lit(False)))
    else:
        written = written.withColumn("was_held", F.lit(False))
    # All that there are were written: none is held.
    if _which_ends(written) == _which_ends(known.ends.rows):
        return written
    return written.unionByName(current.cached(outcomes.where("is_held")))  # they are few


def _which_ends(rows: DataFrame) -> tuple[int, int]:
    """Equal for the same ends, each there once."""
    row = rows.agg(F.count("*").alias("rows"), F.bit_xor(F.xxhash64(*END_KEY)).alias("hash")).collect()[0]
    return row["rows"], row["hash"]


def _undecided(current: Pass, known: Inputs, effective: DataFrame) -> DataFrame:
    """Undecided transactions with `action` and `reason`."""
    if known.new is None:
        as_it_is = check.with_held(known.pending.drop(*OF_THE_PASS), known.held)
        return current.planned_once(check.with_action(as_it_is, policies=known.policies, now=current.now))
    halves, ops = known.new
    bitmap = current.broadcastable(named_offsets(ops, effective))
    candidates, named = opened_unless_named(known.pending, halves, bitmap)
    candidates = current.cached(candidates)
    keys = effective.select(*TRANSACTION_KEY)
    if named is not None:
        keys = keys.unionByName(named)
        if (few := current.broadcastable(candidates.select(*TRANSACTION_KEY), most=KEYS)) is not None:
            keys = join_transaction(keys, F.broadcast(few), "left_semi")
    given_up = current.planned_once(inputs.relevant_given_up(current, candidates))
    decided = closed(
        candidates,
        ops,
        inputs.relevant_messages(current, halves, given_up),
        given_up,
        inputs.relevant_resumes(current, candidates),
    ).unionByName(keys.distinct())
    undecided = check.with_held(join_transaction(candidates, decided, "left_anti"), known.held)
    return current.cached(check.with_action(undecided, policies=known.policies, now=current.now))


def _is_idle(current: Pass) -> bool:
    return is_idle(current, (*INPUTS, "landing_frontier"))


def _input_bytes(current: Pass) -> int | None:
    # Each pass goes over all that is pending, too.
    pending = current.warehouse.few_bytes("pending_half", current.input_versions["pending_half"])
    new = current.new_bytes(INPUTS)
    return None if pending is None or new is None else pending + new


def _previewed(current: Pass) -> PassReport:
    require_same_role(current)
    outcome = _decide(current, inputs.read(current))
    judged = {f"ends_{row['outcome']}": row["count"] for row in outcome.outcomes.groupBy("outcome").count().collect()}
    actions = {row["action"]: row["count"] for row in outcome.undecided.groupBy("action").count().collect()}
    current.release()
    return PassReport(current.job, current.number, {**judged, **actions}, dict(current.seconds))


RECONCILE = Job(
    name=JOB,
    begin=record,
    inputs=inputs.read,
    decide=_decide,
    write=write,
    is_idle=_is_idle,
    input_bytes=_input_bytes,
    require=require_same_role,
)
