"""Whether the newest commits of a table on this machine are whole: what a power cut may have left of them. Reads only.

An entry that is empty reads as a commit of nothing, and rows are gone without an error (ClickHouse issue 111738).
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from txmq_lib.delta.durable import LOG
from txmq_lib.delta.file_check import DIFFERS, fault_of, is_as_summed
from txmq_lib.delta.log_entries import CHECKPOINT_FILE, COMMIT_FILE
from txmq_lib.files.local_files import LOCAL_SCHEME, has_scheme

# What writers say of how many files a commit adds, however they spell it: deltalake, Spark, MERGE, DELETE, OPTIMIZE.
_ADDED = ("numtargetfilesadded", "numaddedfiles", "numfilesadded", "numfiles")
# And how many it takes out: with fewer, rows stand beside what took their place, since Spark adds first.
_REMOVED = ("numtargetfilesremoved", "numremovedfiles", "numfilesremoved")
_ROWS = "numoutputrows"
# Operations that always write the metadata of their table, even where it stays as it was, and those of its protocol.
_OF_METADATA = frozenset({
    *("ADD COLUMN", "ADD COLUMNS", "CHANGE COLUMN", "CHANGE COLUMNS", "REPLACE COLUMNS", "RENAME COLUMN"),
    *("DROP COLUMNS", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "ADD CONSTRAINT", "DROP CONSTRAINT"),
    *("UPDATE TABLE METADATA", "UPDATE FIELD METADATA"),
})  # fmt: skip
_OF_PROTOCOL = frozenset({"UPGRADE PROTOCOL", "ADD FEATURE"})
_BY_DELTALAKE, _VACUUM = "delta-rs", "VACUUM"  # of which there is a START and an END


@dataclass(frozen=True)
class Entry:
    """What a log entry says, as far as it is there.

    fault      why it cannot be believed; empty: it can
    tag        the first line of its userMetadata; `note` is the rest
    files      path and size of each file of this machine that it adds; size None: of the change feed
    removed    path of each file it takes out, and its size, where it says so
    is_vacuum  whether files that it does not name were removed before it
    """

    fault: str = ""
    tag: str = ""
    note: str = ""
    files: tuple[tuple[str, int | None], ...] = ()
    removed: Mapping[str, int | None] = field(default_factory=dict)
    is_vacuum: bool = False


class TableCheck:
    """The log of one table, entry by entry, and the files it names."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._entries: dict[int, Entry] = {}

    @property
    def log(self) -> Path:
        """Where its entries are."""
        return self.root / LOG

    @cached_property
    def versions(self) -> list[int]:
        """Versions whose entries are there, oldest first."""
        return sorted(int(found[1]) for found in map(COMMIT_FILE.fullmatch, self._names) if found)

    @property
    def newest(self) -> int:
        """The newest version; -1 for no table."""
        return self.versions[-1] if self.versions else -1

    @cached_property
    def checkpoints(self) -> list[int]:
        """Versions of which a checkpoint is there, oldest first."""
        return sorted({int(found[1]) for found in map(CHECKPOINT_FILE.fullmatch, self._names) if found})

    def files_of(self, version: int) -> list[Path]:
        """All that the log holds of a version."""
        return [self.log / name for name in self._names if name.lstrip(".").startswith(f"{version:020d}.")]

    def entry(self, version: int) -> Entry:
        """The entry of a version."""
        if version not in self._entries:
            file = self.log / f"{version:020d}.json"
            try:
                entry = _entry_of(file.read_text(encoding="utf-8", errors="replace"), is_first=version == 0)
                differs = not entry.fault and not is_as_summed(file, is_streamed=True)
                self._entries[version] = replace(entry, fault=DIFFERS) if differs else entry
            except FileNotFoundError:
                self._entries[version] = Entry(fault="is not there")
        return self._entries[version]

    def faults(self, unsure: range, named: Iterable[int], *, is_read: bool = True) -> Iterator[tuple[int, str]]:
        """Versions that are `unsure`, or `named`, whose commit cannot be believed, each with why.

        Their data files have to be there in their size; those of the former are read whole where `is_read`. What
        `unsure` ends before is to be set aside: it is passed over, and files that it has replaced count again.
        """
        oldest = self.versions[0] if self.versions else 0
        for version in {*unsure, *(version for version in named if version < unsure.stop)}:
            if version < oldest:
                continue  # upkeep has removed its entry
            entry = self.entry(version)
            if entry.fault:
                yield version, f"its log entry {entry.fault}"
            elif fault := self._file_fault(version, unsure.stop, is_read=is_read and version in unsure):
                yield version, fault

    def checkpoint_fault(self, behind: int) -> str:
        """Why the newest checkpoint, where it is of `behind` or later, cannot be read; empty where it can."""
        if not self.checkpoints or self.checkpoints[-1] < behind:
            return ""
        parts = [file for file in self.files_of(self.checkpoints[-1]) if CHECKPOINT_FILE.fullmatch(file.name)]
        return next((fault for file in parts if (fault := fault_of(file, None))), "")

    def last_checkpoint_fault(self) -> str:
        """Why the file that names the newest checkpoint cannot be believed; empty where it can, or is not there."""
        try:
            named = json.loads((self.log / "_last_checkpoint").read_text(encoding="utf-8"))
            return "" if named["version"] in self.checkpoints else "names a checkpoint that is not there"
        except FileNotFoundError:
            return ""
        except (ValueError, KeyError, TypeError):
            return "is cut off"

    @cached_property
    def _names(self) -> list[str]:
        return os.listdir(self.log) if self.log.is_dir() else []

    def _file_fault(self, version: int, end: int, *, is_read: bool) -> str:
        later = [self.entry(each) for each in range(version + 1, end)]
        gone = {path for entry in later for path in entry.removed}
        is_vacuumed = any(entry.is_vacuum for entry in later)
        for path, size in self.entry(version).files:
            # No entry takes files of the change feed out: VACUUM removes them by their age.
            is_kept = path not in gone and (size is not None or not is_vacuumed or (self.root / path).exists())
            if is_kept and (fault := fault_of(self.root / path, size, is_read=is_read)):
                return fault
        return ""


def _entry_of(text: str, *, is_first: bool) -> Entry:
    if not text.strip("\0 \n"):
        return Entry(fault="is empty")
    info: dict[str, Any] = {}
    actions: dict[str, list[dict[str, Any]]] = {"add": [], "cdc": [], "remove": [], "txn": []}
    kinds = set[str]()
    for line in filter(None, text.split("\n")):
        try:
            ((kind, action),) = json.loads(line).items()
        except (ValueError, AttributeError):
            return Entry("is cut off", *_tag_of(info))
        kinds.add(kind)
        if kind == "commitInfo":
            info = action or {}
        elif kind in actions:
            actions[kind].append(action)
    tag, note = _tag_of(info)
    adds, cdc = actions["add"], actions["cdc"]
    is_by_deltalake = str(info.get("engineInfo")).startswith(_BY_DELTALAKE)
    lacks_txn = is_by_deltalake and tag.startswith("txmq ") and not actions["txn"]
    metrics = {name.replace("_", "").lower(): said for name, said in (info.get("operationMetrics") or {}).items()}
    lacks_removed = len(actions["remove"]) < next((_number(metrics[key]) for key in _REMOVED if key in metrics), 0)
    operation = str(info.get("operation"))
    lacks_action = lacks_txn or lacks_removed or _lacks_definition(operation, kinds, is_first=is_first)
    is_cut = lacks_action or _lacks_files(metrics, adds, len(adds) + len(cdc))
    files = [(_path_of(add), int(add["size"])) for add in adds] + [(_path_of(one), None) for one in cdc]
    return Entry(
        "is cut off" if is_cut else "",
        tag,
        note,
        tuple((path, size) for path, size in files if not has_scheme(path)),
        {path: one.get("size") for one in actions["remove"] if not has_scheme(path := _path_of(one))},
        operation.startswith(_VACUUM),
    )


def _path_of(action: Mapping[str, Any]) -> str:
    """The path of a file as its table has it: below it, or anywhere, as in a shallow clone."""
    return LOCAL_SCHEME.sub("/", unquote(action["path"]))


def _lacks_files(metrics: Mapping[str, Any], adds: Sequence[Mapping[str, Any]], files: int) -> bool:
    """Whether a commit names fewer files than its writer says.

    Spark counts a file without rows, too, which its first task leaves where others have some and Delta does not add
    (TransactionalWrite.scala). So where it says how many rows there are, these tell.
    """
    missing = next((_number(metrics[key]) for key in _ADDED if key in metrics), 0) - files
    if missing <= 0 or _ROWS not in metrics:
        return missing > 0
    rows = [json.loads(add.get("stats") or "{}").get("numRecords") for add in adds]
    return missing > 1 or (None not in rows and sum(rows) < _number(metrics[_ROWS]))


def _lacks_definition(operation: str, kinds: Collection[str], *, is_first: bool) -> bool:
    """Whether a commit lacks the columns and properties of its table, or what it takes to read it.

    A table begins with both, whatever made it. Who changes the former may change the latter too, and does not say so.
    """
    lacks_metadata = (is_first or operation in _OF_METADATA) and "metaData" not in kinds
    return lacks_metadata or ((is_first or operation in _OF_PROTOCOL) and "protocol" not in kinds)


def _number(said: object) -> int:
    """What a writer says is so many; 0 where that is no number."""
    text = str(said)
    return int(text) if text.isdecimal() else 0


def _tag_of(info: dict[str, Any]) -> tuple[str, str]:
    tag, _, note = str(info.get("userMetadata", "")).partition("\n")
    return tag, note
