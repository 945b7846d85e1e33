"""Undecided transactions: half copies folded into one, and what closes it (R39, R56, R64, R73). Pure."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import ORIGIN_LANDED, SYS_FLAG_COMMIT, SYS_FLAG_TRANSACTION_MASK, TRANSACTION_KEY
from txmq_lib.rules.decisions import not_resumed
from txmq_lib.rules.half import named_offset
from txmq_lib.rules.offset_bitmap import offset_bitmap, with_membership
from txmq_lib.rules.transaction_key import join_transaction, transactions_of

NEWEST = ("queue_id", "queue_offset", "commit_log_offset", "offset_msg_id", "check_immunity")
# Columns of half rows that `folded`, and whoever looks for what names them, reads.
FOLDED_FROM = (*TRANSACTION_KEY, *NEWEST, "real_topic", "real_queue_id", "store_timestamp", "broker_check_times")
RENEWED_COLUMNS = ("next_check_timestamp", "is_held")  # columns of pending_half that each pass gives anew
CHECK_STATE = ("check_times", "last_check_timestamp")


def folded(halves: DataFrame) -> DataFrame:
    """One row per transaction of `halves` (FOLDED_FROM; all copies given), as in pending_half but for the check state.

    The newest copy by physical offset is the live one (R56); the real topic is that of the first copy that has one.
    """
    first_with_topic = F.when(F.col("real_topic").isNotNull(), F.col("commit_log_offset"))
    offsets = F.array_sort(F.collect_list(F.struct("queue_offset", "commit_log_offset")))
    grouped = halves.groupBy(*TRANSACTION_KEY).agg(
        F.max_by(F.struct(*NEWEST), "commit_log_offset").alias("_newest"),
        F.min_by(F.struct("real_topic", "real_queue_id"), first_with_topic).alias("_real"),
        offsets.alias("_offsets"),
        F.min("store_timestamp").alias("first_store_timestamp"),
        F.max("store_timestamp").alias("last_store_timestamp"),
        F.coalesce(F.max("broker_check_times"), F.lit(0)).alias("broker_check_times"),
    )
    return grouped.select(
        *TRANSACTION_KEY,
        F.col("_real.real_topic").alias("real_topic"),
        F.col("_real.real_queue_id").alias("real_queue_id"),
        *[F.col(f"_newest.{name}").alias(name) for name in NEWEST],
        F.col("_offsets.queue_offset").alias("half_offsets"),
        F.col("_offsets.commit_log_offset").alias("half_commit_log_offsets"),
        *("first_store_timestamp", "last_store_timestamp", "broker_check_times"),
    )


def decided_offset_bitmap(ops: DataFrame, deciding: DataFrame) -> DataFrame:
    """Bitmap of the offsets of halves that `ops` name or `deciding` ends decide: they are decided (R26)."""
    of_ends = deciding.select(
        "broker_name", F.col("half_queue_id").alias("queue_id"), F.col("half_queue_offset").alias("queue_offset")
    )
    of_ops = ops.select("broker_name", "queue_id", F.col("half_queue_offset").alias("queue_offset"))
    return offset_bitmap(of_ends.unionByName(of_ops))


def opened(pending: DataFrame, touched_halves: DataFrame) -> DataFrame:
    """Transactions that may be undecided: those pending before, and those of new half rows with all their copies.

    What txmq asked before stays known; broker copies only extend the chain.
    """
    renewed = folded(touched_halves)
    untouched = join_transaction(pending, transactions_of(renewed), "left_anti").drop(*RENEWED_COLUMNS)
    checks = pending.select(*TRANSACTION_KEY, *CHECK_STATE)
    with_state = join_transaction(renewed, checks, "left").withColumn(
        "check_times", F.coalesce("check_times", F.lit(0))
    )
    return untouched.unionByName(with_state)


def opened_unless_named(
    pending: DataFrame, touched_halves: DataFrame, bitmap: DataFrame | None
) -> tuple[DataFrame, DataFrame | None]:
    """Rows of `opened`, and the keys of transactions left out of them since `bitmap` names an offset of theirs.

    bitmap  what `decided_offset_bitmap` gives, where that fits into every task; without it none is left out
    """
    if bitmap is None:
        return opened(pending, touched_halves), None
    # Most are decided: those never become transactions here, only their keys are looked at.
    by_name = touched_halves.withColumn("_queue_offset", F.col("queue_offset")).withColumn(
        "queue_offset", named_offset()
    )
    marked = with_membership(by_name, bitmap, "is_named").drop("queue_offset")
    marked = marked.withColumnRenamed("_queue_offset", "queue_offset")
    rest = marked.where("not is_named").drop("is_named")
    return opened(pending, rest), marked.where("is_named").select(*TRANSACTION_KEY)


def copies_of(transactions: DataFrame) -> DataFrame:
    """One row per half row of folded `transactions`: key, real_topic, queue_id, queue_offset, commit_log_offset."""
    places = F.explode(F.arrays_zip("half_offsets", "half_commit_log_offsets")).alias("_place")
    return transactions.select(*TRANSACTION_KEY, "real_topic", "queue_id", places).select(
        *TRANSACTION_KEY,
        "real_topic",
        "queue_id",
        F.col("_place.half_offsets").alias("queue_offset"),
        F.col("_place.half_commit_log_offsets").alias("commit_log_offset"),
    )


def closed(
    transactions: DataFrame, ops: DataFrame, visible: DataFrame, given_up: DataFrame, resumed: DataFrame
) -> DataFrame:
    """Keys of `transactions` that an op names, that are visible, or that are given up and not resumed since.

    resumed  what rules.decisions.resumes gives
    """
    copies = copies_of(transactions)
    by_op = transactions_of(named_by_ops(copies, ops))
    by_message = transactions_of(made_visible(copies, given_up, visible))
    by_giving_up = transactions_of(effectively_given_up(copies, not_resumed(given_up, resumed)))
    return by_op.unionByName(by_message).unionByName(by_giving_up).distinct()  # a decided one closes several ways


def named_by_ops(copies: DataFrame, ops: DataFrame) -> DataFrame:
    """One row per (copy, op row naming it): transaction key, op_store_timestamp, op_place, is_op_landed (R26).

    And where the op says so: op_queue_offset, op_position.
    """
    tokens = ops.select(
        "broker_name",
        "queue_id",
        F.col("half_queue_offset").alias("queue_offset"),
        F.col("store_timestamp").alias("op_store_timestamp"),
        F.col("commit_log_offset").alias("op_place"),
        F.col("queue_offset").alias("op_queue_offset"),
        F.col("position").alias("op_position"),
        (F.col("origin") == ORIGIN_LANDED).alias("is_op_landed"),
    )
    named = copies.withColumn("queue_offset", named_offset()).join(
        tokens, on=["broker_name", "queue_id", "queue_offset"], how="inner"
    )
    said = ("op_store_timestamp", "op_place", "is_op_landed", "op_queue_offset", "op_position")
    return named.select(*TRANSACTION_KEY, *said)


def made_visible(copies: DataFrame, given_up: DataFrame, visible: DataFrame) -> DataFrame:
    """One row per (transaction, committed message of it in its real topic): key and visible_store_timestamp.

    copies  as copies_of gives them: each with the real topic of its transaction, which is that of given-up rows too
    """
    topics = copies.select(*TRANSACTION_KEY, "real_topic").distinct()  # one row per copy
    places = copies.select(*TRANSACTION_KEY, "real_topic", "commit_log_offset").unionByName(
        join_transaction(_places_of(given_up), topics, "inner")
    )
    found = _prepared_there(places, visible).where("is_committed and topic = real_topic")
    return found.select(*TRANSACTION_KEY, "visible_store_timestamp")


def messages_there(halves: DataFrame, given_up: DataFrame, messages: DataFrame) -> DataFrame:
    """One row per (transaction, message that names a place of it): key, and as _prepared_there has it.

    It makes the transaction visible where it `is_committed` and `topic` is its real topic; else it is in doubt.
    """
    found = _prepared_there(_places_of(halves).unionByName(_places_of(given_up)), messages)
    return found.select(*TRANSACTION_KEY, "topic", "is_committed", "visible_store_timestamp", "visible_place")


def _places_of(rows: DataFrame) -> DataFrame:
    return rows.where("commit_log_offset is not null").select(*TRANSACTION_KEY, "commit_log_offset")


def _prepared_there(places: DataFrame, messages: DataFrame) -> DataFrame:
    """`places` of transactions with each message prepared there: topic, visible_store_timestamp, visible_place.

    Rule  it is_committed by its sysFlag commit bits, the prepared offset = physical offset of a half or given-up row,
          and an equal transaction id; with the real topic: retried and rescheduled copies keep the bits but not the
          rest (E2). A message of no transaction names place 0, and so do these copies: a half there is in doubt.
    """
    named = messages.select(
        "broker_name",
        "topic",
        F.col("prepared_transaction_offset").alias("commit_log_offset"),
        is_committed().alias("_has_bits"),
        F.col("transaction_id").alias("_visible_id"),
        F.col("store_timestamp").alias("visible_store_timestamp"),
        F.col("commit_log_offset").alias("visible_place"),
    ).where("_has_bits or commit_log_offset > 0")
    joined = places.join(named, on=["broker_name", "commit_log_offset"], how="inner")
    # A half without UNIQ_KEY restores to a message without one.
    same_id = F.coalesce("_visible_id", "transaction_id") == F.col("transaction_id")
    return joined.withColumn("is_committed", F.col("_has_bits") & same_id)


def is_committed() -> Column:
    """Whether a message has the bits of a committed one."""
    return F.col("sys_flag").bitwiseAND(SYS_FLAG_TRANSACTION_MASK) == SYS_FLAG_COMMIT


def effectively_given_up(copies: DataFrame, given_up: DataFrame) -> DataFrame:
    """Given-up rows that no later half row of the transaction has resumed (R73): by physical offset.

    That is how a broker resumes; txmq writes no half, its own resumes are taken off by `not_resumed`.
    """
    position = F.coalesce("half_commit_log_offset", "commit_log_offset").alias("_given_up_at")
    rows = given_up.select(*TRANSACTION_KEY, position)
    newest = copies.groupBy(*TRANSACTION_KEY).agg(F.max("commit_log_offset").alias("_newest"))
    joined = join_transaction(rows, newest, "left")
    return joined.where(F.coalesce(F.col("_newest") <= F.col("_given_up_at"), F.lit(True)))
