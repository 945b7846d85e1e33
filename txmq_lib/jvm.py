"""The door to the JVM behind a session, for what Spark and Delta offer there alone."""

from __future__ import annotations

from typing import Any, cast

from pyspark.sql import SparkSession


def jvm_class(spark: SparkSession, name: str) -> Any:  # noqa: ANN401 - py4j has no types
    """A class by its whole name at once: step by step py4j asks for a class at each dot."""
    return getattr(cast("Any", spark._jvm), name)


def set_active(spark: SparkSession) -> None:
    """Makes this the active session of the JVM's thread: Delta asks for it, and a thread of a pool has none."""
    jvm_class(spark, "org.apache.spark.sql.classic.SparkSession").setActiveSession(spark._jsparkSession)
