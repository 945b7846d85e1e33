"""Rows in Arrow become Parquet files of a table, in a task or in this process; arrow_writes.py commits them.

A file counts once a commit names it. What a failed attempt has left is named by none, and VACUUM takes it.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema

from txmq_lib.config.table_specs import TableSpec
from txmq_lib.delta.conform import struct_type
from txmq_lib.delta.durable import sync_files

# What is held of a file before it is written out.
ROW_GROUP_BYTES: Final = 32 << 20
COMPRESSION: Final = "zstd"
# A column has a dictionary where at most so many of its first rows differ: one in four.
DICTIONARY_SHARE: Final = 4
# Of a text, as Delta itself writes statistics.
STATED_LENGTH: Final = 32
_MILLISECOND: Final = timedelta(milliseconds=1)
_LATEST: Final = datetime.max.replace(tzinfo=UTC) - _MILLISECOND


@dataclass(frozen=True)
class WrittenFile:
    """A Parquet file below a table that no commit names yet.

    path         below the table
    modified_ms  when it was written, epoch ms
    stats       what Delta's log says of its rows, JSON: count, and least, greatest and nulls of skipping columns
    partition    values of the table's partition columns, as the log has them
    """

    path: str
    size: int
    rows: int
    modified_ms: int
    stats: str
    partition: Mapping[str, str] = field(default_factory=dict)


def arrow_schema(spec: TableSpec) -> pa.Schema:
    """The table's columns as Arrow has them, in order."""
    return to_arrow_schema(struct_type(spec))


def stored_schema(spec: TableSpec) -> pa.Schema:
    """Those of them that its files hold: partition columns are in the log."""
    return pa.schema([column for column in arrow_schema(spec) if column.name not in spec.partition_by])


class TableFile:
    """One Parquet file in the making: `write` batches, then `finish`. What is not finished is removed at the exit.

    partition  the value of each of the table's partition columns, as the log has it; plain words
    """

    def __init__(self, table_path: str, spec: TableSpec, partition: Mapping[str, str] | None = None) -> None:
        self._partition = dict(partition or {})
        if list(self._partition) != list(spec.partition_by):
            raise ValueError(f"{spec.table} has the partitions {spec.partition_by}: a file is of one of them")
        folders = [f"{name}={value}" for name, value in self._partition.items()]
        # No two attempts, tasks or processes may meet in a name.
        self._name = "/".join([*folders, f"part-{secrets.token_hex(16)}.{COMPRESSION}.parquet"])
        self._root, self._path = table_path, os.path.join(table_path, self._name)
        self._schema = stored_schema(spec)
        self._columns = {name: _ColumnStats() for name in spec.skipping_columns}
        self._held: list[pa.RecordBatch] = []
        self._writer: pq.ParquetWriter | None = None
        self._rows = 0
        self.held_bytes = 0

    def __enter__(self) -> TableFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            os.unlink(self._path)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows (of `stored_schema`); they go to the disk once there are ROW_GROUP_BYTES of them."""
        if batch.num_rows:
            self._held.append(batch)
            self.held_bytes += batch.get_total_buffer_size()
            if self.held_bytes >= ROW_GROUP_BYTES:
                self.flush()

    def flush(self) -> None:
        """Write what is held as one row group."""
        if not self._held:
            return
        rows = pa.Table.from_batches(self._held, self._schema)
        if self._writer is None:
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            self._writer = _writer(self._path, rows)
        for name, column in self._columns.items():
            column.add(rows[name])
        self._writer.write_table(rows, row_group_size=rows.num_rows)
        self._rows += rows.num_rows
        self._held.clear()
        self.held_bytes = 0

    def finish(self) -> list[WrittenFile]:
        """The file, whole and on the disk; none where it got no rows."""
        self.flush()
        if self._writer is None:
            return []
        self._writer.close()
        self._writer = None
        sync_files(self._root, [self._name])
        status = os.stat(self._path)
        modified_ms = status.st_mtime_ns // 1_000_000
        return [WrittenFile(self._name, status.st_size, self._rows, modified_ms, self._stats(), self._partition)]

    def _stats(self) -> str:
        columns = self._columns.items()
        stats = {
            "numRecords": self._rows,
            "minValues": {name: column.stated_least for name, column in columns if column.stated_least is not None},
            "maxValues": {
                name: column.stated_greatest for name, column in columns if column.stated_greatest is not None
            },
            "nullCount": {name: column.nulls for name, column in columns},
        }
        return json.dumps(stats)


class _ColumnStats:
    """Least, greatest and nulls of one column."""

    def __init__(self) -> None:
        self.nulls = 0
        self._least: Any = None
        self._greatest: Any = None

    def add(self, values: pa.ChunkedArray) -> None:
        self.nulls += values.null_count
        found = pc.min_max(values).as_py()
        if found["min"] is not None:
            self._least = found["min"] if self._least is None else min(self._least, found["min"], key=_order)
            self._greatest = found["max"] if self._greatest is None else max(self._greatest, found["max"], key=_order)

    @property
    def stated_least(self) -> Any:  # noqa: ANN401 - of the column's type
        """Nothing in the column is less; null where nothing is there."""
        least = self._least
        if isinstance(least, datetime):
            return _stated_time(least)
        return least[:STATED_LENGTH] if isinstance(least, str) else least

    @property
    def stated_greatest(self) -> Any:  # noqa: ANN401 - of the column's type
        """Nothing in the column is greater; null where nothing is there, or nothing short is known to be so."""
        greatest = self._greatest
        if isinstance(greatest, datetime):
            # Delta states milliseconds: a greatest that was cut would leave its own row out.
            if greatest.microsecond % 1000 == 0:
                return _stated_time(greatest)
            return None if greatest > _LATEST else _stated_time(greatest + _MILLISECOND)
        return None if isinstance(greatest, str) and len(greatest) > STATED_LENGTH else greatest


def _order(value: Any) -> Any:  # noqa: ANN401 - of any type
    # As Spark and Arrow order texts.
    return value.encode() if isinstance(value, str) else value


def _stated_time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _writer(path: str, first: pa.Table) -> pq.ParquetWriter:
    leaves = {name: leaf for field in first.schema for name, leaf in _leaves(field, first[field.name])}
    return pq.ParquetWriter(
        path,
        first.schema,
        compression=COMPRESSION,
        use_dictionary=[name for name, leaf in leaves.items() if _repeats(leaf)],
        # Nothing is looked up by what a body holds.
        write_statistics=[name for name, leaf in leaves.items() if not pa.types.is_binary(leaf.type)],
        coerce_timestamps="us",
        store_schema=False,
    )


def _leaves(field: pa.Field, values: pa.ChunkedArray) -> Sequence[tuple[str, pa.ChunkedArray]]:
    """Parquet's columns of a column, by their path in the file."""
    if not pa.types.is_map(field.type):
        return [(field.name, values)]
    keys, items = (pa.chunked_array([getattr(part, name) for part in values.chunks]) for name in ("keys", "items"))
    return [(f"{field.name}.key_value.key", keys), (f"{field.name}.key_value.value", items)]


def _repeats(values: pa.ChunkedArray) -> bool:
    if not (pa.types.is_primitive(values.type) or pa.types.is_string(values.type)):
        return False
    first = values.slice(0, 4096)
    return bool(pc.count_distinct(first).as_py() * DICTIONARY_SHARE <= len(first))
