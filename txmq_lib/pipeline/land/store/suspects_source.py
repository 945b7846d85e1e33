"""Spark data source `txmq_suspects`: the records of stretches of a commit log that no task could write by itself.

Options  reading     JSON of record_files.RecordReading.to_json
         stretches   JSON list of [path, base offset, size, start, stop]
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from txmq_lib.pipeline.land.records.record_files import RecordReading, Stretch, suspects_of
from txmq_lib.rocketmq.store.commit_log import LogFile
from txmq_lib.rocketmq.store.message_batch import ARROW_SCHEMA

SOURCE_NAME: Final = "txmq_suspects"


@dataclass
class OfStretch(InputPartition):
    """What one task reads."""

    stretch: Stretch


class Suspects(DataSource):
    """Registers as `txmq_suspects`; rows of the store source, in no order."""

    @classmethod
    def name(cls) -> str:
        """The format name."""
        return SOURCE_NAME

    def schema(self) -> StructType:
        """ARROW_SCHEMA in Spark's types."""
        return from_arrow_schema(ARROW_SCHEMA)

    def reader(self, schema: StructType) -> SuspectsReader:
        """A reader for the options given."""
        return SuspectsReader(self.options)


class SuspectsReader(DataSourceReader):
    """One task per stretch, which decodes it once more."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.reading = RecordReading.from_json(options["reading"])
        self.stretches = [
            Stretch(LogFile(path, base, size), start, stop)
            for path, base, size, start, stop in json.loads(options["stretches"])
        ]

    def partitions(self) -> Sequence[InputPartition]:
        """One per stretch."""
        return [OfStretch(stretch) for stretch in self.stretches]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The suspects of one stretch."""
        if isinstance(partition, OfStretch):
            yield from suspects_of(partition.stretch, self.reading)
