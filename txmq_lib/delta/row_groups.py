"""Row groups of a table's Parquet files, read without Spark: which may hold some offsets, and their rows in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from txmq_lib.delta.file_statistics import Ranges, may_hold

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


def groups_near(path: str, column: str, ranges: Ranges, *, most_bytes: int) -> list[RowGroups]:
    """Row groups of a file in which `column` may lie in one of `ranges`, in runs of about `most_bytes`."""
    metadata = pq.read_metadata(path)
    place = metadata.schema.names.index(column)
    runs: list[RowGroups] = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        found = group.column(place).statistics
        least, greatest = (found.min, found.max) if found is not None and found.has_min_max else (None, None)
        if not may_hold(least, greatest, ranges):
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
