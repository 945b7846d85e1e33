"""Ranges for pruning: every wanted value is within one, few others are, and few are collected to find them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession

from txmq_lib.delta.log_entries import LogEntries
from txmq_lib.delta.log_folder import LocalFolder
from txmq_lib.pipeline.shared import pruning
from txmq_lib.pipeline.shared.pruning import MOST_RANGES, OFFSET_BUCKET, Values, near_values
from txmq_lib.spark.local_frame import materialized

FAR = 10 * OFFSET_BUCKET


@pytest.mark.parametrize("begin", [0, -(5 * FAR), 2**61])
def test_values_that_are_far_from_each_other_are_found_in_coarser_buckets(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, begin: int
):
    monkeypatch.setattr(pruning, "MOST_BUCKETS", 16)
    collected: list[int] = []
    occupied = pruning._occupied
    monkeypatch.setattr(
        pruning,
        "_occupied",
        lambda *arguments: (lambda found: (collected.append(len(found["v"])), found)[1])(occupied(*arguments)),
    )
    # Two stretches, 200 values each, with nothing between them.
    stretches = [begin, begin + 10_000 * FAR]
    values = [first + place * FAR for first in stretches for place in range(200)]
    others = [begin - FAR, begin + 5_000 * FAR, begin + 20_000 * FAR]
    near = near_values("o", spark.createDataFrame([(each,) for each in values], "v bigint"), "v")
    rows = spark.createDataFrame([(each,) for each in values + others], "o bigint")
    assert sorted(row["o"] for row in rows.where(near.condition()).collect()) == values
    assert collected[0] == 17
    assert 2 <= collected[1] <= 17


@pytest.mark.parametrize("kept", [lambda frame: frame, materialized], ids=["in Spark", "at hand"])
def test_values_side_by_side_are_few_buckets_and_none_are_no_range(
    spark: SparkSession, kept: Callable[[DataFrame], DataFrame]
):
    places = spark.range(0, 40 * OFFSET_BUCKET, 500)
    # Moments finer than a millisecond, and from before 1970.
    ids = places.selectExpr("id as v", "id - 1 as w", "timestamp_micros(id * 1000 - 1) as t")
    values = Values(kept(ids), "v", "w", "t")
    last = (40 * OFFSET_BUCKET - 1) // 500 * 500
    assert values.ranges == {"v": [(0, last)], "w": [(-1, last - 1)], "t": [(-1, last - 1)]}
    # Whatever the ranges were made of is in them.
    assert all(ids.where(values.near(name, name).condition()).count() == ids.count() for name in ("v", "w", "t"))
    assert Values(kept(ids.where("v < 0")), "v", "t").ranges == {"v": [], "t": []}
    apart = places.selectExpr("id * 1000 as v", "cast(null as bigint) as w", "id % 3 * 1000000 - 7 as x").limit(100)
    found = Values(kept(apart), "v", "w", "x").ranges
    assert [len(ranges) for ranges in found.values()] == [MOST_RANGES, 0, 3]
    assert found["x"] == [(-7, -7), (999_993, 999_993), (1_999_993, 1_999_993)]


@pytest.mark.parametrize("has_vectors", [False, True])
def test_files_of_spark_are_passed_over_only_where_they_have_nothing_near(spark: SparkSession, tmp_path, has_vectors):
    path = str(tmp_path / "t")
    moment = "timestamp_micros(id * 86400000000 + 999) as t"  # finer than statistics tell
    for day in range(3):
        rows = spark.range(day * 10, day * 10 + 10).selectExpr("id", moment).coalesce(1)
        rows.write.format("delta").mode("append").save(path)
    spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS (n bigint)")
    rows = spark.range(30, 40).selectExpr("id", moment, "null as n").coalesce(1)
    rows.write.format("delta").mode("append").save(path)
    if has_vectors:
        spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES (delta.enableDeletionVectors = true)")
        spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 5")
    entries = LogEntries(LocalFolder(path))
    newest = entries.newest()
    files = entries.plain_files(newest, newest)
    if has_vectors:
        assert files is None
        return
    day_ms = 86_400_000
    near = [[file.may_hold("t", [(day * day_ms, day * day_ms)]) for file in files] for day in range(40)]
    assert near == [[day // 10 == number for number in range(4)] for day in range(40)]
    assert [file.may_hold("id", [(9, 10)]) for file in files] == [True, True, False, False]
    # Files from before the column was there tell nothing of it.
    assert [file.may_hold("n", [(9, 10)]) for file in files] == [True, True, True, False]
