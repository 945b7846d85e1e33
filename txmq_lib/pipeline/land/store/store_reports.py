"""How far a landing has read a store's queues and its log: rows for landing_frontier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.land.store.known_logs import whole_log_topic
from txmq_lib.pipeline.land.store.store_plan import header_time_ms
from txmq_lib.pipeline.land.topics import is_landed_topic
from txmq_lib.rocketmq.store.consume_queue import QueueBounds
from txmq_lib.rules import frontier
from txmq_lib.rules.frontier import CHANGE_TYPE
from txmq_lib.rules.moments import EPOCH
from txmq_lib.rules.runs import QUEUE, RUN_FIELDS, no_runs, run
from txmq_lib.spark.local_frame import local_frame


def frontier_reports(
    current: Pass,
    reached: DataFrame,
    bounds: Mapping[tuple[str, int], QueueBounds],
    stretches: Sequence[tuple[int, int]],
) -> DataFrame:
    """Frontier reports of a store: what was read and is kept of each queue, and of the log.

    reached    of each queue that was read (frontier.reached)
    bounds     of each queue that the store has
    stretches  of the log that were read without a bad record, and of which nothing was left out unseen
    """
    arguments = current.arguments
    queues = _of_queues(arguments, reached, _queues_kept(current, bounds))
    if arguments["last"] is None:
        return queues
    row = _of_log(arguments, stretches)
    # A log of which other topics were taken is to be read from its first record on.
    unread = {"next_offset": arguments["lowest_offset"], "runs": []}
    rows = [row, *({**row, **unread, "topic": topic} for topic in arguments.get("former_logs", ()))]
    reports = queues.unionByName(local_frame(current.warehouse.spark, rows, queues.schema))
    if not arguments["is_rebuilt"]:
        return reports
    landed = current.read("landing_frontier").where(F.col("broker_name") == arguments["broker_name"])
    return frontier.of_another_life(landed, reports, now=current.now)


def _of_queues(arguments: Mapping[str, Any], reached: DataFrame, kept: DataFrame) -> DataFrame:
    lost_ms = arguments["lost_before_ms"]
    # Without consume queues nobody knows which queue lost something.
    has_lost = F.coalesce(F.col("lowest_kept_offset") > 0, F.lit(True))
    # That the queue ends there where the log does: an offset before it that has not landed is a hole in what was read.
    log_end = F.lit(arguments["to_offset"])
    end_of_queue = F.when(F.col("_end").isNotNull(), F.array(run(F.col("_end"), F.col("_end"), log_end, log_end)))
    return (
        reached.join(kept, on=list(QUEUE), how="full")
        .withColumns(
            {
                "next_offset": F.coalesce("next_offset", "_end"),
                "lost_before_timestamp": F.when(has_lost, F.timestamp_millis(F.lit(lost_ms).cast("bigint"))),
                "is_end_known": F.lit(True),
                "is_untold": F.lit(None).cast("boolean"),
                "changes": F.lit(None).cast(f"array<{CHANGE_TYPE}>"),
                "former_timestamp": F.lit(None).cast("timestamp"),
                "source_identity": F.lit(None).cast("string"),
                "runs": F.concat(F.coalesce("runs", no_runs()), F.coalesce(end_of_queue, no_runs())),
                "told_end": F.greatest("told_end", "_end"),
            }
        )
        .drop("_end")
    )


def _queues_kept(current: Pass, bounds: Mapping[tuple[str, int], QueueBounds]) -> DataFrame:
    """Where the queues that land begin and end (`_end`), as their consume queues say."""
    arguments = current.arguments
    return local_frame(
        current.warehouse.spark,
        [
            (arguments["broker_name"], topic, queue_id, bound.next_offset, bound.lowest_offset)
            for (topic, queue_id), bound in bounds.items()
            if is_landed_topic(topic, arguments["topics"])
        ],
        "broker_name string, topic string, queue_id int, _end bigint, lowest_kept_offset bigint",
    )


def _of_log(arguments: Mapping[str, Any], stretches: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """The row that says how far the log was read."""
    next_offset, (offset, store_ms, size) = arguments.get("read_before") or (arguments["to_offset"], arguments["last"])
    read_ms = header_time_ms(store_ms)
    return {
        "broker_name": arguments["broker_name"],
        "topic": whole_log_topic(arguments["topics"]),
        "queue_id": frontier.WHOLE_QUEUE_ID,
        "next_offset": next_offset,
        "highest_store_timestamp": None if read_ms is None else EPOCH + timedelta(milliseconds=read_ms),
        "lowest_kept_offset": arguments["lowest_offset"],
        "is_end_known": True,
        "source_identity": f"{offset}:{store_ms}:{size}",
        "runs": [dict(zip(RUN_FIELDS, each, strict=False)) for each in stretches],
    }
