"""Rows of a table that is on an object store: its files read side by side, small ones by one request each.

deltalake's own scan asks for one file after the other, three times each, and holds Python's lock meanwhile. A dataset
of pyarrow makes an expression of the statistics of each file, which takes longer than to read a small one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler

from txmq_lib.delta.log_actions import lies_below
from txmq_lib.views.scan import KeyValues

# Tables of which more has to be read are streamed.
KEPT_BYTES = 64 << 20
# Below, a file takes one request; else one for its end and some for its columns.
SMALL_FILE = 4 << 20
REQUESTS_AT_ONCE = 32
# Arrow keeps memory for each thread that has decoded something.
DECODED_AT_ONCE = 4


@dataclass(frozen=True)
class _File:
    """A data file: its path below the table, bytes, and the values of partition columns for all its rows."""

    path: str
    size: int
    partition: Mapping[str, Any]

    def opened(self, store: DeltaStorageHandler) -> pa.NativeFile:
        """The file; one that is small is here already."""
        source = store.open_input_file(self.path)
        return pa.BufferReader(source.read()) if self.size <= SMALL_FILE else source

    def rows(self, source: pa.NativeFile, schema: pa.Schema, where: Sequence[KeyValues]) -> pa.Table | None:
        """Its rows with these columns, null where it was written before there was one; None if no row is of `where`.

        Errors  OSError where it cannot be read.
        """
        try:
            # Nanoseconds, pyarrow's own choice, end in 2262.
            file = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
            here = {*file.schema_arrow.names} - {*self.partition}
            found = _found(file, here, where)
            if found is not None and not pc.any(found).as_py():
                return None
            read = file.read(columns=[name for name in schema.names if name in here], use_threads=False)
            count = file.metadata.num_rows
            rows = pa.Table.from_arrays([self._column(read, field, count) for field in schema], schema=schema)
        except (pa.ArrowException, KeyError) as error:
            raise OSError(f"{self.path}: {error}") from error
        return rows if found is None else rows.filter(found)

    def _column(self, read: pa.Table, field: pa.Field, count: int) -> pa.Array | pa.ChunkedArray:
        if field.name in read.schema.names:
            return read[field.name].cast(field.type)
        return pa.repeat(pa.scalar(self.partition.get(field.name), field.type), count)


def _found(file: pq.ParquetFile, here: set[str], where: Sequence[KeyValues]) -> pa.Array | pa.ChunkedArray | None:
    """Which rows satisfy one of `where`, as far as the columns tell that are `here`; None where they cannot tell.

    Ids of several producers come in no order, so that statistics leave out no file; other columns take the most time.
    """
    if not where or any(here.isdisjoint(match) for match in where):
        return None
    # Matches of the same columns are looked at together: there may be hundreds.
    values_of: defaultdict[frozenset[str], dict[str, set[str | int]]] = defaultdict(dict)
    for match in where:
        names = frozenset(here.intersection(match))
        for name in names:
            values_of[names].setdefault(name, set()).update(match[name])
    keys = file.read(columns=sorted(frozenset().union(*values_of)), use_threads=False)
    return reduce(
        pc.or_,
        (reduce(pc.and_, (_among(keys[name], values) for name, values in each.items())) for each in values_of.values()),
    )


def _among(column: pa.ChunkedArray, values: Collection[str | int]) -> pa.Array | pa.ChunkedArray:
    """Which rows have one of `values`: all, where the column cannot hold them."""
    try:
        return pc.is_in(column, value_set=pa.array(list(values), column.type))
    except (pa.ArrowException, OverflowError, UnicodeError):
        return pa.repeat(True, len(column))


def rows_of_files(
    delta: DeltaTable,
    options: dict[str, str],
    columns: Sequence[str],
    predicate: str | None,
    where: Sequence[KeyValues],
) -> pa.Table | None:
    """Rows with these columns, of all files that can hold a row of `predicate`, and one of `where`; None where that is
    much, or files have paths that stores may take otherwise than logs.

    options  those that the table was opened with
    Errors   OSError, DeltaError where a file cannot be read.
    """
    files = _needed(delta, predicate)
    if files is None or sum(file.size for file in files) > KEPT_BYTES:
        return None
    stored = pa.schema(delta.schema().to_arrow())
    schema = pa.schema([pa.field(name, stored.field(name).type) for name in columns])
    store = DeltaStorageHandler.from_table(delta._table, options, {file.path: file.size for file in files})
    # Rows are chosen by DuckDB: pyarrow cannot compare texts as deltalake writes them with those of a filter.
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as asking, ThreadPoolExecutor(DECODED_AT_ONCE) as decoding:
        sources = asking.map(lambda file: file.opened(store), files)
        parts = decoding.map(lambda file, source: file.rows(source, schema, where), files, sources)
        return pa.concat_tables([schema.empty_table(), *(part for part in parts if part is not None)])


def _needed(delta: DeltaTable, predicate: str | None) -> list[_File] | None:
    """The files that can hold a row of `predicate`; None where a path is not that of a file as stores have it."""
    actions = pa.table(delta.get_add_actions())
    paths: list[str] = actions["path"].to_pylist()
    partitions = actions["partition"].to_pylist() if "partition" in actions.schema.names else [None] * len(paths)
    if not all(lies_below(path) and "%" not in path for path in paths):
        return None
    files = {
        path: _File(path, size, partition or {})
        for path, size, partition in zip(paths, actions["size_bytes"].to_pylist(), partitions, strict=True)
    }
    if predicate is None:
        return list(files.values())
    # The scheme may be another than the table's, and names are written in another way.
    table, *uris = (
        unquote(uri).rpartition("://")[2]
        for uri in (delta.table_uri, *delta.file_uris(file_pruning_predicate=predicate))
    )
    needed = [uri.removeprefix(f"{table.rstrip('/')}/") for uri in uris]
    return [files[path] for path in needed] if files.keys() >= {*needed} else None
