"""Upkeep of one table: its files counted, small ones compacted, replaced ones removed. Changes no row of any table."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import reduce

from delta.tables import DeltaTable
from pyspark.sql import Column
from pyspark.sql import functions as F

from txmq_lib.delta.conflicts import CONFLICTS, WRITE_ATTEMPTS
from txmq_lib.delta.log_view import DeltaLogView
from txmq_lib.delta.short_logs import shorten_log
from txmq_lib.delta.small_writes import CHECKPOINT_EVERY, open_table
from txmq_lib.delta.spark_writes import TAG_CONF
from txmq_lib.delta.stored_files import stored_files
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.passes.pass_log import COMMITTED
from txmq_lib.spark.log_store import share_log_stores
from txmq_lib.spark.session_conf import session_conf

COMMITTED_PASS = re.compile(rf"txmq/([^/]+)/pass/{COMMITTED}")
SMALL_CONF = "spark.databricks.delta.optimize.minFileSize"
LARGE_CONF = "spark.databricks.delta.optimize.maxFileSize"
LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
FILE_RETENTION, LOG_RETENTION = "delta.deletedFileRetentionDuration", "delta.logRetentionDuration"
CHECKPOINTS = "delta.checkpointInterval"
# What Delta does where a table says nothing.
DELTA_DEFAULTS = {
    FILE_RETENTION: "interval 604800 seconds",
    LOG_RETENTION: "interval 2592000 seconds",
    CHECKPOINTS: "10",
}


@dataclass(frozen=True)
class TableFiles:
    """The files of one table: sizes (bytes) of the newest version's per partition, and what VACUUM would remove."""

    table: str
    sizes: dict[str, list[int]]
    expired_files: int
    expired_bytes: int


def table_files(warehouse: Warehouse, table: str, *, removed_before: datetime) -> TableFiles:
    """Count the table's files. Expired: written before `removed_before`, of no version kept since then.

    Files of the change feed are not counted; VACUUM removes them by age alone.
    """
    log = warehouse.log(table)
    sizes: dict[str, list[int]] = defaultdict(list)
    names: set[str] = set()
    for path, size, partition in _live(log):
        sizes[partition].append(size)
        names.add(_name(path))
    stored = stored_files(warehouse.spark, warehouse.path(table))
    before_ms = removed_before.timestamp() * 1000
    old = [file for file in stored if file.modified_ms < before_ms and file.name not in names]
    # Most of the time nothing is old, and who keeps what needs no job of Spark.
    kept = {_name(row["path"]) for row in log.kept_files().toArrow().to_pylist()} if old else set[str]()
    expired = [file.size for file in old if file.name not in kept]
    return TableFiles(table, dict(sizes), len(expired), sum(expired))


def _live(log: DeltaLogView) -> Iterator[tuple[str, int, str]]:
    """Path, bytes and partition of each file of the newest version."""
    files = log.plain_files(log.version)
    if files is not None:
        yield from ((file.path, file.size, json.dumps(dict(file.partition), sort_keys=True)) for file in files)
        return
    rows = log.files().select("path", "size", F.to_json("partitionValues").alias("partition")).toArrow().to_pylist()
    yield from ((row["path"], int(row["size"]), row["partition"]) for row in rows)


def _name(path: str) -> str:
    # Names of data files are unique; paths are written in several ways.
    return path.rsplit("/", 1)[-1]


def is_kept_otherwise(warehouse: Warehouse, table: str, *, file_retention_ms: int, log_retention_ms: int) -> bool:
    """Whether the table keeps replaced files or log entries for other spans than these."""
    properties = _stated(file_retention_ms, log_retention_ms)
    log = warehouse.log(table)
    return properties != {key: log.configuration(key) or DELTA_DEFAULTS[key] for key in properties}


def keep_for(warehouse: Warehouse, table: str, *, file_retention_ms: int, log_retention_ms: int) -> bool | None:
    """Tell the table how long to keep replaced files and log entries; False where it knew, None after conflicts."""
    spans = {"file_retention_ms": file_retention_ms, "log_retention_ms": log_retention_ms}
    stated = _stated(file_retention_ms, log_retention_ms)
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in stated.items())
    for _ in range(WRITE_ATTEMPTS):
        if not is_kept_otherwise(warehouse, table, **spans):
            return False
        try:
            warehouse.spark.sql(f"ALTER TABLE {_quoted(warehouse.path(table))} SET TBLPROPERTIES ({properties})")
            return True
        except CONFLICTS:
            continue
    return None


def compact(warehouse: Warehouse, table: str, *, below_bytes: int, file_bytes: int, tag: str) -> int | None:
    """OPTIMIZE: files below `below_bytes` into files of about `file_bytes`; how many files went, None after conflicts.

    Delta calls such a commit no change of data, so the change feed passes over it. Who wrote the table meanwhile
    wins: only the replacing of files that went in between is a conflict.
    """
    for _ in range(WRITE_ATTEMPTS):
        conf = {SMALL_CONF: str(below_bytes), LARGE_CONF: str(file_bytes), TAG_CONF: tag}
        try:
            with session_conf(warehouse.spark, conf):
                done = DeltaTable.forPath(warehouse.spark, warehouse.path(table)).optimize().executeCompaction()
            return int(done.collect()[0]["metrics"]["numFilesRemoved"])
        except CONFLICTS:
            continue
    return None


def remove_expired(warehouse: Warehouse, table: str) -> None:
    """VACUUM: remove files that the newest version does not need and that were replaced longer ago than is kept.

    Errors  as of share_log_stores
    """
    spark = warehouse.spark
    share_log_stores(spark)
    # Spark's own default, of 10,000 tasks, is by far more than a cluster has cores or a table directories.
    tasks = spark.conf.get(LISTING_TASKS, None) or str(spark.sparkContext.defaultParallelism)
    with session_conf(spark, {LISTING_TASKS: tasks}):
        DeltaTable.forPath(spark, warehouse.path(table)).vacuum()


def old_passes(warehouse: Warehouse, before: datetime) -> Column:
    """Which rows of `pass` were written before then and serve nobody any more.

    A job begins at its newest committed pass: the rows of that one and of what came after it stay.
    """
    ended = {
        COMMITTED_PASS.fullmatch(app_id): number for app_id, number in warehouse.log("pass").txn_versions().items()
    }
    serves_nobody = [
        (F.col("job") == found[1]) & (F.col("pass_number") < number) for found, number in ended.items() if found
    ]
    return (F.col("wall_timestamp") < F.lit(before)) & reduce(Column.__or__, serves_nobody, F.lit(False))


def remove_passes(warehouse: Warehouse, which: Column, *, tag: str) -> bool:
    """Delete rows of `pass`; False after conflicts."""
    for _ in range(WRITE_ATTEMPTS):
        try:
            with session_conf(warehouse.spark, {TAG_CONF: tag}):
                DeltaTable.forPath(warehouse.spark, warehouse.path("pass")).delete(which)
            return True
        except CONFLICTS:
            continue
    return False


def tidy_log(warehouse: Warehouse, table: str) -> None:
    """Make a checkpoint where the last one is far behind, and remove log entries that are older than they are kept.

    Spark does both beside its own commits. Behind those of deltalake a pass makes one checkpoint, and cleans nothing.
    """
    path = warehouse.small_path(table)
    if path is not None:
        shorten_log(warehouse, table)
        open_table(path).cleanup_metadata()


def _stated(file_retention_ms: int, log_retention_ms: int) -> dict[str, str]:
    return {
        FILE_RETENTION: _interval(file_retention_ms),
        LOG_RETENTION: _interval(log_retention_ms),
        CHECKPOINTS: str(CHECKPOINT_EVERY),
    }


def _interval(span_ms: int) -> str:
    return f"interval {max(span_ms // 1000, 1)} seconds"


def _quoted(path: str) -> str:
    return "delta.`" + path.replace("`", "``") + "`"
