"""Stored messages become rows of half_message, message and trans_check_max_time. Pure."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import (
    HALF_TOPIC,
    OP_TOPIC,
    PROPERTY_CHECK_IMMUNITY,
    PROPERTY_CHECK_TIMES,
    PROPERTY_KEYS,
    PROPERTY_PREPARED_QUEUE_OFFSET,
    PROPERTY_PRODUCER_GROUP,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_KEY,
    ROCKSDB_HALF_TOPIC,
    ROCKSDB_OP_TOPIC,
    ROCKSDB_QUEUE_ID,
)
from txmq_lib.rules.landing_contract import stored_properties

# Frozen: with another column in it, what has landed would land again as a conflict.
HASHED = (
    "topic",
    "commit_log_offset",
    "sys_flag",
    "flag",
    "born_timestamp",
    "store_timestamp",
    "born_host",
    "store_host",
    "offset_msg_id",
    "reconsume_times",
    "prepared_transaction_offset",
    "body",
)


def table_queue_id() -> Column:
    """`queue_id` of a half or op as tables have it: each pair of topics has a queue 0."""
    is_of_rocksdb = F.col("topic").isin(ROCKSDB_HALF_TOPIC, ROCKSDB_OP_TOPIC)
    return F.when(is_of_rocksdb, F.lit(ROCKSDB_QUEUE_ID)).otherwise(F.col("queue_id"))


def stored_queue_id() -> Column:
    """The queue that a half or op is stored in, of its `queue_id` in a table."""
    return F.when(is_of_rocksdb(), F.lit(0)).otherwise(F.col("queue_id"))


def half_topic() -> Column:
    """The topic that a half is stored in, of its `queue_id` in a table."""
    return F.when(is_of_rocksdb(), ROCKSDB_HALF_TOPIC).otherwise(HALF_TOPIC)


def op_topic() -> Column:
    """The topic that an op is stored in, of its `queue_id` in a table."""
    return F.when(is_of_rocksdb(), ROCKSDB_OP_TOPIC).otherwise(OP_TOPIC)


def is_of_rocksdb() -> Column:
    """Whether a half or op in a table is one of the RocksDB pair."""
    return F.col("queue_id") == ROCKSDB_QUEUE_ID


def named_offset() -> Column:
    """By which offset an op names the half: its queue offset (R26), or its physical one (R117)."""
    return F.when(is_of_rocksdb(), F.col("commit_log_offset")).otherwise(F.col("queue_offset"))


def property_of(name: str) -> Column:
    """The message property `name`; null where absent."""
    return F.col("properties")[name]


def content_hash() -> Column:
    """xxhash64 of what a message says, its place in the queue apart; properties as stored, in any order."""
    return F.xxhash64(*HASHED, F.sort_array(F.map_entries(stored_properties(F.col("properties")))))


def message_columns() -> list[Column]:
    """Columns every stored message gets beside MESSAGE_COLUMNS: tags, keys, transaction id, producer group."""
    return [
        property_of(PROPERTY_TAGS).alias("tags"),
        property_of(PROPERTY_KEYS).alias("keys"),
        property_of(PROPERTY_PRODUCER_GROUP).alias("producer_group"),
    ]


def messages(stored: DataFrame) -> DataFrame:
    """Rows of `message`: visible messages of real topics."""
    return stored.select("*", *message_columns(), property_of(PROPERTY_UNIQ_KEY).alias("transaction_id"))


def half_messages(stored: DataFrame) -> DataFrame:
    """Rows of `half_message`; none of the properties is needed for a half to be accepted."""
    return stored.select(
        "*",
        *message_columns(),
        *_transaction_columns(),
        property_of(PROPERTY_CHECK_IMMUNITY).alias("check_immunity"),
        property_of(PROPERTY_PREPARED_QUEUE_OFFSET).try_cast("bigint").alias("prepared_queue_offset"),
    )


def given_up_messages(stored: DataFrame) -> DataFrame:
    """Rows of `trans_check_max_time` as a broker wrote them (R70)."""
    return stored.select(
        "*",
        *message_columns(),
        *_transaction_columns(),
        F.lit(None).cast("bigint").alias("half_queue_offset"),
        F.lit(None).cast("bigint").alias("half_commit_log_offset"),
        F.lit(None).cast("int").alias("check_times"),
        F.lit(None).cast("string").alias("reason"),
        F.col("store_timestamp").alias("given_up_timestamp"),
        F.lit(False).alias("is_rolled_back"),
    )


def _transaction_columns() -> list[Column]:
    return [
        # A half without UNIQ_KEY is its own transaction: its offset message id is unique.
        F.coalesce(property_of(PROPERTY_UNIQ_KEY), F.col("offset_msg_id")).alias("transaction_id"),
        property_of(PROPERTY_REAL_TOPIC).alias("real_topic"),
        property_of(PROPERTY_REAL_QUEUE_ID).try_cast("int").alias("real_queue_id"),
        property_of(PROPERTY_CHECK_TIMES).try_cast("int").alias("broker_check_times"),
    ]
