"""How hard Spark should try: a small pass spends its time on plans, generated code and empty tasks, not on rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from txmq_lib.tables.session_conf import session_conf

# One partition, nothing to adapt, interpreted rather than compiled, as conf/few-rows.yaml says for a whole session.
_LITTLE = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@contextmanager
def little_effort(spark: SparkSession, *, when: bool) -> Iterator[None]:
    """Within it, and only `when`, Spark plans for a few thousand rows; a key that somebody set stays as it is."""
    given = spark.sparkContext.getConf()
    values = {key: value for key, value in _LITTLE.items() if when and not given.contains(key)}
    with session_conf(spark, values):
        yield
