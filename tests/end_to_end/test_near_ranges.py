"""Ranges for pruning: every wanted value is within one, few others are, and few are collected to find them."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from txmq_lib.pipeline.shared import pruning
from txmq_lib.pipeline.shared.pruning import MOST_RANGES, OFFSET_BUCKET, near_offsets

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
        lambda *arguments: (lambda found: (collected.append(len(found)), found)[1])(occupied(*arguments)),
    )
    # Two stretches, 200 values each, with nothing between them.
    stretches = [begin, begin + 10_000 * FAR]
    values = [first + place * FAR for first in stretches for place in range(200)]
    others = [begin - FAR, begin + 5_000 * FAR, begin + 20_000 * FAR]
    near = near_offsets("o", spark.createDataFrame([(each,) for each in values], "v bigint"), "v")
    rows = spark.createDataFrame([(each,) for each in values + others], "o bigint")
    assert sorted(row["o"] for row in rows.where(near.condition()).collect()) == values
    assert collected[0] == 17
    assert 2 <= collected[1] <= 17


def test_values_side_by_side_are_few_buckets_and_none_are_no_range(spark: SparkSession):
    places = spark.range(0, 40 * OFFSET_BUCKET, 500)
    assert pruning._ranges(places.selectExpr("id as v"), OFFSET_BUCKET) == [(0, (40 * OFFSET_BUCKET - 1) // 500 * 500)]
    assert pruning._ranges(places.selectExpr("id as v").where("v < 0"), OFFSET_BUCKET) == []
    apart = places.selectExpr("id * 1000 as v").limit(100)
    assert len(pruning._ranges(apart, OFFSET_BUCKET)) == MOST_RANGES
