"""Whole files of a store that Spark's own file systems reach, one request each."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from txmq_lib.spark.jvm import jvm_class


def whole_file(spark: SparkSession, filesystem: Any, path: Any, size: int | None) -> Any:  # noqa: ANN401 - py4j has no types
    """A stream of all that a file holds.

    size  its bytes, where they are known: else the store is asked for them first
    """
    builder = filesystem.openFile(path)
    builder.opt("fs.option.openfile.read.policy", "whole-file")
    if size is not None:
        builder.opt("fs.option.openfile.length", str(size))
    return jvm_class(spark, "org.apache.hadoop.util.functional.FutureIO").awaitFuture(builder.build())
