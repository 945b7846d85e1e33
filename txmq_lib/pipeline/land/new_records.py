"""Whether all records that tasks have written to files are new: judged by runs of queue offsets alone."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from txmq_lib.names import HALF_TOPICS, OP_TOPICS, ROCKSDB_HALF_TOPIC, ROCKSDB_OP_TOPIC, ROCKSDB_QUEUE_ID
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.land.queue_runs import RUNS_SCHEMA, joined_runs
from txmq_lib.pipeline.land.record_rows import table_of
from txmq_lib.rules.runs import RUN_FIELDS, RUN_TYPE

OF_ROCKSDB = (ROCKSDB_HALF_TOPIC, ROCKSDB_OP_TOPIC)


def new_runs(current: Pass, parts: Sequence[pa.Table | None], broker_name: str) -> pa.Table | None:
    """The runs of a whole landing where each record has a key of its own that no table holds yet; else null."""
    told = [part for part in parts if part is not None]
    joined = joined_runs(told) if len(told) == len(parts) else None
    if joined is None:
        return None
    tables = pa.array([table_of(topic) for topic in joined["topic"].to_pylist()], pa.string())
    for table in pc.unique(tables).to_pylist():
        if _holds_any(current, table, joined.filter(pc.equal(tables, table)), broker_name):
            return None
    return joined


def frontier_runs(current: Pass, runs: pa.Table, broker_name: str) -> DataFrame:
    """Runs as rules.frontier.reached_by takes them."""
    rows = current.warehouse.spark.createDataFrame(runs, from_arrow_schema(RUNS_SCHEMA))
    fields = [
        (F.col(name) if name in RUNS_SCHEMA.names else F.lit(None).cast("bigint")).alias(name) for name in RUN_FIELDS
    ]
    return rows.select(
        F.lit(broker_name).alias("broker_name"),
        "topic",
        "queue_id",
        "highest_store_timestamp",
        F.struct(*fields).cast(RUN_TYPE).alias("run"),
    )


def _holds_any(current: Pass, table: str, runs: pa.Table, broker_name: str) -> bool:
    """Whether a row of the table has the key of one of these records."""
    if current.warehouse.few_bytes(table, current.input_versions[table]) == 0:
        return False
    frame = current.warehouse.spark.createDataFrame(runs, from_arrow_schema(RUNS_SCHEMA))
    of_rocksdb = F.col("topic").isin(*OF_ROCKSDB)
    ranges = frame.select(
        F.col("topic").alias("_topic"),
        F.when(of_rocksdb, F.lit(ROCKSDB_QUEUE_ID)).otherwise(F.col("queue_id")).alias("_queue_id"),
        F.col("first_offset").alias("_first"),
        F.col("end_offset").alias("_end"),
    )
    low, high = pc.min(runs["first_offset"]).as_py(), pc.max(runs["end_offset"]).as_py()
    # Offsets are dense and ascend as they land, so their span leaves out nearly all files of the past.
    near = F.col("queue_offset").between(low, high - 1)
    rows = current.read(table).where((F.col("broker_name") == broker_name) & near)
    is_there = (
        (F.col("queue_id") == F.col("_queue_id"))
        & (F.col("queue_offset") >= F.col("_first"))
        & (F.col("queue_offset") < F.col("_end"))
    )
    if table_of(HALF_TOPICS[0]) != table != table_of(OP_TOPICS[0]):
        is_there = is_there & (F.col("topic") == F.col("_topic"))
    return not rows.join(F.broadcast(ranges), on=is_there, how="left_semi").isEmpty()
