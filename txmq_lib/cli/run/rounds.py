"""What the rounds of `txmq serve` leave in the table `run`: a row a minute in which anything came, else one an hour.

A row at once says that it serves, that a step failed, or that one works again.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from threading import Lock

from txmq_lib.cli.run.clock import wall_clock
from txmq_lib.cli.run.recorded import Run
from txmq_lib.cli.run.writing_runs import write_runs
from txmq_lib.errors import EXIT_DONE, EXIT_FAILED
from txmq_lib.names import RUN_DONE, RUN_FAILED
from txmq_lib.passes.current import PassReport
from txmq_lib.views.runs import SERVE, SERVE_ROUNDS

# A commit for each round would be thousands a day, most of them of rounds that had nothing to do.
WRITTEN_EVERY, IDLE_WRITTEN_EVERY = timedelta(minutes=1), timedelta(hours=1)


class Rounds:
    """Steps since the last row, told by several threads. What cannot be written is kept for the next row.

    started  when the service was: its first row says so
    """

    def __init__(self, warehouse: str, started: datetime, clock: Callable[[], datetime] = wall_clock) -> None:
        self._warehouse, self._clock = warehouse, clock
        self._lock = Lock()
        self._run: Run | None = Run(SERVE_ROUNDS, started)
        self._working: set[str] = set()  # steps of which the table says that they were done last
        self._failing: set[str] = set()

    def begun(self) -> None:
        """The service serves: whatever became of the one before it."""
        with self._lock:
            run = self._under_way()
            run.steps.setdefault(SERVE, "")
            self._write(run)

    def done(self, step: str, report: PassReport) -> None:
        """A step ended well."""
        with self._lock:
            run = self._under_way()
            run.step(step, report)
            is_idle = run.is_plain and run.steps.keys() <= self._working
            due = IDLE_WRITTEN_EVERY if is_idle else WRITTEN_EVERY
            if step in self._failing or self._clock() - run.started >= due:
                self._failing.discard(step)
                self._write(run)

    def failed(self, step: str, words: str) -> None:
        """A step failed, in words that begin with the code: told at once."""
        with self._lock:
            run = self._under_way()
            run.failed(step, words)
            self._failing.add(step)
            self._write(run)

    def write(self) -> None:
        """The last row, at the end of the service."""
        with self._lock:
            if self._run is not None:
                self._write(self._run)

    def _under_way(self) -> Run:
        self._run = self._run or Run(SERVE_ROUNDS, self._clock())
        return self._run

    def _write(self, run: Run) -> None:
        error = next((words for words in run.steps.values() if words), "")
        outcome, status = (RUN_FAILED, EXIT_FAILED) if error else (RUN_DONE, EXIT_DONE)
        if not write_runs(self._warehouse, [run.row(self._clock(), outcome, status, error)]):
            self._working = {step for step in (self._working | run.steps.keys()) if not run.steps.get(step)}
            self._run = None
