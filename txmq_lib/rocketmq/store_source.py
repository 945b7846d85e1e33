"""Spark data source `rocketmq_store`: the messages of a broker's commit log, one task per mapped file.

Options  path           store: a directory, here or on an object store
         from_offset    physical offset of the first record to read
         to_offset      physical offset to stop before; with the first it fixes what a rerun reads
         topics         optional JSON list of topic names or patterns (`*`, `?`); other topics are not decoded
         commit_log_dirs  optional JSON list: the directories of a multi-path commit log
         max_body_bytes   optional: the body of a record that unpacks to more is left out, with a `reason`
Must not decide which offsets to read, nor what a fault means: bad records are rows with a `reason`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from txmq_lib.errors import UsageError
from txmq_lib.files.materialized import at_most
from txmq_lib.rocketmq.store.commit_log import LogFile, Torn, list_files, open_log, walk
from txmq_lib.rocketmq.store.message_batch import ARROW_SCHEMA, MAX_RAW_BYTES, decode_batches, torn_batch
from txmq_lib.rocketmq.store.message_format import MAX_BODY_BYTES
from txmq_lib.rocketmq.store.records import TOPIC, TOPIC_END, Records

SOURCE_NAME: Final = "rocketmq_store"


@dataclass
class FileRange(InputPartition):
    """The part of one mapped file that a task reads: physical offsets [start, stop)."""

    file: LogFile
    start: int
    stop: int


class RocketmqStore(DataSource):
    """Registers as `rocketmq_store`; one row per record, bad ones with a `reason`, in no order."""

    @classmethod
    def name(cls) -> str:
        """The format name."""
        return SOURCE_NAME

    def schema(self) -> StructType:
        """ARROW_SCHEMA in Spark's types."""
        return from_arrow_schema(ARROW_SCHEMA)

    def reader(self, schema: StructType) -> StoreReader:
        """A reader for the options given."""
        return StoreReader(self.options)


class StoreReader(DataSourceReader):
    """Plans one task per mapped file that intersects the range, and decodes in it."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.store_dir = _required(options, "path")
        self.from_offset = _offset(options, "from_offset")
        self.to_offset = _offset(options, "to_offset")
        self.topics = _string_list(options, "topics")
        self.commit_log_dirs = _string_list(options, "commit_log_dirs") or ()
        self.max_body_bytes = int(options.get("max_body_bytes", MAX_BODY_BYTES))

    def partitions(self) -> Sequence[InputPartition]:
        """One per mapped file; what lies in a gap between files has none."""
        files = list_files(self.store_dir, self.commit_log_dirs).files
        ranges = [
            FileRange(file, max(file.base_offset, self.from_offset), min(file.end_offset, self.to_offset))
            for file in files
        ]
        return [each for each in ranges if each.start < each.stop]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows of one file, in batches bounded in rows and bytes."""
        if isinstance(partition, FileRange):
            yield from read_range(partition.file, partition.start, partition.stop, self.topics, self.max_body_bytes)


class WantedTopics(dict[bytes, bool]):
    """Whether a stored topic is asked for, found out once per topic."""

    def of(self, records: Records) -> Records:
        """The records of topics that are asked for."""
        if self._patterns is None:
            return records
        data, bounds = records.data, records.bounds[:, [TOPIC, TOPIC_END]].tolist()
        return records.where(np.array([self[data[start:end]] for start, end in bounds], bool))

    def __init__(self, patterns: Sequence[str] | None) -> None:
        super().__init__()
        self._patterns = patterns

    def __missing__(self, topic: bytes) -> bool:
        text = topic.decode("utf-8", "replace")
        self[topic] = self._patterns is None or any(fnmatchcase(text, pattern) for pattern in self._patterns)
        return self[topic]


def materialized_records(options: Mapping[str, str]) -> pa.Table | None:
    """The rows of the source, read here; null where they unpack into more than MATERIALIZED_BYTES."""
    reader = StoreReader(options)
    return at_most((batch for each in reader.partitions() for batch in reader.read(each)), ARROW_SCHEMA)


def read_range(
    file: LogFile,
    start: int,
    stop: int,
    topics: Sequence[str] | None = None,
    max_body_bytes: int = MAX_BODY_BYTES,
) -> Iterator[pa.RecordBatch]:
    """The wanted records of one file in [start, stop), and every stretch that should be a record and is not."""
    taken = WantedTopics(topics)
    with open_log(file, start, stop) as log:
        for stretch in walk(log, start, stop):
            if isinstance(stretch, Torn):
                raw = log.bytes_between(stretch.start, min(stretch.end, stretch.start + MAX_RAW_BYTES))
                yield torn_batch(stretch.start, raw)
            else:
                yield from decode_batches(taken.of(stretch), max_body_bytes)


def _required(options: Mapping[str, str], option: str) -> str:
    if option not in options:
        raise UsageError(f"{SOURCE_NAME}: option {option} is missing")
    return options[option]


def _offset(options: Mapping[str, str], option: str) -> int:
    text = _required(options, option)
    if not text.isdecimal():
        raise UsageError(f"{SOURCE_NAME}: option {option} must be a physical offset, 0 or more, not {text!r}")
    return int(text)


def _string_list(options: Mapping[str, str], option: str) -> list[str] | None:
    if option not in options:
        return None
    try:
        value = json.loads(options[option])
    except ValueError:
        value = None
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise UsageError(f"{SOURCE_NAME}: option {option} must be a JSON list of strings, not {options[option]!r}")
    return value
