"""A function in a process of its own, as a user would start it, and the most memory its process tree held."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

SAMPLE_SECONDS = 0.25
TOLD_LINES = 40
PAGE = os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20
DRIVER = "driver"


class CallFailedError(Exception):
    """A benchmark's process ended badly; what it last said is in the message."""


@dataclass(frozen=True)
class Called:
    """What a function returned, and the peak of resident memory in MiB: driver, jvm, workers, and all at once."""

    result: Any
    peak_mib: dict[str, int]


def call(
    function: Callable[..., Any], scratch: Path, *, cores: int | None = None, command: Iterable[str] = (), **given: Any
) -> Called:
    """`function(**given)` in a fresh Python, on the first `cores` cores; `command` stands before it (spark-submit).

    Arguments and result go through JSON. CallFailedError where the process does not end well.
    """
    answer, log = scratch / "answer.json", scratch / "process.log"
    answer.unlink(missing_ok=True)
    words = [f"{function.__module__}:{function.__qualname__}", json.dumps(given, default=str), str(answer)]
    pinned = partial(os.sched_setaffinity, 0, set(sorted(os.sched_getaffinity(0))[:cores])) if cores else None
    with log.open("wb") as told:
        process = subprocess.Popen(
            [*(command or (sys.executable, "-m")), "tests.bench.processes", *words],
            stdout=told,
            stderr=told,
            preexec_fn=pinned,
        )
        peak = _watched(process)
    if process.returncode != 0 or not answer.exists():
        last = log.read_text(encoding="utf-8", errors="replace").splitlines()[-TOLD_LINES:]
        raise CallFailedError(f"{words[0]} ended with status {process.returncode}:\n" + "\n".join(last))
    return Called(json.loads(answer.read_text(encoding="utf-8")), peak)


def _watched(process: subprocess.Popen[bytes]) -> dict[str, int]:
    """Peaks of the tree under `process` until it ends."""
    peak: defaultdict[str, int] = defaultdict(int)
    kinds: dict[int, str] = {}
    ended = threading.Event()

    def sample() -> None:
        while not ended.wait(SAMPLE_SECONDS):
            held = _held(process.pid, kinds)
            for kind, size in (*held.items(), ("all", sum(held.values()))):
                peak[kind] = max(peak[kind], size)

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    try:
        process.wait()
    finally:
        ended.set()
        sampler.join()
        if process.poll() is None:
            process.kill()
    return {kind: size // MIB for kind, size in peak.items()}


def _held(root: int, kinds: dict[int, str]) -> dict[str, int]:
    """Resident bytes of `root` and all below it, by kind; `kinds` remembers what each process is."""
    parents, resident = {}, {}
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            try:
                fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it ended meanwhile
            parents[int(entry.name)], resident[int(entry.name)] = int(fields[1]), int(fields[21]) * PAGE
    held: defaultdict[str, int] = defaultdict(int)
    for pid, size in resident.items():
        above: int | None = pid
        while above is not None and above != root:
            above = parents.get(above)
        if above == root:
            kind = kinds.get(pid) or _kind(pid)
            if kind != DRIVER:
                kinds[pid] = kind  # what is neither yet may be a shell that becomes the JVM
            held[kind] += size
    return dict(held)


def _kind(pid: int) -> str:
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return DRIVER
    return "jvm" if line.split(b"\0")[0].endswith(b"java") else "workers" if b"pyspark.daemon" in line else DRIVER


def main(function: str, given: str, answer: str) -> None:
    """Call the function named `module:function` and leave what it returns."""
    module, _, name = function.partition(":")
    result = getattr(importlib.import_module(module), name)(**json.loads(given))
    Path(answer).write_text(json.dumps(result, default=str), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
