"""Which landing files there are: named, in directories, by patterns; of this machine and of others."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from txmq_lib.config.secrets import has_secret
from txmq_lib.errors import InputError, NothingToLandError, UsageError
from txmq_lib.files import local_files
from txmq_lib.spark.glob_escape import pattern_of
from txmq_lib.spark.jvm import jvm_class

TEXT_ENDINGS = (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz")
PARQUET_ENDING = ".parquet"
BROKER_FILE_ENDINGS = (".json", ".json.bak")
LOCAL_SCHEME = ("^file:/+", "file:/")  # a listing writes file:///, Spark's metadata file:/


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
    return _listed(
        paths,
        lambda path: _local_files_under(path) if _is_local(spark, path) else _files_under(spark, path),
        takes_broker_files=takes_broker_files,
    )


def require_local_files(paths: list[str], *, takes_broker_files: bool = False) -> None:
    """The same errors for paths of this machine, without Spark."""
    _listed(paths, _local_files_under, takes_broker_files=takes_broker_files)


def _listed(
    paths: list[str], files_under: Callable[[str], list[LandingFile]], *, takes_broker_files: bool
) -> list[LandingFile]:
    listed: list[LandingFile] = []
    absent: list[str] = []
    for path in paths:
        files = [file for file in files_under(path) if takes_broker_files or not is_broker_file(file)]
        absent += [] if files else [path]
        listed += files
    if absent:
        endings = ", ".join((*TEXT_ENDINGS, PARQUET_ENDING))
        raise NothingToLandError(f"nothing to land at {', '.join(absent)}: give files or directories of {endings}")
    return list(dict.fromkeys(listed))


def is_broker_file(file: LandingFile) -> bool:
    """True for a broker's own consumerOffset.json, which is no JSON lines file."""
    return file.uri.endswith(BROKER_FILE_ENDINGS)


def is_local_text(file: LandingFile) -> bool:
    """Whether it holds JSON lines and lies on a file system of this machine."""
    return is_text(file) and file.is_local


def is_text(file: LandingFile) -> bool:
    return file.uri.endswith(TEXT_ENDINGS)


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
