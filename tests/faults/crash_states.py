"""What a disk may hold after a power cut in the middle of a step: recorded from the step, built anew on request.

A file is on the disk once it was synced, its name once its directory was, names of one directory in their order. What was
not synced may be there or not, whole, empty, cut off or zeros of the right size, whatever became of the rest: journals of
ext4 keep more order than that between directories, other file systems do not. Files do not change once they are there; one
that is replaced counts as a new one.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from txmq_lib.delta import durable
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.passes.mending import SET_ASIDE

ABSENT, WHOLE, EMPTY, CUT, ZEROS = "absent", "whole", "empty", "cut", "zeros"
Contents = dict[str, bytes]


@dataclass(frozen=True)
class Event:
    """One thing that happened: a file `created` or `removed` (its path, its bytes), or a path `synced`."""

    what: str
    path: str
    data: bytes = b""


@dataclass
class Recording:
    """What was there when a step began, and all that happened until its end."""

    base: Contents
    events: list[Event] = field(default_factory=list)

    def states(self) -> Iterator[tuple[str, Contents]]:
        """Every state worth a look, once each: where the power went, what became of what was not synced; and the files."""
        seen = set()
        for point in range(len(self.events) + 1):
            for state_name, state in _states_at(self.base, self.events[:point]):
                key = hash(frozenset(state.items()))
                if key not in seen:
                    seen.add(key)
                    yield f"event {point} of {len(self.events)}: {state_name}", state


def files_of(place: Path) -> Contents:
    """All files below a place."""
    return {str(path.relative_to(place)): path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}


def files_that_count(place: Path) -> Contents:
    """All below a place but what was set aside, and data files that no entry or checkpoint of a log names."""
    files = {name: data for name, data in files_of(place).items() if not name.startswith(SET_ASIDE)}
    named = b"".join(_words_of(name, data) for name, data in files.items() if "_delta_log" in name)

    def counts(name: str) -> bool:
        data_file = os.path.basename(name).removeprefix(".").removesuffix(".crc")
        is_data = "_delta_log" not in name and data_file.endswith(".parquet")
        return not is_data or data_file.encode() in named

    return {name: data for name, data in files.items() if counts(name)}


def _words_of(name: str, data: bytes) -> bytes:
    """What a file of a log says. A checkpoint is compressed; one that cannot be read says what its bytes do."""
    if not name.endswith(".parquet"):
        return data
    try:
        return str(pq.read_table(io.BytesIO(data)).to_pylist()).encode()
    except (pa.ArrowInvalid, OSError):
        return data


def build(place: Path, state: Contents) -> None:
    """Write the files of a state."""
    for name, data in state.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


@contextmanager
def recorded(warehouse: Warehouse, *, counts_syncs: bool = True) -> Iterator[Recording]:
    """Record what the work inside does to a warehouse on this machine.

    counts_syncs  False: as if nobody had asked the disk for anything, as before durable.py
    """
    place = Path(warehouse.uri)
    recording = Recording(files_of(place) if place.exists() else {})
    known = _Known(place, recording)
    sync = durable._sync

    def synced(path: Path) -> None:
        known.look()
        sync(path)
        if counts_syncs:
            recording.events.append(Event("synced", os.path.relpath(path, place)))

    on_write = warehouse.on_write
    durable._sync, warehouse.on_write = synced, lambda table, step: known.look()
    try:
        yield recording
    finally:
        durable._sync, warehouse.on_write = sync, on_write
        known.look()


class _Known:
    """What was seen of a place so far."""

    def __init__(self, place: Path, recording: Recording) -> None:
        self._place, self._recording = place, recording
        self._seen = self._identities()

    def look(self) -> None:
        """Note what is new and what is gone, in the order in which it was written."""
        now = self._identities()
        for name in self._seen.keys() - now.keys():
            self._recording.events.append(Event("removed", name))
        fresh = [name for name in now if self._seen.get(name) != now[name]]
        for name in sorted(fresh, key=lambda name: now[name]):
            try:
                self._recording.events.append(Event("created", name, (self._place / name).read_bytes()))
            except FileNotFoundError:
                del now[name]
        self._seen = now

    def _identities(self) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        for path in self._place.rglob("*") if self._place.exists() else ():
            # Half-way files of writers are named by nobody.
            if path.is_file() and "#" not in path.name and not path.name.endswith((".tmp", ".tmp.crc", ".half")):
                status: Any = path.stat()
                found[str(path.relative_to(self._place))] = (status.st_mtime_ns, status.st_ino)
        return found


def _states_at(base: Contents, events: list[Event]) -> Iterator[tuple[str, Contents]]:
    data, unsynced, unnamed = _pending(base, events)
    removed = {event.path for event in events if event.what == "removed"}
    kept = {name: base[name] for name in base if name not in removed or _is_unsynced_removal(name, events)}

    def state(fate: dict[str, str]) -> Contents:
        gone = _with_later_names({name for name, each in fate.items() if each == ABSENT}, unnamed)
        made = {name: _harmed(data[name], fate.get(name, WHOLE)) for name in data if name not in gone}
        return {**kept, **made}

    pending = [name for name in data if name in unsynced or name in unnamed]
    yield "all of it there", state({})
    if not pending:
        return
    lost = {name: ABSENT if name in unnamed else EMPTY for name in pending}
    yield "nothing of it there", state(lost)
    for harm in (EMPTY, CUT, ZEROS):
        yield f"all names there, {harm}", state({name: harm for name in pending if name in unsynced})
    entries = {name for name in pending if "_delta_log" in name}
    for what, some in (("entries", entries), ("data files", set(pending) - entries)):
        yield f"{what} lost alone", state({name: lost[name] for name in some})
        yield f"{what} empty alone", state({name: EMPTY for name in some if name in unsynced})
    for directory in {os.path.dirname(name) for name in pending}:
        some = {name for name in pending if os.path.dirname(name) == directory}
        yield f"{directory} lost alone", state({name: lost[name] for name in some})
        yield f"{directory} there alone", state({name: lost[name] for name in pending if name not in some})
    for number, name in enumerate(pending):
        harms = [harm for harm in (EMPTY, CUT, ZEROS) if name in unsynced] + [ABSENT] * (name in unnamed)
        yield f"{name} {harms[number % len(harms)]}", state({name: harms[number % len(harms)]})


def _pending(base: Contents, events: list[Event]) -> tuple[Contents, set[str], list[str]]:
    """What was made: its bytes; whose bytes were not synced; whose names were not, in order."""
    data: Contents = {}
    unsynced: set[str] = set()
    unnamed: list[str] = []
    for event in events:
        if event.what == "created":
            data[event.path] = event.data
            unsynced.add(event.path)
            unnamed = [*(name for name in unnamed if name != event.path), event.path]
        elif event.what == "removed":
            data.pop(event.path, None)
            unsynced.discard(event.path)
            unnamed = [name for name in unnamed if name != event.path]
        else:
            unsynced.discard(event.path)
            unnamed = [name for name in unnamed if os.path.dirname(name) != os.path.normpath(event.path)]
    return data, unsynced, unnamed


def _is_unsynced_removal(name: str, events: list[Event]) -> bool:
    removal = max(number for number, event in enumerate(events) if event.what == "removed" and event.path == name)
    return not any(event.what == "synced" and event.path == os.path.dirname(name) for event in events[removal:])


def _with_later_names(absent: set[str], unnamed: list[str]) -> set[str]:
    """Names of one directory come in their order: without one, those behind it are not there either."""
    gone = set(absent)
    for number, name in enumerate(unnamed):
        if name in absent:
            gone |= {later for later in unnamed[number:] if os.path.dirname(later) == os.path.dirname(name)}
    return gone


def _harmed(data: bytes, fate: str) -> bytes:
    return {WHOLE: data, EMPTY: b"", CUT: data[: len(data) // 2], ZEROS: bytes(len(data))}[fate]
