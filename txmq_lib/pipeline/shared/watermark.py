"""How far each source has landed: the rows of landing_frontier, moved forward and never back."""

from __future__ import annotations

from pyspark.sql import DataFrame

from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.shared.known_runs import rows_without_runs, with_found_runs
from txmq_lib.rules import frontier
from txmq_lib.spark.local_frame import materialized

MOVES_ON = f"s.next_offset >= t.next_offset or s.queue_id = {frontier.WHOLE_QUEUE_ID}"


def move_frontier(current: Pass, reports: DataFrame) -> None:
    """Move landing_frontier by `reports`, one row per queue."""
    with current.timed("frontier"):
        old = rows_without_runs(current)
        if old is not None:
            old, count = materialized(old)
            current.upsert("landing_frontier", old, step="runs", only_if="t.runs is null", count=count)
        known = with_found_runs(current, old)
        # One row per queue: a MERGE would compute them three times.
        changed, count = materialized(frontier.advanced(known, reports, pass_number=current.number))
    # Another job may have moved the row since the plan was made: never back.
    current.upsert("landing_frontier", changed, step="frontier", only_if=MOVES_ON, count=count)
