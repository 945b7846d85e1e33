"""The backfill as a good engineer writes it in an afternoon: joins over whole tables, windows, everything written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tests.bench.data import NOW
from tests.bench.warehouses import opened, timed

HALF = ["broker_name", "commit_log_offset"]
ORDER = ["ts", "commit_or_rollback", "landing_order"]


def run(path: str, target: str) -> dict[str, Any]:
    """Write end_outcome, message, op_message, pending_half and check_request; seconds of each."""
    warehouse, _ = opened(path)
    spark = warehouse.spark
    halves = spark.read.format("delta").load(warehouse.path("half_message"))
    ends = spark.read.format("delta").load(warehouse.path("end_transaction"))
    steps: dict[str, float] = {}

    def written(table: str, frame: DataFrame) -> DataFrame:
        place = str(Path(target, table))
        with timed(steps, table):
            frame.write.format("delta").save(place)
        return spark.read.format("delta").load(place)

    outcomes = written("end_outcome", _outcomes(halves, ends))
    decided = outcomes.where("is_effective")
    written("message", _messages(halves, decided.where("decision = 'commit'")))
    written("op_message", _ops(decided))
    open_halves = halves.join(decided.select(*HALF), HALF, "left_anti")
    pending = written("pending_half", open_halves.drop("body", "properties"))
    due = pending.where(F.unix_millis("born_timestamp") < F.lit(round(NOW.timestamp() * 1000) - 6000))
    written("check_request", due.withColumns({"check_times": F.lit(1), "check_timestamp": F.lit(NOW)}))
    return {"seconds": steps}


def _outcomes(halves: DataFrame, ends: DataFrame) -> DataFrame:
    named = halves.select(
        *HALF,
        F.col("producer_group").alias("half_group"),
        F.col("queue_id").alias("half_queue_id"),
        F.col("queue_offset").alias("half_queue_offset"),
        F.col("transaction_id").alias("half_transaction_id"),
        *("born_timestamp", "real_topic", "real_queue_id"),
    )
    is_right = (F.col("producer_group") == F.col("half_group")) & (
        F.col("tran_state_table_offset") == F.col("half_queue_offset")
    )
    in_order = Window.partitionBy(*HALF, "is_right").orderBy(*ORDER)
    decision = F.when(F.col("commit_or_rollback") == 8, "commit").otherwise("rollback")
    ranked = (
        ends.join(named, HALF, "left")
        .withColumns({"is_right": F.coalesce(is_right, F.lit(False)), "decision": decision})
        .withColumns({"rank": F.row_number().over(in_order), "first": F.first("decision").over(in_order)})
    )
    outcome = (
        F.when(~F.col("is_right"), "refused")
        .when(F.col("rank") == 1, "accepted")
        .when(F.col("decision") == F.col("first"), "repeated")
        .otherwise("contradicting")
    )
    judged = ranked.withColumns({"outcome": outcome, "is_effective": F.col("is_right") & (F.col("rank") == 1)})
    return judged.drop("rank", "first", "half_group")


def _messages(halves: DataFrame, commits: DataFrame) -> DataFrame:
    queue = Window.partitionBy("broker_name", "real_topic", "real_queue_id").orderBy(*ORDER)
    cleared = ("REAL_TOPIC", "REAL_QID", "TRAN_MSG")
    return (
        halves.join(commits.select(*HALF, *ORDER), HALF)
        .withColumn("queue_offset", F.row_number().over(queue) - 1)
        .withColumns(
            {
                "topic": F.col("real_topic"),
                "queue_id": F.col("real_queue_id"),
                "sys_flag": F.col("sys_flag").bitwiseOR(8),
                "prepared_transaction_offset": F.col("commit_log_offset"),
                "properties": F.map_filter("properties", lambda name, _: ~name.isin(*cleared)),
            }
        )
        .drop(*ORDER, "real_topic", "real_queue_id", "offset_msg_id", "content_hash")
    )


def _ops(decided: DataFrame) -> DataFrame:
    queue = Window.partitionBy("broker_name", "half_queue_id").orderBy("half_queue_offset")
    return decided.select(
        "broker_name",
        F.col("half_queue_id").alias("queue_id"),
        (F.row_number().over(queue) - 1).alias("queue_offset"),
        "half_queue_offset",
        F.lit("d").alias("tags"),
    )
