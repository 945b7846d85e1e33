"""What a reconcile pass writes, each once, in an order in which a reader may stop anywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from txmq_lib.config.table_specs import table_spec
from txmq_lib.errors import InvariantViolation
from txmq_lib.names import COMMIT, END_KEY, HALF_TOPIC, MAX_TIME_TOPIC, OP_TOPIC, OUTCOME_REFUSED
from txmq_lib.passes.current import Pass, PassReport
from txmq_lib.passes.frames import BLOCKS
from txmq_lib.pipeline.land.messages import move_frontier
from txmq_lib.pipeline.shared.pruning import near_offsets
from txmq_lib.pipeline.shared.quarantining import append_quarantine
from txmq_lib.rules import check, effects, frontier, settle
from txmq_lib.rules.invariants import broken_invariants
from txmq_lib.rules.policy import Policies

# A broker writes no message of 32 bytes; offsets that somebody else made up may lie side by side, and each place is
# searched for from the start of its block.
MOST_IN_BLOCK = 1_024
OF_THE_PASS = ("was_held", "pass_number", "judged_timestamp")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a pass has decided.

    outcomes   rows of end_outcome, with `was_held`
    effective  those of them that decide a transaction
    undecided  transactions that stay so or are given up, with `action` and `reason`
    pending    rows of pending_half from now on
    giving_up  those of `undecided` that are given up
    """

    policies: Policies
    outcomes: DataFrame
    effective: DataFrame
    undecided: DataFrame
    pending: DataFrame
    giving_up: DataFrame


class Placed(NamedTuple):
    """Where restored and given-up messages go, from the ends of their queues (rows of landing_frontier).

    blocks  the places of restored messages by stretches of the commit log, where they are many
    """

    places: DataFrame
    blocks: DataFrame | None
    routed: DataFrame
    ends: DataFrame


class Tally(NamedTuple):
    """How many there are of each: ends, those of them that decide by decision, undecided transactions by action."""

    ends: list[Row]
    decisions: Counter[str]
    actions: dict[str, int]


def write(current: Pass, outcome: Outcome) -> PassReport:
    """Write outcomes, effects, checks and pending, then commit."""
    tally = _tally(current, outcome)
    placed = None
    if tally.decisions or check.GIVE_UP in tally.actions:
        # Before the first write: a pass that must not be is given up whole.
        placed = _placed(current, outcome, commits=tally.decisions[COMMIT])
    if tally.ends:
        judged = outcome.outcomes.where("not is_held").drop("was_held")
        count = sum(row["rows"] for row in tally.ends if not row["is_held"])
        current.append("end_outcome", judged, step="end_outcome", count=count)
    _write_held(current, outcome.outcomes, tally.ends)
    _quarantine_refused(current, outcome.outcomes, tally.ends)
    if placed is not None:
        _write_effects(current, outcome, placed, tally)
    _write_pending(current, outcome, tally.actions)
    checkpoints, due_ms = _checkpoints(current, current.as_stored("pending_half", outcome.pending))
    dues = [due_ms, *[row["refused_after_ms"] for row in tally.ends if row["is_held"]]]
    next_due_ms = min((due for due in dues if due is not None), default=None)
    return current.commit(checkpoints=checkpoints, next_due_ms=next_due_ms)


def _tally(current: Pass, outcome: Outcome) -> Tally:
    policies = outcome.policies
    with current.timed("tally"):
        actions = {row["action"]: row["count"] for row in outcome.undecided.groupBy("action").count().collect()}
        refused_after = F.unix_millis("ts") + policies.column("file_reserved_time_ms") + 1
        kinds = ("outcome", "is_held", "was_held", "decision")
        ends = (
            outcome.outcomes.groupBy(*kinds, settle.decides(policies).alias("decides"))
            .agg(F.count("*").alias("rows"), F.min(refused_after).alias("refused_after_ms"))
            .collect()
        )
    decisions: Counter[str] = Counter()
    for row in ends:
        if row["decides"]:
            decisions[row["decision"]] += row["rows"]
        name = f"ends_{row['outcome']}"
        current.counts[name] = current.counts.get(name, 0) + row["rows"]
    return Tally(ends, decisions, actions)


def _write_pending(current: Pass, outcome: Outcome, actions: Mapping[str, int]) -> None:
    """Write the checks that are raised, and what is pending where that is not what was."""
    if check.ASK in actions:
        requests = check.check_requests(outcome.undecided, now=current.now, pass_number=current.number)
        current.append("check_request", requests, step="check_request", count=actions[check.ASK])
    # Whoever was asked has one check more: there is nothing to compare then.
    if check.ASK in actions or _digest(outcome.pending) != _digest(current.read("pending_half")):
        count = sum(rows for action, rows in actions.items() if action != check.GIVE_UP)
        current.overwrite("pending_half", outcome.pending, step="pending_half", count=count)


def _digest(pending: DataFrame) -> tuple[int, int]:
    """Equal for equal rows: what did not change is not written again."""
    columns = [F.col(name) for name in table_spec("pending_half").columns]
    hashed = pending.select(F.xxhash64(*columns).cast("decimal(38,0)").alias("h"))
    row = hashed.agg(F.count("*").alias("rows"), F.coalesce(F.sum("h"), F.lit(0)).alias("sum")).collect()[0]
    return int(row["rows"]), int(row["sum"])


def _write_held(current: Pass, outcomes: DataFrame, tally: list[Row]) -> None:
    if any(row["is_held"] != row["was_held"] for row in tally):
        # Those that waited before keep the row that first held them.
        before = current.read("end_outcome").where("is_held")
        still = before.join(outcomes.where("is_held and was_held").select(*END_KEY), on=list(END_KEY), how="left_semi")
        held = still.unionByName(outcomes.where("is_held and not was_held").drop("was_held"))
        current.overwrite("end_outcome", held, step="end_held", where="is_held = true")


def _quarantine_refused(current: Pass, outcomes: DataFrame, tally: list[Row]) -> None:
    if all(row["outcome"] != OUTCOME_REFUSED for row in tally):
        return
    refused = outcomes.where(F.col("outcome") == OUTCOME_REFUSED)
    place = [F.col(name).cast("string") for name in END_KEY[1:]]
    columns = [name for name in table_spec("end_outcome").columns if name not in OF_THE_PASS]
    named = refused.select(
        "broker_name",
        F.col("reason"),
        F.concat(F.lit("code "), F.col("code"), F.lit(": "), F.col("remark")).alias("detail"),
        F.to_json(F.struct(*columns)).alias("raw"),
        F.concat_ws(":", F.lit("end_transaction"), *place).alias("source"),
    )
    append_quarantine(current, named, broker_name=None, kind="end")


def _placed(current: Pass, outcome: Outcome, *, commits: int) -> Placed:
    ends = current.read("landing_frontier")
    places = current.cached(effects.restored_places(outcome.effective, ends))
    routed = current.cached(effects.given_up_places(outcome.giving_up, ends))
    with current.timed("invariants"):
        # Three numbers per message are sent to every task, or else bodies are shuffled.
        blocks = current.broadcastable(effects.places_by_block(places), most=BLOCKS, offsets=commits)
        if blocks is not None and not blocks.where(F.size("commit_log_offsets") > MOST_IN_BLOCK).isEmpty():
            blocks = None
        broken = broken_invariants(outcome.effective, places, outcome.pending, blocks).limit(10).collect()
    if broken:
        current.withdraw("end_outcome", F.col("pass_number") == current.number, of_step="end_outcome")
        listed = "; ".join(f"{row['invariant']} ({row['broker_name']}: {row['example']})" for row in broken)
        raise InvariantViolation(f"reconcile pass {current.number}: {listed}; the pass is not committed")
    return Placed(places, blocks, routed, ends)


def _write_effects(current: Pass, outcome: Outcome, placed: Placed, tally: Tally) -> None:
    """Write the messages that become visible, those given up, an op for each, and how far their queues reach now."""
    now, number = current.now, current.number
    rolls_back, given_up_count = current.settings.roll_back_given_up, tally.actions.get(check.GIVE_UP, 0)
    places, blocks, routed, ends = placed
    near = near_offsets("commit_log_offset", places, "commit_log_offset")
    halves = near.rows(current, "half_message", whole_if_new=True)
    if blocks is None:
        restored = effects.restored_messages(places, halves, now=now, pass_number=number)
    else:
        restored = effects.restored_messages_by_block(blocks, halves, now=now, pass_number=number)
    current.append("message", restored, step="message", count=tally.decisions[COMMIT])
    halves = near_offsets("commit_log_offset", routed, "half_commit_log_offset").rows(current, "half_message")
    given_up = effects.given_up_messages(routed, halves, now=now, pass_number=number, rolls_back=rolls_back)
    current.append("trans_check_max_time", given_up, step="trans_check_max_time", count=given_up_count)
    decided = outcome.effective.select("broker_name", F.col("half_queue_id").alias("queue_id"), "half_queue_offset")
    if rolls_back:
        decided = decided.unionByName(
            outcome.giving_up.select("broker_name", "queue_id", F.col("queue_offset").alias("half_queue_offset"))
        )
    count = tally.decisions.total() + (given_up_count if rolls_back else 0)
    ops = effects.op_rows(decided, ends, now=now, pass_number=number, count=count)
    current.append("op_message", ops, step="op_message", count=count)
    _move_frontier(current, places, current.as_stored("op_message", ops, step="op_message"), routed)


def _move_frontier(current: Pass, places: DataFrame, ops: DataFrame, routed: DataFrame) -> None:
    columns = ("broker_name", "topic", "queue_id", "queue_offset")
    written = [
        places.select(*columns),
        ops.withColumn("topic", F.lit(OP_TOPIC)).select(*columns),
        routed.withColumn("topic", F.lit(MAX_TIME_TOPIC)).select(*columns),
    ]
    # Only landing knows up to which store time the source has been read.
    rows = reduce(DataFrame.unionByName, written).withColumn("store_timestamp", F.lit(None).cast("timestamp"))
    move_frontier(current, frontier.file_reports(rows))


def _checkpoints(current: Pass, pending: DataFrame) -> tuple[dict[str, int], int | None]:
    """Per broker/half queue the smallest open half offset, else the highest landed + 1; when the next check is due."""
    with current.timed("checkpoint"):
        landed = current.read("landing_frontier").where(F.col("topic") == HALF_TOPIC).collect()
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
    return marks | lowest, min((row["due_ms"] for row in queues if row["due_ms"] is not None), default=None)
