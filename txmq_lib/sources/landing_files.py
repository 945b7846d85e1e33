"""Landing files into one JSON text per row, with where it came from and its place. Knows paths, not meanings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from txmq_lib.errors import NothingToLandError, UsageError
from txmq_lib.jvm import jvm_class
from txmq_lib.patterns import pattern_of
from txmq_lib.secrets import has_secret

TEXT_ENDINGS = (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz")
PARQUET_ENDING = ".parquet"
BROKER_FILE_ENDINGS = (".json", ".json.bak")
LOCAL_SCHEME = ("^file:/+", "file:/")  # a listing writes file:///, Spark's metadata file:/
FILE_PLACES = 40  # bits of a position left for the place within one file


@dataclass(frozen=True)
class LandingFile:
    """One input file: its URI, and size and modification time by which a changed file is noticed."""

    uri: str
    path: str  # the same for Spark's readers, which take no URI but a pattern
    size: int
    modified_ms: int


def list_files(spark: SparkSession, paths: list[str], *, takes_broker_files: bool = False) -> list[LandingFile]:
    """The files behind `paths`, directories opened, each once, in the order given.

    A broker's own offset table is taken where `takes_broker_files`. NothingToLandError names every path without any;
    UsageError where one carries a password, for every landing records its paths.
    """
    if any(has_secret(path) for path in paths):
        raise UsageError("a path must not carry a password: give credentials as Spark's settings have them")
    found: list[LandingFile] = []
    absent: list[str] = []
    for path in paths:
        files = [file for file in _files_under(spark, path) if takes_broker_files or not is_broker_file(file)]
        absent += [] if files else [path]
        found += files
    if absent:
        endings = ", ".join((*TEXT_ENDINGS, PARQUET_ENDING))
        raise NothingToLandError(f"nothing to land at {', '.join(absent)}: give files or directories of {endings}")
    return list(dict.fromkeys(found))


def is_broker_file(file: LandingFile) -> bool:
    """True for a broker's own consumerOffset.json, which is no JSON lines file."""
    return file.uri.endswith(BROKER_FILE_ENDINGS)


def json_lines(spark: SparkSession, files: list[LandingFile]) -> DataFrame:
    """One row per record: value (JSON text), source (uri:place), position (orders records as given)."""
    indexed = list(enumerate(files))
    texts = [(index, file) for index, file in indexed if file.uri.endswith(TEXT_ENDINGS)]
    tables = [(index, file) for index, file in indexed if file.uri.endswith(PARQUET_ENDING)]
    frames = []
    if texts:
        lines = spark.read.text([file.path for _, file in texts]).where("trim(value) <> ''")
        # The row's number within its Spark partition; a block's byte offset keeps blocks of one file in order.
        row = F.monotonically_increasing_id().bitwiseAND((1 << 33) - 1)  # noqa: TID251 (a file's own order)
        frames.append(_placed(lines, texts, F.col("value"), F.col("_metadata.file_block_start") + row))
    if tables:
        frames += [
            _placed(rows, tables, F.to_json(F.struct("*")), F.col("_metadata.row_index"))
            for rows in _tables(spark, [file.path for _, file in tables])
        ]
    result = frames[0]
    for frame in frames[1:]:
        result = result.unionByName(frame)
    return result


def _tables(spark: SparkSession, paths: list[str]) -> list[DataFrame]:
    """Parquet files in as few frames as hold every column of each: left alone, Spark takes those of the first file."""
    try:
        return [spark.read.option("mergeSchema", "true").parquet(*paths)]
    except (PySparkException, Py4JJavaError):
        if len(paths) == 1:
            raise
        return [spark.read.parquet(path) for path in paths]  # a column is of several types


def _placed(frame: DataFrame, files: list[tuple[int, LandingFile]], value: Column, place: Column) -> DataFrame:
    path = F.regexp_replace(F.col("_metadata.file_path"), *LOCAL_SCHEME)
    unknown = F.raise_error(F.concat(F.lit("a file that was not listed: "), path)).cast("int")
    index = F.coalesce(*[F.when(path == file.uri, F.lit(number)) for number, file in files], unknown).cast("bigint")
    return frame.select(
        value.alias("value"),
        F.concat_ws(":", path, place.cast("string")).alias("source"),
        (F.shiftleft(index, FILE_PLACES) + place).alias("position"),
    )


def _files_under(spark: SparkSession, path: str) -> list[LandingFile]:
    session: Any = spark._jsparkSession
    root = jvm_class(spark, "org.apache.hadoop.fs.Path")(path)
    filesystem = root.getFileSystem(session.sessionState().newHadoopConf())
    matches = [filesystem.getFileStatus(root)] if filesystem.exists(root) else filesystem.globStatus(root) or []
    files: list[LandingFile] = []
    for status in matches:
        entries = [status] if status.isFile() else list(filesystem.listStatus(status.getPath()))
        files += [
            _landing_file(
                entry.getPath().toUri().toString(),
                entry.getPath().toString(),
                entry.getLen(),
                entry.getModificationTime(),
            )
            for entry in entries
            if entry.isFile() and _is_readable(entry.getPath().getName(), is_named=status.isFile())
        ]
    return sorted(files, key=lambda file: file.uri) if len(matches) != 1 or not matches[0].isFile() else files


def _landing_file(uri: str, path: str, size: int, modified_ms: int) -> LandingFile:
    return LandingFile(re.sub(*LOCAL_SCHEME, uri), pattern_of(path), size, modified_ms)


def _is_readable(name: str, *, is_named: bool) -> bool:
    if name.startswith((".", "_")):
        return False
    return name.endswith((*TEXT_ENDINGS, PARQUET_ENDING)) or (is_named and name.endswith(BROKER_FILE_ENDINGS))
