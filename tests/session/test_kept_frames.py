"""What a pass keeps of many rows and reads whole: the same rows, and no plan of how they were made."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.passes.current import Pass
from txmq_lib.passes.runner import preview
from txmq_lib.spark.jvm import without_plan

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def made(spark: SparkSession) -> DataFrame:
    """Rows by a join: each type of consumer_offset, nulls, times far from now."""
    numbers = spark.range(40).withColumn("queue", F.col("id") % 7)
    ends = spark.sql(
        "SELECT timestamp'0001-01-01 00:00:00.000001' AS first, timestamp'9999-12-31 23:59:59.999999' AS last"
    )
    return (
        numbers.join(numbers.groupBy("queue").agg(F.count("*").alias("messages")), "queue", "left")
        .crossJoin(ends)
        .withColumn("client", F.when(F.col("id") % 3 == 0, F.concat(F.lit("c"), "id")))
        .withColumn("moves", F.array(F.struct("first", "client"), F.struct("first", "client")))
    )


@pytest.fixture
def large_pass(spark: SparkSession, tmp_path: Path) -> Iterator[Pass]:
    warehouse = Warehouse(spark, str(tmp_path / "w"))
    warehouse.create_missing()
    current = preview(warehouse, "rollup", now=NOW, arguments={}, settings=Settings.load(), wall_clock=lambda: NOW)
    yield current
    current.release()


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().analyzed())


def values(frame: DataFrame) -> list[int]:
    """All of each row; Python has no such years as some."""
    return sorted(row["all"] for row in frame.select(F.xxhash64("*").alias("all")).collect())


def test_rows_are_the_same_and_the_plan_ends_there(spark: SparkSession):
    kept = made(spark).persist()
    rows = without_plan(kept)
    assert rows.schema == kept.schema
    assert values(rows) == values(made(spark))
    assert "Join LeftOuter" in plan_of(kept)
    assert "Join" not in plan_of(rows.groupBy("client").count())
    kept.unpersist(blocking=True)


def test_rows_that_are_lost_are_made_again(spark: SparkSession):
    kept = made(spark).persist()
    rows = without_plan(kept)
    assert rows.count() == 40
    kept.unpersist(blocking=True)
    assert values(rows) == values(made(spark))


def test_a_pass_over_many_rows_keeps_what_it_reads_whole_without_its_plan(large_pass: Pass):
    spark = large_pass.warehouse.spark
    rows = large_pass.kept_whole(made(spark))
    assert "Join" not in plan_of(rows)
    assert values(rows) == values(made(spark))
    assert "Join" in plan_of(large_pass.cached(made(spark)))
