"""The audit job: a verdict for every transaction, kept up to date by what is new."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.config.settings import Settings
from txmq_lib.delta.log_view import LEAST_ROW_BYTES
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.names import COMMITTED_OP_LOST, HALF_TOPICS, KEY_CONFLICT, OP_TOPICS, ROLLED_BACK, UNDECIDED
from txmq_lib.passes.current import Pass, PassReport
from txmq_lib.passes.job import Job
from txmq_lib.passes.runner import run_passes
from txmq_lib.pipeline.shared.evidence import evidence_of, whole_evidence
from txmq_lib.pipeline.shared.idle import is_idle
from txmq_lib.pipeline.shared.known_runs import frontier_with_runs
from txmq_lib.pipeline.shared.orphans import Orphans, find_orphans, write_orphans
from txmq_lib.pipeline.shared.policies import policies_of
from txmq_lib.pipeline.shared.pruning import Near, near_offsets, near_times, near_twins
from txmq_lib.pipeline.shared.roles import record_roles, require_same_role
from txmq_lib.rules.bad_places import REAL_QUEUE
from txmq_lib.rules.decisions import resumes
from txmq_lib.rules.evidence import Evidence, diverted_halves, transaction_figures
from txmq_lib.rules.half import is_of_rocksdb, named_offset
from txmq_lib.rules.orphans import with_same_id
from txmq_lib.rules.pending import is_committed
from txmq_lib.rules.policy import Policies
from txmq_lib.rules.transaction_key import join_transaction, transactions_of
from txmq_lib.rules.verdict import changed, expiring, judged, moved_by_settings, next_change

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
        touched = current.cached(_touched(current, frontier, orphans, policies))
    near = near_times("born_timestamp", touched, "born_timestamp")
    return Inputs(policies, frontier, orphans, touched, _evidence(current, touched, orphans), near)


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
    return new + current.read("verdict").where("not is_settled").count() * LEAST_ROW_BYTES


def _next_due_ms(current: Pass, frontier: DataFrame, policies: Policies) -> int | None:
    # Verdicts change by the store times that landed; by the clock only where one of them lies ahead of it.
    if frontier.where(F.col("highest_store_timestamp") > F.lit(current.now)).isEmpty():
        return None
    unsettled = current.warehouse.read("verdict").where("not is_settled")  # the newest, with what this pass has written
    due_ms: int | None = next_change(unsettled, frontier, policies=policies, now=current.now).collect()[0]["due_ms"]
    return due_ms


def _touched(current: Pass, frontier: DataFrame, orphans: Orphans, policies: Policies) -> DataFrame:
    """Keys of the transactions some new row concerns, and of the unsettled ones that time has changed.

    A row of landing_frontier concerns none by itself: `expiring` looks at all that it may change.
    """
    new_messages = current.new_rows("message")
    direct = [
        current.new_rows("half_message"),
        current.new_rows("trans_check_max_time"),
        current.new_rows("check_request"),
        current.new_rows("end_outcome").where("transaction_id is not null"),
        diverted_halves(new_messages),
        resumes(current.new_rows("manual_decision")),
    ]
    unsettled = current.read("verdict").where("not is_settled")
    keys = [
        *[transactions_of(rows) for rows in direct],
        expiring(unsettled, frontier, policies=policies, now=current.now),
    ]
    if not current.is_first:  # at the first pass every half is new, and touched by that
        if current.last_note.get("settings_fingerprint") != current.settings.fingerprint():
            keys.append(moved_by_settings(current.read("verdict")))
        keys += [_named_by_new_ops(current), _named_by_messages(current, new_messages), _with_id_of(current, orphans)]
        keys += _beside_new_rivals(current)
    return reduce(DataFrame.unionByName, keys).distinct()  # several new rows may concern one transaction


def _named_by_new_ops(current: Pass) -> DataFrame:
    ops = current.new_rows("op_message").select(
        "broker_name", "queue_id", F.col("half_queue_offset").alias("named_offset")
    )
    by_queue_offset = near_offsets("queue_offset", ops.where(~is_of_rocksdb()), "named_offset")
    by_physical_offset = near_offsets("commit_log_offset", ops.where(is_of_rocksdb()), "named_offset")
    near = (by_queue_offset | by_physical_offset).rows(current, "half_message")
    halves = near.withColumn("named_offset", named_offset())
    return transactions_of(halves.join(ops, on=["broker_name", "queue_id", "named_offset"], how="left_semi"))


def _named_by_messages(current: Pass, new_messages: DataFrame) -> DataFrame:
    """Keys of the transactions whose half a new message names by its place in the commit log."""
    # Zero is a place as well, but in a message that was never prepared it says nothing.
    places = new_messages.where((F.col("prepared_transaction_offset") > 0) | is_committed()).select(
        "broker_name", F.col("prepared_transaction_offset").alias("commit_log_offset")
    )
    near = near_offsets("commit_log_offset", places, "commit_log_offset")
    key = ["broker_name", "commit_log_offset"]
    found = [
        transactions_of(near.rows(current, table).join(places, on=key, how="left_semi"))
        for table in ("half_message", "trans_check_max_time")
    ]
    return found[0].unionByName(found[1])


def _with_id_of(current: Pass, orphans: Orphans) -> DataFrame:
    """Keys of the transactions that have the id of a new orphan, or of one that is none any more."""
    near = near_twins(orphans.changed)
    halves, given_up = [near.rows(current, table) for table in ("half_message", "trans_check_max_time")]
    return with_same_id(halves, given_up, orphans.changed)


def _beside_new_rivals(current: Pass) -> list[DataFrame]:
    """Keys of the transactions whose proof a record in quarantine may refute, mostly as its key was taken: rare."""
    if not current.has_new_rows("quarantine"):
        return []
    bad = current.cached(current.new_rows("quarantine"))
    is_unplaced = F.col("topic").isNull() | ~F.coalesce(F.col("queue_id") >= 0, F.lit(False))
    may_be_op = F.col("topic").isin(*OP_TOPICS) | (is_unplaced & F.col("commit_log_offset").isNotNull())
    # A message whose op lies in what cannot be read has not lost it.
    without_op = current.read("verdict").where(F.col("verdict").isin(*UNDECIDED, COMMITTED_OP_LOST))
    of_bad_ops = bad.where(may_be_op).select("broker_name").distinct()
    keys = [transactions_of(without_op.join(F.broadcast(of_bad_ops), on="broker_name", how="left_semi"))]
    rivals = bad.where(F.col("reason") == KEY_CONFLICT)
    if rivals.isEmpty():
        return keys
    queues = rivals.selectExpr("broker_name", "topic as real_topic", "queue_id as real_queue_id").distinct()
    proved = current.read("verdict").where(F.col("verdict").isin(ROLLED_BACK, COMMITTED_OP_LOST))
    of_ops = rivals.where(F.col("topic").isin(*OP_TOPICS)).select("broker_name").distinct()
    of_halves = rivals.where(F.col("topic").isin(*HALF_TOPICS)).select("broker_name", "queue_offset")
    halves = near_offsets("queue_offset", of_halves, "queue_offset").rows(current, "half_message")
    return [
        *keys,
        transactions_of(proved.join(F.broadcast(queues), on=list(REAL_QUEUE), how="left_semi")),
        transactions_of(proved.join(F.broadcast(of_ops), on="broker_name", how="left_semi")),
        transactions_of(
            halves.join(current.sent_if_few(of_halves), on=["broker_name", "queue_offset"], how="left_semi")
        ),
    ]


def _evidence(current: Pass, touched: DataFrame, orphans: Orphans) -> Evidence:
    if current.is_first:  # everything is touched
        return whole_evidence(current, orphans.missing)
    return evidence_of(current, touched, orphans.missing)


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
