"""Landing of a broker's store directory: its commit log from where the last landing stopped, and its offsets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import InputError
from txmq_lib.files.materialized import MATERIALIZED_BYTES
from txmq_lib.names import HALF_TOPIC, ROLE_ENGINE
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.land.broker_state import broker_offsets, check_cursors, set_ups
from txmq_lib.pipeline.land.broker_state.broker_settings import DEFAULTS, conf_findings
from txmq_lib.pipeline.land.files import lines as inputs
from txmq_lib.pipeline.land.records import messages
from txmq_lib.pipeline.land.records.record_files import Reading
from txmq_lib.pipeline.land.records.record_rows import Landing
from txmq_lib.pipeline.land.store import log_landing
from txmq_lib.pipeline.land.topics import ALWAYS_TAKEN, is_every_topic, is_taken, trace_topics
from txmq_lib.rocketmq.store.broker_conf import read_broker_conf
from txmq_lib.rocketmq.store.commit_log import LogFile, RecordIdentity, list_files, log_end, record_at
from txmq_lib.rocketmq.store.consume_queue import QueueBounds, queue_bounds
from txmq_lib.rocketmq.store.consumer_offset_file import (
    ConsumerOffsetFile,
    consumer_offset_state,
    read_consumer_offset_file,
)
from txmq_lib.rocketmq.store.set_up import ROCKSDB_OFFSETS, config_of, require_readable, set_up_of, store_set_up
from txmq_lib.rules import frontier
from txmq_lib.rules.half import content_hash
from txmq_lib.rules.moments import EPOCH, LATEST_MS
from txmq_lib.rules.runs import MOST_RUNS, QUEUE, RUN_FIELDS, no_runs, run
from txmq_lib.spark.local_frame import local_frame


def plan(warehouse: Warehouse, settings: Settings, *, path: str, broker_name: str) -> dict[str, Any]:
    """What a pass over the store is to read: a physical range fixed now, so that a rerun reads the same.

    Raises InputError where `path` is no store directory, or a file is missing in the middle of what is to be read;
    StoreRefusedError where the broker keeps its log in a way that cannot be read.
    """
    path = str(Path(path).absolute())  # whoever carries the plan on may stand elsewhere
    config = config_of(path)
    set_up = store_set_up(path, config)
    require_readable(set_up, path)
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
        "cuts": log_landing.fewer(end.cuts, end.offset - start, warehouse),
        "are_files_written_by_tasks": log_landing.can_write(warehouse),
        "is_rebuilt": is_rebuilt,
        "lost_before_ms": _time_ms(first.store_timestamp_ms) if first and first.offset > landed_to else None,
        "topics": list(settings.land.topics),
        "offset_table": None if set_up.has(ROCKSDB_OFFSETS) else consumer_offset_state(path),
        set_ups.TABLE: set_ups.found(
            "store",
            path,
            {**DEFAULTS, **config} if config else {},
            [trait.name for trait in set_up.notable],
            settings.for_broker(broker_name),
        ),
    }


def findings(path: str, settings: Settings, broker_name: str) -> Iterator[str]:
    """What people should know of how a broker is set up, and of the broker.conf beside its store."""
    for trait in set_up_of(path).notable:
        yield f"broker {broker_name}: {trait.name}: {trait.words}" + (f"; {trait.to_do}" if trait.to_do else "")
    try:
        found = read_broker_conf(path)
    except OSError as failure:
        yield f"broker {broker_name}: its broker.conf cannot be read: {failure.strerror}"
        return
    if found is not None:
        file, config = found
        policy = settings.for_broker(broker_name)
        yield from (f"broker {broker_name}, {file}: {words}" for words in conf_findings(config, policy))


def can_be_carried_on(current: Pass) -> bool:
    """Whether another process can go on with the plan: the store holds what it is to read, and its way is open."""
    try:
        files = list_files(current.arguments["path"]).files
    except InputError:
        return False
    last = current.arguments["last"]
    if not files or files[0].base_offset > current.arguments["from_offset"]:
        return False
    if _is_by_tasks(current) and not log_landing.can_write(current.warehouse):
        return False
    return last is None or record_at(files, last[0]) == RecordIdentity(*last)


def land(current: Pass) -> None:
    """Land what the plan names: halves, ops, given-up and visible messages, offsets; damage into quarantine."""
    arguments = current.arguments
    broker_name = arguments["broker_name"]
    # What retention takes between plan and reading would count as read.
    if not can_be_carried_on(current):
        raise InputError(f"{arguments['path']}: what was to be read is gone, or another log stands there; land again")
    set_ups.land(current)
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
        broker_offsets.land(current, [offset_table], broker_name=broker_name)
        _land_check_cursors(current, offset_table, bounds)
    messages.move_frontier(current, _reports(current, reached, bounds, stretches))
    current.counts["waiting"] = arguments["waiting"]
    current.counts["rebuilt"] = int(arguments["is_rebuilt"])


def _land_records(current: Pass, broker_name: str) -> tuple[DataFrame, list[tuple[int, int]]]:
    """How far each queue was read (frontier.reached), and the stretches of the log that were read without a fault."""
    landed = _landed_by_tasks(current, broker_name) if _is_by_tasks(current) else None
    if landed is None:
        stored = current.cached(_described(current, inputs.records(current, _options(current))))
        found = messages.land_every_kind(current, stored, broker_name=broker_name, source="store")
        placed = found.rows.where("reason is null").withColumn("broker_name", F.lit(broker_name))
        reached = frontier.reached(messages.without_place(placed, found.rivals))
        return reached, _clean_stretches(current, stored, found.rivals)
    reached = frontier.reached_by(landed.runs)
    if landed.suspects is None:
        current.counts |= {"never_visible": 0, "quarantine_store": 0}
        return reached, [(current.arguments["from_offset"], current.arguments["to_offset"])]
    suspects = current.cached(_described(current, landed.suspects))
    messages.land_every_kind(current, suspects, broker_name=broker_name, source="store", are_suspects=True)
    return reached, _clean_stretches(current, suspects, None)


def _is_by_tasks(current: Pass) -> bool:
    # Plans of before say nothing of it.
    return bool(current.arguments.get("are_files_written_by_tasks"))


def _landed_by_tasks(current: Pass, broker_name: str) -> log_landing.LandedLog | None:
    arguments, settings = current.arguments, current.settings
    files = list_files(arguments["path"]).files
    parts = log_landing.stretches(files, arguments["from_offset"], arguments["to_offset"], arguments["cuts"])
    is_engine = settings.for_broker(broker_name).role == ROLE_ENGINE
    reading = Reading(
        landing=Landing(broker_name, current.number, is_engine, settings.land.trace_topic),
        table_paths=log_landing.paths(current.warehouse),
        topics=None if is_every_topic(arguments["topics"]) else _topics(current),
        max_body_bytes=settings.land.max_body_bytes,
        most_suspect_bytes=MATERIALIZED_BYTES // max(len(parts), 1),
    )
    return log_landing.land(current, parts, reading)


def _clean_stretches(current: Pass, stored: DataFrame, rivals: DataFrame | None) -> list[tuple[int, int]]:
    """The physical range of the plan without the records of which no row tells: [first, end) of what lies between."""
    unseen = stored.where(F.col("reason").isNotNull() | messages.is_never_visible()).select("position")
    holes = unseen if rivals is None else unseen.unionByName(rivals)
    newest = holes.distinct().orderBy(F.col("position").desc()).limit(MOST_RUNS).toArrow()["position"].to_pylist()
    arguments = current.arguments
    start, stop = arguments["from_offset"], arguments["to_offset"]
    # Where there are too many, nothing is known of what lies before them.
    begins = [start, *[hole + 1 for hole in reversed(newest)]][-MOST_RUNS:]
    ends = [*reversed(newest), stop][-MOST_RUNS:]
    return [(begin, end) for begin, end in zip(begins, ends, strict=True) if begin < end]


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
    return (*ALWAYS_TAKEN, *current.arguments["topics"], *trace_topics(current.settings.land))


def _described(current: Pass, records: DataFrame) -> DataFrame:
    """Rows of the store source as messages.land_every_kind takes them."""
    placed = records.withColumns(
        {
            "commit_log_offset": F.coalesce("commit_log_offset", "position"),
            "detail": F.when(F.col("reason").isNotNull(), F.concat(F.lit("at physical offset "), F.col("position"))),
            "raw": F.base64("raw"),
            "source": F.concat_ws(":", F.lit(current.arguments["path"]), F.col("position").cast("string")),
        }
    )
    return placed.withColumn("content_hash", content_hash())


def _land_check_cursors(
    current: Pass, table: ConsumerOffsetFile, bounds: Mapping[tuple[str, int], QueueBounds]
) -> None:
    last = current.arguments["last"]
    if last is not None and (stored_ms := _time_ms(last[1])) is not None:
        # Where files were copied, the table's time is that of the copy: the log tells when its broker lived.
        moment = EPOCH + timedelta(milliseconds=min(stored_ms, table.modified_ms))
        half_queues = [queue_id for topic, queue_id in bounds if topic == HALF_TOPIC]
        check_cursors.land(current, table.offsets, half_queues, moment)


def _reports(
    current: Pass,
    reached: DataFrame,
    bounds: Mapping[tuple[str, int], QueueBounds],
    stretches: Sequence[tuple[int, int]],
) -> DataFrame:
    """Frontier reports of a store: what was read and is kept of each queue, and of the log.

    reached    of each queue that was read (frontier.reached)
    bounds     of each queue that the store has
    stretches  of the log that were read without a bad record
    """
    arguments = current.arguments
    lost_ms = arguments["lost_before_ms"]
    # Without consume queues nobody knows which queue lost something.
    has_lost = F.coalesce(F.col("lowest_kept_offset") > 0, F.lit(True))
    # That the queue ends there where the log does: an offset before it that has not landed is a hole in what was read.
    log_end = F.lit(arguments["to_offset"])
    end_of_queue = F.when(F.col("_end").isNotNull(), F.array(run(F.col("_end"), F.col("_end"), log_end, log_end)))
    queues = (
        reached.join(_queues_kept(current, bounds), on=list(QUEUE), how="full")
        .withColumns(
            {
                "next_offset": F.coalesce("next_offset", "_end"),
                "lost_before_timestamp": F.when(has_lost, F.timestamp_millis(F.lit(lost_ms).cast("bigint"))),
                "is_end_known": F.lit(True),
                "source_identity": F.lit(None).cast("string"),
                "runs": F.concat(F.coalesce("runs", no_runs()), F.coalesce(end_of_queue, no_runs())),
                "told_end": F.greatest("told_end", "_end"),
                "is_anew": F.lit(False),
            }
        )
        .drop("_end")
    )
    if arguments["last"] is None:
        return queues
    return queues.unionByName(local_frame(current.warehouse.spark, [_of_log(arguments, stretches)], queues.schema))


def _queues_kept(current: Pass, bounds: Mapping[tuple[str, int], QueueBounds]) -> DataFrame:
    """Where the queues that land begin and end (`_end`), as their consume queues say."""
    arguments = current.arguments
    return local_frame(
        current.warehouse.spark,
        [
            (arguments["broker_name"], topic, queue_id, bound.next_offset, bound.lowest_offset)
            for (topic, queue_id), bound in bounds.items()
            if is_taken(topic, arguments["topics"])
        ],
        "broker_name string, topic string, queue_id int, _end bigint, lowest_kept_offset bigint",
    )


def _of_log(arguments: Mapping[str, Any], stretches: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """The row that says how far the log was read."""
    offset, store_ms, size = arguments["last"]
    read_ms = _time_ms(store_ms)
    return {
        "broker_name": arguments["broker_name"],
        "topic": _whole_log_topic(arguments["topics"]),
        "queue_id": frontier.WHOLE_QUEUE_ID,
        "next_offset": arguments["to_offset"],
        "highest_store_timestamp": None if read_ms is None else EPOCH + timedelta(milliseconds=read_ms),
        "lowest_kept_offset": arguments["lowest_offset"],
        "is_end_known": True,
        "source_identity": f"{offset}:{store_ms}:{size}",
        "runs": [dict(zip(RUN_FIELDS, each, strict=False)) for each in stretches],
        "is_anew": arguments["is_rebuilt"],
    }


def _time_ms(stated_ms: int) -> int | None:
    """Epoch ms that a header states; null where it is no time."""
    return stated_ms if 0 <= stated_ms <= LATEST_MS else None


def _whole_log_topic(topics: Sequence[str]) -> str:
    """The frontier's name for a log of which these topics are read."""
    return frontier.WHOLE_LOG_TOPIC if is_every_topic(topics) else f"[{', '.join(sorted(topics))}]"


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
