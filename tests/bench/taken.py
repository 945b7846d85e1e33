"""What a block of work takes: wall seconds, and those of the processor."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.processes import tree

OF_PROCESS = slice(11, 15)  # user and system time, its own and that of children that ended
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@contextmanager
def taken() -> Iterator[dict[str, float]]:
    """`seconds` and `processor` seconds of the block, filled in at its end: of this process and all that it started."""
    found: dict[str, float] = {}
    begun, before = time.monotonic(), processor_s()
    yield found
    found |= {"seconds": round(time.monotonic() - begun, 3), "processor": round(processor_s() - before, 3)}


def processor_s() -> float:
    """Processor seconds of this process, its JVM and the JVM's workers so far."""
    ticks = 0
    for pid in tree(os.getpid()):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        ticks += sum(map(int, fields[OF_PROCESS]))
    return ticks / TICKS_PER_SECOND
