"""The health file of `txmq serve`: who runs, since when, and how each step fares; whole or not there at all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Any

from txmq_lib.errors import UsageError
from txmq_lib.secrets import scrubbed
from txmq_lib.tables.passes import PassReport
from txmq_lib.whole_file import write_whole

STARTING, RUNNING, FAILING, STOPPED = "starting", "running", "failing", "stopped"


class Health:
    """Keeps what is told of rounds and writes it to `path` each time, in one piece. UsageError where it never can.

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
        told = {"last_success": self._wall_clock().isoformat(), "error": None, "failures": 0}
        if report.number:
            told["pass_number"] = report.number
        self._tell(step, told)

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
            self._state = state
            self._write_if_possible()

    def _tell(self, step: str, told: dict[str, Any]) -> None:
        with self._lock:
            self._steps[step] = {**self._steps.get(step, {}), **told}
            if not told["failures"]:
                self._steps[step].pop("next_try_after_s", None)
            self._write_if_possible()

    def _write_if_possible(self) -> None:
        # A full disk is no reason to stop reconciling; whoever reads the file sees that it is old.
        with suppress(OSError):
            self._write()

    def _write(self) -> None:
        write_whole(self._path, json.dumps(self.content, indent=1) + "\n")


def serving_pid(path: Path) -> int:
    """The process that a health file names; UsageError where none serves there."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        pid, state = int(told["pid"]), told["state"]
    except FileNotFoundError:
        raise UsageError(f"nobody serves: there is no health file {path}") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is no health file of txmq serve: {error}") from None
    if state == STOPPED or not _is_running(pid):
        raise UsageError(f"nobody serves: process {pid} of {path} has ended")
    return pid


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
