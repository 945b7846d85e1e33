"""What a broker's records say that have not landed, since txmq has written a row where each of them would lie. Pure.

A broker that txmq decides for may have decided, too: its message and its op lie in quarantine then.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import HALF_TOPICS, KEY_CONFLICT, MET_TXMQ, OP_TOPICS
from txmq_lib.rules.half import table_queue_id
from txmq_lib.rules.op import op_tokens

# Of a whole record (pipeline/land/records/faults.py `as_json`).
_RAW = "sys_flag int, prepared_transaction_offset bigint, properties map<string,string>, body string"


def kept_out(quarantine: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Rows as `message` and `op_message` would have them, in so far as they say what was committed, and what ops name.

    quarantine  the table
    """
    met = quarantine.where((F.col("reason") == KEY_CONFLICT) & F.startswith("detail", F.lit(MET_TXMQ)))
    read = met.withColumn("_raw", F.from_json("raw", _RAW)).withColumn("store_timestamp", F.lit(None).cast("timestamp"))
    said = ("broker_name", "topic", "commit_log_offset", "store_timestamp")
    messages = read.where(~F.col("topic").isin(*HALF_TOPICS, *OP_TOPICS)).select(
        *said, "transaction_id", "_raw.sys_flag", "_raw.prepared_transaction_offset"
    )
    ops = read.where(F.col("topic").isin(*OP_TOPICS)).select(
        *said,
        table_queue_id().alias("queue_id"),
        "queue_offset",
        F.lit(None).cast("bigint").alias("content_hash"),
        "_raw.properties",
        F.unbase64("_raw.body").alias("body"),
    )
    return messages, op_tokens(ops)
