"""Landing files into one JSON text per row, with where it came from and its place. Knows paths, not meanings."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyarrow.parquet import ParquetFile
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from txmq_lib.files import local_files
from txmq_lib.files.line_reader import PLACE_BITS, read_lines
from txmq_lib.files.materialized import at_most
from txmq_lib.files.plain_file import require_plain
from txmq_lib.names import FILE_BROKEN
from txmq_lib.pipeline.land.files.large_lines import LANDING_SCHEMA, made_small
from txmq_lib.pipeline.land.files.lines_source import SOURCE_NAME, TextLines, stretches
from txmq_lib.pipeline.land.files.listing import LOCAL_SCHEME, PARQUET_ENDING, LandingFile, is_local_text, is_text
from txmq_lib.rocketmq.store.message_format import MAX_BODY_BYTES
from txmq_lib.spark.jvm import jvm_class

CHECKED_BYTES, MOST_CHECKED_ROWS = 8 << 20, 1024  # of a Parquet file, at once
LINE_FACTOR = 1.75  # how much longer than its body a line may be: base64 makes 1.33 of it


def materialized_lines(files: Sequence[LandingFile], max_body_bytes: int) -> pa.Table | None:
    """Lines of the text files of this machine, read here; null where they unpack into more than MATERIALIZED_BYTES."""
    parts = [part for number, file in _local_texts(files) for part in stretches(number, file.uri, file.size)]
    return at_most(made_small(read_lines(parts, max_line_bytes(max_body_bytes))), LANDING_SCHEMA)


def json_lines(
    spark: SparkSession,
    files: Sequence[LandingFile],
    max_body_bytes: int = MAX_BODY_BYTES,
    materialized: pa.Table | None = None,
) -> DataFrame:
    """One row per record: value (JSON text), source (uri:place), position (orders records as given), fault, long_body.

    fault         reason and detail where a line is too long, or the rest of a file cannot be read; null for others
    long_body     the body, decoded, of a line that is large: its text is not in `value`; null for others
    materialized  what `materialized_lines` has read of them, where it has
    """
    indexed = list(enumerate(files))
    frames = []
    if local := list(_local_texts(files)):
        frames.append(
            _local_lines(spark, local, max_body_bytes) if materialized is None else _frame(spark, materialized)
        )
    if remote := [(number, file) for number, file in indexed if is_text(file) and not file.is_local]:
        lines = spark.read.text([file.path for _, file in remote]).where("trim(value) <> ''")
        # The row's number within its Spark partition; a block's byte offset keeps blocks of one file in order.
        row = F.monotonically_increasing_id().bitwiseAND((1 << 33) - 1)  # noqa: TID251 (a file's own order)
        frames.append(_placed(lines, remote, F.col("value"), F.col("_metadata.file_block_start") + row))
    tables = [(number, file) for number, file in indexed if file.uri.endswith(PARQUET_ENDING)]
    broken = {number: why for number, file in tables if (why := _why_unreadable(spark, file))}
    if broken:
        frames.append(_frame(spark, _told([(number, files[number], why) for number, why in broken.items()])))
    if tables := [(number, file) for number, file in tables if number not in broken]:
        frames += [
            _placed(rows, tables, F.to_json(F.struct("*")), F.col("_metadata.row_index"))
            for rows in _tables(spark, [file for _, file in tables])
        ]
    return _with_faults(reduce(DataFrame.unionByName, frames))


def line_frame(spark: SparkSession, lines: pa.Table) -> DataFrame:
    """Lines at hand (large_lines.LANDING_SCHEMA) as rows of json_lines."""
    return _with_faults(_frame(spark, lines))


def _with_faults(lines: DataFrame) -> DataFrame:
    fault = F.when(F.col("reason").isNotNull(), F.struct("reason", "detail"))
    return lines.select("value", "source", "position", fault.alias("fault"), "long_body")


def _local_texts(files: Sequence[LandingFile]) -> Iterator[tuple[int, LandingFile]]:
    return ((number, file) for number, file in enumerate(files) if is_local_text(file))


def max_line_bytes(max_body_bytes: int) -> int:
    """How long a line may be."""
    return int(LINE_FACTOR * max_body_bytes)


def _local_lines(spark: SparkSession, files: list[tuple[int, LandingFile]], max_body_bytes: int) -> DataFrame:
    spark.dataSource.register(TextLines)
    listed = json.dumps([(number, file.uri, file.size) for number, file in files])
    reader = spark.read.format(SOURCE_NAME).option("files", listed)
    return reader.option("max_line_bytes", max_line_bytes(max_body_bytes)).load()


def _frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    return spark.createDataFrame(rows, from_arrow_schema(LANDING_SCHEMA))


def _told(broken: Iterable[tuple[int, LandingFile, str]]) -> pa.Table:
    rows = [
        ("", f"{file.uri}:0", number << PLACE_BITS, FILE_BROKEN, f"{file.uri}:0: {why}", None)
        for number, file, why in broken
    ]
    return pa.Table.from_pylist(
        [dict(zip(LANDING_SCHEMA.names, row, strict=True)) for row in rows], schema=LANDING_SCHEMA
    )


def _why_unreadable(spark: SparkSession, file: LandingFile) -> str | None:
    """Why Spark cannot read a Parquet file of this machine, as far as that can be told before; null where it can."""
    if not file.is_local:
        return None
    path = os.fsdecode(local_files.path_of(file.uri))
    is_seen = local_files.is_text(path) and (path.isascii() or jvm_class(spark, "java.io.File")(path).exists())
    if not is_seen or ":" in os.path.basename(path):
        return "Java or Hadoop cannot open a Parquet file of that name: rename it"
    try:
        require_plain(path)
        _read_whole(path)
    except (pa.ArrowException, OSError) as failure:
        return f"no Parquet: {failure}"
    return None


def _read_whole(path: str) -> None:
    """Read each page of a Parquet file: a damaged one says so here, where it costs its own file and not the pass."""
    with ParquetFile(path, page_checksum_verification=True) as file:
        groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
        row_bytes = max((group.total_byte_size // max(group.num_rows, 1) for group in groups), default=0)
        size = max(1, min(MOST_CHECKED_ROWS, CHECKED_BYTES // max(row_bytes, 1)))
        for _ in file.iter_batches(batch_size=size, use_threads=False):
            pass  # nothing of it is kept


def _tables(spark: SparkSession, files: Sequence[LandingFile]) -> list[DataFrame]:
    """Parquet files in as few frames as hold every column of each: left alone, Spark takes those of the first file."""
    reader, paths = spark.read, [file.path for file in files]
    if all(file.is_local for file in files):
        # Hadoop's patterns know no name with a colon.
        reader = reader.option("__globPaths__", "false")
        paths = ["file:" + os.fsdecode(local_files.path_of(file.uri)) for file in files]
    try:
        return [reader.option("mergeSchema", "true").parquet(*paths)]
    except (PySparkException, Py4JJavaError):
        if len(paths) == 1:
            raise
        return [reader.parquet(path) for path in paths]  # a column is of several types


def _placed(frame: DataFrame, files: list[tuple[int, LandingFile]], value: Column, place: Column) -> DataFrame:
    path = F.regexp_replace(F.col("_metadata.file_path"), *LOCAL_SCHEME)
    rows = frame.select(value.alias("value"), path.alias("path"), place.alias("place"))
    listed = pa.table({"path": [file.uri for _, file in files], "number": [number for number, _ in files]})
    numbers = frame.sparkSession.createDataFrame(listed, "path string, number bigint")
    unknown = F.raise_error(F.concat(F.lit("a file that was not listed: "), F.col("path"))).cast("bigint")
    no_text = F.lit(None).cast("string")
    return rows.join(F.broadcast(numbers), on="path", how="left").select(
        "value",
        F.concat_ws(":", "path", F.col("place").cast("string")).alias("source"),
        (F.shiftleft(F.coalesce("number", unknown), PLACE_BITS) + F.col("place")).alias("position"),
        no_text.alias("reason"),
        no_text.alias("detail"),
        F.lit(None).cast("binary").alias("long_body"),
    )
