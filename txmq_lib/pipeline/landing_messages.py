"""Landing of half, op, message and max-time records, whichever source decoded them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import HALF_TOPIC, ORIGIN_LANDED
from txmq_lib.pipeline.quarantining import append_quarantine
from txmq_lib.rules import frontier, prepare
from txmq_lib.rules.contract import MESSAGE_COLUMNS, stored_properties, topic_fault
from txmq_lib.rules.duplicates import CONFLICT, NEW, judged_by_key
from txmq_lib.rules.half import content_hash, given_up_messages, half_messages, messages
from txmq_lib.rules.op import op_tokens
from txmq_lib.tables.passes import Pass

TABLE_OF_KIND = {
    "half": "half_message",
    "op": "op_message",
    "message": "message",
    "max-time": "trans_check_max_time",
}
QUEUE_KEY = ("broker_name", "queue_id", "queue_offset")
TOPIC_KEY = ("broker_name", "topic", "queue_id", "queue_offset")
PHYSICAL_KEY = ("broker_name", "commit_log_offset")
FAULT_COLUMNS = ("reason", "detail", "raw", "source")
LANDING_ONLY = (*FAULT_COLUMNS, "position")


def land(current: Pass, stored: DataFrame, *, kind: str, broker_name: str, takes_prepared: bool) -> DataFrame:
    """Append what is new of `stored` (columns of rules.contract.message_rows), quarantine the rest.

    Returns the good rows with their place in their queue, for the frontier; half rows made of prepared messages have
    the place they were given. `stored` is read several times: give it persisted.
    """
    frame = _with_faults(stored, kind, takes_prepared=takes_prepared).withColumn("broker_name", F.lit(broker_name))
    good = frame.where("reason is null").withColumn("properties", stored_properties(F.col("properties")))
    return _land_good(
        current,
        good.withColumn("content_hash", content_hash()),
        frame.where("reason is not null"),
        kind=kind,
        broker_name=broker_name,
        takes_prepared=takes_prepared,
    )


def move_frontier(current: Pass, reports: DataFrame) -> None:
    """Move landing_frontier by `reports`, one row per queue."""
    changed = frontier.advanced(current.read("landing_frontier"), reports, pass_number=current.number)
    # Another job may have moved the row since the plan was made: never back.
    current.upsert("landing_frontier", changed, step="frontier", only_if="s.next_offset >= t.next_offset")


def _land_good(
    current: Pass, good: DataFrame, bad: DataFrame, *, kind: str, broker_name: str, takes_prepared: bool
) -> DataFrame:
    table = TABLE_OF_KIND[kind]
    key = QUEUE_KEY if kind in ("half", "op") else TOPIC_KEY
    direct = good.where(F.col("topic") == HALF_TOPIC) if kind == "half" else good
    judged = judged_by_key(direct, _existing(current, table, direct, broker_name), key).persist()
    new = judged.where(F.col("status") == NEW).drop("status")
    faults = [_conflicts(judged), bad.select(*FAULT_COLUMNS)]
    if kind == "op":
        tokens = op_tokens(new.withColumn("raw", _as_json()))
        faults.append(tokens.where("reason is not null").select(*FAULT_COLUMNS))
        # Its position is the place in the body: a column of the table.
        rows = tokens.where("reason is null").drop(*FAULT_COLUMNS)
    elif kind == "half":
        rows = half_messages(new.drop(*LANDING_ONLY))
        if takes_prepared:
            prepared, conflicts = _new_prepared(current, good, direct, broker_name)
            rows = rows.unionByName(half_messages(prepared.drop(*LANDING_ONLY)))
            faults.append(conflicts)
    else:
        plain = new.drop(*LANDING_ONLY)
        rows = messages(plain) if kind == "message" else given_up_messages(plain)
    written = _own_columns(rows, current)
    current.append(table, written, step=kind)
    bad_rows = faults[0]
    for fault in faults[1:]:
        bad_rows = bad_rows.unionByName(fault)
    append_quarantine(current, bad_rows, broker_name=broker_name, kind=kind)
    with current.timed("count"):
        tally = {row["status"]: row["count"] for row in judged.groupBy("status").count().collect()}
        current.counts["already_there"] = current.counts.get("already_there", 0) + tally.get("duplicate", 0)
    judged.unpersist()
    return rows if kind == "half" else good


def _with_faults(stored: DataFrame, kind: str, *, takes_prepared: bool) -> DataFrame:
    topic_wrong = topic_fault(kind)
    if kind == "half" and takes_prepared:
        topic_wrong = F.when(prepare.is_under_own_topic(), prepare.prepare_fault())
    is_good = F.col("reason").isNull()
    raw_now = F.when(is_good & topic_wrong.isNotNull(), _as_json())
    return stored.select(
        *MESSAGE_COLUMNS,
        F.coalesce("reason", topic_wrong["reason"]).alias("reason"),
        F.coalesce("detail", topic_wrong["detail"]).alias("detail"),
        F.coalesce("raw", raw_now).alias("raw"),
        "source",
        "position",
    )


def _existing(current: Pass, table: str, batch: DataFrame, broker_name: str) -> DataFrame:
    with current.timed("range"):
        span = batch.agg(F.min("queue_offset").alias("low"), F.max("queue_offset").alias("high")).first()
    rows = current.read(table).where(F.col("broker_name") == broker_name)
    # Offsets are dense and ascend as they land, so the span of a batch leaves out nearly all files of the past.
    return rows.where(F.col("queue_offset").between(span["low"], span["high"])) if span else rows


def _new_prepared(
    current: Pass, good: DataFrame, direct: DataFrame, broker_name: str
) -> tuple[DataFrame, DataFrame]:
    prepared = good.where(prepare.is_under_own_topic())
    known = current.read("half_message").where(F.col("broker_name") == broker_name)
    # Only rows that came in as prepared messages may be met again as such; both have one physical offset.
    judged = judged_by_key(prepared, known, PHYSICAL_KEY)
    new = judged.where(F.col("status") == NEW).drop("status")
    queue = current.read("landing_frontier").where(
        (F.col("broker_name") == broker_name) & (F.col("topic") == HALF_TOPIC) & (F.col("queue_id") == 0)
    )
    landed = [row["next_offset"] for row in queue.collect()]
    ahead = direct.where("queue_id = 0").agg(F.max("queue_offset") + 1).first()
    start = max([0, *landed, *[value for value in (ahead or []) if value is not None]])
    current.counts["delay_dropped"] = new.where(prepare.has_delay()).count()
    return prepare.as_halves(new, F.lit(start)), _conflicts(judged)


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
    return rows.withColumns(
        {"origin": F.lit(ORIGIN_LANDED), "landed_pass": F.lit(current.number).cast("bigint")}
    )
