"""Every run of a command that makes passes leaves a row in the table `run`. None of this fails or delays a run."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from threading import Lock, Thread
from threading import enumerate as enumerate_threads
from typing import TYPE_CHECKING, Any

import typer

from txmq_lib.cli import signals
from txmq_lib.cli.options import location
from txmq_lib.cli.output.said import say
from txmq_lib.cli.run.clock import wall_clock
from txmq_lib.config.resources import txmq_version
from txmq_lib.config.secrets import scrubbed
from txmq_lib.config.settings import Settings
from txmq_lib.errors import EXIT_DONE, EXIT_FAILED, EXIT_FINDINGS, TxmqError, WarehouseUnreached, code_and_words
from txmq_lib.files.run_marker import RunMarker, left_behind
from txmq_lib.files.started_by import started_by
from txmq_lib.names import RUN_DONE, RUN_ENDED, RUN_FAILED, RUN_FINDINGS, RUN_KILLED
from txmq_lib.passes.current import PassReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Longer than any table needs that answers: what is not written by then is left.
MOST_S = 5.0
# Some rows are followed by upkeep of their table: 64 files, one after the other.
MOST_TO_TIDY_S = 30.0
WRITING = "txmq-runs"  # the thread
MOST_WORDS = 500
TIMES, MAPS = ("started_timestamp", "ended_timestamp"), ("steps", "passes")
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
            if not isinstance(error, WarehouseUnreached):  # else nobody would be there to write to
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
                self._marker = RunMarker(self._local, facts["run_id"], _as_json(facts))

    def ended(self) -> None:
        """A signal ends the process: the next run writes the row."""
        if self._marker is not None:
            now = wall_clock()
            self._marker.keep(_as_json(self._run.row(now, RUN_ENDED, None, "ended by a signal")))

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


def write_runs(
    warehouse: str, rows: list[dict[str, Any]], *, killed_in: Path | None = None, spark: SparkSession | None = None
) -> str:
    """Append rows of runs, and of those that were killed; in words why they could not be, else nothing.

    killed_in  the directory beside whose tables killed runs are looked for
    spark      a session, where one is there
    """
    failure, untidied = [f"the table did not answer in {MOST_S:.0f} s"], list[str]()

    def work() -> None:
        try:
            version = _append(warehouse, rows, spark) if killed_in is None else _append_with_killed(killed_in, rows)
        except Exception as error:  # whatever it is, the run was what it was
            failure[:] = [code_and_words(error)[1]]
            return
        failure.clear()
        try:
            _keep_small(warehouse, version, rows)
        except Exception as error:
            untidied.append(code_and_words(error)[1])

    thread = Thread(target=work, name=WRITING, daemon=True)
    thread.start()
    thread.join(MOST_S)
    if not failure:
        thread.join(MOST_TO_TIDY_S)
    for words in untidied:
        say(f"the rows of runs are not put together: {words}", err=True)
    return "".join(failure)


def is_writing() -> bool:
    """Whether a row is still being written that nobody waits for."""
    return any(thread.name == WRITING for thread in enumerate_threads())


def _append(warehouse: str, rows: list[dict[str, Any]], spark: SparkSession | None) -> int:
    from txmq_lib.delta.run_rows import append_runs

    return append_runs(warehouse, rows, spark=spark)


def _keep_small(warehouse: str, version: int, rows: list[dict[str, Any]]) -> None:
    from txmq_lib.delta.run_rows import keep_small

    keep_small(warehouse, version, has_work=any(row["passes"] for row in rows), wall=wall_clock())


def _append_with_killed(warehouse: Path, rows: list[dict[str, Any]]) -> int:
    with left_behind(warehouse) as found:
        killed = [row for facts in found if (row := _from_json(facts)) is not None]
        version = _append(str(warehouse), [*killed, *rows], None)
    for each in killed:
        say(f"{each['command']} of {each['started_timestamp']:%Y-%m-%dT%H:%M:%SZ}: {each['error']}", err=True)
    return version


def _as_json(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}


def _from_json(facts: dict[str, Any]) -> dict[str, Any] | None:
    """The row that a marker keeps; None where another version wrote it otherwise: it stops no later run."""
    try:
        times = {name: facts[name] and datetime.fromisoformat(facts[name]) for name in TIMES}
        return {**facts, **times, **{name: [tuple(pair) for pair in facts[name]] for name in MAPS}}
    except (KeyError, TypeError, ValueError):
        return None
