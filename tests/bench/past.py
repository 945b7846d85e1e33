"""What earlier passes left of transactions that are decided, made by expressions: history to measure beside.

It is written by passes of the real machinery, so that the next pass finds plan, versions and note as ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.bench.data import BROKER, NOW, QUEUES, TOPICS, Stream, ends, halves, is_committed, real_queue_id, real_topic
from tests.bench.warehouses import wall_clock
from txmq_lib.config.settings import Settings
from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.conform import conform
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.names import COMMITTED, OP_TAG, ORIGIN_TXMQ, REASON_DECIDED, REASON_VISIBLE, ROLLED_BACK
from txmq_lib.passes.current import Pass, PassReport
from txmq_lib.passes.job import job_of_steps
from txmq_lib.passes.runner import run_passes
from txmq_lib.pipeline.shared.roles import record_roles

RESTORED_AWAY = ("REAL_TOPIC", "REAL_QID", "TRAN_MSG")


def reconciled(
    spark: SparkSession, stream: Stream, first: int, count: int, files: int | None = None
) -> dict[str, DataFrame]:
    """Rows of end_outcome, message and op_message of the transactions that ended."""
    landed = halves(spark, stream, first, count, files=files).withColumn("i", F.col("queue_offset"))
    ended = landed.where(stream.is_ended(F.col("i")))
    return {
        "end_outcome": conform(
            _outcomes(ends(spark, stream, first, count, files=files), stream), table_spec("end_outcome")
        ),
        "message": conform(_messages(ended.where(is_committed(F.col("i")))), table_spec("message")),
        "op_message": conform(_ops(ended), table_spec("op_message")),
    }


def audited(spark: SparkSession, stream: Stream, first: int, count: int, files: int | None = None) -> DataFrame:
    """Rows of verdict of the transactions that ended."""
    landed = halves(spark, stream, first, count, files=files).withColumn("i", F.col("queue_offset"))
    commit = is_committed(F.col("i"))
    zero, one = F.lit(0).cast("bigint"), F.lit(1).cast("bigint")
    rows = landed.where(stream.is_ended(F.col("i"))).select(
        *("broker_name", "transaction_id", "producer_group", "born_timestamp", "real_topic", "real_queue_id"),
        F.when(commit, COMMITTED).otherwise(ROLLED_BACK).alias("verdict"),
        F.when(commit, REASON_VISIBLE).otherwise(REASON_DECIDED).alias("reason"),
        F.when(commit, one).otherwise(zero).alias("visible_count"),
        *[one.alias(name) for name in ("op_count", "half_count", "pass_number")],
        *[zero.alias(name) for name in ("given_up_count", "contradicting_count")],
        *[F.lit(0).alias(name) for name in ("check_times", "broker_check_times")],
        F.col("store_timestamp").alias("first_timestamp"),
        F.lit(NOW).alias("last_timestamp"),
        F.lit(None).cast("timestamp").alias("checks_end_timestamp"),
        F.lit(True).alias("is_settled"),
    )
    return conform(rows, table_spec("verdict"))


def write_pass(
    warehouse: Warehouse, settings: Settings, job: str, tables: Mapping[str, DataFrame], *, now: datetime = NOW
) -> PassReport:
    """A pass of `job` that appends these rows and commits: the next one takes what lands from here on for new."""

    def work(current: Pass) -> PassReport:
        record_roles(current, [BROKER])
        for table, rows in tables.items():
            writes = {"append": current.append, "overwrite": current.overwrite, "upsert": current.upsert}
            writes[table_spec(table).writes[0]](table, rows, step=table)
        return current.commit()

    return run_passes(warehouse, job_of_steps(job, work), now=now, settings=settings, wall_clock=wall_clock)


def _outcomes(ended: DataFrame, stream: Stream) -> DataFrame:
    i = F.col("tran_state_table_offset")
    return ended.select(
        *("broker_name", "ts", "producer_group", "tran_state_table_offset", "commit_log_offset", "commit_or_rollback"),
        *("from_transaction_check", "msg_id", "origin", "landed_pass", "landing_order"),
        F.col("transaction_id").alias("end_transaction_id"),
        "transaction_id",
        stream.born(i).alias("born_timestamp"),
        F.lit(0).alias("half_queue_id"),
        i.alias("half_queue_offset"),
        real_topic(i).alias("real_topic"),
        real_queue_id(i).alias("real_queue_id"),
        F.lit("accepted").alias("outcome"),
        F.when(is_committed(i), "commit").otherwise("rollback").alias("decision"),
        F.lit(0).alias("code"),
        *[F.lit(None).cast("string").alias(name) for name in ("reason", "remark")],
        F.lit(True).alias("is_effective"),
        F.lit(1).cast("bigint").alias("pass_number"),
        F.lit(NOW).alias("judged_timestamp"),
        F.lit(False).alias("is_held"),
    )


def _messages(committed: DataFrame) -> DataFrame:
    return committed.select(
        "broker_name",
        F.col("real_topic").alias("topic"),
        F.col("real_queue_id").alias("queue_id"),
        F.floor(F.col("i") / (TOPICS * QUEUES)).alias("queue_offset"),
        F.lit(8).alias("sys_flag"),
        *("flag", "born_timestamp", "store_timestamp", "born_host", "store_host", "reconsume_times"),
        F.col("commit_log_offset").alias("prepared_transaction_offset"),
        F.map_filter("properties", lambda name, _: ~name.isin(*RESTORED_AWAY)).alias("properties"),
        *("body", "tags", "keys", "transaction_id", "producer_group"),
        F.lit(None).cast("string").alias("offset_msg_id"),
        *_by_us(),
    )


def _ops(ended: DataFrame) -> DataFrame:
    return ended.select(
        "broker_name",
        "queue_id",
        "queue_offset",
        F.lit(0).alias("position"),
        F.col("queue_offset").alias("half_queue_offset"),
        "store_timestamp",
        F.lit(OP_TAG).alias("tags"),
        *_by_us(),
    )


def _by_us() -> list[Column]:
    none = F.lit(None).cast("bigint")
    return [
        none.alias("commit_log_offset"),
        none.alias("content_hash"),
        F.lit(ORIGIN_TXMQ).alias("origin"),
        F.lit(1).cast("bigint").alias("landed_pass"),
    ]
