"""The fault matrix: real driver processes killed, crossed and starved; every table compared with an undisturbed run."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import methodcaller
from pathlib import Path

from contents import committed, contents, differences, done_beside, open_passes
from scenario import ANSWER, BY_HAND, DONE, MISTYPED, WHOLE, write_inputs

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FULL_DISK_BYTES, GROWTH_BYTES, MOST_FAILURES = 700_000, 150_000, 60
SAID_LAST, SHOWN = 6_000, 3
KILLED_WITHIN = 0.35  # of what the whole scenario takes: the first steps of a JVM are slow


@dataclass
class Outcome:
    """One line of the table: what was done how often, and what differed afterwards."""

    fault: str
    times: int = 0
    rows_lost: int = 0
    rows_twice: int = 0
    notes: list[str] = field(default_factory=list)


class Matrix:
    """A scenario, the contents an undisturbed run leaves, and a place for disturbed ones."""

    def __init__(self, place: Path, scenario: str = WHOLE, seed: int = 4) -> None:
        self.place = place
        self.scenario = scenario
        self.inputs = place / "inputs"
        self.steps = write_inputs(self.inputs, seed, scenario)
        (self.inputs / "steps.json").write_text(json.dumps(self.steps), encoding="utf-8")
        begun = time.monotonic()
        whole = self._fresh("whole")
        if self._run(whole) != 0:
            raise RuntimeError(f"the undisturbed run failed: {_last_words(whole)}")
        self.seconds = time.monotonic() - begun
        self.expected = contents(whole / "warehouse")
        self._require_full(whole / "warehouse")

    def told(self) -> str:
        """How long the undisturbed run was."""
        return f"{len(self.steps)} steps, {self.seconds:.0f} s"

    def _require_full(self, warehouse: Path) -> None:
        """RuntimeError where a step did nothing, or left what it should have taken away: no fault would show there."""
        step_counts = Counter(step.job.removesuffix("-store") for step in self.steps)
        if (done := committed(warehouse)) != step_counts:
            raise RuntimeError(f"committed passes of the undisturbed run: {done}; steps: {step_counts}")
        named = f"('broker_name', '{MISTYPED}')"
        if left := [
            table for table, rows in self.expected.items() if table != "pass" and any(named in r for r in rows)
        ]:
            raise RuntimeError(f"rows of {MISTYPED} are left in {', '.join(left)}")

    def killed_at_every_write(self, most: int | None = None, *, by_spark: bool = False, files: bool = False) -> Outcome:
        """One chain of processes, each killed at the next write not yet tried, before it and after it.

        files     killed instead where a file is written and no commit names it yet, in the driver and inside tasks
        by_spark  passes work as those of many rows do: Spark writes, outcomes are written first, halves told by words
        """
        run = self._fresh(f"every-write-{by_spark}-{files}")
        points = run / "points"
        while (code := self._run(run, points, most=most, by_spark=by_spark, files=files)) == -signal.SIGKILL:
            pass
        if code != 0:
            raise RuntimeError(f"exit {code}: {_last_words(run)}")
        tried = points.read_text(encoding="utf-8").splitlines()
        when = "between a file and its commit" if files else "before and after every write"
        how = f"killed {when}" + self._of_what(" of passes of many rows" if by_spark else "")
        outcome = self._judged(how, run, times=len(tried))
        outcome.notes += [f"{times} {name}" for name, times in Counter(one.split()[1] for one in tried).items()]
        return outcome

    def killed_at_random(self, kills: int, seed: int = 9, *, by_spark: bool = False) -> Outcome:
        """Scenarios run over and over, each process killed at some instant after Spark's start, until so many have been."""
        how = "killed at random instants" + self._of_what(" in passes of many rows" if by_spark else "")
        dice, total = random.Random(seed), Outcome(how)
        while total.times < kills:
            run, killed = self._fresh(f"random-{by_spark}-{total.times}"), 0
            while True:
                may_go_on = total.times + killed >= kills
                instant = None if may_go_on else dice.uniform(0.0, KILLED_WITHIN * self.seconds)
                code = self._run(run, kill_after=instant, by_spark=by_spark)
                killed += code == -signal.SIGKILL
                if code != -signal.SIGKILL:
                    break
            if code != 0:
                raise RuntimeError(f"exit {code}: {_last_words(run)}")
            _add(total, self._judged("", run, times=killed))
            shutil.rmtree(run)
        return total

    def started_together(self, processes: int, *, by_spark: bool = False) -> Outcome:
        """Each step begun by so many processes at the same moment; one that is told to come again later does."""
        run = self._fresh(f"together-{processes}-{by_spark}")
        started = [self._serving(run, number, by_spark=by_spark) for number in range(processes)]
        answers: Counter[str] = Counter()
        try:
            for number in range(len(self.steps)):
                waiting = list(started)
                for _ in range(5):
                    for process in waiting:
                        _say(process, number)
                    endings = [(process, _heard(process)) for process in waiting]
                    if ended := [started.index(process) for process, answer in endings if not answer]:
                        words = _last_words(run, log=f"stderr-{ended[0]}.log")
                        raise RuntimeError(f"a process ended within {self.steps[number]}: {words}")
                    answers.update(answer for _, answer in endings)
                    waiting = [process for process, answer in endings if answer != DONE]
                    if not waiting:
                        break
        finally:
            for process in started:
                _killed(process)
        how = f"{processes} processes started together" + self._of_what(" in passes of many rows" if by_spark else "")
        outcome = self._judged(how, run, times=len(self.steps))
        outcome.notes += [f"{times} {answer}" for answer, times in sorted(answers.items())]
        return outcome

    def landed_and_kept_up_beside(self) -> Outcome:
        """Other brokers landed and tables compacted by processes of their own, all the while."""
        run = self._fresh("beside")
        others = [self._started(run, ["--beside", what], log=f"stderr-{what}.log") for what in ("land", "maintain")]
        try:
            self._finish(run)
            outcome = self._judged("landings and OPTIMIZE beside", run, times=1)
            ended = [(each.poll(), what) for each, what in zip(others, ("landing", "upkeep"), strict=True)]
        finally:
            for process in others:
                if process.poll() is None:
                    _killed(process)
        landings, files = done_beside(run / "warehouse")
        outcome.notes.append(f"{landings} landings and {files} files compacted beside")
        if any(code is not None for code, _ in ended) or landings < len(self.steps) or not files:
            outcome.rows_lost += 1
            outcome.notes.append(f"NOT BESIDE to the end: {ended}")
        return outcome

    def full_disk(self) -> Outcome:
        """A file system that fills up in the middle of passes again and again, and gets a little more room each time."""
        run, size, failures = self._fresh("full"), FULL_DISK_BYTES, 0
        with _mounted(run / "warehouse", "-t", "tmpfs", "-o", f"size={size}", "tmpfs"):
            while self._run(run) != 0 and failures < MOST_FAILURES:
                failures, size = failures + 1, size + GROWTH_BYTES
                _mount("-o", f"remount,size={size}", str(run / "warehouse"))
            outcome = self._judged("full disk", run, times=failures)
        if not failures:
            outcome.rows_lost += 1
            outcome.notes.append("NEVER FULL")
        return outcome

    def read_only(self) -> Outcome:
        """A warehouse that may only be read from the middle of the scenario on, for a while."""
        run = self._fresh("read-only")
        self._run(run, until=len(self.steps) // 2)
        before, place = contents(run / "warehouse"), str(run / "warehouse")
        with _mounted(run / "warehouse", "--bind", place):
            _mount("-o", "remount,ro,bind", place)
            code = self._run(run)
        is_unharmed = code != 0 and contents(run / "warehouse") == before
        self._finish(run)
        outcome = self._judged("read-only warehouse", run, times=1)
        outcome.notes.append(f"exit {code} meanwhile" + ("" if is_unharmed else ", AND ROWS CHANGED"))
        outcome.rows_lost += not is_unharmed
        return outcome

    def missing_data_file(self) -> Outcome:
        """A data file that a pass needs is away for a while."""
        run = self._fresh("missing")
        until = next(number for number, step in enumerate(self.steps) if step.job == "reconcile")
        self._run(run, until=until)
        data = next((run / "warehouse" / "half_message").glob("*.parquet"))
        data.rename(run / data.name)
        code = self._run(run)
        (run / data.name).rename(data)
        self._finish(run)
        outcome = self._judged("missing data file", run, times=1)
        outcome.notes.append(f"exit {code} while it was away")
        if code == 0:
            outcome.rows_lost += 1
        return outcome

    def _of_what(self, else_: str) -> str:
        return f"{else_} ({self.scenario})" if self.scenario != WHOLE else else_

    def _finish(self, run: Path) -> None:
        if self._run(run) != 0:
            raise RuntimeError(f"did not recover: {_last_words(run)}")

    def _judged(self, fault: str, run: Path, times: int = 0) -> Outcome:
        outcome = Outcome(fault, times)
        found = contents(run / "warehouse")
        if unfinished := open_passes(run / "warehouse", of_upkeep=self.scenario == BY_HAND):
            outcome.rows_lost += len(unfinished)
            outcome.notes.append(f"never ended: {unfinished}")
        for table, (lost, extra) in differences(self.expected, found).items():
            outcome.rows_lost += lost
            outcome.rows_twice += extra
            outcome.notes.append(f"{table}: {lost} lost, {extra} too many")
            for sign, rows in (("-", self.expected[table] - found[table]), ("+", found[table] - self.expected[table])):
                outcome.notes += [f"{sign} {row}"[:SAID_LAST] for row in list(rows)[:SHOWN]]
        return outcome

    def _fresh(self, name: str) -> Path:
        run = self.place / name
        (run / "warehouse").mkdir(parents=True)
        (run / "progress").write_text("0", encoding="utf-8")
        return run

    def _run(
        self,
        run: Path,
        points: Path | None = None,
        *,
        most: int | None = None,
        kill_after: float | None = None,
        until: int | None = None,
        by_spark: bool = False,
        files: bool = False,
    ) -> int:
        """Carry the scenario of `run` on in a process of its own, killed so many seconds after it is ready; its exit status."""
        if points is not None and most is not None and points.exists() and len(points.read_text().split("\n")) > most:
            points = None
        options = {"--progress": run / "progress", "--points": points, "--until": until}
        named = [part for name, value in options.items() if value is not None for part in (name, str(value))]
        named += ["--by-spark"] * by_spark + ["--files"] * files
        process = self._started(run, named)
        try:
            if kill_after is not None:
                _heard(process)
            return process.wait(timeout=900 if kill_after is None else kill_after)
        except subprocess.TimeoutExpired:
            _killed(process)
            return -signal.SIGKILL

    def _serving(self, run: Path, number: int, *, by_spark: bool) -> subprocess.Popen[str]:
        process = self._started(run, ["--by-spark"] * by_spark, log=f"stderr-{number}.log")
        _heard(process)
        return process

    def _started(self, run: Path, options: list[str], *, log: str = "stderr.log") -> subprocess.Popen[str]:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "tests", ROOT / "tests" / "support", HERE))),
            "SPARK_LOCAL_DIRS": str(run / "scratch"),
        }
        with (run / log).open("a", encoding="utf-8") as errors:
            return subprocess.Popen(
                [sys.executable, str(HERE / "driver.py"), str(run / "warehouse"), str(self.inputs), *options],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )


def _last_words(run: Path, *, log: str = "stderr.log") -> str:
    """What the last process said at its end: the files go with the matrix."""
    return (run / log).read_text(encoding="utf-8")[-SAID_LAST:]


def _killed(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _say(process: subprocess.Popen[str], number: int) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{number}\n")
    process.stdin.flush()


def _heard(process: subprocess.Popen[str]) -> str:
    """The next answer of the driver; empty where it has ended."""
    assert process.stdout is not None
    answers = (line.strip() for line in process.stdout if line.startswith(ANSWER))
    return next(answers, "").removeprefix(ANSWER)


def _add(total: Outcome, one: Outcome) -> None:
    total.times += one.times
    total.rows_lost += one.rows_lost
    total.rows_twice += one.rows_twice
    total.notes += one.notes


@contextmanager
def _mounted(place: Path, *how: str) -> Iterator[None]:
    _mount(*how, str(place))
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


def _mount(*how: str) -> None:
    subprocess.run(["mount", *how], check=True)


def all_faults(kills: int) -> dict[str, tuple[str, Callable[[Matrix], Outcome]]]:
    """Every fault by name: the scenario, and what is done to a matrix of it."""
    faults = {
        "missing-file": methodcaller("missing_data_file"),
        "together-2": methodcaller("started_together", 2),
        "together-2-by-spark": methodcaller("started_together", 2, by_spark=True),
        "together-3": methodcaller("started_together", 3),
        "together-4": methodcaller("started_together", 4),
        "beside": methodcaller("landed_and_kept_up_beside"),
        "every-write": methodcaller("killed_at_every_write"),
        "every-write-by-spark": methodcaller("killed_at_every_write", by_spark=True),
        "every-file": methodcaller("killed_at_every_write", by_spark=True, files=True),
        "random": methodcaller("killed_at_random", kills),
        "random-by-spark": methodcaller("killed_at_random", kills // 4, by_spark=True),
    }
    if os.geteuid() == 0:
        # Only root may mount.
        faults = {"full-disk": methodcaller("full_disk"), "read-only": methodcaller("read_only"), **faults}
    by_hand = {
        "every-file-by-hand": methodcaller("killed_at_every_write", by_spark=True, files=True),
        "every-write-by-hand": methodcaller("killed_at_every_write"),
        "every-write-by-hand-by-spark": methodcaller("killed_at_every_write", by_spark=True),
        "random-by-hand": methodcaller("killed_at_random", kills // 4),
        "together-2-by-hand": methodcaller("started_together", 2),
    }
    return {name: (WHOLE, fault) for name, fault in faults.items()} | {
        name: (BY_HAND, fault) for name, fault in by_hand.items()
    }
