"""Landing of half, op, message and max-time records, whichever source decoded them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Row, Window
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
from txmq_lib.passes.current import Pass
from txmq_lib.passes.frames import MOST_KEYS_SENT
from txmq_lib.pipeline.land.kinds import MESSAGE_TABLES
from txmq_lib.pipeline.land.records.faults import as_json, conflict_rows, fault_columns
from txmq_lib.pipeline.shared.quarantining import append_quarantine
from txmq_lib.rules import prepare
from txmq_lib.rules.duplicates import CONFLICTS, DUPLICATE, NEW, judged_by_key, repeated_keys
from txmq_lib.rules.half import given_up_messages, half_messages, messages, stored_queue_id, table_queue_id
from txmq_lib.rules.landing_contract import MESSAGE_COLUMNS, TOPICS_OF_KIND, stored_properties, topic_fault
from txmq_lib.rules.op import op_faults, op_tokens
from txmq_lib.rules.pending import is_committed
from txmq_lib.rules.runs import QUEUE
from txmq_lib.rules.traces import end_traces, trace_faults, trace_records

PREPARED = "prepared"  # the step of halves made of prepared messages
SUSPECTS = "_suspects"  # ends the steps of records beside those that tasks have written to files
QUEUE_KEY = ("broker_name", "queue_id", "queue_offset")
TOPIC_KEY = ("broker_name", "topic", "queue_id", "queue_offset")
PHYSICAL_KEY = ("broker_name", "commit_log_offset")
WHY = ("reason", "detail", "raw", "source")
LANDING_ONLY = (*WHY, "position", "is_prepared", "told_end")
PLACE = (*QUEUE, "queue_offset", "store_timestamp", "commit_log_offset", "told_end", "position")
ROWS_OF_KIND = {"half": half_messages, "message": messages, "max-time": given_up_messages}


class Landed(NamedTuple):
    """What a landing of several kinds knows of its records.

    rows    those that lie in a queue, good ones and bad (columns of the store reader)
    rivals  `position` of the good ones that did not land, since another record had their key; None where all did
    """

    rows: DataFrame
    rivals: DataFrame | None


def land(
    current: Pass,
    stored: DataFrame,
    *,
    kind: str,
    broker_name: str,
    takes_prepared: bool,
    are_suspects: bool = False,
) -> DataFrame:
    """Append what is new of `stored`, quarantine the rest. It is read several times, so it should be at hand.

    stored        rules.landing_contract.message_rows with content_hash and told_end
    are_suspects  these are what is left of a landing whose other rows are in their table
    Returns the good rows for the frontier (PLACE); halves made of prepared messages have the place they were given, and
    what did not land, since another record had its key, has none in the log.
    """
    suffix = SUSPECTS if are_suspects else ""
    places, rivals = _land_kind(current, stored, kind, broker_name, takes_prepared=takes_prepared, suffix=suffix)
    if are_suspects:
        _count_together(current, [kind])
    return places if rivals is None else without_place(places, rivals)


def land_every_kind(
    current: Pass, stored: DataFrame, *, broker_name: str, source: str, are_suspects: bool = False
) -> Landed:
    """Land rows of all topics (columns of the store reader, detail, source, content_hash), each as its topic says.

    What is damaged beyond telling goes to quarantine.
    are_suspects  these are what is left of a landing whose other rows are in their tables
    """
    suffix = SUSPECTS if are_suspects else ""
    is_engine = current.settings.for_broker(broker_name).role == ROLE_ENGINE
    queued = stored.where(~is_never_visible()).withColumn("told_end", F.lit(None).cast("bigint"))
    parts = [
        (kind, queued.where(F.col("topic").isin(*topics)), is_engine and kind == "half")
        for kind, topics in TOPICS_OF_KIND.items()
    ]
    is_message = ~F.col("topic").isin(*TRANSACTION_TOPICS)
    if (trace_topic := current.settings.land.trace_topic) is not None:
        # Clients trace in no transaction: what was committed is a message, whatever its topic is taken for.
        is_trace = (F.col("topic") == trace_topic) & ~F.coalesce(is_committed(), F.lit(False))
        parts.append(("trace", queued.where(is_trace), False))
        is_message &= ~is_trace
    parts.append(("message", queued.where(is_message), False))
    landed = [
        _land_kind(current, rows, kind, broker_name, takes_prepared=takes_prepared, suffix=suffix)
        for kind, rows, takes_prepared in parts
    ]
    damage = stored.where("topic is null").select(*fault_columns())
    append_quarantine(current, damage, broker_name=broker_name, kind=source)
    with current.timed("count"):
        current.counts["never_visible"] = stored.where(is_never_visible()).count()
    if are_suspects:
        _count_together(current, [kind for kind, *_ in parts])
    rivals = [found for _, found in landed if found is not None]
    return Landed(queued, reduce(DataFrame.unionByName, rivals) if rivals else None)


def is_never_visible() -> Column:
    """Whether a record is an old client's prepared or rolled back one: it enters no queue, and nobody sees it (R10)."""
    transaction_type = F.col("sys_flag").bitwiseAND(SYS_FLAG_TRANSACTION_MASK)
    # A damaged record may have a topic and no flags.
    return F.coalesce(transaction_type.isin(SYS_FLAG_PREPARED, SYS_FLAG_ROLLBACK), F.lit(False))


def _count_together(current: Pass, kinds: Iterable[str]) -> None:
    for kind in kinds:
        current.counts[kind] = current.counts.get(kind, 0) + current.counts.pop(kind + SUSPECTS, 0)


def without_place(rows: DataFrame, rivals: DataFrame | None) -> DataFrame:
    """`rows` where those of the positions `rivals` have no place in the log, nor what follows such a one in its queue.

    A queue was made anew, its topic deleted, or its log cut back, between what landed before and what follows.
    """
    if rivals is None:
        return rows
    marked = rows.join(rivals.withColumn("_is_rival", F.lit(True)), on="position", how="left")
    before = Window.partitionBy("topic", "queue_id").orderBy("queue_offset", "commit_log_offset")
    followed = marked.withColumn("_follows", F.lag("_is_rival").over(before))
    place = F.when(F.coalesce("_is_rival", "_follows").isNull(), F.col("commit_log_offset"))
    return followed.withColumn("commit_log_offset", place).drop("_is_rival", "_follows")


def _land_kind(
    current: Pass, stored: DataFrame, kind: str, broker_name: str, *, takes_prepared: bool, suffix: str = ""
) -> tuple[DataFrame, DataFrame | None]:
    """Append what is new, quarantine the rest; the good rows, and the positions of those in conflict, if any."""
    faulty = _with_faults(stored, kind, takes_prepared=takes_prepared)
    # Several small queries follow.
    common = {"broker_name": F.lit(broker_name), "properties": stored_properties(F.col("properties"))}
    records = current.kept_in_small_pass(faulty.withColumns(common))
    with current.timed("decode"):
        batch = _measured(records)
    good = records.where("reason is null")
    faults = [records.where("reason is not null").select(*fault_columns())] if batch["bad"] else []
    direct = good.where(F.col("topic") == HALF_TOPIC) if batch["prepared"] else good
    places, rivals = [direct.select(*PLACE)], None
    if batch["direct"]:
        found, rivals = _land_direct(current, direct, _existing(current, kind, broker_name, batch), kind, kind + suffix)
        faults += found
    if batch["prepared"]:
        prepared, conflicts = _land_prepared(current, good, broker_name, batch)
        faults.append(conflicts)
        # What was told of their own queue says nothing of the half queue.
        places.append(prepared.withColumn("told_end", F.lit(None).cast("bigint")).select(*PLACE))
    if faults:
        append_quarantine(current, reduce(DataFrame.unionByName, faults), broker_name=broker_name, kind=kind)
    return reduce(DataFrame.unionByName, places), rivals


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


def _land_direct(
    current: Pass, direct: DataFrame, existing: DataFrame, kind: str, step: str
) -> tuple[list[DataFrame], DataFrame | None]:
    """Append new records; faults found on the way, and the positions of those in conflict, if any."""
    key: tuple[str, ...] = TOPIC_KEY
    if kind in ("half", "op"):
        key, direct = QUEUE_KEY, direct.withColumn("queue_id", table_queue_id())
    few_repeated = current.few_or_none(repeated_keys(direct, key), most=MOST_KEYS_SENT)
    judged = current.kept_in_small_pass(judged_by_key(direct, existing, key, few_repeated))
    tally = _tallied(current, judged)
    new = direct
    if tally.keys() - {NEW}:
        judged = current.cached(judged)
        new = judged.where(F.col("status") == NEW).drop("status")
    has_rivals = not tally.keys().isdisjoint(CONFLICTS)
    faults = [conflict_rows(judged)] if has_rivals else []
    rivals = judged.where(F.col("status").isin(*CONFLICTS)).select("position") if has_rivals else None
    if kind == "trace":
        records = current.cached(trace_records(new))
        faults.append(trace_faults(new.withColumn("raw", as_json()), records).select(*fault_columns()))
        rows = end_traces(records).withColumn("landed_pass", F.lit(current.number).cast("bigint"))
        current.append(MESSAGE_TABLES[kind], rows, step=step)
        return faults, rivals
    if kind == "op":
        odd = op_faults(new.withColumn("raw", as_json())).withColumn("queue_id", stored_queue_id())
        faults.append(odd.select(*fault_columns()))
        # Its position is the place in the body: a column of the table.
        rows = current.cached(op_tokens(new))
    else:
        rows = ROWS_OF_KIND[kind](new.drop(*LANDING_ONLY))
    count = None if kind == "op" else tally.get(NEW, 0)
    current.append(MESSAGE_TABLES[kind], _own_columns(rows, current), step=step, count=count)
    return faults, rivals


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
    raw_now = F.when(is_good & topic_wrong.isNotNull(), as_json())
    return stored.select(
        *MESSAGE_COLUMNS,
        "content_hash",
        F.coalesce("reason", topic_wrong["reason"]).alias("reason"),
        F.coalesce("detail", topic_wrong["detail"]).alias("detail"),
        F.coalesce("raw", raw_now).alias("raw"),
        "source",
        "position",
        "told_end",
        (prepare.is_under_own_topic() if takes_prepared else F.lit(False)).alias("is_prepared"),
    )


def _existing(current: Pass, kind: str, broker_name: str, batch: Row) -> DataFrame:
    rows = current.read(MESSAGE_TABLES[kind]).where(F.col("broker_name") == broker_name)
    # Offsets are dense and ascend as they land, so the span of a batch leaves out nearly all files of the past.
    return rows.where(F.col("queue_offset").between(batch["low"], batch["high"]))


def _land_prepared(current: Pass, good: DataFrame, broker_name: str, batch: Row) -> tuple[DataFrame, DataFrame]:
    """Append new prepared messages as halves; the halves, and conflicts found on the way."""
    known = current.read("half_message").where(F.col("broker_name") == broker_name)
    # A prepared message has no half offset of its own yet: it is known by its physical offset.
    prepared = good.where("is_prepared")
    few_repeated = current.few_or_none(repeated_keys(prepared, PHYSICAL_KEY), most=MOST_KEYS_SENT)
    judged = current.cached(judged_by_key(prepared, known, PHYSICAL_KEY, few_repeated))
    tally = _tallied(current, judged)
    new = judged.where(F.col("status") == NEW).drop("status")
    queue = current.read("landing_frontier").where(
        (F.col("broker_name") == broker_name)
        & (F.col("topic") == HALF_TOPIC)
        & (F.col("queue_id") == prepare.HALF_QUEUE_ID)
    )
    end = max([0, batch["direct_end"] or 0, *[row["next_offset"] for row in queue.collect()]])
    # A landing that was abandoned on its way has left halves behind the frontier.
    behind = known.where((F.col("queue_id") == prepare.HALF_QUEUE_ID) & (F.col("queue_offset") >= end))
    end_of_halves = behind.agg(F.max("queue_offset") + 1).collect()[0][0]
    first_free = max(end, end_of_halves or 0)
    current.counts["delay_dropped"] = new.where(prepare.has_delay()).count()
    halves = prepare.as_halves(new, F.lit(first_free))
    rows = _own_columns(half_messages(halves.drop(*LANDING_ONLY)), current)
    current.append("half_message", rows, step=PREPARED, count=tally.get(NEW, 0))
    return halves, conflict_rows(judged, at="commit_log_offset")


def _own_columns(rows: DataFrame, current: Pass) -> DataFrame:
    return rows.withColumns({"origin": F.lit(ORIGIN_LANDED), "landed_pass": F.lit(current.number).cast("bigint")})
