"""How far each queue has been landed (table landing_frontier). Pure."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

QUEUE = ("broker_name", "topic", "queue_id")
# Rows about no single queue: a whole commit log, or all queues of a topic.
WHOLE_LOG_TOPIC, WHOLE_QUEUE_ID = "*", -1
# All queues of a live broker, which shows no commit log: the store time up to which all of them were read.
ALL_QUEUES_TOPIC = "**"


def reached(rows: DataFrame) -> DataFrame:
    """Per queue of `rows`: the offset after its highest, and its highest store time."""
    highest = F.max("queue_offset")
    return rows.groupBy(*QUEUE).agg(
        F.coalesce(F.try_add(highest, F.lit(1)), highest).alias("next_offset"),
        F.max("store_timestamp").alias("highest_store_timestamp"),
    )


def advanced(known: DataFrame, reports: DataFrame, *, pass_number: int) -> DataFrame:
    """Rows of `landing_frontier` that change when `reports` (same columns, one row per queue) come in.

    next_offset and store time only move forward; what the source says of itself is taken as reported. So is where a
    whole log ends: another log may stand in its place.
    """
    before = known.select(*QUEUE, *[F.col(name).alias(f"_{name}") for name in known.columns if name not in QUEUE])
    joined = reports.join(before, on=list(QUEUE), how="left")
    merged = joined.select(
        *QUEUE,
        F.when(F.col("queue_id") == WHOLE_QUEUE_ID, F.col("next_offset"))
        .otherwise(F.greatest("next_offset", "_next_offset"))
        .alias("next_offset"),
        F.greatest("highest_store_timestamp", "_highest_store_timestamp").alias("highest_store_timestamp"),
        F.coalesce("lowest_kept_offset", "_lowest_kept_offset").alias("lowest_kept_offset"),
        F.greatest("lost_before_timestamp", "_lost_before_timestamp").alias("lost_before_timestamp"),
        (F.col("is_end_known") | F.coalesce("_is_end_known", F.lit(False))).alias("is_end_known"),
        F.coalesce("source_identity", "_source_identity").alias("source_identity"),
        F.lit(pass_number).cast("bigint").alias("pass_number"),
        *[F.col(f"_{name}").alias(name) for name in ("runs", "told_end", "file_end")],
        *[F.col(f"_{name}") for name in known.columns if name not in QUEUE],
    )
    compared = (
        "next_offset",
        "highest_store_timestamp",
        "lowest_kept_offset",
        "lost_before_timestamp",
        "is_end_known",
        "source_identity",
    )
    is_same = F.lit(True)
    for name in compared:
        is_same = is_same & F.col(name).eqNullSafe(F.col(f"_{name}"))
    return merged.where(~is_same).select(*known.columns)


def file_reports(rows: DataFrame) -> DataFrame:
    """Frontier reports of landed files, which do not know where their source ends."""
    return reached(rows).withColumns(
        {
            "lowest_kept_offset": F.lit(None).cast("bigint"),
            "lost_before_timestamp": F.lit(None).cast("timestamp"),
            "is_end_known": F.lit(False),
            "source_identity": F.lit(None).cast("string"),
        }
    )
