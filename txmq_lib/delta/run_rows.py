"""The table of runs: rows appended by deltalake, without a JVM, and kept small by whoever appends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.exceptions import TableNotFoundError

from txmq_lib.config.table_specs import RUN_TABLE, table_spec
from txmq_lib.delta.durable import sync_commits, sync_new_table
from txmq_lib.delta.small_writes import HOOKS, create_table, open_table

KEPT = timedelta(days=90)
# A commit a run: after so many they are put together, and what is older than KEPT goes.
TIDIED_EVERY = 64
# Each process opens the table anew, and deltalake reads each entry behind its checkpoint twice.
CHECKPOINTED_EVERY = 5
FILES_KEPT_HOURS = 24


def append_runs(warehouse: str, rows: Sequence[Mapping[str, Any]], *, wall: datetime) -> None:
    """Append rows of the table, which is made where it is not there. Errors are those of deltalake."""
    path = f"{warehouse.rstrip('/')}/{RUN_TABLE}"
    spec = table_spec(RUN_TABLE)
    try:
        table, is_new = open_table(path), False
    except TableNotFoundError:
        create_table(path, spec, {"delta.enableDeletionVectors": "false"})
        table, is_new = open_table(path), True
    before = table.version()
    schema = pa.schema(Schema.from_json(table.schema().to_json()).to_arrow())
    whole = [{name: row.get(name) for name in spec.columns} for row in rows]
    write_deltalake(table, pa.Table.from_pylist(whole, schema), mode="append", post_commithook_properties=HOOKS)
    if table.version() % TIDIED_EVERY == 0:
        _tidy(table, wall)
    elif table.version() % CHECKPOINTED_EVERY == 0:
        table.create_checkpoint()
    if ":" not in (place := path.removeprefix("file:")):
        sync_new_table(place) if is_new else sync_commits(place, before, table.version())


def _tidy(table: DeltaTable, wall: datetime) -> None:
    oldest = (wall - KEPT).isoformat(timespec="seconds")
    # The type in full: else it is compared with nanoseconds, which is refused.
    table.delete(f"""started_timestamp < arrow_cast('{oldest}', 'Timestamp(Microsecond, Some("UTC"))')""")
    table.optimize.compact()
    table.create_checkpoint()
    table.vacuum(FILES_KEPT_HOURS, dry_run=False, enforce_retention_duration=False)
    table.cleanup_metadata()
