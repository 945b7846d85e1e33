"""What is damaged in a warehouse on this machine, and what has to be set aside with it. Looks only; starts no JVM.

Commits reach the disk in the order of their versions, all before a row of the pass log relies on them (durable.py). So
what a power cut damages are the newest of a table, and of plans that are open. Set aside with all that was built on
them they are as if never made, and the plans are carried on. Where a committed pass is undone, the disk has lost what
it was given to keep.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from txmq_lib.config.table_specs import RUN_TABLE, table_specs
from txmq_lib.delta.entry_check import Entry, TableCheck
from txmq_lib.files.boot import this_boot
from txmq_lib.files.local_files import has_size
from txmq_lib.names import JOB_TO_BROKER
from txmq_lib.passes.pass_log import ABANDONED, BOOT, COMMITTED, INPUT_VERSIONS, OWN_VERSIONS, STARTED, pass_tag

COPY = "put back a copy of the warehouse"
ROWS_LOOKED_BACK = 50
# A run is on the disk before the next one begins, unless several go on at once: a row, or five commits that tidy up.
RUNS_LOOKED_BACK = 8
_TAG = re.compile(r"txmq (\S+) pass (\d+) (.+)")
_NEVER = 1 << 62


@dataclass(frozen=True)
class Mending:
    """What is to be done; nothing where all is whole.

    damaged      what cannot be believed, a line each
    cuts         by table the version from which on its commits are set aside
    checkpoints  checkpoints that cannot be read, and files that name none: set aside, the log's entries tell the same
    undone       committed passes that the next run computes again
    refusal      why it cannot be mended; empty: it can
    """

    damaged: tuple[str, ...] = ()
    cuts: Mapping[str, int] = field(default_factory=dict)
    checkpoints: tuple[Path, ...] = ()
    undone: tuple[str, ...] = ()
    refusal: str = ""

    @property
    def is_of_open_plans(self) -> bool:
        """Whether nothing that was committed is undone: then the next start does it by itself."""
        return not (self.undone or self.refusal)

    def lines(self) -> Iterator[str]:
        """What is damaged and what is set aside, for people."""
        yield from self.damaged
        for table, version in self.cuts.items():
            yield f"{table}: commits from version {version} on are set aside"
        for one in self.undone:
            yield f"{one} was committed: it is open again, and the next run carries it on from its plan"


def examined(place: Path) -> Mending:
    """What is damaged in a warehouse, and what is to be done about it. Only the newest commits are looked at."""
    return _Examination({name: TableCheck(place / name) for name in (*table_specs(), RUN_TABLE)}).mending()


class _Examination:
    def __init__(self, tables: Mapping[str, TableCheck]) -> None:
        self._tables = tables
        self._log = tables["pass"]
        self._damaged: list[str] = []
        self._cuts: dict[str, int] = {}
        self._undone: list[str] = []
        self._refusal = ""

    def mending(self) -> Mending:
        """All that is to be done."""
        checkpoints: list[Path] = []
        for name, table in self._tables.items():
            self._look(name)
            checkpoints += self._damaged_checkpoints(name, table, self._durable[name])
        while self._spread() or any([self._look(name) for name in list(self._cuts)]):
            pass
        for name, version in list(self._cuts.items()):
            self._require_kept_files(name, version)
        return Mending(tuple(self._damaged), self._cuts, tuple(checkpoints), tuple(self._undone), self._refusal)

    def _look(self, name: str) -> bool:
        """Cut a table at its first fault, if it has one: below what is cut already files count that it has replaced."""
        # Reading files takes its time, and what was written since the machine started is as it was written.
        is_read = name == "pass" or not self._is_of_this_boot
        table, cut = self._tables[name], self._cuts.get(name)
        unsure = range(self._durable[name] + 1, table.newest + 1 if cut is None else cut)
        # Below a cut no committed pass is undone for what was replaced since.
        named = self._named.get(name, set()) if cut is None else set[int]()
        first = min(table.faults(unsure, named, is_read=is_read), default=None)
        if first is None:
            return False
        self._damaged.append(f"{name} version {first[0]}: {first[1]}")
        return self._cut(name, first[0])

    def _cut(self, table: str, version: int) -> bool:
        if version >= self._cuts.get(table, _NEVER):
            return False
        self._cuts[table] = version
        return True

    def _spread(self) -> bool:
        """Follow what was cut to what was built on it; whether there was more to cut."""
        moved = False
        for version, job, number, state, entry in self._passes:
            if state == COMMITTED and self._wrote_what_goes(job, number, json.loads(entry.note)):
                moved |= self._undo(version)
        for version, job, number, state, entry in self._passes:
            if state != STARTED:
                continue
            pins = self._pins(job, number, entry)
            if any(pins.get(name, -1) >= cut for name, cut in self._cuts.items()):
                moved |= self._undo(version)
            if version >= self._cuts.get("pass", _NEVER):
                moved |= self._drop_steps(job, number, pins)
        return moved

    def _pins(self, job: str, number: int, plan: Entry) -> dict[str, int]:
        """The versions that a plan reads; plans of older versions tell it in their committed row."""
        committed = next((row[4] for row in self._passes if row[1:4] == (job, number, COMMITTED)), None)
        notes = [json.loads(entry.note) for entry in (plan, committed) if entry is not None and entry.note]
        found = next((dict(note[INPUT_VERSIONS]) for note in notes if INPUT_VERSIONS in note), None)
        if found is None and self._version_of(job, number, ABANDONED) is None and self._cuts.keys() - {"pass"}:
            self._refusal = f"{job} pass {number} of an older version is open; {COPY}"
        return found or {}

    def _wrote_what_goes(self, job: str, number: int, note: Mapping[str, Any]) -> bool:
        """Whether a committed pass has written a commit that is set aside; upkeep notes none of its own."""
        own, begins = note.get(OWN_VERSIONS, {}), pass_tag(job, number, "")
        return any(
            any(version >= cut for version in own.get(name, ()))
            or any(
                self._tables[name].entry(version).tag.startswith(begins)
                for version in range(cut, self._tables[name].newest + 1)
            )
            for name, cut in self._cuts.items()
            if name != "pass"
        )

    def _undo(self, version: int) -> bool:
        """Set aside the rows of the pass log from `version` on."""
        if version >= self._cuts.get("pass", _NEVER):
            return False
        for at, job, number, state, _ in self._passes:
            if state == COMMITTED and version <= at < self._cuts.get("pass", _NEVER):
                self._undone.append(f"{job} pass {number}")
                if job == JOB_TO_BROKER:
                    self._refusal = f"what was sent to a broker would be forgotten, and sent again; {COPY}"
        return self._cut("pass", version)

    def _drop_steps(self, job: str, number: int, pins: Mapping[str, int]) -> bool:
        """A plan that goes takes with it all that it has written."""
        moved, begins = False, pass_tag(job, number, "")
        for name, table in self._tables.items():
            if name != "pass":
                for version in range(pins.get(name, -1) + 1, table.newest + 1):
                    if table.entry(version).tag.startswith(begins):
                        moved |= self._cut(name, version)
                        break
        return moved

    def _require_kept_files(self, name: str, version: int) -> None:
        """What the commits to be set aside have replaced is read again: it has to be there, and in its size."""
        table = self._tables[name]
        entries = [table.entry(each) for each in range(version, table.newest + 1)]
        added, replaced = set[str](), dict[str, int | None]()
        for entry in entries:
            replaced |= {path: size for path, size in entry.removed.items() if path not in added}
            added |= {path for path, _ in entry.files}
        if not all(has_size(table.root / path, size) for path, size in replaced.items()):
            self._refusal = f"files of {name} that would be read again are gone or cut off; {COPY}"
        if version == 0 and self._undone:
            self._refusal = f"nothing of {name} is left; {COPY}"
        elif version == 0 and not any(at < self._cuts.get("pass", _NEVER) for at, *_ in self._passes):
            self._cut("pass", 0)  # made anew, once all others are there

    @cached_property
    def _passes(self) -> list[tuple[int, str, int, str, Entry]]:
        """The newest rows of the pass log: version, job, number, state, entry."""
        newest = self._log.newest
        found = (
            (version, self._log.entry(version)) for version in range(max(newest - ROWS_LOOKED_BACK, 0), newest + 1)
        )
        named = ((version, _TAG.fullmatch(entry.tag), entry) for version, entry in found if not entry.fault)
        return [(version, tag[1], int(tag[2]), tag[3], entry) for version, tag, entry in named if tag]

    @cached_property
    def _is_of_this_boot(self) -> bool:
        """Whether all open plans were recorded since this machine started."""
        ended = {(job, number) for _, job, number, state, _ in self._passes if state in (COMMITTED, ABANDONED)}
        plans = [row for row in self._passes if row[3] == STARTED and row[1:3] not in ended]
        boot = this_boot()
        return bool(boot) and all(json.loads(row[4].note).get(BOOT) == boot for row in plans)

    @cached_property
    def _named(self) -> dict[str, set[int]]:
        """The versions that the last committed pass of each job wrote."""
        newest: dict[str, dict[str, list[int]]] = {}
        for _, job, _, state, entry in self._passes:
            if state == COMMITTED:
                newest[job] = json.loads(entry.note).get(OWN_VERSIONS, {})
        named: dict[str, set[int]] = {}
        for own in newest.values():
            for name, versions in own.items():
                named.setdefault(name, set()).update(versions)
        return named

    @cached_property
    def _durable(self) -> dict[str, int]:
        durable: dict[str, int] = {}
        for _, job, number, state, entry in self._passes:
            if state != COMMITTED:
                continue
            note = json.loads(entry.note)
            own = note.get(OWN_VERSIONS, {})
            for name, version in note.get(INPUT_VERSIONS, {}).items():
                durable[name] = max(durable.get(name, -1), int(version), *own.get(name, ()))
            plan = self._version_of(job, number, STARTED)
            if plan is not None:
                durable["pass"] = max(durable.get("pass", -1), plan)
        durable[RUN_TABLE] = self._tables[RUN_TABLE].newest - RUNS_LOOKED_BACK
        # Where nobody tells, no further back than this: else all of a long log would be read at every start.
        untold = (name for name in self._tables if name not in durable)
        return durable | {name: self._tables[name].newest - ROWS_LOOKED_BACK for name in untold}

    def _version_of(self, job: str, number: int, state: str) -> int | None:
        return next((row[0] for row in self._passes if row[1:4] == (job, number, state)), None)

    def _damaged_checkpoints(self, name: str, table: TableCheck, behind: int) -> Iterator[Path]:
        fault, named = table.checkpoint_fault(behind), table.last_checkpoint_fault()
        if fault:
            self._damaged.append(f"{name}: the checkpoint of version {table.checkpoints[-1]}: {fault}")
            yield from (file for file in table.files_of(table.checkpoints[-1]) if ".checkpoint" in file.name)
        if named:
            self._damaged.append(f"{name}: _last_checkpoint {named}")
        if fault or named:
            yield table.log / "_last_checkpoint"
        older = table.checkpoints[:-1] if fault else table.checkpoints
        if fault and table.versions and table.versions[0] > (older[-1] + 1 if older else 0):
            self._refusal = f"entries of {name} that only this checkpoint told are gone; {COPY}"
