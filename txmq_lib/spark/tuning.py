"""How hard Spark should try: a small pass spends its time on plans, generated code and empty tasks, not on rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from txmq_lib.spark.session_conf import session_conf, where_unset

# One partition, nothing to adapt, interpreted rather than compiled, as conf/few-rows.yaml says for a whole session.
_LITTLE = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # What Spark's own pages show of a plan: in full it takes a tenth of a query over few rows.
    "spark.sql.ui.explainMode": "simple",
}
# Many rows: no task may need more memory than it has, and what need not be sorted is not.
_MUCH = {
    "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold": "16m",
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "50000",
    "spark.sql.maxConcurrentOutputFileWriters": "8",
}
BYTES_PER_PARTITION = 48 << 20
UNKNOWN_PARTITIONS, MOST_PARTITIONS = 200, 2000


@contextmanager
def tuned(spark: SparkSession, *, input_bytes: int | None, is_small: bool, is_known: bool = True) -> Iterator[None]:
    """Within it Spark plans for so much input (None: too much to tell); a key that somebody set stays as it is.

    is_known  False for a job that never tells: it is planned as the session is
    """
    context = spark.sparkContext
    settings = _LITTLE if is_small else _MUCH if is_known else {}
    if is_known and not is_small and str(context.master).startswith("local"):
        partitions = partitions_for(input_bytes, cores=context.defaultParallelism)
        settings = {**settings, "spark.sql.shuffle.partitions": str(partitions)}
    with session_conf(spark, where_unset(spark, settings)):
        yield


def partitions_for(input_bytes: int | None, *, cores: int) -> int:
    """Into how many parts so much input is shuffled on one machine, so that each fits into a task's memory."""
    parts = UNKNOWN_PARTITIONS if input_bytes is None else -(-input_bytes // BYTES_PER_PARTITION)
    return max(cores, min(MOST_PARTITIONS, parts))
