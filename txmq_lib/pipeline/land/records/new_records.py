"""Whether all records that tasks have written to files are new: judged by runs of queue offsets alone."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.land.records.queue_runs import RUNS_SCHEMA, joined_runs
from txmq_lib.pipeline.land.records.record_rows import table_of
from txmq_lib.rules.half import half_topic, op_topic, stored_queue_id
from txmq_lib.rules.runs import RUN_FIELDS, RUN_TYPE


def new_runs(current: Pass, parts: Sequence[pa.Table | None], broker_name: str) -> pa.Table | None:
    """The runs of a whole landing where each record has a key of its own that no table holds yet; else null."""
    known = [part for part in parts if part is not None]
    joined = joined_runs(known) if len(known) == len(parts) else None
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
        *RUNS_SCHEMA.names[6:],
        F.struct(*fields).cast(RUN_TYPE).alias("run"),
    )


def holds_key(current: Pass, rows: DataFrame, runs: pa.Table) -> bool:
    """Whether one of `rows`, as records have topic, queue and offset, lies in one of the runs."""
    ranges = current.warehouse.spark.createDataFrame(runs, from_arrow_schema(RUNS_SCHEMA)).select(
        F.col("topic").alias("_topic"),
        F.col("queue_id").alias("_queue_id"),
        F.col("first_offset").alias("_first"),
        F.col("end_offset").alias("_end"),
    )
    is_there = (
        (F.col("topic") == F.col("_topic"))
        & (F.col("queue_id") == F.col("_queue_id"))
        & (F.col("queue_offset") >= F.col("_first"))
        & (F.col("queue_offset") < F.col("_end"))
    )
    return not rows.join(F.broadcast(ranges), on=is_there, how="left_semi").isEmpty()


def _holds_any(current: Pass, table: str, runs: pa.Table, broker_name: str) -> bool:
    """Whether a row of the table has the key of one of these records."""
    if current.warehouse.bytes_if_few(table, current.input_versions[table]) == 0:
        return False
    low, high = pc.min(runs["first_offset"]).as_py(), pc.max(runs["end_offset"]).as_py()
    # Offsets are dense and ascend as they land, so their span leaves out nearly all files of the past.
    near = F.col("queue_offset").between(low, high - 1)
    rows = current.read(table).where((F.col("broker_name") == broker_name) & near)
    if table == "half_message":
        rows = rows.select("queue_offset", half_topic().alias("topic"), stored_queue_id().alias("queue_id"))
    elif table == "op_message":
        rows = rows.select("queue_offset", op_topic().alias("topic"), stored_queue_id().alias("queue_id"))
    return holds_key(current, rows, runs)
