"""The health file of `txmq serve`: who runs, since when, and how each step fares; whole or not there at all."""

from __future__ import annotations

import fcntl
import json
import os
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Any

from txmq_lib.config.secrets import scrubbed
from txmq_lib.errors import UsageError
from txmq_lib.files.atomic_file import write_whole
from txmq_lib.files.plain_file import open_lock, open_plain
from txmq_lib.passes.current import PassReport

# `struct flock`, which Python has no name for.
_FLOCK, _FLOCK_FIELDS = (
    ("qqihh", ("start", "length", "pid", "type", "whence"))
    if sys.platform == "darwin"
    else ("hhqqi4x", ("type", "whence", "start", "length", "pid"))
)
_ASKED = {"type": fcntl.F_WRLCK, "whence": os.SEEK_SET, "start": 0, "length": 0, "pid": 0}

STARTING, RUNNING, FAILING, STOPPED = "starting", "running", "failing", "stopped"


class Health:
    """Keeps what is told of rounds and writes it to `path` each time, in one piece.

    It is this process's as long as that lives: `serving_pid` asks who holds the lock beside it. UsageError where it can
    never be written, or another process keeps it.

    {"state": ..., "pid": ..., "started": ..., "steps": {NAME: {"last_success", "last_failure", "error", "failures",
    "pass_number"}}}; times in ISO 8601
    """

    def __init__(self, path: Path, wall_clock: Callable[[], datetime]) -> None:
        self._path = path
        self._wall_clock = wall_clock
        self._lock = Lock()
        self._steps: dict[str, dict[str, Any]] = {}
        self._state = STARTING
        self._started = wall_clock().isoformat()
        try:
            self._lock_held = _kept(path)
            self._write()
        except OSError as error:
            raise UsageError(f"the health file {path} cannot be written: {error.strerror}") from error

    def running(self) -> None:
        """The service is up."""
        self._set(RUNNING)

    def stopped(self) -> None:
        """The service has ended cleanly."""
        self._set(STOPPED)

    def report(self, step: str, report: PassReport) -> None:
        """A step has succeeded."""
        entry = {"last_success": self._wall_clock().isoformat(), "error": None, "failures": 0}
        if report.number:
            entry["pass_number"] = report.number
        self._tell(step, entry)

    def failure(self, step: str, error: str, *, failures: int, pause_s: float) -> None:
        """A step has failed, so often in a row, and is tried again after `pause_s` seconds."""
        self._tell(
            step,
            {
                "last_failure": self._wall_clock().isoformat(),
                "error": scrubbed(error),
                "failures": failures,
                "next_try_after_s": round(pause_s, 1),
            },
        )

    @property
    def content(self) -> dict[str, Any]:
        """What the file says."""
        is_failing = any(step["failures"] for step in self._steps.values())
        state = FAILING if self._state == RUNNING and is_failing else self._state
        return {"state": state, "pid": os.getpid(), "started": self._started, "steps": self._steps}

    def _set(self, state: str) -> None:
        with self._lock:
            # A signal may end the service in one thread while another one still starts it.
            if self._state != STOPPED:
                self._state = state
                self._write_if_possible()

    def _tell(self, step: str, fields: dict[str, Any]) -> None:
        with self._lock:
            self._steps[step] = {**self._steps.get(step, {}), **fields}
            if not fields["failures"]:
                self._steps[step].pop("next_try_after_s", None)
            self._write_if_possible()

    def _write_if_possible(self) -> None:
        # A full disk is no reason to stop reconciling; whoever reads the file sees that it is old.
        with suppress(OSError):
            self._write()

    def _write(self) -> None:
        write_whole(self._path, json.dumps(self.content, indent=1) + "\n")


def serving_pid(path: Path) -> int:
    """The process that keeps a health file, as the kernel tells it; UsageError where none does.

    What the file says is not asked: it may be of a process that is gone, and its number somebody else's by now.
    """
    if not path.exists():
        raise UsageError(f"nobody serves: there is no health file {path}")
    try:
        lock = open_plain(_lock_of(path))
    except FileNotFoundError:
        holder = 0
    except OSError as error:
        raise UsageError(f"whether somebody keeps {path} cannot be told: {_lock_of(path)}: {error.strerror}") from None
    else:
        holder = _holder(lock)
        os.close(lock)
    if not holder:
        raise UsageError(f"nobody serves: no process of this machine keeps {path}")
    return holder


def _lock_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.lock")


def _kept(path: Path) -> int:
    """A lock that this process holds until it ends; UsageError where another one does."""
    lock = open_lock(_lock_of(path))
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        holder = _holder(lock)
        os.close(lock)
        raise UsageError(f"process {holder} keeps {path}: name another file by --health-file") from None
    return lock


def _holder(lock: int) -> int:
    """The process that holds a lock; 0 where none does."""
    request = struct.pack(_FLOCK, *(_ASKED[name] for name in _FLOCK_FIELDS))
    answer = dict(zip(_FLOCK_FIELDS, struct.unpack(_FLOCK, fcntl.fcntl(lock, fcntl.F_GETLK, request)), strict=True))
    return 0 if answer["type"] == fcntl.F_UNLCK else int(answer["pid"])
