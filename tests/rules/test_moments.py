"""Milliseconds and timestamps of hostile input: nothing raises."""

from __future__ import annotations

import pytest
from builders import at, table_of
from moment import NOW, NOW_MS
from pyspark.sql import functions as F

from txmq_lib.rules.moments import age_ms, is_time, later, timestamp_of
from txmq_lib.spark.local_frame import local_frame

pytestmark = pytest.mark.spark

LATEST = 253_402_300_799_999


def test_epoch_milliseconds_are_times_from_1970_to_the_year_9999(spark):
    stamps = [0, -1, NOW_MS, LATEST, LATEST + 1, 2**63 - 1, -(2**63), None]
    frame = local_frame(spark, [(ms,) for ms in stamps], "ms bigint")
    judged = frame.withColumns({"is": is_time(F.col("ms")), "back": F.unix_millis(timestamp_of(F.col("ms")))})
    assert table_of(judged, "ms", "is", "back") == {
        0: (True, 0),
        -1: (False, None),
        NOW_MS: (True, NOW_MS),
        LATEST: (True, LATEST),
        LATEST + 1: (False, None),
        2**63 - 1: (False, None),
        -(2**63): (False, None),
        None: (None, None),
    }


def test_an_age_counts_milliseconds_and_is_negative_for_what_is_not_born_yet(spark):
    moments = [(ms, at(ms)) for ms in (-6_000, -1, 0, 1)]
    frame = local_frame(spark, [*moments, (None, None)], "ms int, born timestamp")
    aged = frame.withColumn("age", age_ms(NOW, F.col("born")))
    assert table_of(aged, "ms", "age") == {-6_000: 6_000, -1: 1, 0: 0, 1: -1, None: None}


def test_a_later_moment_stays_within_1970_and_9999_and_never_comes_from_nothing(spark):
    spans = [0, 1, -60_000, 2**52, -(2**62), None]
    frame = local_frame(spark, [(ms, NOW) for ms in spans], "ms bigint, moment timestamp")
    frame = frame.unionByName(local_frame(spark, [(7, None)], frame.schema))
    moved = frame.withColumn("moved", F.unix_millis(later(F.col("moment"), F.col("ms"))))
    assert table_of(moved, "ms", "moved") == {
        0: NOW_MS,
        1: NOW_MS + 1,
        -60_000: NOW_MS - 60_000,
        2**52: LATEST,
        -(2**62): 0,
        None: None,
        7: None,
    }
