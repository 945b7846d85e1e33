"""Which part of a table a pass needs: a few ranges of a column that ascends as rows land, so file statistics prune."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from txmq_lib.delta.file_statistics import Ranges
from txmq_lib.delta.log_actions import DataFile
from txmq_lib.passes.current import Pass
from txmq_lib.rules.half import named_offset
from txmq_lib.spark.local_frame import at_hand

MOST_RANGES = 24  # each costs Spark's planner milliseconds, in every rule and every file
OFFSET_BUCKET = 1 << 16
TIME_BUCKET_MS = 600_000
TWINS_APART_MS = TIME_BUCKET_MS
MOST_BUCKETS = 250_000  # two numbers of each are collected


class Near:
    """Rows that have one of some values in a column, and others around them.

    The ranges of the values are found when a table is asked for that is worth it, and once.
    """

    def __init__(self, *columns: _Column) -> None:
        self._columns = columns
        self._made: dict[str, Column] = {}  # many ranges are many calls into the JVM

    def condition(self, table: str = "") -> Column:
        """True for every value that is looked for; false for all where there is none.

        table  what its columns' names begin with, as in `t.`, where it is not the only one
        """
        if table not in self._made:
            between = [each for column in self._columns for each in column.between(table)]
            self._made[table] = reduce(lambda a, b: a | b, between, F.lit(False))
        return self._made[table]

    def rows(self, current: Pass, table: str, *, whole_if_new: bool = False, narrow: Sequence[str] = ()) -> DataFrame:
        """The table's rows as the plan of the pass saw them, as far as they are near.

        It is read whole where it has few files and a job would have to find the ranges; and where asked for one of
        which all is new to the job.

        narrow  columns that are enough: `new_rows_once` of them, where no other file may hold what is looked for
        """
        if current.was_never_written(table) or (whole_if_new and current.known_to(table) is None):
            return current.read(table)
        are_at_hand = all(column.values.are_at_hand for column in self._columns)
        if current.has_few_rows(table) and not are_at_hand:
            return current.read(table)
        if narrow and are_at_hand and current.are_all_new(table, self._may_matter):
            return current.new_rows_once(table, *narrow)
        return current.read_files(table, self._may_matter).where(self.condition())

    def _may_matter(self, file: DataFile) -> bool:
        return any(file.may_hold(column.name, column.ranges) for column in self._columns)

    def __or__(self, other: Near) -> Near:
        return Near(*self._columns, *other._columns)


class Values:
    """Values in some columns of `rows`, numbers or moments. In which ranges they lie one job finds for all columns."""

    def __init__(self, rows: DataFrame, *columns: str) -> None:
        self._rows, self._columns = rows, columns

    def near(self, column: str, values_of: str) -> Near:
        """Rows of a table whose `column` has one of the values of the column `values_of`."""
        return Near(_Column(column, self, values_of))

    @cached_property
    def moments(self) -> frozenset[str]:
        """Those of the columns that have moments."""
        types = {field.name: field.dataType for field in self._rows.schema}
        return frozenset(name for name in self._columns if isinstance(types[name], TimestampType))

    @cached_property
    def ranges(self) -> dict[str, Ranges]:
        """For each column the ranges; of moments in epoch ms."""
        buckets = {name: TIME_BUCKET_MS if name in self.moments else OFFSET_BUCKET for name in self._columns}
        if (rows := at_hand(self._rows)) is not None:
            occupied = {name: _occupied_here(rows[name], bucket) for name, bucket in buckets.items()}
        else:
            moments = self.moments
            numbers = [F.unix_millis(name).alias(name) if name in moments else F.col(name) for name in self._columns]
            occupied = _occupied_by_few(self._rows.select(*numbers), buckets)
        return {name: _joined_over_least_gaps(occupied[name], bucket) for name, bucket in buckets.items()}

    @property
    def are_at_hand(self) -> bool:
        """Whether the values are in this process: then no job is needed to find the ranges."""
        return at_hand(self._rows) is not None


@dataclass(frozen=True)
class _Column:
    """A column of a table, and the values that are looked for in it."""

    name: str
    values: Values
    values_of: str

    @property
    def ranges(self) -> Ranges:
        return self.values.ranges[self.values_of]

    def between(self, table: str) -> Iterator[Column]:
        column = F.col(table + self.name)
        for low, high in self.ranges:
            if self.values_of in self.values.moments:
                # A moment may have µs; ranges are of whole ms, rounded down.
                ends = F.timestamp_millis(F.lit(low)), F.timestamp_millis(F.lit(high + 1))
                yield (column >= ends[0]) & (column < ends[1])
            else:
                yield column.between(low, high)


def near_values(column: str, rows: DataFrame, values_of: str) -> Near:
    """Rows of a table whose `column` has one of the values that the column `values_of` of `rows` has."""
    return Values(rows, values_of).near(column, values_of)


def places_of(current: Pass, halves: DataFrame) -> Values:
    """Where `halves` are, as ops and as messages name them."""
    places = halves.select("commit_log_offset", named_offset().alias("named_offset"))
    return Values(current.kept_in_small_pass(places), "commit_log_offset", "named_offset")


def near_ops(places: Values) -> Near:
    """Ops that name one of the halves at `places`."""
    return places.near("half_queue_offset", "named_offset")


def near_messages(places: Values, given_up: DataFrame) -> Near:
    """Messages prepared at one of `places` or at a place of `given_up`, which may be of halves that never landed."""
    prepared_at = "prepared_transaction_offset"
    return places.near(prepared_at, "commit_log_offset") | near_values(prepared_at, given_up, "commit_log_offset")


def near_twins(rows: DataFrame) -> Near:
    """Rows that may have the transaction id of `rows`: twins of a retried send are born soon after each other (R66)."""
    moment = F.unix_millis("born_timestamp")
    around = F.array(*[F.timestamp_millis(moment + F.lit(apart)) for apart in (-TWINS_APART_MS, 0, TWINS_APART_MS)])
    return near_values("born_timestamp", rows.select(F.explode(around).alias("born")), "born")


def _occupied_by_few(rows: DataFrame, buckets: Mapping[str, int]) -> dict[str, list[tuple[int, int]]]:
    """Disjoint ranges, at most MOST_BUCKETS of all, in which the numbers in each column of `rows` lie.

    buckets  gaps of a column that are of no account
    """
    found = _occupied(rows, buckets)
    if sum(map(len, found.values())) > MOST_BUCKETS:
        # Far from each other, each is a bucket of its own: however many there are, so many ranges tell where they lie.
        most = MOST_BUCKETS // len(buckets) - 1
        ends = rows.agg(*[end(name).alias(f"{end.__name__} {name}") for name in buckets for end in (F.min, F.max)])
        (row,) = ends.collect()
        coarse = {name: (row[f"max {name}"] or 0) - (row[f"min {name}"] or 0) for name in buckets}
        found = _occupied(rows, {name: max(bucket, coarse[name] // most + 1) for name, bucket in buckets.items()})
    return found


def _occupied(rows: DataFrame, buckets: Mapping[str, int]) -> dict[str, list[tuple[int, int]]]:
    """The lowest and highest number in each bucket of a column that has any, ascending; MOST_BUCKETS + 1 at most."""
    named = [
        F.struct(
            F.lit(name).alias("name"), F.col(name).cast("long").alias("v"), F.lit(bucket).cast("long").alias("size")
        )
        for name, bucket in buckets.items()
    ]
    there = rows.select(F.inline(F.array(*named))).where("v is not null")
    grouped = there.groupBy("name", (F.col("v") - F.pmod("v", "size")).alias("b"))
    ends = grouped.agg(F.min("v").alias("low"), F.max("v").alias("high")).limit(MOST_BUCKETS + 1).toArrow()
    found: dict[str, list[tuple[int, int]]] = {name: [] for name in buckets}
    for name, low, high in zip(*[ends[column].to_pylist() for column in ("name", "low", "high")], strict=True):
        found[name].append((low, high))
    return {name: sorted(each) for name, each in found.items()}


def _occupied_here(values: pa.ChunkedArray, bucket: int) -> list[tuple[int, int]]:
    """The lowest and highest in each bucket that has any, ascending, of numbers or moments that are in this process."""
    numbers = np.sort(values.drop_null().cast(pa.int64()).to_numpy())
    if pa.types.is_timestamp(values.type):
        numbers = numbers // 1_000  # from µs, rounded down as by unix_millis
    _, first = np.unique(numbers // bucket, return_index=True)
    last = np.append(first, len(numbers))[1:] - 1
    return list(zip(numbers[first].tolist(), numbers[last].tolist(), strict=True))


def _joined_over_least_gaps(ranges: list[tuple[int, int]], bucket: int) -> list[tuple[int, int]]:
    """Disjoint ascending `ranges` as at most MOST_RANGES, parted by their widest gaps, all wider than `bucket`."""
    gaps = [(after[0] - before[1], place) for place, (before, after) in enumerate(pairwise(ranges), start=1)]
    widest = sorted((gap for gap in gaps if gap[0] > bucket), reverse=True)[: MOST_RANGES - 1]
    borders = [0, *sorted(place for _, place in widest), len(ranges)] if ranges else []
    return [(ranges[start][0], ranges[end - 1][1]) for start, end in pairwise(borders)]
