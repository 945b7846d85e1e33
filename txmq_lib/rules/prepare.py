"""A prepared message becomes a half (R1-R5, R8, R9): what a broker does on the way in. Pure."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from txmq_lib.names import (
    HALF_TOPIC,
    PROPERTY_DELAY,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_TRAN_MSG,
    PROPERTY_TRANSACTION_ID,
    PROPERTY_UNIQ_KEY,
    ROCKSDB_HALF_TOPIC,
    SYS_FLAG_BATCH_MASK,
    SYS_FLAG_TRANSACTION_MASK,
    TIMER_PROPERTIES,
)
from txmq_lib.rules.half import property_of
from txmq_lib.rules.json_lines import fault

HALF_QUEUE_ID = 0


def is_under_own_topic() -> Column:
    """True for a message landed as a half that is still under its real topic."""
    return F.col("topic") != HALF_TOPIC


def is_prepared() -> Column:
    """R1: TRAN_MSG parses as true, unless it is a retry with DELAY (reconsumeTimes > 0 and DELAY > 0)."""
    marked = F.lower(F.coalesce(property_of(PROPERTY_TRAN_MSG), F.lit(""))) == "true"
    return marked & ~((F.col("reconsume_times") > 0) & has_delay())


def has_delay() -> Column:
    """True for a message with a DELAY level above 0."""
    return F.coalesce(property_of(PROPERTY_DELAY).try_cast("bigint") > 0, F.lit(False))


def prepare_fault() -> Column:
    """Why a message under its own topic cannot become a half; null where it can (R1, R8, R9)."""
    # An empty value is never stored (F4).
    has_timer = F.greatest(*[F.coalesce(F.length(property_of(name)) > 0, F.lit(False)) for name in TIMER_PROPERTIES])
    is_batch = F.col("sys_flag").bitwiseAND(SYS_FLAG_BATCH_MASK) != 0
    return F.coalesce(
        fault(
            F.col("topic") == ROCKSDB_HALF_TOPIC,
            "HALF_IN_ROCKSDB",
            F.lit("a broker that keeps its halves in RocksDB decides them itself: its role is audit (R116)"),
        ),
        fault(~is_prepared(), "NOT_PREPARED", F.lit("TRAN_MSG is not true (R1)")),
        fault(has_timer, "TIMER_IN_TRANSACTION", F.lit("timer properties divert a half (R8)")),
        fault(is_batch, "BATCH_IN_TRANSACTION", F.lit("a batch cannot be a half (R9)")),
    )


def as_halves(prepared: DataFrame, next_offset: Column) -> DataFrame:
    """`prepared` as halves in queue 0 (R3, R4), numbered densely from `next_offset` in physical order.

    DELAY is dropped, as clients do (R8); a missing UNIQ_KEY is given, as a broker does (R5).
    """
    in_log_order = Window.partitionBy("broker_name").orderBy("commit_log_offset", "position")
    numbers = prepared.select(
        "broker_name",
        "commit_log_offset",
        "position",
        (next_offset + F.row_number().over(in_log_order) - 1).alias("queue_offset"),
    )
    unique_key = F.coalesce(property_of(PROPERTY_UNIQ_KEY), F.col("offset_msg_id"))
    stated = F.create_map(
        F.lit(PROPERTY_UNIQ_KEY),
        unique_key,
        F.lit(PROPERTY_TRANSACTION_ID),
        unique_key,
        F.lit(PROPERTY_REAL_TOPIC),
        F.col("topic"),
        F.lit(PROPERTY_REAL_QUEUE_ID),
        F.col("queue_id").cast("string"),
    )
    names = (PROPERTY_DELAY, PROPERTY_UNIQ_KEY, PROPERTY_TRANSACTION_ID, PROPERTY_REAL_TOPIC, PROPERTY_REAL_QUEUE_ID)
    kept = F.map_filter("properties", lambda name, _: ~name.isin(*names))
    type_cleared = F.col("sys_flag").bitwiseAND(~SYS_FLAG_TRANSACTION_MASK)
    halves = prepared.drop("queue_offset").join(
        numbers, on=["broker_name", "commit_log_offset", "position"], how="inner"
    )
    return halves.withColumns(
        {
            "properties": F.map_concat(kept, stated),
            "sys_flag": type_cleared,
            "topic": F.lit(HALF_TOPIC),
            "queue_id": F.lit(HALF_QUEUE_ID),
        }
    )
