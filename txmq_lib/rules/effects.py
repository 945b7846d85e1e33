"""What a decision writes: the restored message, the op row, the given-up row (R20, R26, R70). Pure.

pipeline/reconcile/in_arrow/message_rows.py makes the same of rows in Arrow; tests/rules/test_effects.py holds both to
one another.
"""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from txmq_lib.names import (
    COMMIT,
    MAX_TIME_TOPIC,
    OP_TAG,
    OP_TOPIC,
    ORIGIN_TXMQ,
    PROPERTY_CHECK_TIMES,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_TRAN_MSG,
    SYS_FLAG_COMMIT,
    SYS_FLAG_TRANSACTION_MASK,
)
from txmq_lib.rules.offset_bitmap import offset_bitmap, ranked_offsets

END_ORDER = ("ts", "commit_or_rollback", "landed_pass", "landing_order")
MAX_TIME_QUEUE_ID = 0
OPS_OF_A_TASK = 1_000_000  # some ten seconds of one core, and a file of ten MB
RESTORED = (
    *("sys_flag", "flag", "born_timestamp", "born_host", "store_host", "reconsume_times"),
    *("properties", "body", "tags", "keys", "transaction_id", "producer_group"),
)
QUEUE = ("broker_name", "topic", "queue_id")


def numbered(rows: DataFrame, frontier: DataFrame, order: tuple[str, ...]) -> DataFrame:
    """`rows` (broker_name, topic, queue_id, ...) with a dense `queue_offset` per queue, from where the queue ends.

    Offsets continue at the frontier's next_offset (0 for a new queue), in `order`. Whoever numbers so moves the
    frontier by as many rows.
    """
    return _from_queue_end(rows, frontier, F.row_number().over(Window.partitionBy(*QUEUE).orderBy(*order)) - 1)


def _from_queue_end(rows: DataFrame, frontier: DataFrame, rank: Column) -> DataFrame:
    ends = frontier.select(*QUEUE, F.col("next_offset").alias("_start"))
    started = rows.join(F.broadcast(ends), on=list(QUEUE), how="left")
    offset = F.coalesce("_start", F.lit(0)) + rank
    return started.withColumn("queue_offset", offset.cast("bigint")).drop("_start")


def restored_destinations(deciding: DataFrame, frontier: DataFrame) -> DataFrame:
    """One row per accepted commit: where its message goes (topic, queue_id, queue_offset), and where its half is.

    deciding  ends that decide (rules.end.decides)
    """
    commits = deciding.where(F.col("decision") == COMMIT).select(
        "broker_name",
        "commit_log_offset",
        F.col("real_topic").alias("topic"),
        F.col("real_queue_id").alias("queue_id"),
        "half_queue_id",
        "half_queue_offset",
        *END_ORDER,
    )
    # Ends of two origins may share a landing place: the half tells them apart, and two of a rebuilt broker one place.
    return numbered(commits, frontier, (*END_ORDER, "commit_log_offset", "half_queue_offset")).drop(*END_ORDER)


def restored_messages(destinations: DataFrame, halves: DataFrame, *, now: datetime, pass_number: int) -> DataFrame:
    """Rows of `message`: each half restored to its real topic (R20), without REAL_TOPIC, REAL_QID and TRAN_MSG.

    halves  rows of half_message that hold the halves of `destinations`
    """
    # A rebuilt broker may have had another half at the same physical offset.
    half_queue = [F.col("queue_id").alias("half_queue_id"), F.col("queue_offset").alias("half_queue_offset")]
    source = halves.select("broker_name", "commit_log_offset", *half_queue, *RESTORED)
    on = ["broker_name", "commit_log_offset", "half_queue_id", "half_queue_offset"]
    joined = destinations.join(source, on=on, how="inner")
    return _restored(joined, now, pass_number)


def _restored(joined: DataFrame, now: datetime, pass_number: int) -> DataFrame:
    cleared = (PROPERTY_REAL_TOPIC, PROPERTY_REAL_QUEUE_ID, PROPERTY_TRAN_MSG)
    committed = F.col("sys_flag").bitwiseAND(~SYS_FLAG_TRANSACTION_MASK).bitwiseOR(SYS_FLAG_COMMIT)
    return joined.select(
        *("broker_name", "topic", "queue_id", "queue_offset"),
        F.lit(None).cast("bigint").alias("commit_log_offset"),
        committed.alias("sys_flag"),
        *("flag", "born_timestamp"),
        F.lit(now).alias("store_timestamp"),
        *("born_host", "store_host"),
        F.lit(None).cast("string").alias("offset_msg_id"),
        "reconsume_times",
        F.col("commit_log_offset").alias("prepared_transaction_offset"),
        F.map_filter("properties", lambda name, _: ~name.isin(*cleared)).alias("properties"),
        *("body", "tags", "keys", "transaction_id", "producer_group"),
        *_written_by_us(pass_number),
    )


def op_rows(named: DataFrame, frontier: DataFrame, *, now: datetime, pass_number: int, count: int) -> DataFrame:
    """Rows of `op_message`, one op per decided half (R26); an op does not say commit or rollback (R25).

    named  broker_name, queue_id, half_queue_offset of each half
    count  how many they are
    """
    bitmap = offset_bitmap(named.withColumnRenamed("half_queue_offset", "queue_offset"))
    ops = ranked_offsets(bitmap, parts=-(-count // OPS_OF_A_TASK)).withColumnRenamed(
        "queue_offset", "half_queue_offset"
    )
    return _from_queue_end(ops.withColumn("topic", F.lit(OP_TOPIC)), frontier, F.col("rank")).select(
        *("broker_name", "queue_id", "queue_offset"),
        F.lit(0).alias("position"),
        "half_queue_offset",
        F.lit(None).cast("bigint").alias("commit_log_offset"),
        F.lit(now).alias("store_timestamp"),
        F.lit(OP_TAG).alias("tags"),
        *_written_by_us(pass_number),
    )


def given_up_destinations(given_up: DataFrame, frontier: DataFrame) -> DataFrame:
    """`given_up` pending rows with the offset each gets in TRANS_CHECK_MAX_TIME_TOPIC, queue 0."""
    routed = given_up.select(
        "broker_name",
        F.lit(MAX_TIME_TOPIC).alias("topic"),
        F.lit(MAX_TIME_QUEUE_ID).alias("queue_id"),
        F.col("queue_id").alias("half_queue_id"),
        F.col("queue_offset").alias("half_queue_offset"),
        F.col("commit_log_offset").alias("half_commit_log_offset"),
        "check_times",
        "reason",
    )
    return numbered(routed, frontier, ("half_commit_log_offset", "half_queue_offset", "half_queue_id"))


def given_up_messages(
    destinations: DataFrame, halves: DataFrame, *, now: datetime, pass_number: int, rolls_back: bool
) -> DataFrame:
    """Rows of `trans_check_max_time`: the newest half row of each, with TRANSACTION_CHECK_TIMES as asked (R70)."""
    # A rebuilt broker may have had another half at the same physical offset; one in RocksDB has its queue offset too.
    place = {
        "half_commit_log_offset": "commit_log_offset",
        "half_queue_id": "queue_id",
        "half_queue_offset": "queue_offset",
    }
    kept = ("sys_flag", "flag", "born_timestamp", "born_host", "store_host", "offset_msg_id", "reconsume_times")
    place_before = "prepared_transaction_offset"
    rest = ("properties", "body", "tags", "keys", "transaction_id", "producer_group")
    counted = ("real_topic", "real_queue_id", "broker_check_times")
    source = halves.select(
        "broker_name",
        *[F.col(name).alias(alias) for alias, name in place.items()],
        *kept,
        place_before,
        *rest,
        *counted,
    )
    joined = destinations.join(source, on=["broker_name", *place], how="inner")
    check_times = F.create_map(F.lit(PROPERTY_CHECK_TIMES), F.col("check_times").cast("string"))
    others = F.map_filter("properties", lambda name, _: name != PROPERTY_CHECK_TIMES)
    return joined.select(
        *("broker_name", "topic", "queue_id", "queue_offset", *kept, place_before),
        F.lit(None).cast("bigint").alias("commit_log_offset"),
        F.lit(now).alias("store_timestamp"),
        F.map_concat(others, check_times).alias("properties"),
        *("body", "tags", "keys", "transaction_id", "producer_group", *counted),
        *("half_queue_offset", "half_commit_log_offset", "check_times", "reason"),
        F.lit(now).alias("given_up_timestamp"),
        F.lit(rolls_back).alias("is_rolled_back"),
        *_written_by_us(pass_number),
    )


def _written_by_us(pass_number: int) -> list[Column]:
    return [
        F.lit(None).cast("bigint").alias("content_hash"),
        F.lit(ORIGIN_TXMQ).alias("origin"),
        F.lit(pass_number).cast("bigint").alias("landed_pass"),
    ]
