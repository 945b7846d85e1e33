"""Functions in a process of their own, as a user would start them, and the most memory its process tree held."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

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


class Process:
    """A fresh Python that calls one function after the other; on the first `cores` cores only, where given."""

    def __init__(self, scratch: Path, cores: int | None = None) -> None:
        self._log = scratch / "process.log"
        chosen = set(sorted(os.sched_getaffinity(0))[:cores])
        reading, writing = os.pipe()
        with self._log.open("wb") as log_file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.bench.processes", str(writing)],
                stdin=subprocess.PIPE,
                stdout=log_file,
                stderr=log_file,
                pass_fds=[writing],
                preexec_fn=partial(os.sched_setaffinity, 0, chosen) if cores else None,
            )
        os.close(writing)
        self._answers = os.fdopen(reading, "r", encoding="utf-8")

    def call(self, function: Callable[..., Any], **arguments: Any) -> Called:
        """`function(**given)`; arguments and result go through JSON. CallFailedError where the process ends over it."""
        named = f"{_module_of(function)}:{function.__qualname__}"
        assert self._process.stdin is not None
        with _watched(self._process.pid) as peak:
            self._process.stdin.write(json.dumps([named, arguments], default=str).encode() + b"\n")
            self._process.stdin.flush()
            answer = self._answers.readline()
        if not answer:
            last = self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-TOLD_LINES:]
            raise CallFailedError(f"{named} ended with status {self._process.wait()}:\n" + "\n".join(last))
        return Called(json.loads(answer), dict(peak))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._answers.close()


def _module_of(function: Callable[..., Any]) -> str:
    """Where another process finds it: `__main__` is the one that `python -m` named here."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec.name if function.__module__ == "__main__" and spec else function.__module__


@contextmanager
def _watched(root: int) -> Iterator[dict[str, int]]:
    """Peaks of the process tree under `root` while the block runs."""
    peak: dict[str, int] = defaultdict(int)
    kinds: dict[int, str] = {}

    def look() -> None:
        held = _held(root, kinds)
        for kind, size in (*held.items(), ("all", sum(held.values()))):
            peak[kind] = max(peak[kind], size // MIB)

    with sampled(look):
        yield peak


@contextmanager
def sampled(look: Callable[[], None]) -> Iterator[None]:
    """Look again and again while the block runs, and once at its end."""
    ended = threading.Event()

    def sample() -> None:
        while not ended.wait(SAMPLE_SECONDS):
            look()

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    try:
        yield
    finally:
        ended.set()
        sampler.join()
        look()


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


def main(answers: int) -> None:
    """Call the functions named on stdin, a line each; what they return goes to the file descriptor `answers`."""
    with os.fdopen(answers, "w", encoding="utf-8") as answer_stream:
        for line in sys.stdin:
            named, arguments = json.loads(line)
            module, _, name = named.partition(":")
            result = getattr(importlib.import_module(module), name)(**arguments)
            answer_stream.write(json.dumps(result, default=str) + "\n")
            answer_stream.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
