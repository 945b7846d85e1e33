"""Reads Delta tables without a JVM: deltalake knows the files, DuckDB reads and answers. Must not write.

On a local disk DuckDB reads the files itself. Elsewhere it is given rows; tables and files are asked for side by side.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

import duckdb
from arro3.core import RecordBatchReader
from deltalake import DeltaTable

from txmq_lib.config.table_specs import table_spec
from txmq_lib.errors import InputError, TableMissingError
from txmq_lib.files.scratch import scratch
from txmq_lib.views.column_sql import duckdb_type, output, quoted
from txmq_lib.views.scan import Scan, matching, no_row, pruning_predicate, sql_literal
from txmq_lib.views.tables import Tables, far_files

if TYPE_CHECKING:
    import pyarrow as pa

FETCHED_AT_ONCE = 1000
# In a path DuckDB takes these for patterns.
GLOB = re.compile(r"[*?\[]")
# By place, or by name.
Parameters: TypeAlias = list[Any] | dict[str, Any]


@dataclass(frozen=True)
class _Stream:
    """Rows of a scan as they come, and, as SQL, its columns where the stored table lacks some; empty: it lacks none."""

    rows: RecordBatchReader | pa.Table
    columns: str


class WarehouseReader(Tables):
    """Rows of the tables under one URI, each as it was when it was first asked for."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self._old_files: dict[str, bool] = {}
        # DuckDB would spill a large sort into the working directory.
        self._duckdb = duckdb.connect(config={"temp_directory": f"{scratch()}/duckdb"})
        self._duckdb.execute("SET TimeZone = 'UTC'")

    def query(self, sql: str, parameters: Parameters, scans: Mapping[str, Scan]) -> Iterator[tuple[Any, ...]]:
        """Rows of `sql`, which may name each of `scans` once: they may be streams."""
        return self._fetched(sql, parameters, self._sources(scans))

    def rows(self, scan: Scan, *, most_per: tuple[Sequence[str], int] = ((), 0)) -> list[dict[str, Any]]:
        """The scan's rows by column name, values as JSON would have them (see `output`).

        most_per  columns, and how many rows of each value of any of them are read; where one has none, others bound it
        """
        types = {field.name: field.type for field in table_spec(scan.table).fields}
        columns = ", ".join(output(quoted(name), types[name]) for name in scan.columns)
        condition, parameters = matching(scan.where)
        sql = f"SELECT {columns} FROM scan WHERE {condition}"
        numbered = [
            f"({name} IS NULL OR row_number() OVER (PARTITION BY {name}) <= {most_per[1]})"
            for name in map(quoted, most_per[0])
        ]
        if numbered:
            sql += f" QUALIFY {' AND '.join(numbered)}"
        found = self.query(sql, parameters, {"scan": scan})
        return [dict(zip(scan.columns, row, strict=True)) for row in found]

    def table(self, sql: str, parameters: Parameters, scans: Mapping[str, Scan]) -> pa.Table:
        """Rows of `sql` as `query` has them, whole and in Arrow's types."""
        with self._asking(self._sources(scans)) as cursor:
            return cursor.sql(sql, params=parameters).to_arrow_table()

    def _fetched(
        self, sql: str, parameters: Parameters, sources: Mapping[str, str | _Stream]
    ) -> Iterator[tuple[Any, ...]]:
        with self._asking(sources) as cursor:
            cursor.execute(sql, parameters)
            while batch := cursor.fetchmany(FETCHED_AT_ONCE):
                yield from batch

    @contextmanager
    def _asking(self, sources: Mapping[str, str | _Stream]) -> Iterator[duckdb.DuckDBPyConnection]:
        with self._duckdb.cursor() as cursor:
            cursor.execute("SET TimeZone = 'UTC'")
            try:
                for name, source in sources.items():
                    if isinstance(source, str):
                        cursor.execute(f"CREATE TEMP VIEW {quoted(name)} AS {source}")
                    elif not source.columns:
                        cursor.register(name, source.rows)
                    else:
                        stored = f"{name} as it is stored"
                        cursor.register(stored, source.rows)
                        view = f"SELECT {source.columns} FROM {quoted(stored)}"
                        cursor.execute(f"CREATE TEMP VIEW {quoted(name)} AS {view}")
                yield cursor
            except duckdb.Error as error:
                sentence = f"tables under {self.uri} cannot be read: {_first_line(error)}"
                hint = ""
                if isinstance(error, duckdb.IOException | duckdb.InvalidInputException):
                    hint = "; files may have gone while reading: try again"
                elif isinstance(error, duckdb.BinderException):
                    hint = "; columns may differ from this version's: txmq doctor"
                raise InputError(sentence + hint) from error

    def _sources(self, scans: Mapping[str, Scan]) -> dict[str, str | _Stream]:
        return dict(zip(scans, self.side_by_side(self._source, scans.values()), strict=True))

    def _source(self, scan: Scan) -> str | _Stream:
        try:
            return self._files(scan) or self._stream(scan)
        except TableMissingError:
            if not scan.may_be_missing:
                raise
            return f"SELECT {no_row(scan)} WHERE false"

    def _files(self, scan: Scan) -> str | None:
        """SQL for the scan over its Parquet files; None where DuckDB cannot read them as they are."""
        spec, none = table_spec(scan.table), no_row(scan)
        with self.readable(scan.table) as delta:
            # Behind a link it is another than the warehouse's. A directory named like a column would give it a value.
            place = unquote(delta.table_uri)
            is_pattern = GLOB.search(place) or (spec.partition_by and "=" in place)
            if self.is_far or is_pattern or _is_mapped(delta):
                return None
            files = delta.file_uris(file_pruning_predicate=pruning_predicate(scan, _stored(delta)))
            has_old_files = bool(files) and self._has_old_files(scan.table, delta, files)
        if not files:
            # No rows, told in types, so that DuckDB plans away whatever is joined with them.
            return f"SELECT {none} WHERE false"
        partitions = spec.partition_by
        types = ", ".join(f"{quoted(name)}: BOOLEAN" for name in partitions)
        hive = f"hive_partitioning = true, hive_types = {{{types}}}" if partitions else "hive_partitioning = false"
        # deltalake gives them as parts of a URL.
        listed = ", ".join(sql_literal(unquote(file)) for file in files)
        columns = ", ".join(map(quoted, scan.columns))
        if not has_old_files:
            return f"SELECT {columns} FROM read_parquet([{listed}], {hive})"
        # To join them by name every file is opened first; a column that none of them has is null as well.
        by_name = f"SELECT * FROM read_parquet([{listed}], {hive}, union_by_name = true)"
        return f"SELECT {columns} FROM (SELECT {none} WHERE false UNION ALL BY NAME {by_name})"

    def _has_old_files(self, table: str, delta: DeltaTable, files: Sequence[str]) -> bool:
        """Whether any of `files` was written before a column was added: if any was, the oldest."""
        actions = delta.get_add_actions()
        # Names are unique.
        names = (_name(path) for path in actions["path"].to_pylist())
        written = dict(zip(names, actions["modification_time"].to_pylist(), strict=True))
        oldest = unquote(min(files, key=lambda file: written.get(_name(file), 0)))
        if oldest not in self._old_files:
            schema = f"SELECT name FROM parquet_schema({sql_literal(oldest)})"
            has = {name for (name,) in self._fetched(schema, [], {})}
            # By the spec, not the stored schema: only a writing job adds a column to an older warehouse.
            columns = {*table_spec(table).columns} - {*table_spec(table).partition_by}
            self._old_files[oldest] = not columns <= has
        return self._old_files[oldest]

    def _stream(self, scan: Scan) -> _Stream:
        with self.readable(scan.table) as delta:
            stored = _stored(delta)
            present = [name for name in scan.columns if name in stored]
            rows = self._rows(delta, present or stored[:1], scan, stored)
        if len(present) == len(scan.columns):
            return _Stream(rows, "")
        types_of = {field.name: duckdb_type(field.type) for field in table_spec(scan.table).fields}
        columns = [
            quoted(name) if name in stored else f"NULL::{types_of[name]} AS {quoted(name)}" for name in scan.columns
        ]
        return _Stream(rows, ", ".join(columns))

    def _rows(
        self, delta: DeltaTable, columns: list[str], scan: Scan, stored: Collection[str]
    ) -> RecordBatchReader | pa.Table:
        rows, predicate = None, pruning_predicate(scan, stored)
        if not _is_mapped(delta):
            rows = far_files().rows_of_files(delta, self.options() or {}, columns, predicate, scan.where)
        return delta.scan(columns=columns, predicate=predicate) if rows is None else rows


def _is_mapped(delta: DeltaTable) -> bool:
    """Whether what its files say is not all: columns that have other names there, rows that are deleted elsewhere."""
    return delta.protocol().min_reader_version > 1


def _stored(delta: DeltaTable) -> list[str]:
    """The columns of a stored table."""
    return [field.name for field in delta.schema().fields]


def _name(path: str) -> str:
    """The name of a file, however its path or URI is written."""
    return unquote(path).rpartition("/")[2]


def _first_line(error: Exception) -> str:
    # deltalake and Arrow put whole stack traces into their messages.
    return next(iter(str(error).splitlines()), type(error).__name__)
