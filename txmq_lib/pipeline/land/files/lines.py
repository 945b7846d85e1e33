"""What a landing reads, as rows: by this process where it is little, else by Spark's tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from txmq_lib.files.line_reader import PLACE_BITS
from txmq_lib.names import FILE_UNREADABLE
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.land.files.reading import LandingFile, json_lines, materialized_lines
from txmq_lib.rocketmq.store.message_batch import ARROW_SCHEMA
from txmq_lib.rocketmq.store_source import SOURCE_NAME, RocketmqStore, materialized_records

UNREAD = "unread"  # a count of the pass


class Lines(NamedTuple):
    """Rows of json_lines, and the same as they were read here where they were."""

    rows: DataFrame
    materialized: pa.Table | None


def lines(current: Pass, files: Sequence[LandingFile]) -> Lines:
    """The lines of `files`. A pass whose files unpack into much is small no longer."""
    max_body_bytes = current.settings.land.max_body_bytes
    materialized = current.read_here(lambda: materialized_lines(files, max_body_bytes))
    return Lines(json_lines(current.warehouse.spark, files, max_body_bytes, materialized), materialized)


def records(current: Pass, options: Mapping[str, str]) -> DataFrame:
    """The rows of the store source. A pass whose records unpack into much is small no longer."""
    spark = current.warehouse.spark
    materialized = current.read_here(lambda: materialized_records(options))
    if materialized is not None:
        return spark.createDataFrame(materialized, from_arrow_schema(ARROW_SCHEMA))
    spark.dataSource.register(RocketmqStore)
    return spark.read.format(SOURCE_NAME).options(**options).load()


def bytes_held(stored: DataFrame) -> int:
    """How much bodies, and what stands for them where a record is bad, hold."""
    held = stored.agg(F.sum(F.coalesce(F.octet_length("body"), F.octet_length("raw"), F.lit(0)))).collect()[0][0]
    return int(held or 0)


def unread(current: Pass, files: Sequence[LandingFile], lines_read: Lines, judged: DataFrame) -> list[LandingFile]:
    """The files that could not be opened or read to their ends, counted: nobody may think that they have landed.

    judged  the rows of `given` once they are at hand; a file whose content is at fault has been read
    """
    if lines_read.materialized is not None:
        is_unread = pc.equal(lines_read.materialized["reason"], FILE_UNREADABLE)
        positions = lines_read.materialized.filter(is_unread)["position"].to_pylist()
    else:
        rows = judged.where(F.col("reason") == FILE_UNREADABLE).select("position").collect()
        positions = [row["position"] for row in rows]
    if positions:
        current.counts[UNREAD] = len(positions)
    return [files[position >> PLACE_BITS] for position in sorted(positions)]
