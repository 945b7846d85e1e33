"""The table of runs: rows appended, mostly without a JVM, and kept small by whoever appends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, write_deltalake
from deltalake.exceptions import TableNotFoundError
from pyspark.sql import SparkSession

from txmq_lib.config.table_specs import RUN_TABLE, TableSpec, table_spec
from txmq_lib.delta.arrow_files import stored_schema
from txmq_lib.delta.durable import sync_commits, sync_new_table
from txmq_lib.delta.far_appends import FarAppends, appendable_note
from txmq_lib.delta.log_entries import on_disk
from txmq_lib.delta.small_writes import HOOKS, create_table, open_table
from txmq_lib.files.object_stores import LOG_STORE, LOG_STORE_KEY, is_s3, spark_uri, storage_options
from txmq_lib.spark.session import is_session_alive

KEPT = timedelta(days=90)
# A commit a run: after so many they are put together, and what is older than KEPT goes.
TIDIED_EVERY = 64
# Each process that reads the table opens it anew, and deltalake reads each entry behind its checkpoint twice. Who had
# nothing to do makes none: that would be most of what it asks a store for.
CHECKPOINTED_EVERY = 5
FILES_KEPT_HOURS = 24


def append_runs(warehouse: str, rows: Sequence[Mapping[str, Any]], *, spark: SparkSession | None = None) -> int:
    """Append rows of the table, which is made where it is not there; the version that has them.

    Errors are those of deltalake and of Spark.
    spark  a session, where one is there: on an object store it asks for a quarter of what deltalake does
    """
    path, spec = _path(warehouse), table_spec(RUN_TABLE)
    whole = [{name: row.get(name) for name in spec.columns} for row in rows]
    version = None
    if spark is not None and _excludes_others(spark, path):
        far = FarAppends(spark, spark_uri(path), spec)
        version = far.append(pa.Table.from_pylist(whole, stored_schema(spec)))
    return _append(path, spec, whole) if version is None else version


def keep_small(warehouse: str, version: int, *, has_work: bool, wall: datetime) -> None:
    """What is due behind the version that a run has made; `has_work`: the run was not idle. Errors as `append_runs`."""
    path = _path(warehouse)
    if version % TIDIED_EVERY == 0:
        _tidy(open_table(path), wall)
    elif version % CHECKPOINTED_EVERY == 0 and has_work:
        open_table(path).create_checkpoint()
    else:
        return
    if (place := on_disk(path)) is not None:
        sync_commits(place, version - 1, open_table(path).version())


def _excludes_others(spark: SparkSession, path: str) -> bool:
    """Whether a commit of a session to an object store never takes the place of another one."""
    if storage_options(path) is None or not is_session_alive(spark):
        return False
    return not is_s3(path) or spark.sparkContext.getConf().get(LOG_STORE_KEY) == LOG_STORE


def _path(warehouse: str) -> str:
    return f"{warehouse.rstrip('/')}/{RUN_TABLE}"


def _append(path: str, spec: TableSpec, rows: Sequence[Mapping[str, Any]]) -> int:
    try:
        table, is_new = open_table(path), False
    except TableNotFoundError:
        create_table(path, spec, {"delta.enableDeletionVectors": "false"})
        table, is_new = open_table(path), True
    before = table.version()
    schema = pa.schema(Schema.from_json(table.schema().to_json()).to_arrow())
    write_deltalake(
        table,
        pa.Table.from_pylist(rows, schema),
        mode="append",
        commit_properties=CommitProperties(custom_metadata=appendable_note(table, spec)),
        post_commithook_properties=HOOKS,
    )
    if (place := on_disk(path)) is not None:
        sync_new_table(place) if is_new else sync_commits(place, before, table.version())
    return int(table.version())


def _tidy(table: DeltaTable, wall: datetime) -> None:
    oldest = (wall - KEPT).isoformat(timespec="seconds")
    # The type in full: else it is compared with nanoseconds, which is refused.
    table.delete(f"""started_timestamp < arrow_cast('{oldest}', 'Timestamp(Microsecond, Some("UTC"))')""")
    table.optimize.compact()
    table.create_checkpoint()
    table.vacuum(FILES_KEPT_HOURS, dry_run=False, enforce_retention_duration=False)
    table.cleanup_metadata()
