"""Landing of a broker's store directory: its commit log from where the last landing stopped, and its offsets."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from txmq_lib.errors import InputError
from txmq_lib.names import (
    HALF_TOPIC,
    MAX_TIME_TOPIC,
    OP_TOPIC,
    ROLE_ENGINE,
    SYS_FLAG_PREPARED,
    SYS_FLAG_ROLLBACK,
    SYS_FLAG_TRANSACTION_MASK,
    TRANSACTION_TOPICS,
)
from txmq_lib.pipeline import landing_broker_offsets, landing_messages
from txmq_lib.pipeline.quarantining import append_quarantine
from txmq_lib.rules import frontier
from txmq_lib.settings import Settings
from txmq_lib.sources.commit_log import LogFile, RecordIdentity, list_files, log_end, record_at
from txmq_lib.sources.consume_queue import queue_bounds
from txmq_lib.sources.consumer_offset_file import read_consumer_offset_file
from txmq_lib.sources.store import SOURCE_NAME, RocketmqStore
from txmq_lib.tables.local_frame import local_frame
from txmq_lib.tables.passes import Pass
from txmq_lib.tables.warehouse import Warehouse

KINDS = {"half": HALF_TOPIC, "op": OP_TOPIC, "max-time": MAX_TIME_TOPIC}
EVERY_TOPIC = ("*",)


def plan(warehouse: Warehouse, settings: Settings, *, path: str, broker_name: str) -> dict[str, Any]:
    """What a pass over the store is to read: a physical range fixed now, so that a rerun reads the same.

    Raises InputError where `path` is no store directory.
    """
    files = list_files(path).files
    if not files:
        raise InputError(f"{path} holds no commit log files (commitlog/<20 digits>); give a broker's store directory")
    known = _known(warehouse, broker_name)
    is_rebuilt = known is not None and not _is_same_log(files, known)
    start = files[0].base_offset if known is None or is_rebuilt else max(files[0].base_offset, known["next_offset"])
    end = log_end(files, start)
    first = record_at(files, files[0].base_offset)
    landed_to = 0 if known is None else int(known["next_offset"])
    return {
        "kind": "store",
        "broker_name": broker_name,
        "path": path,
        "from_offset": start,
        "to_offset": end.offset,
        "lowest_offset": files[0].base_offset,
        "last": list(end.last) if end.last is not None else None,
        "waiting": end.waiting,
        "is_rebuilt": is_rebuilt,
        "lost_before_ms": first.store_timestamp_ms if first is not None and first.offset > landed_to else None,
        "topics": list(settings.land.topics),
    }


def is_still_there(current: Pass) -> bool:
    """True where the store still holds what the plan is to read."""
    files = list_files(current.arguments["path"]).files
    last = current.arguments["last"]
    if not files or files[0].base_offset > current.arguments["from_offset"]:
        return False
    return last is None or record_at(files, last[0]) == RecordIdentity(*last)


def land(current: Pass) -> None:
    """Land what the plan names: halves, ops, given-up and visible messages, offsets; damage into quarantine."""
    arguments = current.arguments
    broker_name = arguments["broker_name"]
    stored = current.cached(_stored(current))
    is_engine = current.settings.for_broker(broker_name).role == ROLE_ENGINE
    transaction_type = F.col("sys_flag").bitwiseAND(SYS_FLAG_TRANSACTION_MASK)
    # A damaged record may have a topic and no flags.
    never_visible = F.coalesce(transaction_type.isin(SYS_FLAG_PREPARED, SYS_FLAG_ROLLBACK), F.lit(False))
    queued = stored.where(~never_visible)
    for kind, topic in KINDS.items():
        landing_messages.land(
            current,
            queued.where(F.col("topic") == topic),
            kind=kind,
            broker_name=broker_name,
            takes_prepared=is_engine and kind == "half",
        )
    visible = queued.where(~F.col("topic").isin(*TRANSACTION_TOPICS))
    landing_messages.land(current, visible, kind="message", broker_name=broker_name, takes_prepared=False)
    damage = stored.where("topic is null").select("reason", "detail", "raw", "source")
    append_quarantine(current, damage, broker_name=broker_name, kind="store")
    with current.timed("count"):
        # Old clients' prepared and rolled back records enter no queue (R10): nobody can ever see them.
        current.counts["never_visible"] = stored.where(never_visible).count()
    offset_table = read_consumer_offset_file(arguments["path"])
    if offset_table is not None:
        landing_broker_offsets.land(current, [offset_table], broker_name=broker_name)
    placed = queued.where("reason is null").withColumn("broker_name", F.lit(broker_name))
    landing_messages.move_frontier(current, _reports(current, placed))
    current.counts["waiting"] = arguments["waiting"]
    current.counts["rebuilt"] = int(arguments["is_rebuilt"])


def _stored(current: Pass) -> DataFrame:
    arguments = current.arguments
    spark = current.warehouse.spark
    spark.dataSource.register(RocketmqStore)
    reader = (
        spark.read.format(SOURCE_NAME)
        .option("from_offset", arguments["from_offset"])
        .option("to_offset", arguments["to_offset"])
    )
    if tuple(arguments["topics"]) != EVERY_TOPIC:
        wanted = [*TRANSACTION_TOPICS, *arguments["topics"]]
        reader = reader.option("topics", "[" + ", ".join(f'"{topic}"' for topic in wanted) + "]")
    rows = reader.load(arguments["path"])
    return rows.withColumns(
        {
            "detail": F.when(F.col("reason").isNotNull(), F.concat(F.lit("at physical offset "), F.col("position"))),
            "raw": F.base64("raw"),
            "source": F.concat_ws(":", F.lit(arguments["path"]), F.col("position").cast("string")),
        }
    )


def _reports(current: Pass, rows: DataFrame) -> DataFrame:
    """Frontier reports of a store: what was read of each queue, what is kept of it, and the whole log."""
    arguments = current.arguments
    broker_name, spark = arguments["broker_name"], current.warehouse.spark
    bounds = queue_bounds(
        arguments["path"],
        lowest_commit_log_offset=arguments["lowest_offset"],
        end_commit_log_offset=arguments["to_offset"],
    )
    kept = local_frame(
        spark,
        [(broker_name, topic, queue_id, bound.lowest_offset) for (topic, queue_id), bound in bounds.items()],
        "broker_name string, topic string, queue_id int, lowest_kept_offset bigint",
    )
    lost_ms = arguments["lost_before_ms"]
    lost = F.when(F.col("lowest_kept_offset") > 0, F.timestamp_millis(F.lit(lost_ms).cast("bigint")))
    queues = (
        frontier.reached(rows)
        .join(kept, on=list(frontier.QUEUE), how="left")
        .withColumns(
            {
                "lost_before_timestamp": lost,
                "is_end_known": F.lit(True),
                "source_identity": F.lit(None).cast("string"),
            }
        )
    )
    if tuple(arguments["topics"]) != EVERY_TOPIC or arguments["last"] is None:
        return queues
    offset, store_ms, size = arguments["last"]
    whole = {
        "broker_name": broker_name,
        "topic": frontier.WHOLE_LOG_TOPIC,
        "queue_id": frontier.WHOLE_LOG_QUEUE_ID,
        "next_offset": arguments["to_offset"],
        "highest_store_timestamp": datetime.fromtimestamp(store_ms / 1000, UTC),
        "lowest_kept_offset": None,
        "lost_before_timestamp": None,
        "is_end_known": True,
        "source_identity": f"{offset}:{store_ms}:{size}",
    }
    return queues.unionByName(local_frame(spark, [whole], queues.schema))


def _known(warehouse: Warehouse, broker_name: str) -> Row | None:
    rows = warehouse.read("landing_frontier").where(
        (F.col("broker_name") == broker_name) & (F.col("topic") == frontier.WHOLE_LOG_TOPIC)
    )
    return rows.first()


def _is_same_log(files: tuple[LogFile, ...], known: Row) -> bool:
    """False where the record read last is no longer what it was: another store stands in its place."""
    identity = RecordIdentity(*(int(part) for part in known["source_identity"].split(":")))
    if identity.offset < files[0].base_offset:
        return True  # retention removed it; the log goes on behind it
    return record_at(files, identity.offset) == identity
