"""Records of a commit log into files of their tables, by tasks, where all of them are new; one commit per table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import InputError
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.land.records import files_of_tasks
from txmq_lib.pipeline.land.records.new_records import new_runs, reached_by
from txmq_lib.pipeline.land.records.record_files import RecordReading, Stretch, Written, write_stretch
from txmq_lib.pipeline.land.store.suspects_source import SOURCE_NAME, Suspects
from txmq_lib.rocketmq.store.commit_log import LogFile, file_at
from txmq_lib.rocketmq.store.message_batch import ARROW_SCHEMA
from txmq_lib.rules.reach import Reach
from txmq_lib.spark.tasks import in_tasks


@dataclass(frozen=True)
class LandedLog:
    """A log whose good records are in files that commits name.

    reached        how far each queue was read by good records
    suspects       the records that are in no file, still to be judged; null where there are none
    suspect_bytes  what those hold in Spark: a small log may have large ones
    """

    reached: list[Reach]
    suspects: DataFrame | None
    suspect_bytes: int


def cuts_worth_a_task(
    cuts: Sequence[int], files: Sequence[LogFile], start: int, stop: int, warehouse: Warehouse
) -> list[int]:
    """So many cuts of a log that is read from `start` to `stop` as its cores have work by; all are of one file."""
    least = (stop - start) // files_of_tasks.tasks(warehouse)
    file = file_at(files, cuts[0]) if cuts else None
    before = start if file is None else max(start, file.base_offset)
    kept: list[int] = []
    for cut in cuts:
        if cut - before >= least:
            kept.append(cut)
            before = cut
    return kept


def stretches(files: Sequence[LogFile], start: int, stop: int, cuts: Sequence[int]) -> list[Stretch]:
    """What each task reads of [start, stop): a mapped file, or what lies between two cuts of one.

    InputError where a part of it is in no file any more.
    """
    found = []
    for file in files:
        low, high = max(start, file.base_offset), min(stop, file.end_offset)
        inner = [cut for cut in cuts if low < cut < high]
        found += [Stretch(file, *pair) for pair in zip([low, *inner], [*inner, high], strict=True) if pair[0] < pair[1]]
    if sum(each.stop - each.start for each in found) != stop - start:
        raise InputError("the commit log misses what was to be read: its broker has removed it meanwhile; land again")
    return found


def land(current: Pass, parts: Sequence[Stretch], reading: RecordReading) -> LandedLog | None:
    """Write and commit the records of `parts`; null, and nothing committed, where not all of them are new."""
    spark = current.warehouse.spark
    with current.timed("decode"):
        written = in_tasks(spark, partial(write_stretch, reading=reading), parts)
    with current.timed("judge"):
        runs = new_runs(current, {reading.landing.broker_name: [each.runs for each in written]})
    if runs is None:
        return None
    files_of_tasks.append_files(current, written)
    suspects = _suspects(current, parts, written, reading)
    suspect_bytes = sum(each.suspect_bytes for each in written)
    return LandedLog(reached_by(runs), suspects, suspect_bytes)


def _suspects(
    current: Pass, parts: Sequence[Stretch], written: Sequence[Written], reading: RecordReading
) -> DataFrame | None:
    spark = current.warehouse.spark
    if not any(each.suspects for each in written):
        return None
    if all(each.kept is not None for each in written):
        kept = [batch for each in written for batch in each.kept or ()]
        return spark.createDataFrame(pa.Table.from_batches(kept, ARROW_SCHEMA), from_arrow_schema(ARROW_SCHEMA))
    again = [part for part, each in zip(parts, written, strict=True) if each.suspects]
    spark.dataSource.register(Suspects)
    listed = json.dumps([[*part.file, part.start, part.stop] for part in again])
    return spark.read.format(SOURCE_NAME).option("stretches", listed).option("reading", reading.to_json()).load()
