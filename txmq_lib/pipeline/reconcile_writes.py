"""What a reconcile pass writes, each once, in an order in which a reader may stop anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import NamedTuple

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from txmq_lib.errors import InvariantViolation
from txmq_lib.names import COMMIT, END_KEY, HALF_TOPIC, MAX_TIME_TOPIC, OP_TOPIC, OUTCOME_REFUSED
from txmq_lib.pipeline.landing_messages import move_frontier
from txmq_lib.pipeline.pruning import near_offsets
from txmq_lib.pipeline.quarantining import append_quarantine
from txmq_lib.rules import check, effects, frontier
from txmq_lib.rules.invariants import broken_invariants
from txmq_lib.rules.policy import Policies
from txmq_lib.schemas import table_spec
from txmq_lib.tables.passes import Pass

OF_THE_PASS = ("was_held", "pass_number", "judged_timestamp")


class Placed(NamedTuple):
    """Where restored and given-up messages go, from the ends of their queues (rows of landing_frontier)."""

    places: DataFrame
    routed: DataFrame
    ends: DataFrame


def write(
    current: Pass,
    outcomes: DataFrame,
    acted: DataFrame,
    effective: DataFrame,
    policies: Policies,
) -> tuple[dict[str, int], int | None]:
    """Write outcomes, effects, checks and pending; the checkpoint per (broker, half queue), and when more is due.

    That is the epoch millisecond from which on time alone changes something, or None.
    """
    with current.timed("tally"):
        actions = {row["action"]: row["count"] for row in acted.groupBy("action").count().collect()}
        decisions = {row["decision"]: row["count"] for row in effective.groupBy("decision").count().collect()}
        refused_after = F.unix_millis("ts") + policies.column("file_reserved_time_ms") + 1
        tally = (
            outcomes.groupBy("outcome", "is_held", "was_held")
            .agg(F.count("*").alias("rows"), F.min(refused_after).alias("refused_after_ms"))
            .collect()
        )
    for row in tally:
        name = f"ends_{row['outcome']}"
        current.counts[name] = current.counts.get(name, 0) + row["rows"]
    still = acted.where(F.col("action") != check.GIVE_UP)
    pending = current.cached(check.asked(still, policies=policies, now=current.now))
    giving_up = acted.where(F.col("action") == check.GIVE_UP)
    placed = None
    if decisions or check.GIVE_UP in actions:
        # Before the first write: a pass that must not be is given up whole.
        placed = _placed(current, effective, giving_up, pending)
    if tally:
        _write_outcomes(current, outcomes, tally)
    if placed is not None:
        _write_effects(
            current,
            effective,
            giving_up,
            placed,
            decisions=decisions,
            given_up_count=actions.get(check.GIVE_UP, 0),
        )
    if check.ASK in actions:
        requests = check.check_requests(acted, now=current.now, pass_number=current.number)
        current.append("check_request", requests, step="check_request", count=actions[check.ASK])
    digest = _digest(pending)
    if digest != _digest(current.read("pending_half")):
        current.overwrite("pending_half", pending, step="pending_half", count=digest[0])
    checkpoints, due_ms = _checkpoints(current, pending)
    dues = [due_ms, *[row["refused_after_ms"] for row in tally if row["is_held"]]]
    return checkpoints, min((due for due in dues if due is not None), default=None)


def _digest(pending: DataFrame) -> tuple[int, int]:
    """Equal for equal rows: what did not change is not written again."""
    columns = [F.col(name) for name in table_spec("pending_half").columns]
    hashed = pending.select(F.xxhash64(*columns).cast("decimal(38,0)").alias("h"))
    row = hashed.agg(F.count("*").alias("rows"), F.coalesce(F.sum("h"), F.lit(0)).alias("sum")).collect()[0]
    return int(row["rows"]), int(row["sum"])


def _write_outcomes(current: Pass, outcomes: DataFrame, tally: list[Row]) -> None:
    judged = outcomes.where("not is_held").drop("was_held")
    count = sum(row["rows"] for row in tally if not row["is_held"])
    current.append("end_outcome", judged, step="end_outcome", count=count)
    if any(row["is_held"] != row["was_held"] for row in tally):
        # Those that waited before keep the row that first held them.
        before = current.read("end_outcome").where("is_held")
        still = before.join(outcomes.where("is_held and was_held").select(*END_KEY), on=list(END_KEY), how="left_semi")
        held = still.unionByName(outcomes.where("is_held and not was_held").drop("was_held"))
        current.overwrite("end_outcome", held, step="end_held", where="is_held = true")
    if all(row["outcome"] != OUTCOME_REFUSED for row in tally):
        return
    refused = outcomes.where(F.col("outcome") == OUTCOME_REFUSED)
    place = [F.col(name).cast("string") for name in END_KEY[1:]]
    named = refused.select(
        "broker_name",
        F.col("reason"),
        F.concat(F.lit("code "), F.col("code"), F.lit(": "), F.col("remark")).alias("detail"),
        F.to_json(F.struct(*[name for name in outcomes.columns if name not in OF_THE_PASS])).alias("raw"),
        F.concat_ws(":", F.lit("end_transaction"), *place).alias("source"),
    )
    append_quarantine(current, named, broker_name=None, kind="end")


def _placed(current: Pass, effective: DataFrame, giving_up: DataFrame, pending: DataFrame) -> Placed:
    ends = current.read("landing_frontier")
    places = current.cached(effects.restored_places(effective, ends))
    routed = current.cached(effects.given_up_places(giving_up, ends))
    with current.timed("invariants"):
        broken = broken_invariants(effective, places, pending).limit(10).collect()
    if broken:
        listed = "; ".join(f"{row['invariant']} ({row['broker_name']}: {row['example']})" for row in broken)
        raise InvariantViolation(f"reconcile pass {current.number}: {listed}; the pass is not committed")
    return Placed(places, routed, ends)


def _write_effects(
    current: Pass,
    effective: DataFrame,
    giving_up: DataFrame,
    placed: Placed,
    *,
    decisions: Mapping[str, int],
    given_up_count: int,
) -> None:
    rolls_back = current.settings.roll_back_given_up
    places, routed, ends = placed
    restored_halves = near_offsets("commit_log_offset", places, "commit_log_offset").rows(current, "half_message")
    restored = effects.restored_messages(places, restored_halves, now=current.now, pass_number=current.number)
    current.append("message", restored, step="message", count=decisions.get(COMMIT, 0))
    given_up_halves = near_offsets("commit_log_offset", routed, "half_commit_log_offset").rows(current, "half_message")
    given_up = effects.given_up_messages(
        routed, given_up_halves, now=current.now, pass_number=current.number, rolls_back=rolls_back
    )
    current.append("trans_check_max_time", given_up, step="trans_check_max_time", count=given_up_count)
    named = effective.select("broker_name", F.col("half_queue_id").alias("queue_id"), "half_queue_offset")
    if rolls_back:
        named = named.unionByName(
            giving_up.select("broker_name", "queue_id", F.col("queue_offset").alias("half_queue_offset"))
        )
    ops = effects.op_rows(named, ends, now=current.now, pass_number=current.number)
    count = sum(decisions.values()) + (given_up_count if rolls_back else 0)
    current.append("op_message", ops, step="op_message", count=count)
    _move_frontier(current, places, ops, routed)


def _move_frontier(current: Pass, places: DataFrame, ops: DataFrame, routed: DataFrame) -> None:
    columns = ("broker_name", "topic", "queue_id", "queue_offset")
    written = [
        places.select(*columns),
        ops.withColumn("topic", F.lit(OP_TOPIC)).select(*columns),
        routed.withColumn("topic", F.lit(MAX_TIME_TOPIC)).select(*columns),
    ]
    rows = reduce(DataFrame.unionByName, written).withColumn("store_timestamp", F.lit(current.now))
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
