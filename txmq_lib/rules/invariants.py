"""What must never be, as frames that must be empty. Pure."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import COMMIT, TRANSACTION_KEY, TRANSACTION_TOPICS
from txmq_lib.rules.effects import BLOCK
from txmq_lib.rules.transaction import join_transaction


def broken_invariants(
    effective: DataFrame, places: DataFrame, pending: DataFrame, blocks: DataFrame | None = None
) -> DataFrame:
    """One row (invariant, broker_name, example) per row that breaks a rule; empty for a sound pass.

    effective  ends that decided a transaction in this pass, with its key
    places     where their messages were restored to
    pending    pending_half after the pass
    blocks     `places` by block, as rules.effects.places_by_block gives them: commits are then looked at one by one in
               those blocks only whose sums do not agree
    """
    commits = effective.where(F.col("decision") == COMMIT)
    # A rebuilt broker may have had two halves at one physical offset.
    place = ("broker_name", "commit_log_offset", "half_queue_offset")
    places_to_check = places
    if blocks is not None:
        doubtful = F.broadcast(_doubtful_blocks(commits, blocks))
        commits, places_to_check = (
            rows.withColumn("block", F.expr(BLOCK)).join(doubtful, on=["broker_name", "block"], how="left_semi")
            for rows in (commits, places)
        )
    both = commits.select(*place, F.lit(1).alias("commits"), F.lit(0).alias("messages")).unionByName(
        places_to_check.select(*place, F.lit(0).alias("commits"), F.lit(1).alias("messages"))
    )
    rules = {
        "system topic among messages": places.where(F.col("topic").isin(*TRANSACTION_TOPICS)).select(
            "broker_name", F.col("topic").alias("example")
        ),
        "a commit without exactly one message": both.groupBy(*place)
        .agg(F.sum("commits").alias("commits"), F.sum("messages").alias("messages"))
        .where("not (commits = 1 and messages = 1)")
        .select("broker_name", F.col("commit_log_offset").cast("string").alias("example")),
        # What is decided may be much, what is left is less: it is that which is sent around.
        "a transaction pending and decided": join_transaction(
            effective.select(*TRANSACTION_KEY), pending.select(*TRANSACTION_KEY), "left_semi"
        ).select("broker_name", F.col("transaction_id").alias("example")),
    }
    frames = [rows.select(F.lit(name).alias("invariant"), "broker_name", "example") for name, rows in rules.items()]
    return reduce(DataFrame.unionByName, frames)


def _doubtful_blocks(commits: DataFrame, blocks: DataFrame) -> DataFrame:
    """Blocks in which the commits are not just the places, or a place is there twice."""
    decided = commits.groupBy("broker_name", F.expr(BLOCK).alias("block")).agg(
        F.count("*").alias("commits"), F.bit_xor(F.xxhash64("commit_log_offset")).alias("commits_hash")
    )
    placed = blocks.select(
        *("broker_name", "block", F.size("commit_log_offsets").alias("messages"), "messages_hash"),
        F.size(F.array_distinct("commit_log_offsets")).alias("distinct_places"),
    )
    is_sound = F.col("commits").eqNullSafe(F.col("messages")) & F.col("commits_hash").eqNullSafe(F.col("messages_hash"))
    is_sound = is_sound & F.col("messages").eqNullSafe(F.col("distinct_places"))
    joined = decided.join(placed, on=["broker_name", "block"], how="full")
    return joined.where(~is_sound).select("broker_name", "block")
