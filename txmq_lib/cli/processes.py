"""Ends the processes that this one has started, and those that they have, and sees that they are gone."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

POLL_S = 0.02
MOST_UNTIL_GONE_S = 2.0


class Process(NamedTuple):
    """A process; its start, in ticks since the machine's, tells it from a later one of the same number."""

    pid: int
    start: int


def end_all_started(grace_s: float, *, is_hurried: Callable[[], bool]) -> None:
    """Ask the children to end (SIGTERM), and kill what is left of them and theirs after `grace_s`, or when hurried.

    A JVM that is starting is a shell and another JVM at first. Where there is no /proc nothing is done: a JVM that has
    started ends by itself when this process does.
    """
    me = os.getpid()
    known = set(_below(me))
    for child in _below(me, only_children=True):
        _send(child, signal.SIGTERM)
    limit = time.monotonic() + grace_s
    while _living(known) and time.monotonic() < limit and not is_hurried():
        known.update(_below(me))
        time.sleep(POLL_S)
    # One that is stopped starts no other one.
    stopped: set[Process] = set()
    while new := (_living(known) | set(_below(me))) - stopped:
        for process in new:
            _send(process, signal.SIGSTOP)
        stopped |= new
    for process in stopped:
        _send(process, signal.SIGKILL)
    limit = time.monotonic() + MOST_UNTIL_GONE_S
    while _living(stopped) and time.monotonic() < limit:
        time.sleep(POLL_S)


def _living(processes: set[Process]) -> set[Process]:
    return processes & {process for process, _ in _all()}


def _below(pid: int, *, only_children: bool = False) -> list[Process]:
    parents = dict(_all())
    pids = {process.pid: parent for process, parent in parents.items()}

    def is_below(process: Process) -> bool:
        parent = parents[process]
        while parent != pid and not only_children and parent in pids:
            parent = pids[parent]
        return parent == pid

    return [process for process in parents if is_below(process)]


def _all() -> list[tuple[Process, int]]:
    """Every process that has not ended, with the number of its parent; none where there is no /proc."""
    found = []
    with suppress(FileNotFoundError), os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdecimal():
                with suppress(OSError), open(f"{entry.path}/stat", "rb") as file:
                    # Behind the name, which may hold anything: state, parent, ..., start as the 20th.
                    fields = file.read().rpartition(b")")[2].split()
                    if fields[0] != b"Z":
                        found.append((Process(int(entry.name), int(fields[19])), int(fields[1])))
    return found


def _send(process: Process, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(process.pid, number)
