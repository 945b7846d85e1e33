"""Landing of half, op, message and max-time records, whichever source decoded them."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from txmq_lib.names import (
    HALF_TOPIC,
    ORIGIN_LANDED,
    ROLE_ENGINE,
    SYS_FLAG_PREPARED,
    SYS_FLAG_ROLLBACK,
    SYS_FLAG_TRANSACTION_MASK,
    TRANSACTION_TOPICS,
)
from txmq_lib.pipeline.quarantining import append_quarantine
from txmq_lib.rules import frontier, prepare
from txmq_lib.rules.contract import MESSAGE_COLUMNS, TOPIC_OF_KIND, stored_properties, topic_fault
from txmq_lib.rules.duplicates import CONFLICT, DUPLICATE, NEW, judged_by_key
from txmq_lib.rules.half import given_up_messages, half_messages, messages
from txmq_lib.rules.op import op_faults, op_tokens
from txmq_lib.tables.local_frame import at_hand
from txmq_lib.tables.passes import Pass

TABLE_OF_KIND = {
    "half": "half_message",
    "op": "op_message",
    "message": "message",
    "max-time": "trans_check_max_time",
}
PREPARED = "prepared"  # the step of halves made of prepared messages
QUEUE_KEY = ("broker_name", "queue_id", "queue_offset")
TOPIC_KEY = ("broker_name", "topic", "queue_id", "queue_offset")
PHYSICAL_KEY = ("broker_name", "commit_log_offset")
FAULT_COLUMNS = ("reason", "detail", "raw", "source")
MOVES_ON = f"s.next_offset >= t.next_offset or s.queue_id = {frontier.WHOLE_QUEUE_ID}"
LANDING_ONLY = (*FAULT_COLUMNS, "position", "is_prepared")
PLACE = ("broker_name", "topic", "queue_id", "queue_offset", "store_timestamp")
ROWS_OF_KIND = {"half": half_messages, "message": messages, "max-time": given_up_messages}


def land(current: Pass, stored: DataFrame, *, kind: str, broker_name: str, takes_prepared: bool) -> DataFrame:
    """Append what is new of `stored` (rules.contract.message_rows with content_hash), quarantine the rest.

    It is read several times, so it should be at hand.
    Returns the good rows with their place in their queue, for the frontier: broker_name, topic, queue_id,
    queue_offset, store_timestamp; halves made of prepared messages have the place they were given.
    """
    faulty = _with_faults(stored, kind, takes_prepared=takes_prepared)
    # Several small queries follow: over a cached frame they are planned in no time.
    told = {"broker_name": F.lit(broker_name), "properties": stored_properties(F.col("properties"))}
    records = current.cached_if_small(faulty.withColumns(told))
    with current.timed("decode"):
        batch = _measured(records)
    good = records.where("reason is null")
    faults = [records.where("reason is not null").select(*FAULT_COLUMNS)] if batch["bad"] else []
    direct = good.where(F.col("topic") == HALF_TOPIC) if batch["prepared"] else good
    places = [direct.select(*PLACE)]
    if batch["direct"]:
        faults += _land_direct(current, direct, _existing(current, kind, broker_name, batch), kind)
    if batch["prepared"]:
        prepared, conflicts = _land_prepared(current, good, broker_name, batch)
        faults.append(conflicts)
        places.append(prepared.select(*PLACE))
    if faults:
        append_quarantine(current, reduce(DataFrame.unionByName, faults), broker_name=broker_name, kind=kind)
    return reduce(DataFrame.unionByName, places)


def land_every_kind(current: Pass, stored: DataFrame, *, broker_name: str, source: str) -> DataFrame:
    """Land rows of all topics (columns of the store reader, detail, source, content_hash), each as its topic says.

    Returns the rows that lie in a queue, good ones and bad; what is damaged beyond telling goes to quarantine.
    """
    is_engine = current.settings.for_broker(broker_name).role == ROLE_ENGINE
    transaction_type = F.col("sys_flag").bitwiseAND(SYS_FLAG_TRANSACTION_MASK)
    # A damaged record may have a topic and no flags.
    never_visible = F.coalesce(transaction_type.isin(SYS_FLAG_PREPARED, SYS_FLAG_ROLLBACK), F.lit(False))
    queued = stored.where(~never_visible)
    for kind, topic in TOPIC_OF_KIND.items():
        land(
            current,
            queued.where(F.col("topic") == topic),
            kind=kind,
            broker_name=broker_name,
            takes_prepared=is_engine and kind == "half",
        )
    visible = queued.where(~F.col("topic").isin(*TRANSACTION_TOPICS))
    land(current, visible, kind="message", broker_name=broker_name, takes_prepared=False)
    damage = stored.where("topic is null").select(*FAULT_COLUMNS)
    append_quarantine(current, damage, broker_name=broker_name, kind=source)
    with current.timed("count"):
        # Old clients' prepared and rolled back records enter no queue (R10): nobody can ever see them.
        current.counts["never_visible"] = stored.where(never_visible).count()
    return queued


def move_frontier(current: Pass, reports: DataFrame) -> None:
    """Move landing_frontier by `reports`, one row per queue."""
    with current.timed("frontier"):
        # One row per queue: a MERGE would compute them three times.
        changed, count = at_hand(
            frontier.advanced(current.read("landing_frontier"), reports, pass_number=current.number)
        )
    # Another job may have moved the row since the plan was made: never back.
    current.upsert("landing_frontier", changed, step="frontier", only_if=MOVES_ON, count=count)


def _measured(records: DataFrame) -> Row:
    """How many records are bad, prepared, under their own kind's topic; and the span of queue offsets."""
    is_good = F.col("reason").isNull()
    is_prepared, is_direct = is_good & F.col("is_prepared"), is_good & ~F.col("is_prepared")
    return records.agg(
        F.count_if(~is_good).alias("bad"),
        F.count_if(is_prepared).alias("prepared"),
        F.count_if(is_direct).alias("direct"),
        F.min("queue_offset").alias("low"),
        F.max("queue_offset").alias("high"),
        F.max(F.when(is_direct, F.col("queue_offset") + 1)).alias("direct_end"),
    ).collect()[0]


def _land_direct(current: Pass, direct: DataFrame, existing: DataFrame, kind: str) -> list[DataFrame]:
    """Append new records; faults found on the way."""
    key = QUEUE_KEY if kind in ("half", "op") else TOPIC_KEY
    judged = current.cached_if_small(judged_by_key(direct, existing, key))
    tally = _tallied(current, judged)
    new = direct
    if tally.keys() - {NEW}:
        judged = judged if current.is_small else current.cached(judged)
        new = judged.where(F.col("status") == NEW).drop("status")
    faults = [_conflicts(judged)] if CONFLICT in tally else []
    if kind == "op":
        faults.append(op_faults(new.withColumn("raw", _as_json())))
        # Its position is the place in the body: a column of the table.
        rows = current.cached(op_tokens(new))
    else:
        rows = ROWS_OF_KIND[kind](new.drop(*LANDING_ONLY))
    count = None if kind == "op" else tally.get(NEW, 0)
    current.append(TABLE_OF_KIND[kind], _own_columns(rows, current), step=kind, count=count)
    return faults


def _tallied(current: Pass, judged: DataFrame) -> dict[str, int]:
    with current.timed("judge"):
        tally = {row["status"]: row["count"] for row in judged.groupBy("status").count().collect()}
    current.counts["already_there"] = current.counts.get("already_there", 0) + tally.get(DUPLICATE, 0)
    return tally


def _with_faults(stored: DataFrame, kind: str, *, takes_prepared: bool) -> DataFrame:
    topic_wrong = topic_fault(kind)
    if takes_prepared:
        topic_wrong = F.when(prepare.is_under_own_topic(), prepare.prepare_fault())
    is_good = F.col("reason").isNull()
    raw_now = F.when(is_good & topic_wrong.isNotNull(), _as_json())
    return stored.select(
        *MESSAGE_COLUMNS,
        "content_hash",
        F.coalesce("reason", topic_wrong["reason"]).alias("reason"),
        F.coalesce("detail", topic_wrong["detail"]).alias("detail"),
        F.coalesce("raw", raw_now).alias("raw"),
        "source",
        "position",
        (prepare.is_under_own_topic() if takes_prepared else F.lit(False)).alias("is_prepared"),
    )


def _existing(current: Pass, kind: str, broker_name: str, batch: Row) -> DataFrame:
    rows = current.read(TABLE_OF_KIND[kind]).where(F.col("broker_name") == broker_name)
    # Offsets are dense and ascend as they land, so the span of a batch leaves out nearly all files of the past.
    return rows.where(F.col("queue_offset").between(batch["low"], batch["high"]))


def _land_prepared(current: Pass, good: DataFrame, broker_name: str, batch: Row) -> tuple[DataFrame, DataFrame]:
    """Append new prepared messages as halves; the halves, and conflicts found on the way."""
    known = current.read("half_message").where(F.col("broker_name") == broker_name)
    # A prepared message has no half offset of its own yet: it is known by its physical offset.
    judged = current.cached(judged_by_key(good.where("is_prepared"), known, PHYSICAL_KEY))
    tally = _tallied(current, judged)
    new = judged.where(F.col("status") == NEW).drop("status")
    queue = current.read("landing_frontier").where(
        (F.col("broker_name") == broker_name) & (F.col("topic") == HALF_TOPIC) & (F.col("queue_id") == 0)
    )
    end = max([0, batch["direct_end"] or 0, *[row["next_offset"] for row in queue.collect()]])
    # A landing that was given up on its way has left halves behind the frontier.
    beyond = known.where((F.col("queue_id") == 0) & (F.col("queue_offset") >= end)).agg(F.max("queue_offset") + 1)
    start = max(end, beyond.collect()[0][0] or 0)
    current.counts["delay_dropped"] = new.where(prepare.has_delay()).count()
    halves = prepare.as_halves(new, F.lit(start))
    rows = _own_columns(half_messages(halves.drop(*LANDING_ONLY)), current)
    current.append("half_message", rows, step=PREPARED, count=tally.get(NEW, 0))
    return halves, _conflicts(judged)


def _conflicts(judged: DataFrame) -> DataFrame:
    return judged.where(F.col("status") == CONFLICT).select(
        F.lit("KEY_CONFLICT").alias("reason"),
        F.concat(F.lit("other content landed before at queue offset "), F.col("queue_offset")).alias("detail"),
        _as_json().alias("raw"),
        "source",
    )


def _as_json() -> Column:
    return F.to_json(F.struct(*MESSAGE_COLUMNS))


def _own_columns(rows: DataFrame, current: Pass) -> DataFrame:
    return rows.withColumns({"origin": F.lit(ORIGIN_LANDED), "landed_pass": F.lit(current.number).cast("bigint")})
