"""Which part of a table a pass needs: a few ranges of a column that ascends as rows land, so file statistics prune."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, reduce
from itertools import pairwise

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txmq_lib.passes.current import Pass
from txmq_lib.rules.half import named_offset

MOST_RANGES = 24  # each costs Spark's planner milliseconds, in every rule and every file
OFFSET_BUCKET = 1 << 16
TIME_BUCKET_MS = 600_000
TWINS_APART_MS = TIME_BUCKET_MS
MOST_BUCKETS = 250_000  # two numbers of each are collected


class Near:
    """Rows that have one of some wanted values in a column, and others around them.

    The ranges of the values are found when a table is asked for that is worth it, and once.
    conditions  each makes its condition on the table that a name stands for, as in `t.`; without one, on the only table
    """

    def __init__(self, *conditions: Callable[[str], Column]) -> None:
        self._conditions = conditions
        self._made: dict[str, Column] = {}  # many ranges are many calls into the JVM

    def condition(self, table: str = "") -> Column:
        """True for every wanted value; false for all where none is wanted."""
        if table not in self._made:
            self._made[table] = _any([condition(table) for condition in self._conditions])
        return self._made[table]

    def rows(self, current: Pass, table: str, *, whole_if_new: bool = False) -> DataFrame:
        """The table's rows as the plan of the pass saw them, as far as they are near.

        A table of few files is read whole, and where wanted one of which all is new to the job.
        """
        rows = current.read(table)
        is_whole = current.has_few_rows(table) or (whole_if_new and current.known_to(table) is None)
        return rows if is_whole else rows.where(self.condition())

    def __or__(self, other: Near) -> Near:
        return Near(*self._conditions, *other._conditions)


def near_offsets(column: str, rows: DataFrame, wanted_column: str) -> Near:
    """Rows whose `column` is among the values of `wanted_column` in `rows`."""
    values = rows.select(F.col(wanted_column).alias("v"))
    found = cache(lambda: _ranges(values, OFFSET_BUCKET))
    return Near(lambda table: _any([F.col(table + column).between(low, high) for low, high in found()]))


def near_ops(halves: DataFrame) -> Near:
    """Ops that name one of `halves`."""
    return near_offsets("half_queue_offset", halves.withColumn("_named", named_offset()), "_named")


def near_messages(halves: DataFrame, given_up: DataFrame) -> Near:
    """Messages prepared at a place of `halves` or of `given_up`, which may be halves that never landed."""
    places = halves.select("commit_log_offset").unionByName(given_up.select("commit_log_offset"))
    return near_offsets("prepared_transaction_offset", places, "commit_log_offset")


def near_times(column: str, rows: DataFrame, wanted_column: str) -> Near:
    """The same for timestamps."""
    moments = rows.select(F.unix_millis(wanted_column).alias("v"))
    found = cache(lambda: _ranges(moments, TIME_BUCKET_MS))

    def condition(table: str) -> Column:
        return _any(
            [
                F.col(table + column).between(F.timestamp_millis(F.lit(low)), F.timestamp_millis(F.lit(high)))
                for low, high in found()
            ]
        )

    return Near(condition)


def near_twins(rows: DataFrame) -> Near:
    """Rows that may have the transaction id of `rows`: twins of a retried send are born soon after each other (R66)."""
    moment = F.unix_millis("born_timestamp")
    around = F.array(*[F.timestamp_millis(moment + F.lit(apart)) for apart in (-TWINS_APART_MS, 0, TWINS_APART_MS)])
    return near_times("born_timestamp", rows.select(F.explode(around).alias("born")), "born")


def _any(conditions: list[Column]) -> Column:
    return reduce(lambda a, b: a | b, conditions, F.lit(False))


def _ranges(values: DataFrame, bucket: int) -> list[tuple[int, int]]:
    there = values.where("v is not null")
    found = _occupied(there, bucket)
    if len(found) > MOST_BUCKETS:
        # Far from each other, each is a bucket of its own: however many there are, so many ranges tell where they lie.
        low, high = there.agg(F.min("v"), F.max("v")).collect()[0]
        found = _occupied(there, (high - low) // (MOST_BUCKETS - 1) + 1)
    return _joined_over_least_gaps(found, bucket)


def _occupied(values: DataFrame, bucket: int) -> list[tuple[int, int]]:
    """The lowest and highest value in each bucket that has any, ascending; one more than MOST_BUCKETS at most."""
    grouped = values.groupBy((F.col("v") - F.pmod(F.col("v"), F.lit(bucket))).alias("b"))
    ends = grouped.agg(F.min("v").alias("low"), F.max("v").alias("high")).drop("b").limit(MOST_BUCKETS + 1).toArrow()
    return sorted(zip(ends["low"].to_pylist(), ends["high"].to_pylist(), strict=True))


def _joined_over_least_gaps(ranges: list[tuple[int, int]], bucket: int) -> list[tuple[int, int]]:
    """Disjoint ascending `ranges` as at most MOST_RANGES, parted by their widest gaps, all wider than `bucket`."""
    gaps = [(after[0] - before[1], place) for place, (before, after) in enumerate(pairwise(ranges), start=1)]
    widest = sorted((gap for gap in gaps if gap[0] > bucket), reverse=True)[: MOST_RANGES - 1]
    borders = [0, *sorted(place for _, place in widest), len(ranges)] if ranges else []
    return [(ranges[start][0], ranges[end - 1][1]) for start, end in pairwise(borders)]
