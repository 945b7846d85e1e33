"""What a disk may hold after a power cut in the middle of a step: recorded from the step, built anew on request.

A file is on the disk once it was synced, its name once its directory was and those of new directories that lead to it, names
of one directory in their order. What was not synced may be there or not, whole, empty, cut off (an entry of a log also behind
its first line) or zeros of the right size, whatever became of the rest: journals of ext4 keep more order than that between
directories, other file systems do not. Files do not change once they are there; one that is replaced counts as a new one.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.passes.mending import SET_ASIDE

ABSENT, WHOLE, EMPTY, CUT, ZEROS = "absent", "whole", "empty", "cut", "zeros"
CUT_AT_LINE = "cut behind its first line"  # so that an entry reads as one, of less
Contents = dict[str, bytes]


@dataclass(frozen=True)
class Event:
    """One thing that happened: a file `created` or `removed` (its path, its bytes), or a path `synced`.

    is_on_disk  whether what it holds was synced before, under another name
    """

    what: str
    path: str
    data: bytes = b""
    is_on_disk: bool = False


@dataclass
class Recording:
    """What was there when a step began, and all that happened until its end."""

    base: Contents
    events: list[Event] = field(default_factory=list)

    def states(self) -> Iterator[tuple[str, Contents]]:
        """Every state worth a look, once each: where the power went, what became of what was not synced; and the files."""
        seen = set()
        for point in range(len(self.events) + 1):
            for state_name, state in self.states_at(point):
                key = hash(frozenset(state.items()))
                if key not in seen:
                    seen.add(key)
                    yield f"event {point} of {len(self.events)}: {state_name}", state

    def states_at(self, point: int) -> Iterator[tuple[str, Contents]]:
        """States where the power went after so many events."""
        return _states_at(self.base, self.events[:point])


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
def recorded(place: Path, warehouse: Warehouse | None = None, *, counts_syncs: bool = True) -> Iterator[Recording]:
    """Record what the work inside does to a place on this machine, and to the warehouse there.

    counts_syncs  False: as if nobody had asked the disk for anything, as before durable.py
    """
    recording = Recording(files_of(place) if place.exists() else {})
    known = _Known(place, recording)
    sync = os.fsync

    def synced(descriptor: int) -> None:
        path = os.path.relpath(os.readlink(f"/proc/self/fd/{descriptor}"), place.resolve())
        known.look()
        sync(descriptor)
        if counts_syncs and not path.startswith(os.pardir):
            known.on_disk.add(_identity(os.fstat(descriptor)))
            recording.events.append(Event("synced", path))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", synced)
        if warehouse is not None:
            patched.setattr(warehouse, "on_write", lambda table, step: known.look())
        yield recording
    known.look()


class _Known:
    """What was seen of a place so far."""

    def __init__(self, place: Path, recording: Recording) -> None:
        self._place, self._recording = place, recording
        self._seen = self._identities()
        # Files keep what they hold under another name.
        self.on_disk = set(self._seen.values())

    def look(self) -> None:
        """Note what is new and what is gone, in the order in which it was written."""
        now = self._identities()
        for name in self._seen.keys() - now.keys():
            self._recording.events.append(Event("removed", name))
        fresh = [name for name in now if self._seen.get(name) != now[name]]
        for name in sorted(fresh, key=lambda name: now[name]):
            try:
                data = (self._place / name).read_bytes()
            except FileNotFoundError:
                del now[name]
                continue
            self._recording.events.append(Event("created", name, data, now[name] in self.on_disk))
        self._seen = now

    def _identities(self) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        for path in self._place.rglob("*") if self._place.exists() else ():
            # Half-way files of writers are named by nobody.
            if path.is_file() and "#" not in path.name and not path.name.endswith((".tmp", ".tmp.crc", ".half")):
                found[str(path.relative_to(self._place))] = _identity(path.stat())
        return found


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_mtime_ns, status.st_ino


def _states_at(base: Contents, events: list[Event]) -> Iterator[tuple[str, Contents]]:
    data, unsynced, unnamed, back = _pending(base, events)
    removed = {event.path for event in events if event.what == "removed"}
    kept = {name: base[name] for name in base if name not in removed}

    def state(fate: dict[str, str], *, is_removed: bool = False) -> Contents:
        gone = _with_later_names({name for name, each in fate.items() if each == ABSENT}, unnamed)
        made = {name: harmed(data[name], fate.get(name, WHOLE)) for name in data if name not in gone}
        return {**kept, **({} if is_removed else back), **made}

    pending = [name for name in data if name in unsynced or name in unnamed]
    yield "all of it there", state({})
    if back:
        yield "all of it there, what was removed gone", state({}, is_removed=True)
    if not pending:
        return
    lost = {name: ABSENT if name in unnamed else EMPTY for name in pending}
    yield "nothing of it there", state(lost)
    if back:
        yield "nothing of it there, what was removed gone", state(lost, is_removed=True)
    for harm in (EMPTY, CUT, ZEROS):
        yield f"all names there, {harm}", state({name: harm for name in pending if name in unsynced})
    entries = {name for name in pending if "_delta_log" in name}
    for what, some in (("entries", entries), ("data files", set(pending) - entries)):
        yield f"{what} lost alone", state({name: lost[name] for name in some})
        yield f"{what} empty alone", state({name: EMPTY for name in some if name in unsynced})
    yield f"entries {CUT_AT_LINE} alone", state({name: CUT_AT_LINE for name in entries if name in unsynced})
    for directory in {os.path.dirname(name) for name in pending}:
        some = {name for name in pending if os.path.dirname(name) == directory}
        yield f"{directory} lost alone", state({name: lost[name] for name in some})
        yield f"{directory} there alone", state({name: lost[name] for name in pending if name not in some})
    for number, name in enumerate(pending):
        of_lines = [CUT_AT_LINE] if name.endswith(".json") else []
        harms = [harm for harm in (EMPTY, CUT, ZEROS, *of_lines) if name in unsynced] + [ABSENT] * (name in unnamed)
        yield f"{name} {harms[number % len(harms)]}", state({name: harms[number % len(harms)]})


def _pending(base: Contents, events: list[Event]) -> tuple[Contents, set[str], list[str], Contents]:
    """What was made: its bytes; whose bytes were not synced; whose names were not, in order; what was removed and may be back."""
    data: Contents = {}
    unsynced: set[str] = set()
    back: Contents = {}
    # Names that their directory does not keep yet, in order, those of new directories among them.
    open_names: list[str] = []
    directories = {above for name in base for above in _above(name)}
    for event in events:
        if event.what == "created":
            data.pop(event.path, None)
            data[event.path] = event.data
            (unsynced.discard if event.is_on_disk else unsynced.add)(event.path)
            fresh = [above for above in _above(event.path) if above not in directories]
            directories.update(fresh)
            open_names = [*(name for name in open_names if name != event.path), *fresh, event.path]
        elif event.what == "removed":
            back[event.path] = data.pop(event.path) if event.path in data else base[event.path]
            unsynced.discard(event.path)
            open_names = [name for name in open_names if name != event.path]
        else:
            unsynced.discard(event.path)
            kept = "" if event.path == os.curdir else event.path
            open_names = [name for name in open_names if os.path.dirname(name) != kept]
            back = {name: was for name, was in back.items() if os.path.dirname(name) != kept}
    is_open = set(open_names)
    unnamed = [name for name in data if name in is_open or any(above in is_open for above in _above(name))]
    return data, unsynced, unnamed, back


def _above(name: str) -> list[str]:
    """The directories that lead to a file, outermost first."""
    return [str(above) for above in reversed(Path(name).parents) if above.name]


def _with_later_names(absent: set[str], unnamed: list[str]) -> set[str]:
    """Names of one directory come in their order: without one, those behind it are not there either."""
    gone = set(absent)
    for number, name in enumerate(unnamed):
        if name in absent:
            gone |= {later for later in unnamed[number:] if os.path.dirname(later) == os.path.dirname(name)}
    return gone


def harmed(data: bytes, fate: str) -> bytes:
    """What is left of a file."""
    first_line = data[: data.find(b"\n") + 1]
    return {
        WHOLE: data,
        EMPTY: b"",
        CUT: data[: len(data) // 2],
        CUT_AT_LINE: first_line,
        ZEROS: bytes(len(data)),
    }[fate]
