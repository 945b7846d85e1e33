"""Landing of half, op, message and max-time records, whichever source decoded them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
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
from txmq_lib.pipeline.land.records.offset_spans import within_spans
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
RECORD = ("broker_name", "position")  # of a log; each broker has its own
PLACE = (*QUEUE, "queue_offset", "store_timestamp", "commit_log_offset", "told_end", "position")
ROWS_OF_KIND = {"half": half_messages, "message": messages, "max-time": given_up_messages}


class Landed(NamedTuple):
    """What a landing of several kinds knows of its records.

    rows    those that lie in a queue, good ones and bad (broker_name and columns of the store reader)
    rivals  RECORD of the good ones that did not land, since another record had their key; None where all did
    """

    rows: DataFrame
    rivals: DataFrame | None


class _Batch(NamedTuple):
    """How many records are bad, prepared, under their own kind's topic; the end of the latter; of each broker the first
    and the last queue offset."""

    bad: int
    prepared: int
    direct: int
    direct_end: int
    spans: Mapping[str, tuple[int, int]]


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
    rows = stored.withColumn("broker_name", F.lit(broker_name))
    takes = F.lit(True) if takes_prepared else None
    places, rivals = _land_kind(current, rows, kind, takes_prepared=takes, suffix=suffix)
    if are_suspects:
        _count_together(current, [kind])
    return places if rivals is None else without_place(places, rivals)


def land_every_kind(
    current: Pass, stored: DataFrame, *, broker_names: Collection[str], source: str, are_suspects: bool = False
) -> Landed:
    """Land rows of all topics (broker_name, columns of the store reader, detail, source, content_hash), each as its
    topic says.

    What is damaged beyond telling goes to quarantine.
    broker_names  of which the rows are
    are_suspects  these are what is left of a landing whose other rows are in their tables
    """
    suffix = SUSPECTS if are_suspects else ""
    engines = [name for name in broker_names if current.settings.for_broker(name).role == ROLE_ENGINE]
    takes_prepared = F.col("broker_name").isin(*engines) if engines else None
    queued = stored.where(~is_never_visible()).withColumn("told_end", F.lit(None).cast("bigint"))
    parts = [
        (kind, queued.where(F.col("topic").isin(*topics)), takes_prepared if kind == "half" else None)
        for kind, topics in TOPICS_OF_KIND.items()
    ]
    is_message = ~F.col("topic").isin(*TRANSACTION_TOPICS)
    if (trace_topic := current.settings.land.trace_topic) is not None:
        # Clients trace in no transaction: what was committed is a message, whatever its topic is taken for.
        is_trace = (F.col("topic") == trace_topic) & ~F.coalesce(is_committed(), F.lit(False))
        parts.append(("trace", queued.where(is_trace), None))
        is_message &= ~is_trace
    parts.append(("message", queued.where(is_message), None))
    landed = [_land_kind(current, rows, kind, takes_prepared=takes, suffix=suffix) for kind, rows, takes in parts]
    damage = stored.where("topic is null").select(*fault_columns())
    append_quarantine(current, damage, broker_name=None, kind=source)
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
    """`rows` where `rivals` (RECORD) have no place in the log, nor what follows such a one in its queue.

    A queue was made anew, its topic deleted, or its log cut back, between what landed before and what follows.
    """
    if rivals is None:
        return rows
    marked = rows.join(rivals.withColumn("_is_rival", F.lit(True)), on=list(RECORD), how="left")
    before = Window.partitionBy(*QUEUE).orderBy("queue_offset", "commit_log_offset")
    followed = marked.withColumn("_follows", F.lag("_is_rival").over(before))
    place = F.when(F.coalesce("_is_rival", "_follows").isNull(), F.col("commit_log_offset"))
    return followed.withColumn("commit_log_offset", place).drop("_is_rival", "_follows")


def _land_kind(
    current: Pass, stored: DataFrame, kind: str, *, takes_prepared: Column | None, suffix: str = ""
) -> tuple[DataFrame, DataFrame | None]:
    """Append what is new, quarantine the rest; the good rows, and RECORD of those in conflict, if any.

    takes_prepared  of which rows prepared messages become halves; None: of none
    """
    faulty = _with_faults(stored, kind, takes_prepared=takes_prepared)
    # Several small queries follow.
    records = current.kept_in_small_pass(faulty.withColumn("properties", stored_properties(F.col("properties"))))
    with current.timed("decode"):
        batch = _measured(records)
    good = records.where("reason is null")
    faults = [records.where("reason is not null").select(*fault_columns())] if batch.bad else []
    direct = good.where(F.col("topic") == HALF_TOPIC) if batch.prepared else good
    places, rivals = [direct.select(*PLACE)], None
    if batch.direct:
        # Offsets are dense and ascend as they land, so the spans of a batch leave out nearly all files of the past.
        existing = current.read(MESSAGE_TABLES[kind]).where(within_spans(batch.spans))
        found, rivals = _land_direct(current, direct, existing, kind, kind + suffix)
        faults += found
    if batch.prepared:
        prepared, conflicts = _land_prepared(current, good, batch)
        faults.append(conflicts)
        # What was told of their own queue says nothing of the half queue.
        places.append(prepared.withColumn("told_end", F.lit(None).cast("bigint")).select(*PLACE))
    if faults:
        append_quarantine(current, reduce(DataFrame.unionByName, faults), broker_name=None, kind=kind)
    return reduce(DataFrame.unionByName, places), rivals


def _measured(records: DataFrame) -> _Batch:
    is_good = F.col("reason").isNull()
    is_prepared, is_direct = is_good & F.col("is_prepared"), is_good & ~F.col("is_prepared")
    of_brokers = (
        records.groupBy("broker_name")
        .agg(
            F.count_if(~is_good).alias("bad"),
            F.count_if(is_prepared).alias("prepared"),
            F.count_if(is_direct).alias("direct"),
            F.max(F.when(is_direct, F.col("queue_offset") + 1)).alias("direct_end"),
            F.min("queue_offset").alias("low"),
            F.max("queue_offset").alias("high"),
        )
        .collect()
    )
    bad, prepared, direct = (sum(row[name] for row in of_brokers) for name in ("bad", "prepared", "direct"))
    direct_end = max((row["direct_end"] or 0 for row in of_brokers), default=0)
    spans = {row["broker_name"]: (row["low"], row["high"]) for row in of_brokers if row["low"] is not None}
    return _Batch(bad, prepared, direct, direct_end, spans)


def _land_direct(
    current: Pass, direct: DataFrame, existing: DataFrame, kind: str, step: str
) -> tuple[list[DataFrame], DataFrame | None]:
    """Append new records; faults found on the way, and RECORD of those in conflict, if any."""
    key: tuple[str, ...] = TOPIC_KEY
    if kind in ("half", "op"):
        key, direct = QUEUE_KEY, direct.withColumn("queue_id", table_queue_id())
    few_repeated = current.few_or_none(lambda: repeated_keys(direct, key), most=MOST_KEYS_SENT)
    judged = current.kept_in_small_pass(judged_by_key(direct, existing, key, few_repeated))
    tally = _tallied(current, judged)
    new = direct
    if tally.keys() - {NEW}:
        judged = current.cached(judged)
        new = judged.where(F.col("status") == NEW).drop("status")
    has_rivals = not tally.keys().isdisjoint(CONFLICTS)
    faults = [conflict_rows(judged)] if has_rivals else []
    rivals = judged.where(F.col("status").isin(*CONFLICTS)).select(*RECORD) if has_rivals else None
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


def _with_faults(stored: DataFrame, kind: str, *, takes_prepared: Column | None) -> DataFrame:
    topic_wrong, is_prepared = topic_fault(kind), F.lit(False)
    if takes_prepared is not None:
        is_prepared = takes_prepared & prepare.is_under_own_topic()
        topic_wrong = F.when(is_prepared, prepare.prepare_fault()).when(~takes_prepared, topic_wrong)
    is_good = F.col("reason").isNull()
    raw_now = F.when(is_good & topic_wrong.isNotNull(), as_json())
    return stored.select(
        "broker_name",
        *MESSAGE_COLUMNS,
        "content_hash",
        F.coalesce("reason", topic_wrong["reason"]).alias("reason"),
        F.coalesce("detail", topic_wrong["detail"]).alias("detail"),
        F.coalesce("raw", raw_now).alias("raw"),
        "source",
        "position",
        "told_end",
        is_prepared.alias("is_prepared"),
    )


def _land_prepared(current: Pass, good: DataFrame, batch: _Batch) -> tuple[DataFrame, DataFrame]:
    """Append new prepared messages, of one broker, as halves; the halves, and conflicts found on the way."""
    (broker_name,) = batch.spans
    known = current.read("half_message").where(F.col("broker_name") == broker_name)
    # A prepared message has no half offset of its own yet: it is known by its physical offset.
    prepared = good.where("is_prepared")
    few_repeated = current.few_or_none(lambda: repeated_keys(prepared, PHYSICAL_KEY), most=MOST_KEYS_SENT)
    judged = current.cached(judged_by_key(prepared, known, PHYSICAL_KEY, few_repeated))
    tally = _tallied(current, judged)
    new = judged.where(F.col("status") == NEW).drop("status")
    queue = current.read("landing_frontier").where(
        (F.col("broker_name") == broker_name)
        & (F.col("topic") == HALF_TOPIC)
        & (F.col("queue_id") == prepare.HALF_QUEUE_ID)
    )
    end = max([0, batch.direct_end, *[row["next_offset"] for row in queue.collect()]])
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
