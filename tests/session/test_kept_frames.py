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
from txmq_lib.spark.session_conf import session_conf

pytestmark = pytest.mark.usefixtures("adaptive")

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def made(spark: SparkSession) -> DataFrame:
    """Rows by a join: each type of consumer_offset, nulls, times far from now; a map that takes a setting of the session."""
    numbers = spark.range(40).withColumn("queue", F.col("id") % 7)
    ends = spark.sql(
        "SELECT timestamp'0001-01-01 00:00:00.000001' AS first, timestamp'9999-12-31 23:59:59.999999' AS last"
    )
    # The key comes twice: only by a setting of txmq's is that no error.
    twice = F.transform_keys(
        F.create_map(F.lit("a"), F.col("id"), F.lit("b"), F.col("id") + 1), lambda key, value: F.lit("same")
    )
    return (
        numbers.join(numbers.groupBy("queue").agg(F.count("*").alias("messages")), "queue", "left")
        .crossJoin(ends)
        .withColumns({"queue": F.col("queue").cast("int"), "is_odd": F.col("id") % 2 == 1})
        .withColumn("client", F.when(F.col("id") % 3 == 0, F.concat(F.lit("c"), "id")))
        .withColumn("moves", F.array(F.struct("first", "client", "is_odd"), F.struct("first", "client", "is_odd")))
        .withColumn("newest", twice["same"])
        .repartition(3, "newest")
    )


@pytest.fixture
def large_pass(spark: SparkSession, tmp_path: Path) -> Iterator[Pass]:
    warehouse = Warehouse(spark, str(tmp_path / "w"))
    warehouse.create_missing()
    current = preview(warehouse, "rollup", now=NOW, arguments={}, settings=Settings.load(), wall_clock=lambda: NOW)
    yield current
    current.release()


@pytest.fixture(params=["false", "true"], ids=["as planned", "adaptive"])
def adaptive(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[None]:
    """Passes over many rows are planned anew while they run; those of these tests are not."""
    with session_conf(spark, {"spark.sql.adaptive.enabled": request.param}):
        yield


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().analyzed())


def size_of(frame: DataFrame) -> int:
    """What Spark takes the frame's bytes for."""
    return int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))


def values(frame: DataFrame) -> list[int]:
    """All of each row; Python has no such years as some."""
    return sorted(row["all"] for row in frame.select(F.xxhash64("*").alias("all")).collect())


def test_rows_are_the_same_and_the_plan_ends_there(spark: SparkSession):
    kept = made(spark).persist()
    rows = without_plan(kept)
    assert rows.schema == kept.schema
    assert values(rows) == values(made(spark))
    assert "Join LeftOuter" in plan_of(kept)
    # Else rows of a few are never sent to those that they are joined with.
    assert size_of(rows) < 100_000
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
    assert large_pass.cached(rows) is rows
    assert values(rows) == values(made(spark))
    assert "Join" in plan_of(large_pass.cached(made(spark)))
