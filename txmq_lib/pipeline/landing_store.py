"""Landing of a broker's store directory: its commit log from where the last landing stopped, and its offsets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from txmq_lib.errors import InputError
from txmq_lib.pipeline import landing_broker_offsets, landing_input, landing_messages
from txmq_lib.pipeline.broker_settings import conf_findings
from txmq_lib.pipeline.topics import ALWAYS_TAKEN, is_every_topic, is_taken, real_topics
from txmq_lib.rules import frontier
from txmq_lib.rules.half import content_hash
from txmq_lib.rules.moments import EPOCH, LATEST_MS
from txmq_lib.settings import Settings
from txmq_lib.sources.broker_conf import read_broker_conf
from txmq_lib.sources.commit_log import LogFile, RecordIdentity, list_files, log_end, record_at
from txmq_lib.sources.consume_queue import QueueBounds, queue_bounds
from txmq_lib.sources.consumer_offset_file import consumer_offset_state, read_consumer_offset_file
from txmq_lib.tables.local_frame import local_frame
from txmq_lib.tables.passes import Pass
from txmq_lib.tables.warehouse import Warehouse


def plan(warehouse: Warehouse, settings: Settings, *, path: str, broker_name: str) -> dict[str, Any]:
    """What a pass over the store is to read: a physical range fixed now, so that a rerun reads the same.

    Raises InputError where `path` is no store directory, or a file is missing in the middle of what is to be read.
    """
    path = str(Path(path).absolute())  # whoever carries the plan on may stand elsewhere
    files, gaps = list_files(path)
    if not files:
        raise InputError(f"{path} holds no commit log files (commitlog/<20 digits>); give a broker's store directory")
    known = _known(warehouse, broker_name, _whole_log_topic(settings.land.topics))
    is_rebuilt = known is not None and not _is_same_log(files, known)
    start = files[0].base_offset if known is None or is_rebuilt else max(files[0].base_offset, known["next_offset"])
    if missing := [f"{low} to {high}" for low, high in gaps if high > start]:
        raise InputError(
            f"{path}: the commit log misses physical offsets {', '.join(missing)}; copy the store again, all files"
        )
    end = log_end(files, start)
    # Where nothing is new the last record is still the one read before.
    last = end.last or (None if known is None or is_rebuilt else _identity(known))
    first = record_at(files, files[0].base_offset)
    landed_to = 0 if known is None else int(known["next_offset"])
    return {
        "kind": "store",
        "broker_name": broker_name,
        "path": path,
        "from_offset": start,
        "to_offset": end.offset,
        "lowest_offset": files[0].base_offset,
        "last": list(last) if last is not None else None,
        "waiting": end.waiting,
        "is_rebuilt": is_rebuilt,
        "lost_before_ms": _time_ms(first.store_timestamp_ms) if first and first.offset > landed_to else None,
        "topics": list(settings.land.topics),
        "offset_table": consumer_offset_state(path),
    }


def findings(path: str, settings: Settings, broker_name: str) -> Iterator[str]:
    """What people should know of the broker.conf beside a store; nothing where there is none."""
    try:
        found = read_broker_conf(path)
    except OSError as failure:
        yield f"broker {broker_name}: its broker.conf cannot be read: {failure.strerror}"
        return
    if found is not None:
        file, config = found
        policy = settings.for_broker(broker_name)
        yield from (f"broker {broker_name}, {file}: {words}" for words in conf_findings(config, policy))


def is_still_there(current: Pass) -> bool:
    """True where the store still holds what the plan is to read."""
    try:
        files = list_files(current.arguments["path"]).files
    except InputError:
        return False
    last = current.arguments["last"]
    if not files or files[0].base_offset > current.arguments["from_offset"]:
        return False
    return last is None or record_at(files, last[0]) == RecordIdentity(*last)


def land(current: Pass) -> None:
    """Land what the plan names: halves, ops, given-up and visible messages, offsets; damage into quarantine."""
    arguments = current.arguments
    broker_name = arguments["broker_name"]
    stored = current.cached(_stored(current).withColumn("content_hash", content_hash()))
    queued = landing_messages.land_every_kind(current, stored, broker_name=broker_name, source="store")
    offset_table = read_consumer_offset_file(arguments["path"])
    if offset_table is not None:
        landing_broker_offsets.land(current, [offset_table], broker_name=broker_name)
    placed = queued.where("reason is null").withColumn("broker_name", F.lit(broker_name))
    landing_messages.move_frontier(current, _reports(current, placed))
    current.counts["waiting"] = arguments["waiting"]
    current.counts["rebuilt"] = int(arguments["is_rebuilt"])


def _stored(current: Pass) -> DataFrame:
    arguments = current.arguments
    options = {
        "path": arguments["path"],
        "from_offset": str(arguments["from_offset"]),
        "to_offset": str(arguments["to_offset"]),
        "max_body_bytes": str(current.settings.land.max_body_bytes),
    }
    if not is_every_topic(arguments["topics"]):
        options["topics"] = json.dumps([*ALWAYS_TAKEN, *arguments["topics"]])
    return landing_input.records(current, options).withColumns(
        {
            "detail": F.when(F.col("reason").isNotNull(), F.concat(F.lit("at physical offset "), F.col("position"))),
            "raw": F.base64("raw"),
            "source": F.concat_ws(":", F.lit(arguments["path"]), F.col("position").cast("string")),
        }
    )


def _reports(current: Pass, rows: DataFrame) -> DataFrame:
    """Frontier reports of a store: what was read and is kept of each queue, the topics read whole, and the log."""
    arguments = current.arguments
    broker_name, spark = arguments["broker_name"], current.warehouse.spark
    bounds = queue_bounds(
        arguments["path"],
        lowest_commit_log_offset=arguments["lowest_offset"],
        end_commit_log_offset=arguments["to_offset"],
    )
    kept = local_frame(
        spark,
        [
            (broker_name, topic, queue_id, bound.next_offset, bound.lowest_offset)
            for (topic, queue_id), bound in bounds.items()
            if is_taken(topic, arguments["topics"])
        ],
        "broker_name string, topic string, queue_id int, _end bigint, lowest_kept_offset bigint",
    )
    lost_ms = arguments["lost_before_ms"]
    # Without consume queues nobody knows which queue lost something.
    has_lost = F.coalesce(F.col("lowest_kept_offset") > 0, F.lit(True))
    queues = (
        frontier.reached(rows)
        .join(kept, on=list(frontier.QUEUE), how="full")
        .withColumns(
            {
                "next_offset": F.coalesce("next_offset", "_end"),
                "lost_before_timestamp": F.when(has_lost, F.timestamp_millis(F.lit(lost_ms).cast("bigint"))),
                "is_end_known": F.lit(True),
                "source_identity": F.lit(None).cast("string"),
            }
        )
        .drop("_end")
    )
    if arguments["last"] is None:
        return queues
    offset, store_ms, size = arguments["last"]
    read_ms = _time_ms(store_ms)
    read_to = {
        "broker_name": broker_name,
        "queue_id": frontier.WHOLE_QUEUE_ID,
        "next_offset": arguments["to_offset"],
        "highest_store_timestamp": None if read_ms is None else EPOCH + timedelta(milliseconds=read_ms),
        "is_end_known": True,
    }
    whole_log = _whole_log_topic(arguments["topics"])
    log = {**read_to, "topic": whole_log, "source_identity": f"{offset}:{store_ms}:{size}"}
    topics = [] if whole_log == frontier.WHOLE_LOG_TOPIC else _wanted_topics(rows, bounds, arguments)
    whole = [log, *[{**read_to, "topic": topic} for topic in sorted(topics)]]
    return queues.unionByName(local_frame(spark, whole, queues.schema))


def _time_ms(stated_ms: int) -> int | None:
    """Epoch ms that a header states; null where it is no time."""
    return stated_ms if 0 <= stated_ms <= LATEST_MS else None


def _whole_log_topic(topics: Sequence[str]) -> str:
    """The frontier's name for a log of which these topics are read."""
    return frontier.WHOLE_LOG_TOPIC if is_every_topic(topics) else f"[{', '.join(sorted(topics))}]"


def _wanted_topics(
    rows: DataFrame, bounds: Mapping[tuple[str, int], QueueBounds], arguments: dict[str, Any]
) -> set[str]:
    """Real topics read to the end of the log: those with a queue, and those that halves name and nobody wrote to."""
    known = real_topics(rows) | {topic for topic, _ in bounds}
    return {topic for topic in known if is_taken(topic, arguments["topics"])}


def _known(warehouse: Warehouse, broker_name: str, whole_log: str) -> Row | None:
    rows = warehouse.read("landing_frontier").where(
        (F.col("broker_name") == broker_name)
        & (F.col("topic") == whole_log)
        & (F.col("queue_id") == frontier.WHOLE_QUEUE_ID)
    )
    return rows.first()


def _identity(known: Row) -> RecordIdentity:
    return RecordIdentity(*(int(part) for part in known["source_identity"].split(":")))


def _is_same_log(files: tuple[LogFile, ...], known: Row) -> bool:
    """False where the record read last is no longer what it was: another store stands in its place."""
    identity = _identity(known)
    if identity.offset < files[0].base_offset:
        return True  # retention removed it; the log goes on behind it
    return record_at(files, identity.offset) == identity
