"""Whether an op of an undecided transaction would have been seen: what `nobody decided it` rests on. Pure.

An op lies behind the half that it names (R23), and may name any copy of it. So nobody decided it, as far as was read,
where ops and halves have landed without a hole from the half on, to behind the newest row of the transaction.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import HALF_TOPICS, OP_TOPICS
from txmq_lib.rules.bad_places import may_be_bad_op
from txmq_lib.rules.frontier import CHANGE_TYPE, WHOLE_QUEUE_ID
from txmq_lib.rules.half import table_queue_id
from txmq_lib.rules.runs import holes_between, no_runs, without_misread

KEY = ("broker_name", "half_queue_id")


def transaction_queues(frontier: DataFrame) -> DataFrame:
    """Of each queue of halves what its frontier row and that of its ops say.

    Columns  KEY, _ops and _halves, null where nothing of them has landed: runs, holes, is_cut (more was told than
             landed), is_told (files tell its end, which has landed), is_end_told (files tell an end), read_at (the
             newest store time that landed)
    """
    of_pairs = frontier.where((F.col("queue_id") != WHOLE_QUEUE_ID) & F.col("topic").isin(*HALF_TOPICS, *OP_TOPICS))
    runs = F.coalesce("runs", no_runs())
    last = F.get(runs, F.size(runs) - 1)
    is_told = (F.col("file_end") == last["end_offset"]) & F.col("first_told_end").isNotNull()
    queue = F.struct(
        without_misread(runs).alias("runs"),
        holes_between(runs).alias("holes"),
        _is(F.col("told_end") > last["end_offset"]).alias("is_cut"),
        _is(is_told).alias("is_told"),
        F.coalesce("changes", F.array().cast(f"array<{CHANGE_TYPE}>")).alias("changes"),
        F.col("first_told_end").isNotNull().alias("is_end_told"),
        F.col("highest_store_timestamp").alias("read_at"),
    )
    is_op = F.col("topic").isin(*OP_TOPICS)
    placed = of_pairs.withColumns({"half_queue_id": table_queue_id(), "_queue": queue, "_is_op": is_op})
    return placed.groupBy(*KEY).agg(
        F.first(F.when(F.col("_is_op"), F.col("_queue")), ignorenulls=True).alias("_ops"),
        F.first(F.when(~F.col("_is_op"), F.col("_queue")), ignorenulls=True).alias("_halves"),
    )


def is_read() -> Column:
    """Whether an op of the transaction would have been seen. Looks at what rules.proof puts beside its figures."""
    is_whole = ~_is_torn("_ops") & ~_is_torn("_halves")
    return (F.col("half_count") > 0) & is_whole & ~may_be_bad_op(_last_place()) & (_is_past() | _is_in_log())


def ops_read_at() -> Column:
    """Up to which store time an op of the transaction would have been seen, where `is_read`; null where nobody knows.

    What a broker does later than its half, it may have been kept from by an op that was stored until then.
    """
    of_logs = F.transform(_logs_that_hold_it(), lambda log: log["highest_store_timestamp"])
    of_files = F.when(_is_at_end(), F.col("_told_at"))
    return F.greatest(F.col("_ops.read_at"), F.col("_all_read_at"), F.array_max(of_logs), of_files)


def is_torn(frontier: DataFrame) -> DataFrame:
    """broker_name, _is_torn: whether more that lands of a broker may show that ops were not seen which seemed to be.

    What is missing before all that landed shows at once; elsewhere a hole grows as more lands behind it.
    """
    queues = transaction_queues(frontier).select("broker_name", *_has_grown("_ops"), *_has_grown("_halves"))
    of_queues = queues.groupBy("broker_name").agg(
        F.max(F.col("_ops_grown") | F.col("_halves_grown")).alias("_is_queue_torn"),
        F.max(~F.col("_ops_there")).alias("_lacks_ops"),
    )
    logs = frontier.where((F.col("queue_id") == WHOLE_QUEUE_ID) & (F.size("runs") > 1))
    of_logs = logs.select("broker_name", F.lit(True).alias("_is_log_torn")).distinct()  # logs of several sets of topics
    # What files told of one reading is refuted by a second one.
    brokers = frontier.groupBy("broker_name").agg(F.max(F.col("first_told_end").isNotNull()).alias("_is_end_told"))
    joined = brokers.join(of_queues, on="broker_name", how="left").join(of_logs, on="broker_name", how="left")
    is_any_torn = F.col("_is_end_told") | _is(F.col("_is_queue_torn")) | _is(F.col("_is_log_torn"))
    return joined.select("broker_name", (is_any_torn | F.coalesce("_lacks_ops", F.lit(True))).alias("_is_torn"))


def _is_torn(queue: str) -> Column:
    """Whether rows of a queue are missing behind the half."""
    is_behind = F.exists(f"{queue}.holes", lambda hole: F.coalesce(hole["before"] > F.col("_low"), F.lit(True)))
    is_lost = F.exists(f"{queue}.changes", lambda change: F.coalesce(change["before"] > F.col("_low"), F.lit(True)))
    return _is(is_behind) | _is(is_lost) | _is(F.col(f"{queue}.is_cut"))


def _is_past() -> Column:
    """Whether ops were read to behind the newest row of the transaction, or to where they end."""
    newest = F.col("newest_place")
    read_to = F.greatest(F.array_max("_ops.runs.read_to"), F.col("_all_read_to"))
    return _is(_last_place() > newest) | _is(read_to >= newest) | _is_at_end()


def _is_at_end() -> Column:
    """Whether all ops were read that there were when files told where they end."""
    return _is(F.col("_ops.is_told") & F.col("_is_one_reading"))


def _is_in_log() -> Column:
    """Whether the newest stretch of a log holds all from the half to behind the newest row: ops are always taken."""
    return _is(F.size(_logs_that_hold_it()) > 0)


def _logs_that_hold_it() -> Column:
    def holds(log: Column) -> Column:
        last = F.get(log["runs"], F.size(log["runs"]) - 1)
        is_from_half = last["first_offset"] <= F.greatest(F.col("_low"), F.lit(0))
        return is_from_half & (last["end_offset"] > F.col("newest_place"))

    return F.filter("_logs", holds)


def _last_place() -> Column:
    """Behind which physical offset no op has landed; -1 where none has."""
    return F.coalesce(F.array_max("_ops.runs.last_commit_log_offset"), F.lit(-1))


def _has_grown(queue: str) -> tuple[Column, Column]:
    """Whether a queue has a hole that lies behind something, or is cut; and whether anything of it has landed."""
    has_hole = _is(F.exists(f"{queue}.holes", lambda hole: _is(hole["behind"] >= 0)))
    grown = has_hole | _is(F.col(f"{queue}.is_cut")) | _is(F.size(f"{queue}.changes") > 0)
    return grown.alias(f"{queue}_grown"), F.col(queue).isNotNull().alias(f"{queue}_there")


def _is(condition: Column) -> Column:
    return F.coalesce(condition, F.lit(False))
