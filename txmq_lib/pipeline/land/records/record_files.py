"""Decoded records become files of tables, in the task that decodes them; what is in doubt is handed back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

import pyarrow as pa

from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.arrow_files import ROW_GROUP_BYTES, TableFile, WrittenFile
from txmq_lib.files.materialized import bytes_in_spark
from txmq_lib.pipeline.land.records.queue_runs import Runs, runs_of
from txmq_lib.pipeline.land.records.record_rows import Landing, Records
from txmq_lib.rocketmq.store.commit_log import LogFile
from txmq_lib.rocketmq.store_source import read_range


class Stretch(NamedTuple):
    """Physical offsets [start, stop) of one mapped file."""

    file: LogFile
    start: int
    stop: int


@dataclass(frozen=True)
class RecordReading:
    """How records are read and where their rows go: what every task is sent."""

    landing: Landing
    table_paths: Mapping[str, str]
    topics: tuple[str, ...] | None
    max_body_bytes: int
    most_suspect_bytes: int

    def to_json(self) -> str:
        """All of it as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> RecordReading:
        """What `to_json` gave."""
        fields = json.loads(text)
        topics = None if fields["topics"] is None else tuple(fields["topics"])
        return cls(**{**fields, "topics": topics, "landing": Landing(**fields["landing"])})


@dataclass(frozen=True)
class Written:
    """What a task tells of its records.

    files          by table
    runs           of good records; null where two have one key, or in too many runs to tell
    suspects       how many records are in no file
    suspect_bytes  what those hold in Spark
    kept           those, where they are few; null: read them again
    """

    files: dict[str, list[WrittenFile]]
    runs: pa.Table | None
    suspects: int
    suspect_bytes: int
    kept: list[pa.RecordBatch] | None


@dataclass
class _Open:
    """Files in the making, one per table, with ROW_GROUP_BYTES held for all of them."""

    stack: ExitStack
    paths: Mapping[str, str]
    files: dict[str, TableFile] = field(default_factory=dict)

    def write(self, table: str, rows: pa.RecordBatch) -> None:
        if table not in self.files:
            self.files[table] = self.stack.enter_context(TableFile(self.paths[table], table_spec(table)))
        self.files[table].write(rows)
        if sum(file.held_bytes for file in self.files.values()) >= ROW_GROUP_BYTES:
            max(self.files.values(), key=lambda file: file.held_bytes).flush()

    def finish(self) -> dict[str, list[WrittenFile]]:
        return {table: file.finish() for table, file in self.files.items()}


class Look(NamedTuple):
    """What a task found in one batch: rows of tables, what is in none, and the runs of good records."""

    rows: Mapping[str, pa.RecordBatch]
    suspects: pa.RecordBatch
    runs: pa.Table


def written(looks: Iterable[Look], table_paths: Mapping[str, str], most_suspect_bytes: int) -> Written:
    """Write what was found beyond doubt, and keep the rest where it is little."""
    runs = Runs()
    kept: list[pa.RecordBatch] = []
    suspects, room = 0, most_suspect_bytes
    with ExitStack() as stack:
        files = _Open(stack, table_paths)
        for look in looks:
            for table, rows in look.rows.items():
                files.write(table, rows)
            if look.suspects.num_rows:
                suspects += look.suspects.num_rows
                room -= bytes_in_spark(look.suspects)
                kept = [*kept, look.suspects] if room >= 0 else []
            runs.add(look.runs)
        held_bytes = most_suspect_bytes - room
        return Written(files.finish(), runs.joined(), suspects, held_bytes, kept if room >= 0 else None)


def write_stretch(stretch: Stretch, reading: RecordReading) -> Written:
    """Decode a stretch and write its records beyond doubt."""
    return write_records(_batches_of(stretch, reading), reading)


def write_records(batches: Iterable[pa.RecordBatch], reading: RecordReading) -> Written:
    """Write decoded records (message_batch.ARROW_SCHEMA), those beyond doubt."""
    looks = (_look(batch, reading) for batch in batches)
    return written(looks, reading.table_paths, reading.most_suspect_bytes)


def suspects_of(stretch: Stretch, reading: RecordReading) -> Iterator[pa.RecordBatch]:
    """The records of a stretch that `write_stretch` leaves out."""
    return (_look(batch, reading).suspects for batch in _batches_of(stretch, reading))


def _look(batch: pa.RecordBatch, reading: RecordReading) -> Look:
    records = Records(batch, reading.landing)
    rows = records.rows()
    return Look(rows, records.suspects(), runs_of(batch.filter(pa.array(records.is_good))))


def _batches_of(stretch: Stretch, reading: RecordReading) -> Iterator[pa.RecordBatch]:
    return read_range(stretch.file, stretch.start, stretch.stop, reading.topics, reading.max_body_bytes)
