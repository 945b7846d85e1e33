"""Landing files into one JSON text per row, with where it came from and its place. Knows paths, not meanings."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyarrow.parquet import ParquetFile
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from txmq_lib.config.secrets import has_secret
from txmq_lib.errors import InputError, NothingToLandError, UsageError
from txmq_lib.files import local_files
from txmq_lib.files.line_reader import PLACE_BITS, read_lines
from txmq_lib.files.materialized import at_most
from txmq_lib.files.plain_file import require_plain
from txmq_lib.names import FILE_BROKEN
from txmq_lib.pipeline.land.files.large_lines import LANDING_SCHEMA, made_small
from txmq_lib.pipeline.land.files.lines_source import SOURCE_NAME, TextLines, stretches
from txmq_lib.rocketmq.store.message_format import MAX_BODY_BYTES
from txmq_lib.spark.glob_escape import pattern_of
from txmq_lib.spark.jvm import jvm_class

TEXT_ENDINGS = (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz")
PARQUET_ENDING = ".parquet"
BROKER_FILE_ENDINGS = (".json", ".json.bak")
LOCAL_SCHEME = ("^file:/+", "file:/")  # a listing writes file:///, Spark's metadata file:/
CHECKED_BYTES, MOST_CHECKED_ROWS = 8 << 20, 1024  # of a Parquet file, at once
LINE_FACTOR = 1.75  # how much longer than its body a line may be: base64 makes 1.33 of it


@dataclass(frozen=True)
class LandingFile:
    """One input file: its URI, and size and modification time by which a changed file is noticed."""

    uri: str
    path: str  # the same for Spark's readers, which take no URI but a pattern
    size: int
    modified_ms: int

    @property
    def is_local(self) -> bool:
        """Whether it lies on a file system of this machine."""
        return self.uri.startswith("file:")


def list_files(spark: SparkSession, paths: list[str], *, takes_broker_files: bool = False) -> list[LandingFile]:
    """The files behind `paths`, directories opened, each once, in the order given.

    A broker's own offset table is taken where `takes_broker_files`. NothingToLandError names every path without any;
    UsageError where one carries a password, for every landing records its paths; InputError where one cannot be listed.
    """
    if any(has_secret(path) for path in paths):
        raise UsageError("a path must not carry a password: give credentials as Spark's settings have them")
    listed: list[LandingFile] = []
    absent: list[str] = []
    for path in paths:
        under = _local_files_under(path) if _is_local(spark, path) else _files_under(spark, path)
        files = [file for file in under if takes_broker_files or not is_broker_file(file)]
        absent += [] if files else [path]
        listed += files
    if absent:
        endings = ", ".join((*TEXT_ENDINGS, PARQUET_ENDING))
        raise NothingToLandError(f"nothing to land at {', '.join(absent)}: give files or directories of {endings}")
    return list(dict.fromkeys(listed))


def is_broker_file(file: LandingFile) -> bool:
    """True for a broker's own consumerOffset.json, which is no JSON lines file."""
    return file.uri.endswith(BROKER_FILE_ENDINGS)


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
    if remote := [(number, file) for number, file in indexed if _is_text(file) and not file.is_local]:
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


def is_local_text(file: LandingFile) -> bool:
    """Whether it holds JSON lines and lies on a file system of this machine."""
    return _is_text(file) and file.is_local


def _is_text(file: LandingFile) -> bool:
    return file.uri.endswith(TEXT_ENDINGS)


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


def _is_local(spark: SparkSession, path: str) -> bool:
    if local_files.LOCAL_SCHEME.match(path):
        return True
    return not local_files.has_scheme(path) and str(_hadoop(spark).get("fs.defaultFS")).startswith("file:")


def _hadoop(spark: SparkSession) -> Any:  # noqa: ANN401 - py4j has no types
    session: Any = spark._jsparkSession
    return session.sessionState().newHadoopConf()


def _local_files_under(path: str) -> list[LandingFile]:
    try:
        matches = local_files.found(path)
        files = [file for match in matches for file in _local_entries(match)]
    except OSError as failure:
        raise InputError(
            f"{failure.filename}: {failure.strerror}; it cannot be listed, so nothing was landed"
        ) from failure
    return sorted(files, key=lambda file: file.uri)


def _local_entries(place: str) -> Iterator[LandingFile]:
    is_named = not os.path.isdir(place)
    # A link, a pipe or a device is no file to read, and none to pass over without a word: reading it tells.
    for path in (
        [place] if is_named else [entry.path for entry in os.scandir(place) if not entry.is_dir(follow_symlinks=False)]
    ):
        if _is_readable(os.path.basename(path), is_named=is_named):
            status = os.lstat(path)
            modified_ms = status.st_mtime_ns // 1_000_000
            size = status.st_size if stat.S_ISREG(status.st_mode) else 1  # what is empty is not even opened
            yield LandingFile(local_files.uri_of(path), pattern_of(path), size, modified_ms)


def _files_under(spark: SparkSession, path: str) -> list[LandingFile]:
    root = jvm_class(spark, "org.apache.hadoop.fs.Path")(path)
    filesystem = root.getFileSystem(_hadoop(spark))
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
