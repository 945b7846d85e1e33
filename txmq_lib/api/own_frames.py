"""The rules on frames of one's own: no warehouse, no pass, nothing is written. Pure, as the rules are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.conform import struct_type
from txmq_lib.errors import UsageError
from txmq_lib.names import (
    HIGHEST_OFFSET,
    ORIGIN_LANDED,
    SYS_FLAG_PREPARED,
    SYS_FLAG_ROLLBACK,
    SYS_FLAG_TRANSACTION_MASK,
    TRANSACTION_KEY,
    TRANSACTION_TOPICS,
)
from txmq_lib.pipeline.shared.evidence import HALF_COLUMNS
from txmq_lib.rules.decisions import resumes
from txmq_lib.rules.evidence import Evidence, diverted_halves, transaction_figures
from txmq_lib.rules.frontier import WHOLE_LOG_TOPIC, WHOLE_QUEUE_ID, as_frontier, reached
from txmq_lib.rules.half import given_up_messages, half_messages, messages, table_queue_id
from txmq_lib.rules.landing_contract import MESSAGE_COLUMNS, TOPICS_OF_KIND
from txmq_lib.rules.op import op_tokens
from txmq_lib.rules.orphans import HALF, committed_by_brokers, without_half
from txmq_lib.rules.pending import closed, folded
from txmq_lib.rules.policy import Limits, Policies
from txmq_lib.rules.runs import run
from txmq_lib.rules.transaction_key import join_transaction, transactions_of
from txmq_lib.rules.verdict import judged

PENDING_COLUMNS = (
    *TRANSACTION_KEY,
    *("real_topic", "real_queue_id", "queue_id", "queue_offset", "commit_log_offset", "offset_msg_id"),
    *("half_offsets", "first_store_timestamp", "last_store_timestamp", "broker_check_times"),
)
# What the rules read of each frame; schemas/ of the table of that name says what it is.
NEEDED: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "halves": ("half_message", HALF_COLUMNS),
    "ops": (
        "op_message",
        ("broker_name", "queue_id", "half_queue_offset", "commit_log_offset", "store_timestamp", "origin"),
    ),
    "messages": (
        "message",
        (
            *TRANSACTION_KEY,
            *("topic", "queue_id", "queue_offset", "commit_log_offset", "store_timestamp", "sys_flag"),
            *("prepared_transaction_offset", "properties"),
        ),
    ),
    "given_up": (
        "trans_check_max_time",
        (
            *TRANSACTION_KEY,
            *("queue_offset", "commit_log_offset", "store_timestamp", "real_topic", "real_queue_id"),
            *("broker_check_times", "half_commit_log_offset"),
        ),
    ),
    "read": (
        "landing_frontier",
        (
            *("broker_name", "topic", "queue_id", "highest_store_timestamp", "lowest_kept_offset"),
            *("runs", "told_end", "file_end", "first_told_end", "is_untold", "changes", "former_timestamp"),
        ),
    ),
}


@dataclass(frozen=True)
class Records:
    """What brokers have stored of transactions, as frames like the tables; NEEDED names the columns, more do no harm.

    halves    as half_message: half messages, every copy a row
    ops       as op_message: a row per half that an op names
    messages  as message: what consumers see
    given_up  as trans_check_max_time: what was given up
    read      as landing_frontier: how far each queue was read without a hole, which alone proves a rollback (R23)

    UsageError where a frame lacks a column that the rules read.
    """

    halves: DataFrame
    ops: DataFrame
    messages: DataFrame
    given_up: DataFrame
    read: DataFrame

    def __post_init__(self) -> None:
        for name, (table, needed) in NEEDED.items():
            if lacking := [column for column in needed if column not in getattr(self, name).columns]:
                raise UsageError(f"{name} lacks {', '.join(lacking)}; schemas/{table}.yaml says what they are")


def records_of(stored: DataFrame, broker: str, *, log_is_whole: bool = False) -> Records:
    """The messages of one broker, of all topics in one frame, as Records.

    stored  a row per stored message, as `spark.read.format("rocketmq_store")` and `"rocketmq"` give: topic, queue_id,
            queue_offset, commit_log_offset, sys_flag, flag, born_timestamp, store_timestamp, born_host, store_host,
            offset_msg_id, reconsume_times, prepared_transaction_offset, properties, body. Rows with a `reason` are no
            messages: they are left out, and leave a hole in their queue, behind which no rollback is proved.
    broker  its name, for broker_name
    log_is_whole  that `stored` is all between its first and last physical offset, as a store read whole is: that proves
            rollbacks where no queue does. Only what lies behind the last row with a `reason` counts.

    UsageError where a column is missing. It is read several times, so it should be cached.
    """
    if lacking := [name for name in MESSAGE_COLUMNS if name not in stored.columns]:
        raise UsageError(f"stored messages lack {', '.join(lacking)}")
    good = stored.where("reason is null") if "reason" in stored.columns else stored
    # An old client's prepared and rolled back records enter no queue (R10).
    is_unseen = F.col("sys_flag").bitwiseAND(SYS_FLAG_TRANSACTION_MASK).isin(SYS_FLAG_PREPARED, SYS_FLAG_ROLLBACK)
    rows = good.where(~is_unseen).select(F.lit(broker).alias("broker_name"), *MESSAGE_COLUMNS)
    of = {kind: rows.where(F.col("topic").isin(*topics)) for kind, topics in TOPICS_OF_KIND.items()}
    hashed = of["op"].withColumns({"queue_id": table_queue_id(), "content_hash": F.lit(None).cast("bigint")})
    places = rows.select(*("broker_name", "topic", "queue_id", "queue_offset", "store_timestamp", "commit_log_offset"))
    read = as_frontier(reached(places.withColumn("told_end", F.lit(None).cast("bigint"))))
    if log_is_whole:
        read = read.unionByName(_whole_log(stored, broker), allowMissingColumns=True)
    return Records(
        halves=half_messages(of["half"]).withColumn("queue_id", table_queue_id()),
        ops=op_tokens(hashed).withColumn("origin", F.lit(ORIGIN_LANDED)),
        messages=messages(rows.where(~F.col("topic").isin(*TRANSACTION_TOPICS))),
        given_up=given_up_messages(of["max-time"]),
        read=read,
    )


def _whole_log(stored: DataFrame, broker: str) -> DataFrame:
    """What landing_frontier would say of a log that was read whole: one row, of one run behind its last bad record."""
    place, is_good = F.col("commit_log_offset"), F.lit(True)
    last_bad = F.lit(-1)
    if "reason" in stored.columns:
        is_good = F.col("reason").isNull()
        last_bad = F.max(F.when(~is_good, F.coalesce("position", F.lit(HIGHEST_OFFSET))))
    behind = F.coalesce(last_bad + 1, F.lit(0))
    first = F.greatest(F.min(F.when(is_good, place)), behind)
    end = F.greatest(F.max(F.when(is_good, place)) + 1, first)
    return stored.agg(
        run(first, end, None, None).alias("_run"), F.max(F.when(is_good, F.col("store_timestamp"))).alias("_highest")
    ).select(
        F.lit(broker).alias("broker_name"),
        F.lit(WHOLE_LOG_TOPIC).alias("topic"),
        F.lit(WHOLE_QUEUE_ID).alias("queue_id"),
        F.col("_highest").alias("highest_store_timestamp"),
        F.array("_run").alias("runs"),
    )


def verdicts_of(records: Records, *, limits: Limits, now: datetime) -> DataFrame:
    """The verdict of every transaction that `records` tell of: one row each, as table `verdict` without pass_number.

    limits  of the brokers, as their configuration has them
    now     with a zone; what was born longer before it than brokers keep halves may be EXPIRED_UNSEEN
    """
    policies = Policies(limits, {})
    committed = committed_by_brokers(records.messages, policies)
    known = records.halves.select(*HALF).unionByName(records.given_up.select(*HALF))
    empty = _empty(records, "check_request"), _empty(records, "end_outcome"), _empty(records, "manual_decision")
    evidence = Evidence(
        halves=records.halves,
        ops=_told_apart(records.ops),
        visible=records.messages,
        given_up=records.given_up,
        diverted=diverted_halves(records.messages),
        checks=empty[0],
        outcomes=empty[1],
        resumed=resumes(empty[2]),
        orphans=without_half(committed, known),
    )
    figures, quarantine = transaction_figures(evidence), _empty(records, "quarantine")
    found = judged(figures, records.read, quarantine, policies=policies, now=now, pass_number=0)
    return found.drop("pass_number")


def pending_of(records: Records) -> DataFrame:
    """The transactions that nothing in `records` has decided or given up: one row each, of PENDING_COLUMNS.

    Columns  the key; real_topic, real_queue_id; where the newest copy of the half lies; half_offsets of all copies;
             first_store_timestamp, last_store_timestamp; broker_check_times: how often its broker has put it back
    """
    transactions = folded(records.halves)
    resumed = resumes(_empty(records, "manual_decision"))
    over = closed(transactions, _told_apart(records.ops), records.messages, records.given_up, resumed)
    return join_transaction(transactions, transactions_of(over), "left_anti").select(*PENDING_COLUMNS)


def _told_apart(ops: DataFrame) -> DataFrame:
    """`ops` with what tells those of one place from each other: null where the frame does not say."""
    known = {"queue_offset": "bigint", "position": "int"}
    return ops.withColumns({name: F.lit(None).cast(of) for name, of in known.items() if name not in ops.columns})


def _empty(records: Records, table: str) -> DataFrame:
    return records.halves.sparkSession.createDataFrame([], struct_type(table_spec(table)))
