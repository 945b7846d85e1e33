"""Named Parquet files of a table as a frame, without Delta's planning."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from txmq_lib.config.table_specs import TableSpec
from txmq_lib.delta.conform import in_order, struct_type
from txmq_lib.delta.log_actions import DataFile, real_path
from txmq_lib.spark.glob_escape import pattern_of


def frame_of_files(spark: SparkSession, spec: TableSpec, path: str, files: Sequence[DataFile]) -> DataFrame:
    """The rows of `files`, plain and below `path`, with the table's columns; partition values as the log has them."""
    schema = struct_type(spec)
    stored = StructType([field for field in schema if field.name not in spec.partition_by])
    parts: defaultdict[tuple[str | None, ...], list[str]] = defaultdict(list)
    for file in files:
        pattern = pattern_of(f"{path}/{real_path(file)}")
        parts[tuple(file.partition.get(name) for name in spec.partition_by)].append(pattern)
    frames = []
    for values, paths in parts.items():
        reader = spark.read.schema(stored)
        if not any("\\" in path for path in paths):
            # Plain names need no look whether they are there. Of others Spark then gives each row once per file.
            reader = reader.option("__globPaths__", "false")
        rows = reader.parquet(*paths)
        fields = {
            name: F.lit(value).cast(schema[name].dataType)
            for name, value in zip(spec.partition_by, values, strict=True)
        }
        frames.append(in_order(rows.withColumns(fields), schema) if fields else rows)
    return reduce(DataFrame.unionByName, frames)
