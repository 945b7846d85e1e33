"""Rounds of steps: a step that fails is told and tried again with backoff, the others go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from txmq_lib.errors import code_and_words
from txmq_lib.passes.current import PassReport

FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 5.0, 300.0


@dataclass
class Step:
    """One step of a round, whether it has anything to do, and how it fared: `failures` in a row."""

    name: str
    run: Callable[[], PassReport]
    has_work: Callable[[], bool] = lambda: True
    failures: int = 0
    _not_before: float = field(default=0.0, repr=False)

    def is_due(self, now: float) -> bool:
        """Whether its backoff is over; `now` in monotonic seconds."""
        return now >= self._not_before

    @property
    def next_try(self) -> float | None:
        """When a step that has failed is tried again, in monotonic seconds; None where it has not."""
        return self._not_before if self.failures else None

    def succeeded(self) -> None:
        """Forget earlier failures."""
        self.failures, self._not_before = 0, 0.0

    def failed(self, now: float) -> float:
        """Take a failure down; seconds until the step is tried again."""
        self.failures += 1
        pause = min(FIRST_BACKOFF_S * 2.0 ** (self.failures - 1), LONGEST_BACKOFF_S)
        self._not_before = now + pause
        return pause


@dataclass(frozen=True)
class Listeners:
    """Who is told what steps did, and what ended a service thread: its name and the error."""

    report: Callable[[str, PassReport], None]
    failure: Callable[[Step, str, float], None]
    lost: Callable[[str, Exception], None]


def run_round(steps: Sequence[Step], listeners: Listeners, *, is_stopped: Callable[[], bool]) -> float | None:
    """Run every step that is due, in order, until stopped; what a stop cut off counts as no failure.

    When the next round is wanted, in monotonic seconds: now where a step has left more of the same, else when the first
    of those that failed is tried again; None where it is not wanted before its time.
    """
    has_more = _run_due(steps, listeners, is_stopped)
    tries = [step.next_try for step in steps if step.next_try is not None]
    return min([*tries, *([time.monotonic()] if has_more else [])], default=None)


def _run_due(steps: Sequence[Step], listeners: Listeners, is_stopped: Callable[[], bool]) -> bool:
    has_more = False
    for step in steps:
        if is_stopped():
            break
        if not step.is_due(time.monotonic()):
            continue
        try:
            if step.has_work():
                report = step.run()
            elif step.failures:
                report = PassReport(step.name, 0, {"idle": 1}, {})  # what had failed was done by others since
            else:
                continue
        except Exception as error:  # whatever it was, the other steps go on
            if is_stopped():
                break
            code, words = code_and_words(error)
            listeners.failure(step, f"{code}: {words}", step.failed(time.monotonic()))
        else:
            step.succeeded()
            listeners.report(step.name, report)
            has_more |= report.has_more
    return has_more
