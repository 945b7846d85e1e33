"""Row groups of a table's Parquet files, read without Spark: which may hold some offsets, and their rows in batches."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from txmq_lib.delta.log_actions import COLUMN_MAPPING

# Of decoded rows at once; what one row holds is bounded where it lands.
BATCH_BYTES: Final = 8 << 20
MOST_ROWS: Final = 1 << 14


@dataclass(frozen=True)
class RowGroups:
    """Row groups of one Parquet file, by number; `size` is that of their rows, decompressed."""

    path: str
    groups: tuple[int, ...]
    size: int

    def keys(self, columns: Sequence[str]) -> pa.Table:
        """These columns of all rows, in order."""
        with _opened(self.path) as file:
            return file.read_row_groups(list(self.groups), columns=list(columns), use_threads=False)

    def batches(
        self, columns: Sequence[str], *, most_rows: int = MOST_ROWS, coded: Sequence[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """These columns of all rows, in order, a few MiB at a time; `coded`: texts as numbers and a dictionary."""
        with _opened(self.path, coded) as file:
            rows = sum(file.metadata.row_group(group).num_rows for group in self.groups)
            size = max(1, min(most_rows, BATCH_BYTES * most_rows // MOST_ROWS * rows // max(1, self.size)))
            yield from file.iter_batches(size, row_groups=list(self.groups), columns=list(columns), use_threads=False)


def files_near(path: str, version: int, column: str, ranges: Sequence[tuple[int, int]]) -> list[str] | None:
    """Files of a version of the table whose statistics say that `column` may lie in one of `ranges`.

    None where not all are plain Parquet below the table.
    """
    added = _plain_files(path, version)
    if added is None:
        return None
    near = [row for row in added if _may_hold(row.get(f"min.{column}"), row.get(f"max.{column}"), ranges)]
    return [os.path.join(path, unquote(str(row["path"]))) for row in near]


def all_files(path: str, version: int) -> list[str] | None:
    """Files of a version of the table; None where not all are plain Parquet below it."""
    added = _plain_files(path, version)
    return None if added is None else [os.path.join(path, unquote(str(row["path"]))) for row in added]


def _plain_files(path: str, version: int) -> list[dict[str, Any]] | None:
    table = DeltaTable(path, version=version)
    is_mapped = table.metadata().configuration.get(COLUMN_MAPPING, "none") != "none"
    if is_mapped or "deletionVectors" in (table.protocol().reader_features or ()):
        return None
    added = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return None if any(_is_elsewhere(str(row["path"])) for row in added) else added


def groups_near(path: str, column: str, ranges: Sequence[tuple[int, int]], *, most_bytes: int) -> list[RowGroups]:
    """Row groups of a file in which `column` may lie in one of `ranges`, in runs of about `most_bytes`."""
    metadata = pq.read_metadata(path)
    place = metadata.schema.names.index(column)
    runs: list[RowGroups] = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        found = group.column(place).statistics
        least, greatest = (found.min, found.max) if found is not None and found.has_min_max else (None, None)
        if not _may_hold(least, greatest, ranges):
            continue
        if runs and runs[-1].groups[-1] == number - 1 and runs[-1].size + group.total_byte_size <= most_bytes:
            runs[-1] = RowGroups(path, (*runs[-1].groups, number), runs[-1].size + group.total_byte_size)
        else:
            runs.append(RowGroups(path, (number,), group.total_byte_size))
    return runs


@dataclass(frozen=True)
class Stretch:
    """A row group of a Parquet file: how many rows it has, and the least and greatest of one of its columns."""

    group: RowGroups
    rows: int
    least: int
    greatest: int


def stretches(path: str, column: str, columns: Sequence[str]) -> list[Stretch] | None:
    """The row groups of a file, each with what of `column`, whole numbers, is in it; None where it lacks `columns`."""
    metadata = pq.read_metadata(path)
    names = metadata.schema.names
    if not {column, *columns} <= set(names):
        return None
    found = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        statistics = group.column(names.index(column)).statistics
        is_known = statistics is not None and statistics.has_min_max
        least, greatest = (statistics.min, statistics.max) if is_known else (-(2**63), 2**63 - 1)
        found.append(Stretch(RowGroups(path, (number,), group.total_byte_size), group.num_rows, least, greatest))
    return found


def _opened(path: str, coded: Sequence[str] = ()) -> pq.ParquetFile:
    # As it comes: a row group of Spark's has 128 MiB.
    # Other writers' times are INT96: as nanoseconds those after 2262 would be others.
    return pq.ParquetFile(
        path, buffer_size=1 << 20, pre_buffer=False, read_dictionary=list(coded), coerce_int96_timestamp_unit="us"
    )


def _is_elsewhere(path: str) -> bool:
    return path.startswith("/") or ":" in path.split("/")[0]


def _may_hold(least: Any, greatest: Any, ranges: Sequence[tuple[int, int]]) -> bool:  # noqa: ANN401 - null or a number
    if least is None or greatest is None:
        return True
    return any(low <= greatest and least <= high for low, high in ranges)
