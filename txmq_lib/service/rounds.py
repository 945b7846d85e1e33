"""Rounds of steps: a step that fails is told and tried again with backoff, the others go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from txmq_lib.errors import TxmqError
from txmq_lib.tables.passes import PassReport

FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 5.0, 300.0


@dataclass
class Step:
    """One step of a round, and how it fared: `failures` in a row, the last of them as `error`."""

    name: str
    run: Callable[[], PassReport]
    failures: int = 0
    error: str | None = None
    _not_before: float = field(default=0.0, repr=False)

    def is_due(self, now: float) -> bool:
        """Whether its backoff is over; `now` in monotonic seconds."""
        return now >= self._not_before

    def succeeded(self) -> None:
        """Forget earlier failures."""
        self.failures, self.error, self._not_before = 0, None, 0.0

    def failed(self, error: str, now: float) -> float:
        """Take a failure down; seconds until the step is tried again."""
        self.failures += 1
        self.error = error
        pause = min(FIRST_BACKOFF_S * 2.0 ** (self.failures - 1), LONGEST_BACKOFF_S)
        self._not_before = now + pause
        return pause


@dataclass(frozen=True)
class Told:
    """Who is told what steps did."""

    report: Callable[[str, PassReport], None]
    failure: Callable[[str, str, float], None]


def run_round(steps: Sequence[Step], told: Told, *, is_stopped: Callable[[], bool]) -> None:
    """Run every step that is due, in order, until stopped; what a stop cut off counts as no failure."""
    for step in steps:
        if is_stopped():
            return
        if not step.is_due(time.monotonic()):
            continue
        try:
            report = step.run()
        except Exception as error:  # whatever it was, the other steps go on
            if is_stopped():
                return
            words = describe(error)
            told.failure(step.name, words, step.failed(words, time.monotonic()))
        else:
            step.succeeded()
            told.report(step.name, report)


def describe(error: Exception) -> str:
    """An error in one line: its code and what it says first."""
    if isinstance(error, TxmqError):
        return f"{error.code}: {error.message}"
    first_line = (str(error).strip().splitlines() or [""])[0]
    return f"UNEXPECTED: {type(error).__name__}: {first_line}"
