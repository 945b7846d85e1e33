"""The backfill for Polars, Parquet to Parquet, each queue numbered densely: numbers on keys, bodies streamed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from tests.bench.data import NOW
from tests.bench.warehouses import data_files, timed

HALF = ["broker_name", "commit_log_offset"]
ORDER = ["ts", "commit_or_rollback", "landing_order"]
CLEARED = ["REAL_TOPIC", "REAL_QID", "TRAN_MSG"]


def run(path: str, target: str) -> dict[str, Any]:
    """Write the same tables as txmq does; seconds of each."""
    halves = pl.scan_parquet(data_files(Path(path, "half_message")))
    ends = pl.scan_parquet(data_files(Path(path, "end_transaction")))
    steps: dict[str, float] = {}
    with timed(steps, "end_outcome"):
        outcomes = _outcomes(halves, ends).collect(engine="streaming")
        outcomes.write_parquet(_place(target, "end_outcome"), compression="snappy")
    decided = outcomes.filter("is_effective")
    del outcomes
    with timed(steps, "message"):
        _messages(halves, decided).sink_parquet(_place(target, "message"), compression="snappy")
    with timed(steps, "op_message"):
        ops = decided.select(
            "broker_name",
            pl.col("half_queue_id").alias("queue_id"),
            pl.col("half_queue_offset"),
            pl.lit("d").alias("tags"),
        ).sort("half_queue_offset")
        numbered = ops.with_columns(pl.int_range(pl.len()).over("broker_name", "queue_id").alias("queue_offset"))
        numbered.write_parquet(_place(target, "op_message"), compression="snappy")
    with timed(steps, "pending_half"):
        undecided = halves.drop("body", "properties").join(decided.lazy().select(HALF), on=HALF, how="anti")
        pending = undecided.collect(engine="streaming")
        pending.write_parquet(_place(target, "pending_half"), compression="snappy")
    with timed(steps, "check_request"):
        age_ms = round(NOW.timestamp() * 1000) - pl.col("born_timestamp").dt.epoch("ms")
        due = pending.filter(age_ms > 6000).with_columns(pl.lit(1).alias("check_times"))
        due.write_parquet(_place(target, "check_request"), compression="snappy")
    return {"seconds": steps}


def _outcomes(halves: pl.LazyFrame, ends: pl.LazyFrame) -> pl.LazyFrame:
    named = halves.select(
        *HALF,
        pl.col("producer_group").alias("half_group"),
        pl.col("queue_id").alias("half_queue_id"),
        pl.col("queue_offset").alias("half_queue_offset"),
        pl.col("transaction_id").alias("half_transaction_id"),
        *("born_timestamp", "real_topic", "real_queue_id"),
    )
    is_right = (pl.col("producer_group") == pl.col("half_group")) & (
        pl.col("tran_state_table_offset") == pl.col("half_queue_offset")
    )
    decision = pl.when(pl.col("commit_or_rollback") == 8).then(pl.lit("commit")).otherwise(pl.lit("rollback"))
    judged = (
        ends.join(named, on=HALF, how="left")
        .with_columns(is_right.fill_null(value=False).alias("is_right"), decision.alias("decision"))
        .sort(ORDER)
    )
    deciding = (
        judged.filter("is_right").group_by(HALF).agg(pl.col("landing_order", "decision").first().name.prefix("_"))
    )
    is_first = pl.col("is_right") & (pl.col("landing_order") == pl.col("_landing_order"))
    outcome = (
        pl.when(~pl.col("is_right"))
        .then(pl.lit("refused"))
        .when(is_first)
        .then(pl.lit("accepted"))
        .when(pl.col("decision") == pl.col("_decision"))
        .then(pl.lit("repeated"))
        .otherwise(pl.lit("contradicting"))
    )
    joined = judged.join(deciding, on=HALF, how="left")
    return joined.with_columns(outcome.alias("outcome"), is_first.alias("is_effective")).drop(
        "_landing_order", "_decision", "half_group"
    )


def _messages(halves: pl.LazyFrame, decided: pl.DataFrame) -> pl.LazyFrame:
    commits = decided.filter(pl.col("decision") == "commit").sort(ORDER)
    number = pl.int_range(pl.len()).over("broker_name", "real_topic", "real_queue_id")
    numbers = commits.select(*HALF, number.alias("_queue_offset"))
    is_kept = ~pl.element().struct.field("key").is_in(CLEARED)
    return (
        halves.join(numbers.lazy(), on=HALF)
        .with_columns(
            pl.col("real_topic").alias("topic"),
            pl.col("real_queue_id").alias("queue_id"),
            pl.col("_queue_offset").alias("queue_offset"),
            (pl.col("sys_flag") | 8).alias("sys_flag"),
            pl.col("commit_log_offset").alias("prepared_transaction_offset"),
            pl.col("properties").map.entries().list.filter(is_kept).cast(pl.Map(pl.String, pl.String)),
        )
        .drop("_queue_offset", "real_topic", "real_queue_id", "offset_msg_id", "content_hash")
    )


def _place(target: str, table: str) -> Path:
    place = Path(target, table)
    place.mkdir()
    return place / "0.parquet"
