"""Landing of a broker's store directory: its commit log from where the last landing stopped, and its offsets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from txmq_lib.errors import InputError
from txmq_lib.files.materialized import MATERIALIZED_BYTES
from txmq_lib.names import HALF_TOPIC, RECORD_TORN, ROLE_ENGINE
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.land.broker_state import broker_offsets, check_cursors, set_ups
from txmq_lib.pipeline.land.kinds import STORE
from txmq_lib.pipeline.land.records import files_of_tasks, messages
from txmq_lib.pipeline.land.records.record_files import RecordReading
from txmq_lib.pipeline.land.records.record_rows import Landing
from txmq_lib.pipeline.land.store import log_landing
from txmq_lib.pipeline.land.store.store_plan import can_be_carried_on, header_time_ms, is_by_tasks
from txmq_lib.pipeline.land.store.store_reports import frontier_reports
from txmq_lib.pipeline.land.topics import ALWAYS_LANDED, is_every_topic, trace_topics
from txmq_lib.pipeline.shared.watermark import Frontier, reaches
from txmq_lib.rocketmq.store.commit_log import list_files, torn_ends
from txmq_lib.rocketmq.store.consume_queue import QueueBounds, dispatched_to, queue_bounds
from txmq_lib.rocketmq.store.consumer_offset_file import ConsumerOffsetFile, read_consumer_offset_file
from txmq_lib.rocketmq.store.far_files import is_far
from txmq_lib.rocketmq.store.message_batch import ARROW_SCHEMA
from txmq_lib.rocketmq.store_source import SOURCE_NAME, RocketmqStore, materialized_records
from txmq_lib.rules import frontier
from txmq_lib.rules.half import content_hash
from txmq_lib.rules.moments import EPOCH
from txmq_lib.rules.reach import Reach
from txmq_lib.rules.run_lists import MOST_RUNS


def land(current: Pass) -> None:
    """Land what the plan names: halves, ops, given-up and visible messages, offsets; damage into quarantine."""
    arguments = current.arguments
    broker_name = arguments["broker_name"]
    # What retention takes between plan and reading would count as read.
    if not can_be_carried_on(current):
        raise InputError(f"{arguments['path']}: what was to be read is gone, or another log stands there; land again")
    set_ups.land(current, [arguments])
    reached, stretches = _land_records(current, broker_name)
    bounds = queue_bounds(
        arguments["path"],
        lowest_commit_log_offset=arguments["lowest_offset"],
        end_commit_log_offset=arguments["to_offset"],
    )
    # Offsets in RocksDB leave a stale file behind.
    is_stale = arguments["offset_table"] is None
    offset_table = None if is_stale else read_consumer_offset_file(arguments["path"])
    if offset_table is not None:
        offset_table = _as_of_log(arguments, offset_table)
        broker_offsets.land(current, {broker_name: [offset_table]})
        _land_check_cursors(current, offset_table, bounds)
    if not is_every_topic(arguments["topics"]):
        stretches = _dispatched(arguments, stretches)
    landed = Frontier(current)
    landed.move(frontier_reports(current, landed, reached, bounds, stretches))
    current.counts["waiting"] = arguments["waiting"]
    current.counts["rebuilt"] = int(arguments["is_rebuilt"])


def _land_records(current: Pass, broker_name: str) -> tuple[list[Reach], list[tuple[int, int]]]:
    """How far each queue was read, and the stretches of the log that were read without a fault."""
    landed = _landed_by_tasks(current, broker_name) if is_by_tasks(current) else None
    if landed is None:
        stored = current.cached(_described(current, _records(current)))
        found = messages.land_every_kind(current, stored, broker_names=[broker_name], source=STORE)
        good = messages.without_place(found.rows.where("reason is null"), found.rivals)
        return reaches(frontier.reached(good)), _clean_stretches(current, stored, found.rivals)
    if landed.suspects is None:
        current.counts |= {"never_visible": 0, "quarantine_store": 0}
        return landed.reached, [(current.arguments["from_offset"], current.arguments["to_offset"])]
    with current.planned_for(landed.suspect_bytes):
        suspects = current.cached(_described(current, landed.suspects))
        messages.land_every_kind(current, suspects, broker_names=[broker_name], source=STORE, are_suspects=True)
        return landed.reached, _clean_stretches(current, suspects, None)


def _landed_by_tasks(current: Pass, broker_name: str) -> log_landing.LandedLog | None:
    arguments, settings = current.arguments, current.settings
    files = list_files(arguments["path"]).files
    parts = log_landing.stretches(files, arguments["from_offset"], arguments["to_offset"], arguments["cuts"])
    is_engine = settings.for_broker(broker_name).role == ROLE_ENGINE
    reading = RecordReading(
        landing=Landing(broker_name, current.number, is_engine, settings.land.trace_topic),
        table_paths=files_of_tasks.paths(current.warehouse),
        topics=None if is_every_topic(arguments["topics"]) else _topics(current),
        max_body_bytes=settings.land.max_body_bytes,
        most_suspect_bytes=MATERIALIZED_BYTES // max(len(parts), 1),
    )
    return log_landing.land(current, parts, reading)


def _clean_stretches(current: Pass, stored: DataFrame, rivals: DataFrame | None) -> list[tuple[int, int]]:
    """The physical range of the plan without the records of which no row tells: [first, end) of what lies between."""
    is_torn = F.coalesce(F.col("reason") == RECORD_TORN, F.lit(False)).alias("is_torn")
    unseen = stored.where(F.col("reason").isNotNull() | messages.is_never_visible()).select("position", is_torn)
    of_rivals = None if rivals is None else rivals.select("position", F.lit(False).alias("is_torn"))
    holes = unseen if of_rivals is None else unseen.unionByName(of_rivals)
    by_place = holes.groupBy("position").agg(F.max("is_torn").alias("is_torn")).orderBy(F.col("position").desc())
    newest = by_place.limit(MOST_RUNS).toArrow().to_pylist()[::-1]
    arguments = current.arguments
    start, stop, files = arguments["from_offset"], arguments["to_offset"], list_files(arguments["path"]).files
    # Where there are too many, nothing is known of what lies before them. Any number of records may have been in what
    # is torn; of another bad one a hole of a byte tells.
    ends_of_torn = torn_ends(files, [hole["position"] for hole in newest if hole["is_torn"]])
    behind = [ends_of_torn.get(hole["position"], stop) if hole["is_torn"] else hole["position"] + 1 for hole in newest]
    begins = [start, *behind][-MOST_RUNS:]
    ends = [*[hole["position"] for hole in newest], stop][-MOST_RUNS:]
    return [(begin, end) for begin, end in zip(begins, ends, strict=True) if begin < end]


def _dispatched(arguments: Mapping[str, Any], stretches: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The stretches up to where consume queues tell of all records.

    Elsewhere a damaged name of a topic that is taken looks like one that is not, and nothing is missing.
    """
    known_to = dispatched_to(arguments["path"], end_commit_log_offset=arguments["to_offset"])
    return [(begin, min(end, known_to)) for begin, end in stretches if begin < known_to]


def _records(current: Pass) -> DataFrame:
    """The rows of the store source. A pass whose records unpack into much is small no longer."""
    spark, options = current.warehouse.spark, _options(current)
    materialized = current.read_here(lambda: materialized_records(options))
    if materialized is not None:
        return spark.createDataFrame(materialized, from_arrow_schema(ARROW_SCHEMA))
    spark.dataSource.register(RocketmqStore)
    return spark.read.format(SOURCE_NAME).options(**options).load()


def _options(current: Pass) -> dict[str, str]:
    """Options of the store source."""
    arguments = current.arguments
    options = {
        "path": arguments["path"],
        "from_offset": str(arguments["from_offset"]),
        "to_offset": str(arguments["to_offset"]),
        "max_body_bytes": str(current.settings.land.max_body_bytes),
    }
    if not is_every_topic(arguments["topics"]):
        options["topics"] = json.dumps(_topics(current))
    return options


def _topics(current: Pass) -> tuple[str, ...]:
    """What is read of the log where not all of it is."""
    return (*ALWAYS_LANDED, *current.arguments["topics"], *trace_topics(current.settings.land))


def _described(current: Pass, records: DataFrame) -> DataFrame:
    """Rows of the store source as messages.land_every_kind takes them."""
    placed = records.withColumns(
        {
            "broker_name": F.lit(current.arguments["broker_name"]),
            "commit_log_offset": F.coalesce("commit_log_offset", "position"),
            "detail": F.when(F.col("reason").isNotNull(), F.concat(F.lit("at physical offset "), F.col("position"))),
            "raw": F.base64("raw"),
            "source": F.concat_ws(":", F.lit(current.arguments["path"]), F.col("position").cast("string")),
        }
    )
    return placed.withColumn("content_hash", content_hash())


def _as_of_log(arguments: Mapping[str, Any], table: ConsumerOffsetFile) -> ConsumerOffsetFile:
    """The table no later than the log's last record, where its time is that at which it came into a bucket."""
    last = arguments["last"]
    stored_ms = None if last is None or not is_far(arguments["path"]) else header_time_ms(last[1])
    return table if stored_ms is None else table._replace(modified_ms=min(table.modified_ms, stored_ms))


def _land_check_cursors(
    current: Pass, table: ConsumerOffsetFile, bounds: Mapping[tuple[str, int], QueueBounds]
) -> None:
    last = current.arguments["last"]
    if last is not None and (stored_ms := header_time_ms(last[1])) is not None:
        # Where files were copied, the table's time may be that of the copy: the log tells when its broker lived.
        moment = EPOCH + timedelta(milliseconds=min(stored_ms, table.modified_ms))
        half_queues = [queue_id for topic, queue_id in bounds if topic == HALF_TOPIC]
        checks = check_cursors.Checks(moment, table.offsets, half_queues)
        check_cursors.land(current, {current.arguments["broker_name"]: checks})
