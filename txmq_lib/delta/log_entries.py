"""The entries of a table's Delta log, read once each: what Delta's own snapshot would run a Spark job to tell."""

from __future__ import annotations

import json
import os
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyspark.sql import SparkSession

from txmq_lib.spark.jvm import jvm_class

COMMIT_FILE = re.compile(r"(\d{20})\.json")
CHECKPOINT_FILE = re.compile(r"(\d{20})\.checkpoint\..*parquet")
# Of how many versions it is remembered which files they have, and of how many files at most.
REMEMBERED_VERSIONS, FEW_FILES = 64, 32
REMEMBERED_COMMITS = 200
# The first of a file's statistics; decoding them all takes longer than the rest of an entry.
NUM_RECORDS = re.compile(r'"numRecords"\s*:\s*(\d+)')
COLUMN_MAPPING = "delta.columnMapping.mode"


@dataclass(frozen=True)
class DataFile:
    """A file of a table: path below it, bytes, rows (0: not told), partition values.

    Where it is not `is_plain` only Delta can read it.
    """

    path: str
    size: int
    rows: int
    partition: Mapping[str, str | None]
    is_plain: bool


@dataclass(frozen=True)
class Commit:
    """What the log entry of one version says.

    inserted  files whose rows it inserted; None where it did anything else to rows
    """

    info: dict[str, Any]
    txns: dict[str, int]
    added: tuple[DataFile, ...]
    removed: tuple[str, ...]
    inserted: tuple[DataFile, ...] | None
    configuration: dict[str, str] | None


@dataclass
class _Known:
    """One table as far as its entries were followed."""

    version: int = -1
    txns: dict[str, int] = field(default_factory=dict)
    files: dict[str, DataFile] = field(default_factory=dict)
    is_mapped: bool = False
    # None: many files, or such that only Delta can read.
    few_files: OrderedDict[int, tuple[DataFile, ...] | None] = field(default_factory=OrderedDict)

    def follow(self, version: int, commit: Commit) -> None:
        self.version = version
        self.txns.update(commit.txns)
        for path in commit.removed:
            self.files.pop(path, None)
        self.files.update((file.path, file) for file in commit.added)
        if commit.configuration is not None:
            self.is_mapped = commit.configuration.get(COLUMN_MAPPING, "none") != "none"
        is_readable = len(self.files) <= FEW_FILES and not self.is_mapped
        files = tuple(self.files.values()) if is_readable else ()
        self.few_files[version] = files if is_readable and all(file.is_plain for file in files) else None
        while len(self.few_files) > REMEMBERED_VERSIONS:
            self.few_files.popitem(last=False)


class LogEntries:
    """The log of one table, as files. What was read of it is kept: an entry never changes."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark  # asked for logs that are not on this machine only
        self._path = path
        local = on_disk(path)
        # Through the JVM each file costs milliseconds.
        self._local = Path(local, "_delta_log") if local is not None else None
        self._commits: OrderedDict[int, Commit] = OrderedDict()
        self._known: _Known | None = _Known()

    def newest(self) -> int:
        """The table's newest version; -1 for no table."""
        return max(self.versions(), default=-1)

    def versions(self) -> list[int]:
        """Versions whose entries the log still holds."""
        return [int(found[1]) for found in map(COMMIT_FILE.fullmatch, self._names()) if found]

    def checkpoints(self) -> list[int]:
        """Versions of which the log holds a checkpoint."""
        return [int(found[1]) for found in map(CHECKPOINT_FILE.fullmatch, self._names()) if found]

    def commit(self, version: int) -> Commit | None:
        """What the entry of a version says, or None where the log no longer holds it."""
        if version not in self._commits:
            text = self._text(version)
            if text is None:
                return None
            self._commits[version] = _commit_of(text)
            while len(self._commits) > REMEMBERED_COMMITS:
                self._commits.popitem(last=False)
        return self._commits[version]

    def txns(self, newest: int) -> dict[str, int] | None:
        """The highest txnVersion of every app id; None where the log no longer holds every entry."""
        known = self._followed(newest)
        return None if known is None else known.txns

    def few_files(self, version: int, newest: int) -> tuple[DataFile, ...] | None:
        """The files a version has, where they are few and plain; else, and where nothing tells, None."""
        known = self._followed(newest)
        return None if known is None else known.few_files.get(version)

    def _followed(self, newest: int) -> _Known | None:
        if self._known is not None and self._known.version > newest:  # another table stands in its place
            self._known = _Known()
            self._commits.clear()
        while self._known is not None and self._known.version < newest:
            commit = self.commit(self._known.version + 1)
            if commit is None:
                # Entries were removed, as the table's retention says: from here on Delta has to tell.
                self._known = None
            else:
                self._known.follow(self._known.version + 1, commit)
        return self._known

    def _names(self) -> list[str]:
        if self._local is not None:
            return os.listdir(self._local) if self._local.is_dir() else []
        filesystem, folder = self._folder()
        if not filesystem.exists(folder):
            return []
        return [status.getPath().getName() for status in filesystem.listStatus(folder)]

    def _text(self, version: int) -> str | None:
        name = f"{version:020d}.json"
        if self._local is not None:
            try:
                return (self._local / name).read_text(encoding="utf-8")
            except FileNotFoundError:
                return None
        filesystem, folder = self._folder()
        path = jvm_class(self._spark, "org.apache.hadoop.fs.Path")(folder, name)
        if not filesystem.exists(path):
            return None
        stream = filesystem.open(path)
        try:
            return str(jvm_class(self._spark, "org.apache.commons.io.IOUtils").toString(stream, "UTF-8"))
        finally:
            stream.close()

    def _folder(self) -> tuple[Any, Any]:
        folder = jvm_class(self._spark, "org.apache.hadoop.fs.Path")(f"{self._path}/_delta_log")
        return folder.getFileSystem(self._spark._jsparkSession.sessionState().newHadoopConf()), folder


def _commit_of(text: str) -> Commit:
    info: dict[str, Any] = {}
    txns: dict[str, int] = {}
    added: list[DataFile] = []
    removed: list[str] = []
    inserted: list[DataFile] = []
    configuration: dict[str, str] | None = None
    is_insert = True
    # Not splitlines: statistics have texts in them, with line ends of their own such as U+2028.
    for line in filter(None, text.split("\n")):
        for kind, action in json.loads(line).items():
            if kind == "commitInfo":
                info = action
            elif kind == "txn":
                txns[action["appId"]] = int(action["version"])
            elif kind == "add":
                added.append(_file_of(action))
                inserted += [added[-1]] if action["dataChange"] else []
            elif kind == "remove":
                removed.append(action["path"])
                is_insert = is_insert and not action["dataChange"]
            elif kind == "cdc":
                is_insert = False
            elif kind == "metaData":
                configuration = dict(action.get("configuration", {}))
    return Commit(info, txns, tuple(added), tuple(removed), tuple(inserted) if is_insert else None, configuration)


def _file_of(action: Mapping[str, Any]) -> DataFile:
    path = str(action["path"])
    is_below = not path.startswith("/") and ":" not in path.split("/")[0]
    return DataFile(
        path=path,
        size=int(action["size"]),
        rows=int(matched[1]) if (matched := NUM_RECORDS.search(action.get("stats") or "")) else 0,
        partition=dict(action.get("partitionValues") or {}),
        is_plain=is_below and not action.get("deletionVector"),
    )


def on_disk(path: str) -> str | None:
    """A path on this machine's disk without its scheme; None for any other place."""
    bare = path.removeprefix("file:")
    return bare if ":" not in bare else None


def real_path(file: DataFile) -> str:
    """The path of a plain file below its table, as file systems have it."""
    return unquote(file.path)
