"""Work in Python by Spark's tasks, part by part, where rows stay in Arrow and never enter the JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from pyspark.sql import SparkSession

Part = TypeVar("Part")
Result = TypeVar("Result")


def in_tasks(spark: SparkSession, work: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
    """What `work` gives for each part, in order: small things, for this process holds all of them.

    A single part is done here: a task for it would only be farther away. A task that failed is tried again, so `work`
    must not mind what an attempt has left.
    """
    if len(parts) <= 1:
        return [work(part) for part in parts]

    def worked(own: Iterable[Part]) -> Iterable[Result]:
        return (work(part) for part in own)

    return spark.sparkContext.parallelize(parts, len(parts)).mapPartitions(worked).collect()
