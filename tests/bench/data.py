"""Halves and ends as landing would have written them, made by Spark expressions alone: no file, no Python row.

Transaction i has half queue offset i and physical offset i * RECORD_BYTES. Of a thousand halves one gets no end, unless
the stream says otherwise; of the others every tenth, by hash, is rolled back. Ends arrive in about the order of their
halves, shuffled within blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.conform import conform, struct_type
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.names import END_COMMIT, END_ROLLBACK, HALF_TOPIC, OP_TOPIC, ORIGIN_LANDED, ROLE_ENGINE
from txmq_lib.pipeline.land.files.events import END_CONTENT
from txmq_lib.spark.local_frame import local_frame

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
NOW_MS = round(NOW.timestamp() * 1000)
BROKER, GROUP = "broker-a", "GID_orders"
TOPICS, QUEUES = 10, 8
RECORD_BYTES = 512
ROWS_PER_FILE = 250_000
ARRIVAL_BLOCK = 1024
END_DELAY_MS = 2000


@dataclass(frozen=True)
class Stream:
    """Transactions 0, 1, 2, ... of one broker: transaction i is born at start_ms + i * 1000 / per_second.

    unended_of  one of so many never gets an end; 0: all get one
    """

    start_ms: int = NOW_MS - 6 * 3_600_000
    per_second: float = 10_000.0
    body_bytes: int = 256
    unended_of: int = 1000

    def born(self, number: Column) -> Column:
        """When transaction `number` is born."""
        return F.timestamp_millis(F.lit(self.start_ms) + F.floor(number * (1000 / self.per_second)))

    def is_ended(self, number: Column) -> Column:
        """Whether an end ever comes for transaction `number`."""
        return number % self.unended_of != self.unended_of // 2 if self.unended_of else F.lit(True)


def is_committed(number: Column) -> Column:
    """Whether that end is a commit, not a rollback."""
    return F.pmod(F.xxhash64(number), F.lit(10)) != 0


def real_topic(number: Column) -> Column:
    """The real topic of transaction `number`."""
    return F.concat(F.lit("orders-"), number % TOPICS)


def real_queue_id(number: Column) -> Column:
    """Its queue there."""
    return (F.floor(number / TOPICS) % QUEUES).cast("int")


def transaction_id(number: Column) -> Column:
    """As a client makes them: an address, a process, a counter."""
    return F.concat(F.lit("C000020246654E0E"), F.lpad(F.hex(number), 16, "0"))


def numbers(spark: SparkSession, first: int, count: int, files: int | None = None) -> DataFrame:
    """Transaction numbers `i`, in order, split into as many files as given, else as many as landing would make."""
    split = files or max(spark.sparkContext.defaultParallelism, -(-count // ROWS_PER_FILE))
    return spark.range(first, first + count, 1, split).withColumnRenamed("id", "i")


def halves(
    spark: SparkSession, stream: Stream, first: int, count: int, *, files: int | None = None, landed_pass: int = 1
) -> DataFrame:
    """Rows of half_message."""
    i = F.col("i")
    named = {
        "KEYS": F.concat(F.lit("k"), i),
        "PGROUP": F.lit(GROUP),
        "REAL_QID": real_queue_id(i).cast("string"),
        "REAL_TOPIC": real_topic(i),
        "TAGS": F.lit("tagA"),
        "TRAN_MSG": F.lit("true"),
        "UNIQ_KEY": transaction_id(i),
        "WAIT": F.lit("true"),
    }
    # Noise, so that no codec makes the bodies smaller than they are.
    noise = [F.unhex(F.sha2(F.concat_ws(":", i, F.lit(part)), 512)) for part in range(-(-stream.body_bytes // 64))]
    rows = numbers(spark, first, count, files).select(
        F.lit(BROKER).alias("broker_name"),
        F.lit(HALF_TOPIC).alias("topic"),
        F.lit(0).alias("queue_id"),
        i.alias("queue_offset"),
        (i * RECORD_BYTES).alias("commit_log_offset"),
        *[F.lit(0).alias(name) for name in ("sys_flag", "flag", "reconsume_times")],
        stream.born(i).alias("born_timestamp"),
        stream.born(i).alias("store_timestamp"),
        F.lit("10.0.0.1:42426").alias("born_host"),
        F.lit("10.0.0.2:10911").alias("store_host"),
        F.concat(F.lit("0A00000200002A9F"), F.lpad(F.hex(i * RECORD_BYTES), 16, "0")).alias("offset_msg_id"),
        F.lit(0).cast("bigint").alias("prepared_transaction_offset"),
        F.map_from_arrays(F.array(*[F.lit(name) for name in named]), F.array(*named.values())).alias("properties"),
        F.substring(F.concat(*noise), 1, stream.body_bytes).alias("body"),
        F.lit("tagA").alias("tags"),
        F.concat(F.lit("k"), i).alias("keys"),
        transaction_id(i).alias("transaction_id"),
        F.lit(GROUP).alias("producer_group"),
        real_topic(i).alias("real_topic"),
        real_queue_id(i).alias("real_queue_id"),
        F.lit(None).cast("int").alias("broker_check_times"),
        F.lit(None).cast("string").alias("check_immunity"),
        F.lit(None).cast("bigint").alias("prepared_queue_offset"),
        F.xxhash64(i).alias("content_hash"),
        *_landed(landed_pass),
    )
    return conform(rows, table_spec("half_message"))


def ends(
    spark: SparkSession, stream: Stream, first: int, count: int, *, files: int | None = None, landed_pass: int = 1
) -> DataFrame:
    """Rows of end_transaction for the transactions that get one, in the order they arrived."""
    place = F.col("i") - first
    whole_blocks = count // ARRIVAL_BLOCK * ARRIVAL_BLOCK
    shuffled = place - place % ARRIVAL_BLOCK + (place * 37 + 11) % ARRIVAL_BLOCK
    arrived = numbers(spark, first, count, files).select(
        place.alias("landing_order"),
        (first + F.when(place < whole_blocks, shuffled).otherwise(place)).alias("i"),
        (stream.born(F.col("i")) + F.expr(f"interval {END_DELAY_MS} milliseconds")).alias("ts"),
    )
    return conform(_end_rows(arrived.where(stream.is_ended(F.col("i"))), landed_pass), table_spec("end_transaction"))


def ends_of(numbers: DataFrame, ts: datetime, *, landed_pass: int) -> DataFrame:
    """Rows of end_transaction for the transactions `i`, all received at `ts`."""
    arrived = numbers.select(F.col("i").alias("landing_order"), "i", F.lit(ts).alias("ts"))
    return conform(_end_rows(arrived, landed_pass), table_spec("end_transaction"))


def _end_rows(arrived: DataFrame, landed_pass: int) -> DataFrame:
    i = F.col("i")
    rows = arrived.select(
        F.lit(BROKER).alias("broker_name"),
        "ts",
        F.lit(GROUP).alias("producer_group"),
        i.alias("tran_state_table_offset"),
        (i * RECORD_BYTES).alias("commit_log_offset"),
        F.when(is_committed(i), END_COMMIT).otherwise(END_ROLLBACK).alias("commit_or_rollback"),
        F.lit(False).alias("from_transaction_check"),
        transaction_id(i).alias("msg_id"),
        transaction_id(i).alias("transaction_id"),
        real_topic(i).alias("topic"),
        F.lit(0).alias("occurrence"),
        "landing_order",
        *_landed(landed_pass),
    )
    return rows.withColumn("content_hash", F.xxhash64(*END_CONTENT))


def frontier(warehouse: Warehouse, next_offsets: dict[tuple[str, int], int]) -> DataFrame:
    """Rows of landing_frontier: (topic, queue) -> next offset."""
    rows = [
        {
            "broker_name": BROKER,
            "topic": topic,
            "queue_id": queue_id,
            "next_offset": offset,
            "is_end_known": False,
            "pass_number": 1,
        }
        for (topic, queue_id), offset in next_offsets.items()
    ]
    return local_frame(warehouse.spark, rows, struct_type(table_spec("landing_frontier")))


def engine(warehouse: Warehouse) -> DataFrame:
    """The row of broker that a landing records before any other: txmq decides for it."""
    row = {"broker_name": BROKER, "role": ROLE_ENGINE, "job": "land", "pass_number": 1, "recorded_timestamp": NOW}
    return local_frame(warehouse.spark, [row], struct_type(table_spec("broker")))


def queue_ends(count: int) -> dict[tuple[str, int], int]:
    """Next offsets of all queues after `count` transactions whose messages kept their number's place (past.py)."""
    real = {
        (f"orders-{topic}", queue): count // (TOPICS * QUEUES) + 1 for topic in range(TOPICS) for queue in range(QUEUES)
    }
    return {(HALF_TOPIC, 0): count, (OP_TOPIC, 0): count, **real}


def append(warehouse: Warehouse, table: str, rows: DataFrame) -> None:
    """One commit of rows, as landing makes one."""
    rows.write.format("delta").mode("append").save(warehouse.path(table))


def _landed(landed_pass: int) -> list[Column]:
    return [F.lit(ORIGIN_LANDED).alias("origin"), F.lit(landed_pass).cast("bigint").alias("landed_pass")]
