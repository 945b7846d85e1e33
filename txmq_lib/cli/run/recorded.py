"""Every run of a command that makes passes leaves a row in the table `run`. None of this fails or delays a run."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import typer

from txmq_lib.cli import signals
from txmq_lib.cli.options import location
from txmq_lib.cli.output.said import say
from txmq_lib.cli.run.clock import wall_clock
from txmq_lib.cli.run.writing_runs import as_json, write_runs
from txmq_lib.config.resources import txmq_version
from txmq_lib.config.secrets import scrubbed
from txmq_lib.config.settings import Settings
from txmq_lib.errors import (
    EXIT_DONE,
    EXIT_FAILED,
    EXIT_FINDINGS,
    TxmqError,
    WarehouseUnreached,
    WarehouseUnsafe,
    code_and_words,
)
from txmq_lib.files.run_marker import RunMarker
from txmq_lib.files.started_by import started_by
from txmq_lib.names import RUN_DONE, RUN_ENDED, RUN_FAILED, RUN_FINDINGS, RUN_KILLED
from txmq_lib.passes.current import PassReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_WORDS = 500
OUTCOMES = {EXIT_DONE: RUN_DONE, EXIT_FINDINGS: RUN_FINDINGS}


@dataclass
class Run:
    """What is known of a run under way. Several threads may tell it something.

    spark  a session that goes on until the run is recorded, once there is one
    """

    command: str
    started: datetime
    steps: dict[str, str] = field(default_factory=dict)
    passes: dict[str, int] = field(default_factory=dict)
    brokers: set[str] = field(default_factory=set)
    spark: SparkSession | None = None
    _lock: Lock = field(default_factory=Lock, repr=False)

    def step(self, name: str, became: PassReport | Exception) -> None:
        """A step ended: with a report, or an error."""
        if isinstance(became, Exception):
            code, words = code_and_words(became)
            self.failed(name, f"{code}: {words}")
            return
        with self._lock:
            self.steps.setdefault(name, "")
            self.brokers.update(became.brokers)
            if became.number and became.job != "run":  # the sum of a cycle is no pass of its own
                self.passes[became.job] = became.number

    def failed(self, name: str, words: str) -> None:
        """A step failed, in words that begin with the code of the error."""
        with self._lock:
            self.steps[name] = scrubbed(words)[:MOST_WORDS]

    @property
    def is_plain(self) -> bool:
        """Whether nothing came of it: no pass, no error."""
        return not self.passes and not any(self.steps.values())

    def row(self, ended: datetime | None, outcome: str, status: int | None, words: str = "") -> dict[str, Any]:
        """The row of the table; `words` are those of the error, behind its code."""
        with self._lock:
            code, colon, error = words.partition(": ") if outcome == RUN_FAILED else ("", "", words)
            return {
                "run_id": f"{self.started:%Y%m%dT%H%M%S%f}-{socket.gethostname()}-{os.getpid()}-{self.command}".replace(
                    " ", "-"
                ),
                "command": self.command,
                "started_timestamp": self.started,
                "ended_timestamp": ended,
                "seconds": None if ended is None else max((ended - self.started).total_seconds(), 0.0),
                "outcome": outcome,
                "exit_status": status,
                "error_code": code if colon else None,
                "error": scrubbed(error)[:MOST_WORDS] or None,
                "steps": list(self.steps.items()),
                "passes": list(self.passes.items()),
                "brokers": sorted(self.brokers),
                "started_by": started_by(),
                "process": os.getpid(),
                "txmq_version": txmq_version(),
            }


@contextmanager
def recorded(command: str, settings: Settings) -> Iterator[Run]:
    """A run of a command over the warehouse of `settings`, recorded at its end, however it ends.

    One that is killed is found by the next: what it left beside a warehouse on this machine tells of it.
    """
    run = Run(command, wall_clock())
    warehouse = location(settings.warehouse)
    keeper = _Keeper(warehouse, run)
    with signals.before_end(keeper.ended):
        try:
            yield run
        except typer.Exit as left:
            status = left.exit_code
            run.steps.setdefault(command, "")
            unread = next((words for words in run.steps.values() if words), "")  # a source, where others landed
            keeper.over(OUTCOMES.get(status, RUN_FAILED), status, unread)
            raise
        except Exception as error:
            code, words = code_and_words(error)
            if not any(run.steps.values()):
                run.failed(command, f"{code}: {words}")
            status = error.exit_status if isinstance(error, TxmqError) else EXIT_FAILED
            # Else nobody would be there to write to, or nothing is to be written there.
            if not isinstance(error, WarehouseUnreached | WarehouseUnsafe):
                keeper.over(RUN_FAILED, status, f"{code}: {words}")
            raise
        else:
            run.steps.setdefault(command, "")
            keeper.over(RUN_DONE, EXIT_DONE)


@contextmanager
def unrecorded(command: str) -> Iterator[Run]:
    """A run that leaves nothing."""
    yield Run(command, wall_clock())


class _Keeper:
    """Where a run is kept: a marker while it goes on, where the warehouse is of this machine; a row at its end."""

    def __init__(self, warehouse: str, run: Run) -> None:
        self._warehouse, self._run = warehouse, run
        self._local = Path(warehouse.removeprefix("file:")) if warehouse.startswith(("/", "file:")) else None
        self._marker: RunMarker | None = None
        facts = run.row(None, RUN_KILLED, None, "killed, or its machine stopped: nobody saw its end")
        if self._local is not None:
            with suppress(OSError):
                self._marker = RunMarker(self._local, facts["run_id"], as_json(facts))

    def ended(self) -> None:
        """A signal ends the process: the next run writes the row."""
        if self._marker is not None:
            now = wall_clock()
            self._marker.keep(as_json(self._run.row(now, RUN_ENDED, None, "ended by a signal")))

    def over(self, outcome: str, status: int, words: str = "") -> None:
        """The row, and those of runs that were killed; what cannot be written is told."""
        row = self._run.row(wall_clock(), outcome, status, words)
        # Where a run failed it may be Spark that does not reach the warehouse.
        spark = None if outcome == RUN_FAILED else self._run.spark
        failure = write_runs(self._warehouse, [row], killed_in=self._local, spark=spark)
        if failure and outcome != RUN_FAILED:  # else its own error is what people should read
            say(f"this run is not recorded: {failure}", err=True)
        if self._marker is not None:
            with suppress(OSError):
                self._marker.remove()
