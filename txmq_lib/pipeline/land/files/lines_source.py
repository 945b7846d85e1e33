"""Spark data source `txmq_lines`: the lines of text files, read in tasks of about as many bytes each.

Options  files           JSON list of [file number, URI, size in bytes]
         max_line_bytes  a longer line is a row with a `reason`
Must not decide which files to read, nor what a line means: what cannot be read is a row with a `reason`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from txmq_lib.files.line_reader import GZIP_ENDING, Stretch, read_lines
from txmq_lib.files.local_files import path_of
from txmq_lib.pipeline.land.files.large_lines import LANDING_SCHEMA, made_small

SOURCE_NAME: Final = "txmq_lines"
TASK_BYTES: Final = 32 << 20
OPENING_BYTES: Final = 64 << 10  # what opening a file is worth
UNPACKED_FACTOR: Final = 8  # of gzipped JSON, about


@dataclass
class Stretches(InputPartition):
    """What one task reads, one after the other."""

    stretches: tuple[Stretch, ...]


class TextLines(DataSource):
    """Registers as `txmq_lines`; one row per line, in no order across tasks."""

    @classmethod
    def name(cls) -> str:
        """The format name."""
        return SOURCE_NAME

    def schema(self) -> StructType:
        """LANDING_SCHEMA in Spark's types."""
        return from_arrow_schema(LANDING_SCHEMA)

    def reader(self, schema: StructType) -> TextLinesReader:
        """A reader for the options given."""
        return TextLinesReader(self.options)


class TextLinesReader(DataSourceReader):
    """Large files are cut, small ones put together; a gzipped one is read by one task."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.files = [tuple(file) for file in json.loads(options["files"])]
        self.max_line_bytes = int(options["max_line_bytes"])

    def partitions(self) -> Sequence[InputPartition]:
        """About TASK_BYTES each."""
        return [Stretches(tuple(group)) for group in grouped(self.files)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The lines of one task's files."""
        if isinstance(partition, Stretches):
            yield from made_small(read_lines(partition.stretches, self.max_line_bytes))


def grouped(files: Iterable[tuple[int, str, int]], task_bytes: int = TASK_BYTES) -> Iterator[list[Stretch]]:
    """What each task reads of files (number, URI, size), in the order given."""
    group: list[Stretch] = []
    room = task_bytes
    for number, uri, size in files:
        for stretch in stretches(number, uri, size, task_bytes):
            weight = OPENING_BYTES + (UNPACKED_FACTOR * size if stretch.stop is None else stretch.stop - stretch.start)
            if group and weight > room:
                yield group
                group, room = [], task_bytes
            group.append(stretch)
            room -= weight
    if group:
        yield group


def stretches(number: int, uri: str, size: int, task_bytes: int = TASK_BYTES) -> Iterator[Stretch]:
    """A file in parts of at most `task_bytes`, as far as its size goes; in one where it is gzipped."""
    path = path_of(uri)
    if path.endswith(GZIP_ENDING):
        yield Stretch(number, uri, path)
        return
    for start in range(0, size, task_bytes):
        yield Stretch(number, uri, path, start, min(size, start + task_bytes))
