"""Lines of messages into files of their table, by tasks, where all of them are new; one commit names the files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.files.materialized import MATERIALIZED_BYTES
from txmq_lib.names import HALF_TOPIC
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.land.files.large_lines import LANDING_SCHEMA
from txmq_lib.pipeline.land.files.line_task import LineReading, write_lines
from txmq_lib.pipeline.land.files.lines_source import grouped
from txmq_lib.pipeline.land.files.listing import LandingFile, is_local_text
from txmq_lib.pipeline.land.files.reading import line_frame, max_line_bytes
from txmq_lib.pipeline.land.records import files_of_tasks
from txmq_lib.pipeline.land.records.new_records import holds_key, new_runs, reached_by
from txmq_lib.pipeline.land.records.record_files import Written
from txmq_lib.pipeline.land.records.record_rows import Landing
from txmq_lib.rules.landing_contract import message_rows
from txmq_lib.rules.reach import Reach
from txmq_lib.spark.tasks import in_tasks

LEAST_TASK_BYTES, MOST_TASK_BYTES = 4 << 20, 1 << 30


class LandedLines(NamedTuple):
    """How far each queue was read by lines that are in files, and the others, if there are any."""

    reached: list[Reach]
    suspects: DataFrame | None


def task_bytes(warehouse: Warehouse, files: Sequence[LandingFile]) -> int | None:
    """How much a task is to read of `files`; null where tasks cannot write what they read."""
    if not files_of_tasks.can_write(warehouse) or not all(map(is_local_text, files)):
        return None
    shared = -(-sum(file.size for file in files) // files_of_tasks.tasks(warehouse))
    return min(MOST_TASK_BYTES, max(LEAST_TASK_BYTES, shared))


def land(
    current: Pass, files: Sequence[LandingFile], landing: Landing, kept: Callable[[DataFrame], DataFrame]
) -> LandedLines | None:
    """Write and commit the lines of `files` beyond doubt; null, and nothing committed, where not all records are new.

    kept  adds the columns that messages.land needs to message_rows, and keeps the rows
    """
    with current.timed("decode"):
        written = _written(current, files, landing)
    if any(each.kept is None for each in written):
        return None
    batches = [batch for each in written for batch in each.kept or ()]
    lines = line_frame(current.warehouse.spark, pa.Table.from_batches(batches, LANDING_SCHEMA)) if batches else None
    suspects = None if lines is None else kept(message_rows(lines))
    with current.timed("judge"):
        runs = new_runs(current, {landing.broker_name: [each.runs for each in written]})
        if runs is None or (suspects is not None and runs.num_rows and _meets(current, runs, suspects, landing)):
            return None
    files_of_tasks.append_files(current, written)
    return LandedLines(reached_by(runs), suspects)


def _written(current: Pass, files: Sequence[LandingFile], landing: Landing) -> list[Written]:
    listed = [(number, file.uri, file.size) for number, file in enumerate(files)]
    parts = list(grouped(listed, current.arguments["task_bytes"]))
    reading = LineReading(
        landing=landing,
        table_paths=files_of_tasks.paths(current.warehouse),
        max_line_bytes=max_line_bytes(current.settings.land.max_body_bytes),
        most_suspect_bytes=MATERIALIZED_BYTES // max(len(parts), 1),
    )
    return in_tasks(current.warehouse.spark, partial(write_lines, reading=reading), parts)


def _meets(current: Pass, runs: pa.Table, suspects: DataFrame, landing: Landing) -> bool:
    """Whether a suspect has the key of a record in a file, or is numbered behind all halves of the landing."""
    good = suspects.where("reason is null").withColumn("broker_name", F.lit(landing.broker_name))
    is_numbered = F.lit(landing.is_engine and landing.table == "half_message") & (F.col("topic") != HALF_TOPIC)
    return holds_key(current, good, runs) or not good.where(is_numbered).isEmpty()
