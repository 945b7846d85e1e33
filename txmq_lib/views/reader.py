"""Reads Delta tables without a JVM: deltalake streams rows, DuckDB answers. Must not write, nor import Spark."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
from arro3.core import RecordBatchReader
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from txmq_lib.errors import InputError, TableMissingError
from txmq_lib.schemas import table_spec
from txmq_lib.views.columns import output, quoted

FETCHED_AT_ONCE = 1000

Wanted: TypeAlias = Mapping[str, Sequence[str | int]]


@dataclass(frozen=True)
class Scan:
    """Columns of one table, and which of its rows: those that satisfy any of `where`, in each every column one of the
    values given. No `where`: all rows."""

    table: str
    columns: tuple[str, ...]
    where: tuple[Wanted, ...] = ()


class WarehouseReader:
    """The newest rows of the tables under one URI."""

    def __init__(self, uri: str) -> None:
        self.uri = _plain(uri)
        # DuckDB would spill a large sort into the working directory.
        self._duckdb = duckdb.connect(config={"temp_directory": f"{tempfile.gettempdir()}/txmq-duckdb"})
        self._duckdb.execute("SET TimeZone = 'UTC'")

    def query(self, sql: str, parameters: Sequence[Any], scans: Mapping[str, Scan]) -> Iterator[tuple[Any, ...]]:
        """Rows of `sql`, which may name each of `scans` once: they are streams."""
        streams = {name: self._stream(scan) for name, scan in scans.items()}
        return self._fetched(sql, parameters, streams)

    def rows(self, scan: Scan) -> list[dict[str, Any]]:
        """The scan's rows by column name, values as JSON would have them (see `output`)."""
        types = {field.name: field.type for field in table_spec(scan.table).fields}
        columns = ", ".join(output(quoted(name), types[name]) for name in scan.columns)
        condition, parameters = matching(scan.where)
        found = self.query(f"SELECT {columns} FROM scan WHERE {condition}", parameters, {"scan": scan})
        return [dict(zip(scan.columns, row, strict=True)) for row in found]

    def _fetched(
        self, sql: str, parameters: Sequence[Any], streams: Mapping[str, RecordBatchReader]
    ) -> Iterator[tuple[Any, ...]]:
        with self._duckdb.cursor() as cursor:
            cursor.execute("SET TimeZone = 'UTC'")
            for name, stream in streams.items():
                cursor.register(name, stream)
            try:
                cursor.execute(sql, list(parameters))
                while batch := cursor.fetchmany(FETCHED_AT_ONCE):
                    yield from batch
            except (duckdb.IOException, duckdb.InvalidInputException) as error:
                told = f"tables under {self.uri} cannot be read: {_first_line(error)}"
                raise InputError(f"{told}; files may have gone while reading: try again") from error

    def _stream(self, scan: Scan) -> RecordBatchReader:
        path = f"{self.uri}/{scan.table}"
        try:
            return DeltaTable(path).scan(columns=list(scan.columns), predicate=_predicate(scan.where))
        except TableNotFoundError:
            raise TableMissingError(
                f"no table {scan.table} in the warehouse {self.uri}; create it with: txmq --warehouse {self.uri} init"
            ) from None
        except (DeltaError, OSError) as error:
            raise InputError(f"table {path} cannot be read: {_first_line(error)}") from error


def matching(where: Sequence[Wanted]) -> tuple[str, list[str | int]]:
    """`where` as a DuckDB condition with its bound parameters."""
    parameters = [value for wanted in where for values in wanted.values() for value in values]
    any_of = [
        " AND ".join(f"{quoted(name)} IN ({', '.join('?' * len(values))})" for name, values in wanted.items())
        for wanted in where
    ]
    return " OR ".join(f"({all_of})" for all_of in any_of) or "true", parameters


def _predicate(where: Sequence[Wanted]) -> str | None:
    # Only spares reading: what is shown is decided by bound parameters. deltalake takes nothing but SQL text here.
    any_of = [
        " AND ".join(f"{name} IN ({', '.join(map(_literal, values))})" for name, values in wanted.items())
        for wanted in where
    ]
    return " OR ".join(f"({all_of})" for all_of in any_of) or None


def _literal(value: str | int) -> str:
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def _first_line(error: Exception) -> str:
    # deltalake and Arrow put whole stack traces into their messages.
    return next(iter(str(error).splitlines()), type(error).__name__)


def _plain(uri: str) -> str:
    # Spark writes file:/w where deltalake wants a path; other schemes mean the same to both.
    bare = uri.rstrip("/") or "/"
    if bare.startswith("file:"):
        bare = "/" + bare.removeprefix("file:").lstrip("/")
    return bare if "://" in bare else str(Path(bare))
