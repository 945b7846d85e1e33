"""The actions of a Delta log that txmq reads: one entry as a commit, a file, a table's metadata."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import unquote

from txmq_lib.delta.file_statistics import Ranges, bounds_of, may_hold

# The first of a file's statistics; decoding them all takes longer than the rest of an entry.
NUM_RECORDS = re.compile(r'"numRecords"\s*:\s*(\d+)')
COLUMN_MAPPING = "delta.columnMapping.mode"


@dataclass(frozen=True)
class DataFile:
    """A file of a table: path below it, bytes, rows (0: not told), partition values, statistics as JSON.

    Where it is not `is_plain` only Delta can read it.
    """

    path: str
    size: int
    rows: int
    partition: Mapping[str, str | None]
    is_plain: bool
    statistics: str = ""

    def may_hold(self, column: str, ranges: Ranges) -> bool:
        """Whether a value of `column`, a number or a moment in epoch ms, may be in one of `ranges`."""
        if column not in self._bounds:
            return True
        bounds = self._bounds[column]
        return bounds is not None and may_hold(*bounds, ranges)

    @cached_property
    def _bounds(self) -> Mapping[str, tuple[int, int] | None]:
        # Most files are never asked.
        return bounds_of(self.statistics)


@dataclass(frozen=True)
class Metadata:
    """A table's schema, in JSON as Spark writes it, and its properties."""

    schema: str = ""
    configuration: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_mapped(self) -> bool:
        """Whether its files name columns otherwise than the table does."""
        return self.configuration.get(COLUMN_MAPPING, "none") != "none"


@dataclass(frozen=True)
class Commit:
    """What the log entry of one version says.

    inserted  files whose rows it inserted; None where it did anything else to rows
    metadata  the table's from here on; None where it stays
    """

    info: dict[str, Any]
    txns: dict[str, int]
    added: tuple[DataFile, ...]
    removed: tuple[str, ...]
    inserted: tuple[DataFile, ...] | None
    metadata: Metadata | None


def commit_of(text: str) -> Commit:
    """An entry, from its lines of JSON."""
    info: dict[str, Any] = {}
    txns: dict[str, int] = {}
    added: list[DataFile] = []
    removed: list[str] = []
    inserted: list[DataFile] = []
    metadata: Metadata | None = None
    is_insert = True
    # Not splitlines: statistics have texts in them, with line ends of their own such as U+2028.
    for line in filter(None, text.split("\n")):
        for kind, action in json.loads(line).items():
            if kind == "commitInfo":
                info = action
            elif kind == "txn":
                txns[action["appId"]] = int(action["version"])
            elif kind == "add":
                added.append(file_of(action))
                inserted += [added[-1]] if action["dataChange"] else []
            elif kind == "remove":
                removed.append(action["path"])
                is_insert = is_insert and not action["dataChange"]
            elif kind == "cdc":
                is_insert = False
            elif kind == "metaData":
                metadata = metadata_of(action)
    return Commit(info, txns, tuple(added), tuple(removed), tuple(inserted) if is_insert else None, metadata)


def metadata_of(action: Mapping[str, Any]) -> Metadata:
    """A table's metadata from its action."""
    return Metadata(str(action.get("schemaString", "")), dict(action.get("configuration") or {}))


def file_of(action: Mapping[str, Any]) -> DataFile:
    """A file from the action that adds it."""
    path = str(action["path"])
    statistics = str(action.get("stats") or "")
    return DataFile(
        path=path,
        size=int(action["size"]),
        rows=int(matched[1]) if (matched := NUM_RECORDS.search(statistics)) else 0,
        partition=dict(action.get("partitionValues") or {}),
        is_plain=lies_below(path) and not action.get("deletionVector"),
        statistics=statistics,
    )


def lies_below(path: str) -> bool:
    """Whether a path of a log is one below its table: a copy of the file may have it below another directory."""
    decoded = unquote(path)
    return not decoded.startswith("/") and ":" not in path.split("/")[0] and ".." not in decoded.split("/")


def real_path(file: DataFile) -> str:
    """The path of a plain file below its table, as file systems have it."""
    return unquote(file.path)
