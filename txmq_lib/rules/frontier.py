"""How far each queue has been landed (table landing_frontier), in frames; reach.py moves its rows. Pure."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txmq_lib.rules.runs import QUEUE, landed_runs, no_runs

# Rows about no single queue: a whole commit log, or all queues of a topic.
WHOLE_LOG_TOPIC, WHOLE_QUEUE_ID = "*", -1
# All queues of a live broker, which shows no commit log: the store time up to which all of them were read.
ALL_QUEUES_TOPIC = "**"


# When a queue may have begun anew, its topic deleted or its broker made anew: behind which physical offset it was not
# read any more, and before which it had begun. What it held in between nobody has read.
CHANGE_TYPE = "struct<behind:bigint,before:bigint>"


def reached(rows: DataFrame) -> DataFrame:
    """Per queue of `rows`: the offset after its highest, its highest store time, its runs, and the ends that were told.

    rows  QUEUE, queue_offset, store_timestamp, commit_log_offset and told_end: the end of the queue that a reading
          client told with the row (null: none did)
    """
    highest = F.max("queue_offset")
    end = F.coalesce(F.try_add(highest, F.lit(1)), highest)
    is_last = F.col("told_end") == F.col("queue_offset") + 1
    queues = rows.groupBy(*QUEUE).agg(
        end.alias("next_offset"),
        F.max("store_timestamp").alias("highest_store_timestamp"),
        F.greatest(F.max("told_end"), end).alias("told_end"),
        F.max(F.when(is_last, F.col("told_end"))).alias("file_end"),
        F.min("told_end").alias("first_told_end"),
    )
    joined = queues.join(landed_runs(rows), on=list(QUEUE), how="left")
    return joined.withColumn("runs", F.coalesce("runs", no_runs()))


def read_to() -> Column:
    """Of a row about all queues of a broker, or of a topic: up to which physical offset they were read to the end."""
    return F.array_max("runs.read_to")


def as_frontier(reached: DataFrame) -> DataFrame:
    """`reached` as rows of landing_frontier of a source that does not know where it ends, without pass_number."""
    return reached.withColumns(
        {
            "lowest_kept_offset": F.lit(None).cast("bigint"),
            "lost_before_timestamp": F.lit(None).cast("timestamp"),
            "is_end_known": F.lit(False),
            "source_identity": F.lit(None).cast("string"),
            "is_untold": F.lit(None).cast("boolean"),
            "changes": F.lit(None).cast(f"array<{CHANGE_TYPE}>"),
            "former_timestamp": F.lit(None).cast("timestamp"),
        }
    )
