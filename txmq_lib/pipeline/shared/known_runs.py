"""What has landed without a hole, of queues whose frontier rows a version without `runs` wrote: from what landed."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.passes.current import Pass
from txmq_lib.rules.frontier import WHOLE_QUEUE_ID
from txmq_lib.rules.half import op_topic, stored_queue_id
from txmq_lib.rules.runs import QUEUE, landed_runs, no_runs


def rows_without_runs(current: Pass) -> DataFrame | None:
    """Rows of landing_frontier that say nothing of runs, with those of what landed; None where there are none."""
    is_queue = F.col("queue_id") != WHOLE_QUEUE_ID
    old = current.read_once("landing_frontier").where(is_queue & F.col("runs").isNull())
    if old.isEmpty():
        return None
    ops = current.read("op_message").withColumns({"topic": op_topic(), "queue_id": stored_queue_id()})
    columns = (*QUEUE, "queue_offset", "commit_log_offset")
    rows = current.read("message").select(*columns).unionByName(ops.select(*columns))
    found = landed_runs(rows.join(F.broadcast(old.select(*QUEUE)), on=list(QUEUE), how="left_semi"))
    filled = old.drop("runs").join(found, on=list(QUEUE), how="left")
    return filled.withColumn("runs", F.coalesce("runs", no_runs())).select(*old.columns)


def frontier_with_runs(current: Pass) -> DataFrame:
    """landing_frontier as the plan saw it, where each row has its runs."""
    return with_found_runs(current, rows_without_runs(current))


def with_found_runs(current: Pass, old: DataFrame | None) -> DataFrame:
    """The same, where what `rows_without_runs` gives (`old`) is at hand."""
    frontier = current.read_once("landing_frontier")
    if old is None:
        return frontier
    return frontier.join(F.broadcast(old.select(*QUEUE)), on=list(QUEUE), how="left_anti").unionByName(old)
