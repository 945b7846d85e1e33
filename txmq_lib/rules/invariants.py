"""What must never be, as frames that must be empty. Pure."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import COMMIT, TRANSACTION_KEY, TRANSACTION_TOPICS
from txmq_lib.rules.transaction_key import join_transaction

NOT_ONE = "a commit without exactly one message"


def broken_invariants(
    deciding: DataFrame, destinations: DataFrame, pending: DataFrame, *, are_messages_made: bool = False
) -> DataFrame:
    """One row (invariant, broker_name, example) per row that breaks a rule; empty for a sound pass.

    deciding  ends that decided a transaction in this pass, with its key
    destinations  of their messages; broker and topic are enough where messages are made
    pending   pending_half after the pass
    are_messages_made  whether there are files with the messages already: who makes them finds one half for each
                       destination, and as many as there are commits, so NOT_ONE holds
    """
    rules = {
        "system topic among messages": destinations.where(F.col("topic").isin(*TRANSACTION_TOPICS)).select(
            "broker_name", F.col("topic").alias("example")
        ),
        # What is decided may be much, what is left is less: it is that which is sent around.
        "a transaction pending and decided": join_transaction(
            deciding.select(*TRANSACTION_KEY), pending.select(*TRANSACTION_KEY), "left_semi"
        ).select("broker_name", F.col("transaction_id").alias("example")),
    }
    if not are_messages_made:
        rules[NOT_ONE] = _not_one(deciding.where(F.col("decision") == COMMIT), destinations)
    frames = [rows.select(F.lit(name).alias("invariant"), "broker_name", "example") for name, rows in rules.items()]
    return reduce(DataFrame.unionByName, frames)


def _not_one(commits: DataFrame, destinations: DataFrame) -> DataFrame:
    # A rebuilt broker may have had two halves at one physical offset.
    place = ("broker_name", "commit_log_offset", "half_queue_offset")
    both = commits.select(*place, F.lit(1).alias("commits"), F.lit(0).alias("messages")).unionByName(
        destinations.select(*place, F.lit(0).alias("commits"), F.lit(1).alias("messages"))
    )
    counts = both.groupBy(*place).agg(F.sum("commits").alias("commits"), F.sum("messages").alias("messages"))
    return counts.where("not (commits = 1 and messages = 1)").select(
        "broker_name", F.col("commit_log_offset").cast("string").alias("example")
    )
