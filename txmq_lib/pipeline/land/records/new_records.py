"""Whether all records that tasks have written to files are new: judged by runs of queue offsets alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.land.records.offset_spans import within_spans
from txmq_lib.pipeline.land.records.queue_runs import RUNS_SCHEMA, joined_runs
from txmq_lib.pipeline.land.records.record_rows import table_of
from txmq_lib.rules.half import half_topic, op_topic, stored_queue_id
from txmq_lib.rules.reach import Reach, together
from txmq_lib.rules.run_lists import Run
from txmq_lib.rules.runs import QUEUE

# Runs of several brokers.
SCHEMA = RUNS_SCHEMA.insert(0, pa.field("broker_name", pa.string()))
NEWEST, RUN_PARTS = "highest_store_timestamp", RUNS_SCHEMA.names[2:6]


def new_runs(current: Pass, parts: Mapping[str, Sequence[pa.Table | None]]) -> pa.Table | None:
    """The runs of a whole landing (SCHEMA) where each record has a key of its own that no table holds yet; else null.

    parts  of each broker the runs of its tasks (RUNS_SCHEMA)
    """
    of_brokers = []
    for broker_name, every in parts.items():
        known = [part for part in every if part is not None]
        joined = joined_runs(known) if len(known) == len(every) else None
        if joined is None:
            return None
        of_brokers.append(joined.add_column(0, SCHEMA.field(0), pa.array([broker_name] * len(joined), pa.string())))
    runs = pa.concat_tables(of_brokers) if of_brokers else SCHEMA.empty_table()
    tables = pa.array([table_of(topic) for topic in runs["topic"].to_pylist()], pa.string())
    for table in pc.unique(tables).to_pylist():
        if _holds_any(current, table, runs.filter(pc.equal(tables, table))):
            return None
    return runs


def reached_by(runs: pa.Table) -> list[Reach]:
    """How far each queue was read, by the runs (SCHEMA) of all that was read of it."""
    newest = runs.schema.get_field_index(NEWEST)
    in_numbers = runs.set_column(newest, NEWEST, runs[NEWEST].cast(pa.int64()))
    return together(
        Reach(
            **{name: one[name] for name in (*QUEUE, NEWEST, "told_end", "file_end", "first_told_end")},
            next_offset=one["end_offset"],
            runs=(Run(*[one[name] for name in RUN_PARTS]),),
        )
        for one in in_numbers.to_pylist()
    )


def holds_key(current: Pass, rows: DataFrame, runs: pa.Table) -> bool:
    """Whether one of `rows`, as records have broker, topic, queue and offset, lies in one of the runs."""
    ranges = current.warehouse.spark.createDataFrame(runs, from_arrow_schema(SCHEMA)).select(
        *[F.col(name).alias(f"_{name}") for name in QUEUE],
        F.col("first_offset").alias("_first"),
        F.col("end_offset").alias("_end"),
    )
    is_there = (F.col("queue_offset") >= F.col("_first")) & (F.col("queue_offset") < F.col("_end"))
    for name in QUEUE:
        is_there &= F.col(name) == F.col(f"_{name}")
    return not rows.join(F.broadcast(ranges), on=is_there, how="left_semi").isEmpty()


def _holds_any(current: Pass, table: str, runs: pa.Table) -> bool:
    """Whether a row of the table has the key of one of these records."""
    if current.warehouse.bytes_if_few(table, current.input_versions[table]) == 0:
        return False
    of_brokers = runs.group_by("broker_name").aggregate([("first_offset", "min"), ("end_offset", "max")]).to_pylist()
    # Offsets are dense and ascend as they land, so their spans leave out nearly all files of the past.
    spans = {one["broker_name"]: (one["first_offset_min"], one["end_offset_max"] - 1) for one in of_brokers}
    ranges = list(spans.values())
    rows = current.read_files(table, lambda file: file.may_hold("queue_offset", ranges)).where(within_spans(spans))
    if table == "half_message":
        rows = rows.select("broker_name", "queue_offset", half_topic().alias("topic"), _queue_id())
    elif table == "op_message":
        rows = rows.select("broker_name", "queue_offset", op_topic().alias("topic"), _queue_id())
    return holds_key(current, rows, runs)


def _queue_id() -> Column:
    return stored_queue_id().alias("queue_id")
