"""What must never be, as frames that must be empty (design section 3). Pure."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import COMMIT, TRANSACTION_KEY, TRANSACTION_TOPICS
from txmq_lib.rules.transaction import join_transaction


def broken_invariants(effective: DataFrame, places: DataFrame, pending: DataFrame) -> DataFrame:
    """One row (invariant, broker_name, example) per row that breaks a rule; empty for a sound pass.

    effective  ends that decided a transaction in this pass, with its key
    places     where their messages were restored to
    pending    pending_half after the pass
    """
    commits = effective.where(F.col("decision") == COMMIT)
    rules = {
        "system topic among messages": places.where(F.col("topic").isin(*TRANSACTION_TOPICS)).select(
            "broker_name", F.col("topic").alias("example")
        ),
        "a commit without exactly one message": commits.groupBy("broker_name", "commit_log_offset")
        .count()
        .join(
            places.groupBy("broker_name", "commit_log_offset").agg(F.count("*").alias("messages")),
            on=["broker_name", "commit_log_offset"],
            how="full",
        )
        .where(~(F.col("count").eqNullSafe(1) & F.col("messages").eqNullSafe(1)))
        .select("broker_name", F.col("commit_log_offset").cast("string").alias("example")),
        "a transaction pending and decided": join_transaction(
            pending.select(*TRANSACTION_KEY), effective.select(*TRANSACTION_KEY), "left_semi"
        ).select("broker_name", F.col("transaction_id").alias("example")),
    }
    frames = [rows.select(F.lit(name).alias("invariant"), "broker_name", "example") for name, rows in rules.items()]
    return reduce(DataFrame.unionByName, frames)
