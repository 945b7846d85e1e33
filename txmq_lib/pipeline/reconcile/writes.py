"""What a reconcile pass writes, each once, in an order such that the tables make sense after each write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.config.table_specs import table_spec
from txmq_lib.errors import InvariantViolation
from txmq_lib.names import COMMIT, END_KEY, HALF_TOPICS, OUTCOME_REFUSED
from txmq_lib.passes.current import Pass, PassReport
from txmq_lib.pipeline.reconcile.destinations import (
    GIVEN_UP_TABLE,
    MESSAGE_TABLE,
    Destinations,
    find_destinations,
)
from txmq_lib.pipeline.reconcile.in_arrow.op_files import op_files
from txmq_lib.pipeline.reconcile.tally import Decided, Tally, tallied
from txmq_lib.pipeline.shared.pruning import near_values
from txmq_lib.pipeline.shared.quarantining import append_quarantine
from txmq_lib.pipeline.shared.watermark import Frontier
from txmq_lib.rules import check, effects
from txmq_lib.rules.half import table_queue_id
from txmq_lib.rules.invariants import broken_invariants
from txmq_lib.rules.reach import Reach

COLUMNS_OF_THE_PASS = ("pass_number", "judged_timestamp")


def write(current: Pass, decided: Decided) -> PassReport:
    """Write outcomes, effects, checks and pending, then commit."""
    with ExitStack() as kept:
        return _written(current, decided, kept)


def _written(current: Pass, decided: Decided, kept: ExitStack) -> PassReport:
    tally = tallied(current, decided)
    destinations = None
    if tally.decisions or check.GIVE_UP in tally.actions:
        # An invariant that does not hold stops the pass here, before any effect is written.
        destinations = _destinations_or_withdrawn(current, decided, tally, kept)
    if tally.end_counts:
        judged = decided.outcomes.where("not is_held").drop("was_held")
        count = sum(row["rows"] for row in tally.end_counts if not row["is_held"])
        # Nothing where outcomes_ahead has written them.
        current.append("end_outcome", judged, step="end_outcome", count=count)
    _write_waiting_ends(current, decided.outcomes, tally.end_counts)
    _quarantine_refused(current, decided.outcomes, tally.end_counts)
    if destinations is not None:
        _write_effects(current, decided, destinations, tally)
    _write_pending(current, decided, tally.actions)
    checkpoints, due_ms = _checkpoints(current, current.as_stored("pending_half", decided.pending))
    dues = [due_ms, *[row["refused_after_ms"] for row in tally.end_counts if row["is_held"]]]
    next_due_ms = min((due for due in dues if due is not None), default=None)
    return current.commit(checkpoints=checkpoints, next_due_ms=next_due_ms)


def _write_pending(current: Pass, decided: Decided, actions: Mapping[str, int]) -> None:
    """Write the checks that are raised, and what is pending where that is not what was."""
    if check.ASK in actions:
        requests = check.check_requests(decided.undecided, now=current.now, pass_number=current.number)
        current.append("check_request", requests, step="check_request", count=actions[check.ASK])
    count = sum(rows for action, rows in actions.items() if action != check.GIVE_UP)
    # Whoever was asked has one check more: there is nothing to compare then.
    if check.ASK in actions or _is_to_be_written(current, decided.pending, count):
        current.overwrite("pending_half", decided.pending, step="pending_half", count=count)


def _is_to_be_written(current: Pass, pending: DataFrame, count: int) -> bool:
    """Whether the `count` rows of pending_half are others than they were: what did not change is not written again."""
    before = current.row_count("pending_half")
    if before is not None and (before != count or not count):
        return before != count
    return _differ(pending, current.read("pending_half"))


def _differ(pending: DataFrame, before: DataFrame) -> bool:
    hashed = F.xxhash64(*table_spec("pending_half").columns).cast("decimal(38,0)")
    now, then = [
        rows.select(F.lit(sign).alias("rows"), (sign * hashed).alias("hash"))
        for sign, rows in ((1, pending), (-1, before))
    ]
    # Where they are the same, rows and hashes sum up to nothing.
    return any(now.unionByName(then).agg(F.sum("rows"), F.sum("hash")).collect()[0])


def _write_waiting_ends(current: Pass, outcomes: DataFrame, end_counts: Sequence[Mapping[str, Any]]) -> None:
    if any(row["is_held"] != row["was_held"] for row in end_counts):
        # Those that waited before keep the row that first held them.
        before = current.read_part("end_outcome", "is_held", value=True)
        still = before.join(outcomes.where("is_held and was_held").select(*END_KEY), on=list(END_KEY), how="left_semi")
        held = still.unionByName(outcomes.where("is_held and not was_held").drop("was_held"))
        current.overwrite("end_outcome", held, step="end_held", where="is_held = true")


def _quarantine_refused(current: Pass, outcomes: DataFrame, end_counts: Sequence[Mapping[str, Any]]) -> None:
    if all(row["outcome"] != OUTCOME_REFUSED for row in end_counts):
        return
    refused = outcomes.where(F.col("outcome") == OUTCOME_REFUSED)
    end_key = [F.col(name).cast("string") for name in END_KEY[1:]]
    columns = [name for name in table_spec("end_outcome").columns if name not in COLUMNS_OF_THE_PASS]
    named = refused.select(
        "broker_name",
        F.col("reason"),
        F.concat(F.lit("code "), F.col("code"), F.lit(": "), F.col("remark")).alias("detail"),
        F.to_json(F.struct(*columns)).alias("raw"),
        F.concat_ws(":", F.lit("end_transaction"), *end_key).alias("source"),
    )
    append_quarantine(current, named, broker_name=None, kind="end")


def _destinations_or_withdrawn(current: Pass, decided: Decided, tally: Tally, kept: ExitStack) -> Destinations:
    """Where messages go, once the invariants hold.

    InvariantViolation where one does not: then the outcomes written ahead are deleted, and the plan is abandoned.
    """
    try:
        destinations = find_destinations(current, decided, tally, kept)
        with current.timed("invariants"):
            broken = broken_invariants(
                decided.deciding,
                destinations.messages,
                decided.pending,
                are_messages_made=destinations.message_files is not None,
            )
            found = [
                f"{row['invariant']} ({row['broker_name']}: {row['example']})" for row in broken.limit(10).collect()
            ]
        if found:
            raise InvariantViolation("; ".join(found))
    except InvariantViolation as violation:
        # Many outcomes are in their table already.
        current.withdraw("end_outcome", F.col("pass_number") == current.number, of_step="end_outcome")
        what = f"reconcile pass {current.number}: {violation.message}; the pass is not committed"
        raise InvariantViolation(what) from None
    return destinations


def _write_effects(current: Pass, decided: Decided, destinations: Destinations, tally: Tally) -> None:
    """Write the messages that become visible, those given up, an op for each, and how far their queues reach now."""
    now, number = current.now, current.number
    rolls_back, given_up_count = current.settings.roll_back_given_up, tally.actions.get(check.GIVE_UP, 0)
    if destinations.message_files is not None:
        current.append_files(MESSAGE_TABLE, destinations.message_files, step=MESSAGE_TABLE)
    else:
        near = near_values("commit_log_offset", destinations.messages, "commit_log_offset")
        halves = near.rows(current, "half_message", whole_if_new=True)
        restored = effects.restored_messages(destinations.messages, halves, now=now, pass_number=number)
        _append_of_halves(current, MESSAGE_TABLE, restored, tally.decisions[COMMIT])
    if destinations.given_up_files is not None:
        current.append_files(GIVEN_UP_TABLE, destinations.given_up_files, step=GIVEN_UP_TABLE)
    else:
        halves = near_values("commit_log_offset", destinations.given_up, "half_commit_log_offset").rows(
            current, "half_message"
        )
        given_up = effects.given_up_messages(
            destinations.given_up, halves, now=now, pass_number=number, rolls_back=rolls_back
        )
        _append_of_halves(current, GIVEN_UP_TABLE, given_up, given_up_count)
    _write_ops(current, decided, destinations.queue_ends, tally)
    _move_frontier(current, tally)


def _append_of_halves(current: Pass, table: str, rows: DataFrame, count: int) -> None:
    """Append `rows`, one for each of `count` destinations.

    InvariantViolation, for whoever carries the pass on too, where one has no half, or several: no op is written then.
    """
    written = current.append(table, rows, step=table, count=count)
    current.require_count(count, written, table, table)


def _write_ops(current: Pass, decided: Decided, queue_ends: DataFrame, tally: Tally) -> None:
    rolls_back, given_up_count = current.settings.roll_back_given_up, tally.actions.get(check.GIVE_UP, 0)
    named = decided.deciding.select("broker_name", F.col("half_queue_id").alias("queue_id"), "half_queue_offset")
    if rolls_back:
        named = named.unionByName(
            decided.giving_up.select("broker_name", "queue_id", F.col("queue_offset").alias("half_queue_offset"))
        )
    if (files := op_files(current, named, queue_ends)) is not None:
        current.append_files("op_message", files, step="op_message")
        return
    count = tally.decisions.total() + (given_up_count if rolls_back else 0)
    ops = effects.op_rows(named, queue_ends, now=current.now, pass_number=current.number, count=count)
    current.append("op_message", ops, step="op_message", count=count)


def _move_frontier(current: Pass, tally: Tally) -> None:
    """Move the end of each queue that got rows by as many as it got: they are numbered densely from there."""
    frontier = Frontier(current)
    known = {row.key: row.next_offset for row in frontier.rows(lambda key: key in tally.rows_per_queue)}
    ends = {queue: known.get(queue, 0) + rows for queue, rows in tally.rows_per_queue.items()}
    # Only landing knows up to which store time the source has been read.
    frontier.move([Reach(*queue, next_offset=end, told_end=end) for queue, end in ends.items()])


def _checkpoints(current: Pass, pending: DataFrame) -> tuple[dict[str, int], int | None]:
    """Per broker/half queue the smallest open half offset, else the highest landed + 1; when the next check is due."""
    with current.timed("checkpoint"):
        frontier_rows = current.read_once("landing_frontier").where(F.col("topic").isin(*HALF_TOPICS))
        landed = frontier_rows.withColumn("queue_id", table_queue_id()).collect()
        queues = (
            pending.groupBy("broker_name", "queue_id")
            .agg(
                F.min(F.array_min("half_offsets")).alias("low"),
                F.min(F.unix_millis("next_check_timestamp")).alias("due_ms"),
            )
            .collect()
        )
    marks = {f"{row['broker_name']}/{row['queue_id']}": row["next_offset"] for row in landed}
    lowest = {f"{row['broker_name']}/{row['queue_id']}": row["low"] for row in queues}
    # Where halves are open, the first of them stands for the end of its queue.
    return marks | lowest, min((row["due_ms"] for row in queues if row["due_ms"] is not None), default=None)
