"""Many small passes of the past, as the commits they leave: written by delta-rs, since Spark would take an hour."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.sql import functions as F

from tests.bench.data import Stream, ends, halves
from tests.bench.past import audited, reconciled
from txmq_lib.delta.warehouse import Warehouse

JOBS = ("reconcile", "audit")
STATES = ("started", "committed")
CHECKPOINT_EVERY = 10  # as Delta does under Spark
# The time by which each table grows.
GROWS_BY = {
    "half_message": "born_timestamp",
    "end_transaction": "ts",
    "end_outcome": "born_timestamp",
    "message": "born_timestamp",
    "op_message": "store_timestamp",
    "verdict": "born_timestamp",
}


def write_small_passes(
    warehouse: Warehouse, stream: Stream, first: int, passes: int, rows: int, *, numbered_from: int = 2
) -> None:
    """`passes` passes of each job, `rows` transactions each, from transaction `first` on: one commit each per table."""
    spark, count = warehouse.spark, passes * rows
    frames = {
        "half_message": halves(spark, stream, first, count),
        "end_transaction": ends(spark, stream, first, count),
        **reconciled(spark, stream, first, count),
        "verdict": audited(spark, stream, first, count),
    }
    for table, frame in frames.items():
        whole = frame.orderBy(GROWS_BY[table]).toArrow()
        cuts = [len(whole) * number // passes for number in range(passes + 1)]
        parts = [whole.slice(low, high - low) for low, high in pairwise(cuts)]
        _write(warehouse.path(table), parts, "append")
    # Each pass replaces these.
    for table in ("landing_frontier", "pending_half"):
        _write(warehouse.path(table), [warehouse.read(table).toArrow()] * passes, "overwrite")
    _write_pass_rows(warehouse, range(numbered_from, numbered_from + passes))


def _write(place: str, parts: list[pa.Table], mode: Literal["append", "overwrite"]) -> None:
    table = DeltaTable(place)
    for part in parts:
        write_deltalake(table, part, mode=mode, partition_by=table.metadata().partition_columns or None)
        if table.version() % CHECKPOINT_EVERY == 0:
            table.create_checkpoint()


def _write_pass_rows(warehouse: Warehouse, numbers: range) -> None:
    """The plan and the committed row of each pass of these numbers, like those of the first one, which is there."""
    table = DeltaTable(warehouse.path("pass"))
    first = F.col("pass_number") == 1
    rows = {
        (job, state): warehouse.read("pass").where((F.col("job") == job) & (F.col("state") == state) & first).toArrow()
        for job in JOBS
        for state in STATES
    }
    for number in numbers:
        for (job, state), row in rows.items():
            place = row.schema.get_field_index("pass_number")
            numbered = row.set_column(place, row.schema.field(place), pa.array([number], pa.int64()))
            # The next pass of the job takes its number from here.
            landed = CommitProperties(app_transactions=[Transaction(f"txmq/{job}/pass/{state}", number)])
            write_deltalake(table, numbered, mode="append", commit_properties=landed)
            if table.version() % CHECKPOINT_EVERY == 0:
                table.create_checkpoint()
