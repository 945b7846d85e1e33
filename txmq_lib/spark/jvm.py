"""The door to the JVM behind a session, for what Spark and Delta offer there alone."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession

# Of the heap, garbage and all: beyond, the JVM is asked to collect it.
MUCH_OF_HEAP = 0.6


def jvm_class(spark: SparkSession, name: str) -> Any:  # noqa: ANN401 - py4j has no types
    """A class by its whole name at once: step by step py4j asks for a class at each dot."""
    return getattr(cast("Any", spark._jvm), name)


def set_active(spark: SparkSession) -> None:
    """Makes this the active session of the JVM's thread: Delta asks for it, and a thread of a pool has none."""
    jvm_class(spark, "org.apache.spark.sql.classic.SparkSession").setActiveSession(spark._jsparkSession)


@contextmanager
def uncancelled(spark: SparkSession) -> Iterator[None]:
    """Jobs of this thread carry no tag inside, so that whoever cancels by tag does not meet them."""
    context = spark.sparkContext
    tags = context.getJobTags()
    context.clearJobTags()
    try:
        yield
    finally:
        for tag in tags:
            context.addJobTag(tag)


def without_plan(kept: DataFrame) -> DataFrame:
    """The rows of a persisted frame, computed now, with no plan of how they were made.

    Whoever reads a frame analyzes, optimizes and writes out its whole plan anew, also where its rows are kept. Spark
    makes lost rows again, unlike those of a local checkpoint.
    """
    spark, frame = kept.sparkSession, cast("Any", kept)._jdf
    # What is computed outside an execution of Spark's knows no settings of the session; and how many rows there are
    # decides how they are joined.
    kept.count()
    module = getattr(jvm_class(spark, "org.apache.spark.sql.execution.LogicalRDD$"), "MODULE$")
    plan = module.fromDataset(frame.queryExecution().toRdd(), frame, False)
    rows = jvm_class(spark, "org.apache.spark.sql.classic.Dataset").ofRows(cast("Any", spark)._jsparkSession, plan)
    return DataFrame(rows, spark)


def let_go_of_plans(spark: SparkSession) -> None:
    """Let go of what the plans of a pass over many rows hold: tables sent to tasks, above all.

    Frames refer to each other in circles, and until Python collects those the JVM keeps their plans. Spark drops such
    tables some time after the JVM has collected their plans: too late for a pass that finds the heap full.
    """
    gc.collect()
    runtime = jvm_class(spark, "java.lang.Runtime").getRuntime()
    if runtime.totalMemory() - runtime.freeMemory() > MUCH_OF_HEAP * runtime.maxMemory():
        runtime.gc()
