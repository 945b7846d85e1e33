"""Which transactions an audit judges: those that new rows concern, and those that time or settings may have changed."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import (
    COMMITTED_OP_LOST,
    HALF_TOPICS,
    KEY_CONFLICT,
    OP_TOPICS,
    REASON_READ_PAST_OP,
    ROLLED_BACK,
    UNDECIDED,
)
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.shared.orphans import Orphans
from txmq_lib.pipeline.shared.pruning import Values, near_twins, near_values
from txmq_lib.rules.bad_places import REAL_QUEUE
from txmq_lib.rules.decisions import resumes
from txmq_lib.rules.evidence import diverted_halves
from txmq_lib.rules.half import is_of_rocksdb, named_offset
from txmq_lib.rules.orphans import with_same_id
from txmq_lib.rules.pending import is_committed
from txmq_lib.rules.policy import Policies
from txmq_lib.rules.proof import misread_queues
from txmq_lib.rules.transaction_key import transactions_of
from txmq_lib.rules.verdict import expiring, moved_by_settings


def touched_transactions(current: Pass, frontier: DataFrame, orphans: Orphans, policies: Policies) -> DataFrame:
    """Keys of the transactions some new row concerns, and of the unsettled ones that time has changed.

    A row of landing_frontier concerns none by itself: `expiring` looks at all that it may change.
    """
    new_messages = current.new_rows("message")
    direct = [
        current.new_rows("half_message"),
        current.new_rows("trans_check_max_time"),
        current.new_rows("check_request"),
        current.new_rows("end_outcome").where("transaction_id is not null"),
        diverted_halves(new_messages),
        resumes(current.new_rows("manual_decision")),
    ]
    unsettled = current.read_part("verdict", "is_settled", value=False)
    keys = [
        *[transactions_of(rows) for rows in direct],
        expiring(unsettled, frontier, policies=policies, now=current.now),
    ]
    if not current.is_first:  # at the first pass every half is new, and touched by that
        if current.last_note.get("settings_fingerprint") != current.settings.fingerprint():
            keys.append(moved_by_settings(current.read("verdict")))
        keys += [_named_by_new_ops(current), _named_by_messages(current, new_messages), _with_id_of(current, orphans)]
        keys += _beside_new_rivals(current)
        keys += _proved_by_misread(current, frontier)
    return reduce(DataFrame.unionByName, keys).distinct()  # several new rows may concern one transaction


def _named_by_new_ops(current: Pass) -> DataFrame:
    ops = current.new_rows("op_message").select(
        "broker_name", "queue_id", F.col("half_queue_offset").alias("named_offset")
    )
    by_kind = ops.select(
        F.when(~is_of_rocksdb(), F.col("named_offset")).alias("queue_offset"),
        F.when(is_of_rocksdb(), F.col("named_offset")).alias("commit_log_offset"),
    )
    places = Values(by_kind, "queue_offset", "commit_log_offset")
    by_either = places.near("queue_offset", "queue_offset") | places.near("commit_log_offset", "commit_log_offset")
    near = by_either.rows(current, "half_message")
    halves = near.withColumn("named_offset", named_offset())
    return transactions_of(halves.join(ops, on=["broker_name", "queue_id", "named_offset"], how="left_semi"))


def _named_by_messages(current: Pass, new_messages: DataFrame) -> DataFrame:
    """Keys of the transactions whose half a new message names by its place in the commit log."""
    # Zero is a place as well, but in a message that was never prepared it says nothing.
    places = new_messages.where((F.col("prepared_transaction_offset") > 0) | is_committed()).select(
        "broker_name", F.col("prepared_transaction_offset").alias("commit_log_offset")
    )
    near = near_values("commit_log_offset", places, "commit_log_offset")
    key = ["broker_name", "commit_log_offset"]
    found = [
        transactions_of(near.rows(current, table).join(places, on=key, how="left_semi"))
        for table in ("half_message", "trans_check_max_time")
    ]
    return found[0].unionByName(found[1])


def _with_id_of(current: Pass, orphans: Orphans) -> DataFrame:
    """Keys of the transactions that have the id of a new orphan, or of one that is none any more."""
    near = near_twins(orphans.changed)
    halves, given_up = [near.rows(current, table) for table in ("half_message", "trans_check_max_time")]
    return with_same_id(halves, given_up, orphans.changed)


def _beside_new_rivals(current: Pass) -> list[DataFrame]:
    """Keys of the transactions whose proof a record in quarantine may refute, mostly as its key was taken: rare."""
    if not current.has_new_rows("quarantine"):
        return []
    bad = current.cached(current.new_rows("quarantine"))
    is_unplaced = F.col("topic").isNull() | ~F.coalesce(F.col("queue_id") >= 0, F.lit(False))
    may_be_op = F.col("topic").isin(*OP_TOPICS) | (is_unplaced & F.col("commit_log_offset").isNotNull())
    # A message whose op lies in what cannot be read has not lost it.
    without_op = current.read("verdict").where(F.col("verdict").isin(*UNDECIDED, COMMITTED_OP_LOST))
    of_bad_ops = bad.where(may_be_op).select("broker_name").distinct()
    keys = [transactions_of(without_op.join(F.broadcast(of_bad_ops), on="broker_name", how="left_semi"))]
    rivals = bad.where(F.col("reason") == KEY_CONFLICT)
    if rivals.isEmpty():
        return keys
    with_its_id = rivals.select("broker_name", "transaction_id").distinct()
    queues = rivals.selectExpr("broker_name", "topic as real_topic", "queue_id as real_queue_id").distinct()
    proved = current.read("verdict").where(F.col("verdict").isin(ROLLED_BACK, COMMITTED_OP_LOST))
    of_ops = rivals.where(F.col("topic").isin(*OP_TOPICS)).select("broker_name").distinct()
    of_halves = rivals.where(F.col("topic").isin(*HALF_TOPICS)).select("broker_name", "queue_offset")
    halves = near_values("queue_offset", of_halves, "queue_offset").rows(current, "half_message")
    return [
        *keys,
        transactions_of(without_op.join(with_its_id, on=["broker_name", "transaction_id"], how="left_semi")),
        transactions_of(proved.join(F.broadcast(queues), on=list(REAL_QUEUE), how="left_semi")),
        transactions_of(proved.join(F.broadcast(of_ops), on="broker_name", how="left_semi")),
        transactions_of(
            halves.join(current.sent_if_few(of_halves), on=["broker_name", "queue_offset"], how="left_semi")
        ),
    ]


def _proved_by_misread(current: Pass, frontier: DataFrame) -> list[DataFrame]:
    """Keys of the transactions whose rollback was proved by a place that may have been misread: rare."""
    if not current.has_new_rows("landing_frontier"):
        return []
    queues = misread_queues(frontier)
    if queues.isEmpty():
        return []
    proved = current.read("verdict").where(F.col("reason") == REASON_READ_PAST_OP)
    return [transactions_of(proved.join(F.broadcast(queues), on=list(REAL_QUEUE), how="left_semi"))]
