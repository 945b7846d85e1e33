"""One surface under fire: cases with seeds of their own, what escaped, how long and how much it took."""

from __future__ import annotations

import resource
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

LONGEST_SECONDS, BUSY_FACTOR = 10, 6


@dataclass
class Tally:
    """What became of one surface: how many inputs were tried, what escaped, the longest case, memory at its highest."""

    surface: str
    tried: int = 0
    escapes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    longest_seconds: float = 0.0
    peak_mib: int = 0


@dataclass(frozen=True)
class Surface:
    """A decoder under fire: `case` tries some inputs and says how many; it is given one of `share` of all cases."""

    name: str
    case: Callable[[Random], int]
    share: int = 1


def run(surface: Surface, cases: int, seed: int) -> Tally:
    """Try at least `cases` / share inputs; each case has a seed of its own, by which it can be run again."""
    tally = Tally(surface.name)
    begun = time.monotonic()
    for number_ in range(cases):
        if tally.tried >= max(1, cases // surface.share):
            break
        name = f"{surface.name}/{seed}/{number_}"
        started = time.monotonic()
        try:
            with _at_most(LONGEST_SECONDS):
                tally.tried += surface.case(Random(name))
        except Exception:
            tally.tried += 1
            tally.escapes.append(f"{name}\n{traceback.format_exc(limit=-6)}")
        tally.longest_seconds = max(tally.longest_seconds, time.monotonic() - started)
    tally.seconds = time.monotonic() - begun
    tally.peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return tally


@contextmanager
def _at_most(seconds: int) -> Iterator[None]:
    """By the processor's clock, since others may be at work beside it; whoever waits ends by the wall's."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"more than {seconds} s")

    before = signal.signal(signal.SIGPROF, stop)
    waiting = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(seconds * BUSY_FACTOR)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGALRM, waiting)
        signal.signal(signal.SIGPROF, before)
