"""What a benchmark is given: a size, a place to write to, and processes that are measured."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.processes import Called, call


@dataclass
class Bench:
    """One benchmark under way.

    processes  each process called so far: wall seconds, peak memory, what it returned
    """

    name: str
    size: str
    scratch: Path
    tell: Callable[[str], None]
    processes: dict[str, dict[str, Any]] = field(default_factory=dict)

    def call(self, label: str, function: Callable[..., Any], **given: Any) -> Called:
        """`function(**given)` in a process of its own."""
        begun = time.monotonic()
        called = call(function, self.scratch, **given)
        seconds = round(time.monotonic() - begun, 1)
        named = f"{self.name} {label}"
        self.processes[named] = {"seconds": seconds, "peak_mib": called.peak_mib, "told": called.result}
        self.tell(f"{named}: {seconds} s, {called.peak_mib.get('all', 0)} MiB, {called.result}")
        return called

    def remove(self, place: Path) -> None:
        """What is not needed any more: disks are small."""
        shutil.rmtree(place)
