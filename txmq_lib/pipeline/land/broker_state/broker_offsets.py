"""Landing of a broker's own offset table (consumerOffset.json): what it holds, as sets, where it changed (R84)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from txmq_lib.errors import InputError
from txmq_lib.files.local_files import path_of
from txmq_lib.files.plain_file import read_plain
from txmq_lib.names import OFFSET_KEY, ORIGIN_BROKER_FILE
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.land.files.listing import LandingFile
from txmq_lib.pipeline.shared.quarantining import append_quarantine
from txmq_lib.rocketmq.store.consumer_offset_file import MOST_BYTES, ConsumerOffsetFile, parse_consumer_offsets
from txmq_lib.rules.duplicates import counted_by_content
from txmq_lib.spark.local_frame import local_frame

STEP = "broker_offsets"
CONTENT = ("consumer_group", "topic", "queue_id", "ts", "client_id", "next_offset", "is_increase_only")
ENTRY_SCHEMA = (
    "broker_name string, consumer_group string, topic string, queue_id int, ts timestamp, next_offset bigint,"
    " is_increase_only boolean, client_id string, position bigint"
)
FAULT_SCHEMA = "broker_name string, reason string, detail string, raw string, source string"


def read_broker_files(spark: SparkSession, files: Sequence[LandingFile]) -> list[ConsumerOffsetFile]:
    """The offset tables in `files`, the oldest first, wherever Spark can read; InputError for one that cannot be."""
    tables = [
        ConsumerOffsetFile(parse_consumer_offsets(_content(spark, file)), file.uri, file.modified_ms) for file in files
    ]
    return sorted(tables, key=lambda table: table.modified_ms)


def _content(spark: SparkSession, file: LandingFile) -> bytes:
    if not file.is_local:
        [row] = spark.read.format("binaryFile").load(file.path).select("content").collect()
        return bytes(row["content"])
    try:
        return read_plain(os.fsdecode(path_of(file.uri)), MOST_BYTES)
    except OSError as failure:
        raise InputError(f"consumer offsets {file.uri}: {failure.strerror}; let this user read it") from failure


def land(current: Pass, of_brokers: Mapping[str, Sequence[ConsumerOffsetFile]], *, is_newest: bool = False) -> None:
    """Append an entry as a set where it differs from what its broker's table last said; bad ones into quarantine.

    of_brokers  by name the tables of each
    is_newest   whatever their times say, these come after all that the brokers told before: clocks step back
    """
    tables = [(name, table) for name, own in of_brokers.items() for table in own]
    spark = current.warehouse.spark
    rows = [
        (name, entry.group, entry.topic, entry.queue_id, _moment(table), entry.offset, False, None, position)
        for name, table in tables
        for position, entry in enumerate(table.offsets.entries)
    ]
    faults = [(name, bad.reason, None, bad.raw, table.path) for name, table in tables for bad in table.offsets.bad]
    entries = local_frame(spark, rows, ENTRY_SCHEMA)
    known = current.read("consumer_offset_commit").where(F.col("broker_name").isin(*of_brokers))
    changed = _changed(entries, known, is_newest=is_newest).withColumn("content_hash", F.xxhash64(*CONTENT))
    # What is older than the oldest of these tables equals none of their entries: `ts` is part of the content.
    since = known.where(F.col("ts") >= F.lit(min(_moment(table) for _, table in tables)))
    current.append(
        "consumer_offset_commit",
        counted_by_content(changed, since)
        .withColumnRenamed("position", "landing_order")
        .withColumns({"origin": F.lit(ORIGIN_BROKER_FILE), "landed_pass": F.lit(current.number).cast("bigint")}),
        step=STEP,
    )
    bad_rows = local_frame(spark, faults, FAULT_SCHEMA)
    append_quarantine(current, bad_rows, broker_name=None, kind=STEP)


def _changed(entries: DataFrame, known: DataFrame, *, is_newest: bool) -> DataFrame:
    # A broker writes its table every 5 s, mostly unchanged: only what moved is worth a row.
    earlier = known.where(F.col("origin") == ORIGIN_BROKER_FILE)
    last = earlier.groupBy(*OFFSET_KEY).agg(
        F.max_by("next_offset", F.struct("ts", "landed_pass", "landing_order")).alias("_last_offset"),
        (F.max("ts") + F.expr("interval 1 millisecond")).alias("_earliest"),
    )
    in_order = Window.partitionBy(*OFFSET_KEY).orderBy("ts")
    before = F.coalesce(F.lag("next_offset").over(in_order), F.col("_last_offset"))
    joined = entries.join(last, on=list(OFFSET_KEY), how="left").withColumn("_before", before)
    moved = joined.where(~F.col("next_offset").eqNullSafe(F.col("_before")))
    told_at = F.greatest("ts", "_earliest") if is_newest else F.col("ts")
    return moved.withColumn("ts", told_at).drop("_last_offset", "_earliest", "_before")


def _moment(table: ConsumerOffsetFile) -> datetime:
    return datetime.fromtimestamp(table.modified_ms / 1000, UTC)
