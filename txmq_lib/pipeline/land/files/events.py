"""Landing of ends, offset reports and acknowledgements: rows without a key of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import ORIGIN_BROKER_FILE, ORIGIN_LANDED
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.land.broker_state import broker_offsets
from txmq_lib.pipeline.land.files.lines import lines, unread
from txmq_lib.pipeline.land.files.listing import LandingFile, is_broker_file
from txmq_lib.pipeline.land.kinds import EVENT_TABLES
from txmq_lib.pipeline.shared.quarantining import append_quarantine
from txmq_lib.rules.contract_events import END_CONTENT, ack_rows, end_rows, offset_rows
from txmq_lib.rules.duplicates import counted_by_content, event_hash

QUEUE_CONTENT = ("consumer_group", "topic", "queue_id", "ts", "client_id")
OFFSET_CONTENT = (*QUEUE_CONTENT, "next_offset", "is_increase_only")
ACK_CONTENT = (*QUEUE_CONTENT, "event", "offsets")
OUTSIDE = (ORIGIN_LANDED, ORIGIN_BROKER_FILE)
CONTENT_OF_KIND = {"end": END_CONTENT, "offset": OFFSET_CONTENT, "ack": ACK_CONTENT}
PARSERS: dict[str, Callable[[DataFrame, str], DataFrame]] = {
    "end": end_rows,
    "offset": offset_rows,
    "ack": ack_rows,
}


def land(current: Pass, files: list[LandingFile], *, kind: str, broker_name: str) -> list[LandingFile]:
    """Append what is new in `files`, quarantine what cannot be used; the files that could not be read."""
    texts = [file for file in files if not is_broker_file(file)]
    not_read: list[LandingFile] = []
    if texts:
        lines_read = lines(current, texts)
        parsed = current.cached(PARSERS[kind](lines_read.rows, broker_name))
        _land_rows(current, parsed, kind=kind, broker_name=broker_name)
        not_read = unread(current, texts, lines_read, parsed)
    own_files = [file for file in files if is_broker_file(file)]
    if own_files:
        tables = broker_offsets.read_broker_files(current.warehouse.spark, own_files)
        broker_offsets.land(current, {broker_name: tables})
    return not_read


def _land_rows(current: Pass, parsed: DataFrame, *, kind: str, broker_name: str) -> None:
    table, content = EVENT_TABLES[kind], CONTENT_OF_KIND[kind]
    good = parsed.where("reason is null").withColumn("content_hash", event_hash(content))
    # By what they say, not by their hash: older warehouses hold hashes that took two contents for one.
    existing = _told(current, table, broker_name).withColumn("content_hash", event_hash(content))
    rows = counted_by_content(good, _of_same_times(current, existing, good)).withColumn(
        "landing_order", F.col("position")
    )
    current.append(table, landed(rows, current, has_origin=kind != "ack"), step=kind)
    bad = parsed.where("reason is not null").select("reason", "detail", "raw", "source")
    append_quarantine(current, bad, broker_name=broker_name, kind=kind)


def _told(current: Pass, table: str, broker_name: str) -> DataFrame:
    """Rows of the broker that came from outside: what txmq found itself is another event, however alike."""
    rows = current.read(table).where(F.col("broker_name") == broker_name)
    return rows.where(F.col("origin").isin(*OUTSIDE)) if "origin" in rows.columns else rows


def landed(rows: DataFrame, current: Pass, *, has_origin: bool, dropped: Sequence[str] = ()) -> DataFrame:
    """`rows` with who landed them, without the columns that only served landing."""
    named = rows.drop("reason", "detail", "raw", "source", "position", *dropped)
    origin = {"origin": F.lit(ORIGIN_LANDED)} if has_origin else {}
    return named.withColumns({**origin, "landed_pass": F.lit(current.number).cast("bigint")})


def _of_same_times(current: Pass, existing: DataFrame, batch: DataFrame) -> DataFrame:
    with current.timed("range"):
        ms = F.unix_millis("ts")  # a time would come back in the local zone, where an hour may come twice
        low, high = batch.agg(F.min(ms), F.max(ms)).collect()[0]
    if low is None:
        return existing
    return existing.where(F.col("ts").between(F.timestamp_millis(F.lit(low)), F.timestamp_millis(F.lit(high))))
