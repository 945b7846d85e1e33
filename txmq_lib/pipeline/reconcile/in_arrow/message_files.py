"""Restored and given-up messages as files of their tables, made of the row groups that hold their halves.

Their destinations, a few numbers each, are written to this machine's disk, by the offset of their half in the commit
log. Each piece of work reads some row groups of half_message and the destinations of their halves, and writes a file.
Bodies stay in Arrow from file to file: they never enter the JVM, and nothing is shuffled or sorted with one.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.arrow_files import TableFile, WrittenFile
from txmq_lib.delta.row_groups import RowGroups, groups_near
from txmq_lib.errors import InvariantViolation
from txmq_lib.files.scratch import scratch
from txmq_lib.passes.current import Pass
from txmq_lib.spark.glob_escape import pattern_of
from txmq_lib.spark.local_frame import in_arrow

HALVES, OFFSET = "half_message", "commit_log_offset"
# Destinations: some 60 bytes each while they are collected; more are written by Spark.
ROWS_COLLECTED: Final = 200_000
ROWS_IN_A_PART: Final = 500_000
ROWS_IN_A_GROUP: Final = 32_768
PART_BYTES: Final = 2 << 20
# What one piece of work reads, and about what it writes.
PIECE_BYTES: Final = 192 << 20

# Rows of a table, made of halves and their destinations, row by row.
MakeRows = Callable[[pa.RecordBatch, pa.Table], pa.RecordBatch]


@dataclass(frozen=True)
class DestinationFiles:
    """Where messages go, by the offset of their half in the commit log, in files of this machine: Parquet here.

    offset  the column that has it
    parts   each file with its lowest and highest offset
    """

    offset: str
    parts: tuple[tuple[str, int, int], ...]

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """Where destinations are."""
        return [(low, high) for _, low, high in self.parts]

    def between(self, low: int, high: int) -> pa.Table:
        """Those at `low` up to `high`."""
        near = [path for path, least, greatest in self.parts if least <= high and low <= greatest]
        if not near:
            return pq.read_schema(self.parts[0][0]).empty_table()
        filters = [(self.offset, ">=", low), (self.offset, "<=", high)]
        return pa.concat_tables([pq.read_table(path, filters=filters, use_threads=False) for path in near])


@dataclass(frozen=True, kw_only=True)
class TableFromHalves:
    """Rows of one table that are made of halves.

    on    columns of half_message and those of the destinations that say the same: which half goes there
    make_rows  makes the rows
    """

    table: str
    on: dict[str, str]
    make_rows: MakeRows

    @property
    def offset(self) -> str:
        """The column of the destinations that has the offset in the commit log."""
        return self.on[OFFSET]


def is_possible(current: Pass, table: str) -> bool:
    """Whether rows of the table can be made here of rows of half_message."""
    return all(current.warehouse.local_path(name) is not None for name in (HALVES, table))


@contextmanager
def laid_down(
    current: Pass, destinations: DataFrame, offset: str, *, count: int, cheaper: DataFrame
) -> Iterator[tuple[DataFrame, DestinationFiles]]:
    """`destinations`, of which there are `count`, computed once: as a frame, and on disk as long as the block lasts.

    offset   the column of their offset in the commit log
    cheaper  has these offsets too, named commit_log_offset, and is cheaper to look through
    """
    directory = mkdtemp(dir=scratch(), prefix="destinations-")
    try:
        if count <= ROWS_COLLECTED:
            frame = current.cached(destinations)
            pq.write_table(in_arrow(frame).sort_by(offset), f"{directory}/0.parquet", row_group_size=ROWS_IN_A_GROUP)
        else:
            spread = _by_stretch(destinations, offset, count=count, cheaper=cheaper)
            spread.write.option("parquet.block.size", PART_BYTES).parquet(directory, mode="append")
            frame = destinations.sparkSession.read.schema(destinations.schema).parquet(pattern_of(directory))
        yield frame, DestinationFiles(offset, tuple(_parts(directory, offset)))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def halves_of(current: Pass, destinations: DestinationFiles) -> list[RowGroups] | None:
    """Row groups of half_message, as the plan saw it, that may hold the halves of these; None: Spark has to read."""
    files = current.files_near(HALVES, OFFSET, destinations.ranges)
    if files is None:
        return None
    return [piece for file in files for piece in groups_near(file, OFFSET, destinations.ranges, most_bytes=PIECE_BYTES)]


def write_files(
    path: str,
    target: TableFromHalves,
    destinations: DestinationFiles,
    halves: Sequence[RowGroups],
    *,
    count: int,
    threads: int,
    on_part: Callable[[], None],
) -> list[WrittenFile]:
    """One row of the table at `path` for each of `count` destinations, in files that no commit names yet.

    on_part  called after each file; what it raises ends the work
    InvariantViolation where a destination has no half, or a half several destinations.
    """
    files: list[WrittenFile] = []
    with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="restore") as pool:
        works = [pool.submit(_written, path, target, destinations, piece) for piece in halves]
        try:
            for work in as_completed(works):
                files += work.result()
                on_part()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    pa.default_memory_pool().release_unused()
    rows = sum(file.rows for file in files)
    if rows != count:
        raise InvariantViolation(f"{target.table}: {count} destinations, and {rows} halves there")
    return files


def _written(
    path: str, target: TableFromHalves, destinations: DestinationFiles, halves: RowGroups
) -> list[WrittenFile]:
    spec = table_spec(target.table)
    found = _halves_with_destinations(target, destinations, halves)
    if not found.num_rows:
        return []
    at = found["_row"].to_numpy()
    columns = [name for name in table_spec(HALVES).columns if name in spec.columns or name in target.on]
    begin = 0
    with TableFile(path, spec) as file:
        for batch in halves.batches(columns):
            low, high = at.searchsorted((begin, begin + batch.num_rows))
            if low < high:
                rows = batch if high - low == batch.num_rows else batch.take(pa.array(at[low:high] - begin))
                file.write(target.make_rows(rows, found.slice(low, high - low)))
            begin += batch.num_rows
        return file.finish()


def _halves_with_destinations(target: TableFromHalves, destinations: DestinationFiles, halves: RowGroups) -> pa.Table:
    """Rows of `halves` that have a destination: `_row`, ascending, and the columns of the destination."""
    keys = halves.keys(list(target.on))
    span = pc.min_max(keys[OFFSET]).as_py()
    there = destinations.between(span["min"], span["max"])
    named = [f"_half_{name}" for name in target.on]  # a destination has columns of these names, for its own queue
    numbered = keys.rename_columns(named).append_column("_row", pa.array(range(keys.num_rows), pa.int64()))
    joined = numbered.join(there, named, list(target.on.values()), join_type="inner", use_threads=False)
    found = joined.sort_by("_row")
    rows = found["_row"].to_numpy()
    if (rows[1:] == rows[:-1]).any():
        row = int(rows[1:][rows[1:] == rows[:-1]][0])
        half = {name: keys[name][row].as_py() for name in target.on}
        raise InvariantViolation(f"{target.table}: several destinations for the half at {half}")
    return found


def _by_stretch(destinations: DataFrame, offset: str, *, count: int, cheaper: DataFrame) -> DataFrame:
    low, high = cheaper.agg(F.min(OFFSET), F.max(OFFSET)).collect()[0]
    parts = -(-count // ROWS_IN_A_PART)  # rounded up
    # Some stretches of the commit log to a part: they lie dense in few of them where a broker was rebuilt.
    stretch = (high - low) // (8 * parts) + 1
    return destinations.repartition(parts, F.floor(F.col(offset) / F.lit(stretch))).sortWithinPartitions(offset)


def _parts(directory: str, offset: str) -> Iterator[tuple[str, int, int]]:
    for path in sorted(Path(directory).glob("*.parquet")):
        metadata = pq.read_metadata(path)
        column = metadata.schema.names.index(offset)
        found = [metadata.row_group(number).column(column).statistics for number in range(metadata.num_row_groups)]
        if found:
            yield str(path), min(each.min for each in found), max(each.max for each in found)
