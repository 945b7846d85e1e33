"""What a benchmark is given: a size, a place to write to, and processes that are measured."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.processes import Called, Process
from tests.bench.warehouses import copied, create


@dataclass
class Run:
    """One run of `make bench`: what its benchmarks share.

    processes  each call so far: wall seconds, peak memory, what it returned
    """

    size: str
    scratch: Path
    tell: Callable[[str], None]
    processes: dict[str, dict[str, Any]] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack)
    _warm: Process | None = None

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def warm(self) -> Process:
        """The one process in which all warm passes of a small run are measured: starting Spark is most of its time."""
        if self._warm is None:
            self._warm = self._stack.enter_context(Process(self.scratch))
        return self._warm


@dataclass
class Bench:
    """One benchmark under way."""

    name: str
    run: Run
    scratch: Path

    @property
    def size(self) -> str:
        """small or full."""
        return self.run.size

    def call(
        self,
        label: str,
        function: Callable[..., Any],
        *,
        cores: int | None = None,
        is_warm: bool = False,
        **arguments: Any,
    ) -> Called:
        """`function(**given)` in a process of its own; where it `is_warm` and the run small, in the shared one."""
        begun = time.monotonic()
        if is_warm and self.size == "small":
            called = self.run.warm().call(function, **arguments)
        else:
            with Process(self.scratch, cores) as process:
                called = process.call(function, **arguments)
        seconds = round(time.monotonic() - begun, 1)
        named = f"{self.name} {label}"
        self.run.processes[named] = {"seconds": seconds, "peak_mib": called.peak_mib, "told": called.result}
        self.run.tell(f"{named}: {seconds} s, {called.peak_mib.get('all', 0)} MiB, {called.result}")
        return called

    def warehouse(self, name: str) -> Path:
        """A warehouse of this name with all its tables, empty: made once in a run, then copied."""
        empty = self.run.scratch / "empty"
        if not empty.exists():
            self.call("tables", create, is_warm=True, path=empty)
        return copied(empty, self.scratch / name)

    def remove(self, place: Path) -> None:
        """What is not needed any more: disks are small."""
        shutil.rmtree(place)
