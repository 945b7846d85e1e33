"""Which part of a table a pass needs: a few ranges of a column that ascends as rows land, so file statistics prune."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

MOST_RANGES = 24  # each costs Spark's planner milliseconds, in every rule and every file
OFFSET_BUCKET = 1 << 16
TIME_BUCKET_MS = 600_000


def within_offsets(column: str, wanted: DataFrame, wanted_column: str) -> Column:
    """A condition on `column` true for every value of `wanted_column` in `wanted`; false for all where it is empty."""
    return _within(F.col(column), wanted.select(F.col(wanted_column).alias("v")), OFFSET_BUCKET)


def within_times(column: str, wanted: DataFrame, wanted_column: str) -> Column:
    """The same for timestamps."""
    moments = wanted.select(F.unix_millis(wanted_column).alias("v"))
    buckets = _ranges(moments, TIME_BUCKET_MS)
    return _any(
        [
            F.col(column).between(F.timestamp_millis(F.lit(low)), F.timestamp_millis(F.lit(high)))
            for low, high in buckets
        ]
    )


def _within(column: Column, values: DataFrame, bucket: int) -> Column:
    return _any([column.between(low, high) for low, high in _ranges(values, bucket)])


def _any(conditions: list[Column]) -> Column:
    return reduce(lambda a, b: a | b, conditions, F.lit(False))


def _ranges(values: DataFrame, bucket: int) -> list[tuple[int, int]]:
    grouped = values.where("v is not null").groupBy(F.floor(F.col("v") / bucket).alias("b"))
    rows = grouped.agg(F.min("v").alias("low"), F.max("v").alias("high")).orderBy("low").collect()
    return _joined_over_least_gaps([(row["low"], row["high"]) for row in rows], bucket)


def _joined_over_least_gaps(ranges: list[tuple[int, int]], bucket: int) -> list[tuple[int, int]]:
    """Disjoint ascending `ranges` as at most MOST_RANGES, parted by their widest gaps, all wider than `bucket`."""
    gaps = [(after[0] - before[1], place) for place, (before, after) in enumerate(pairwise(ranges), start=1)]
    widest = sorted((gap for gap in gaps if gap[0] > bucket), reverse=True)[: MOST_RANGES - 1]
    borders = [0, *sorted(place for _, place in widest), len(ranges)] if ranges else []
    return [(ranges[start][0], ranges[end - 1][1]) for start, end in pairwise(borders)]
