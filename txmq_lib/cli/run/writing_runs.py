"""Rows of the table `run`, appended by a thread that no command waits for longer than it may take."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from threading import Thread
from threading import enumerate as enumerate_threads
from typing import TYPE_CHECKING, Any

from txmq_lib.cli.output.said import say
from txmq_lib.cli.run.clock import wall_clock
from txmq_lib.errors import code_and_words
from txmq_lib.files.run_marker import left_behind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Longer than any table needs that answers: what is not written by then is left.
MOST_S = 5.0
# Some rows are followed by upkeep of their table: 64 files, one after the other.
MOST_TO_TIDY_S = 30.0
WRITING = "txmq-runs"  # the thread
TIMES, MAPS = ("started_timestamp", "ended_timestamp"), ("steps", "passes")


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


def as_json(row: dict[str, Any]) -> dict[str, Any]:
    """A row as the marker of its run keeps it."""
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}


def _from_json(facts: dict[str, Any]) -> dict[str, Any] | None:
    """The row that a marker keeps; None where another version wrote it otherwise: it stops no later run."""
    try:
        times = {name: facts[name] and datetime.fromisoformat(facts[name]) for name in TIMES}
        return {**facts, **times, **{name: [tuple(pair) for pair in facts[name]] for name in MAPS}}
    except (KeyError, TypeError, ValueError):
        return None
