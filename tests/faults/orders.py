"""Two jobs side by side in one warehouse, driven through the orders of their writes; every table as after one of the two alone.

Each job stops before each write, when it has looked and not yet written. An order lets the first run up to one of its stops,
then the second up to one of its, then the first to its end, then the second: all orders with two switches in the middle, as
CHESS bounds them. Delta's own tests of concurrency do the same at commits (delta-io/delta pull requests 2816 and 2932).
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations_with_replacement, product
from pathlib import Path
from threading import Condition, Thread, local
from typing import Any

import driver
import pytest
from contents import contents, differences, open_passes
from pyspark.sql import SparkSession
from scenario import ASSIGNMENTS, BY_HAND, MISTYPED, RESOLVERS, WHOLE, Step, write_inputs

from txmq_lib.config.resources import conf_dir
from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import PassConflict
from txmq_lib.passes.current import Pass
from txmq_lib.spark.session import build_session, session_beside

COLUMNS = ("jobs", "orders", "differences", "told to come again", "seen")
# Where in the scenario each job is, and what has landed before.
LANDED = 4
JOBS = {"reconcile": 4, "audit": 5, "maintain": 6, "land": 7, "take-back": 8, "settle": 10}
PAIRS = tuple(combinations_with_replacement(JOBS, 2))
# On this disk two more, of reports of offsets that the scenario does not have.
LAND_OFFSETS, ROLLUP = "land-offsets", "rollup"
PAIRS_HERE = tuple(combinations_with_replacement((*JOBS, LAND_OFFSETS, ROLLUP), 2))
WAIT_S = 600.0
NEVER = 10_000
SHOWN = 4


@dataclass
class Ordered:
    """What was seen of one pair of jobs."""

    jobs: str
    orders: int = 0
    differing: int = 0
    again: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Whether every order ended as one job after the other."""
        return not self.differing

    def row(self) -> list[str]:
        """The line of the table."""
        return [self.jobs, *map(str, (self.orders, self.differing, self.again)), "; ".join(self.notes[:SHOWN])]


class Turns:
    """Whose turn it is of two threads: `quotas` stops of the first, of the second, then each to its end."""

    def __init__(self, quotas: tuple[int, int]) -> None:
        self.stops = [0, 0]
        self._left = [quotas[0], quotas[1]]
        self._turn = 0
        self._is_over = [False, False]
        self._changed = Condition()

    def begin(self, me: int) -> None:
        """Wait for the first turn."""
        with self._changed:
            self._wait(me)

    def stop(self, me: int) -> None:
        """One stop of a thread; it goes on when its turn is."""
        with self._changed:
            self.stops[me] += 1
            self._left[me] -= 1
            if self._left[me] < 0 and not self._is_over[1 - me]:
                self._left[me] = NEVER  # from its next turn on to its end
                self._turn = 1 - me
                self._changed.notify_all()
            self._wait(me)

    def end(self, me: int) -> None:
        """The thread has no more to do."""
        with self._changed:
            self._is_over[me] = True
            self._turn = 1 - me
            self._changed.notify_all()

    def _wait(self, me: int) -> None:
        if not self._changed.wait_for(lambda: self._turn == me or self._is_over[1 - me], WAIT_S):
            raise RuntimeError(f"job {me} waited {WAIT_S} s for its turn")


class Orders:
    """A warehouse with what has landed, and pairs of jobs on copies of it."""

    def __init__(self, place: Path, spark: SparkSession | None = None) -> None:
        self._place, self._inputs = place, place / "inputs"
        steps, reports = write_inputs(self._inputs, 4, BY_HAND), _reports(write_inputs(self._inputs, 4, WHOLE))
        self._steps = {job: steps[number] for job, number in JOBS.items()}
        now_ms = self._steps["land"].now_ms
        self._steps |= {LAND_OFFSETS: reports[1]._replace(now_ms=now_ms), ROLLUP: Step("rollup", now_ms)}
        self._copies = 0
        assignments = [*ASSIGNMENTS, *RESOLVERS, *driver.SPARK, *driver.UPKEEP, *self.assignments()]
        self._settings = Settings.load([conf_dir() / "few-rows.yaml"], assignments, warehouse=self.base())
        self._spark = spark or build_session("txmq-faults", self._settings)
        # Each thread its own session: MERGE is told its number through it.
        self._sessions = [session_beside(self._spark, self._settings) for _ in range(2)]
        # A broker that is taken back has reported, too.
        for step in (*steps[:LANDED], *(reports[0]._replace(broker=broker) for broker in ("served", MISTYPED))):
            self._do(self.base(), self._spark, step)

    def base(self) -> str:
        """Where the warehouse is that all are copies of."""
        return str(self._place / "base")

    def assignments(self) -> list[str]:
        """What else the settings are to say for it to be there."""
        return []

    def copied(self, name: str) -> str:
        """A copy under a name that no other has."""
        return str(shutil.copytree(self._place / "base", self._place / name))

    def removed(self, name: str) -> None:
        """Remove a copy."""
        shutil.rmtree(self._place / name)

    def found(self, name: str) -> tuple[Path, dict[str, Counter[str]]]:
        """A copy on this disk, and every row of it."""
        return self._place / name, contents(self._place / name)

    def pair(self, first: str, second: str, most: int = 0) -> Ordered:
        """All orders of two jobs, or `most` of them picked by chance."""
        steps = self._steps[first], self._steps[second]
        one, serial = Ordered(f"{first}, {second}"), []
        stops = [0, 0]
        for turn in ((0, 1), (1, 0)):
            with self._copy() as (name, place):
                for me in turn:
                    turns = Turns((NEVER, NEVER))
                    turns.end(1 - me)
                    with _stopping(turns):
                        _here.me = me
                        self._do(place, self._sessions[me], steps[me])
                        _here.me = None
                    stops[me] = max(stops[me], turns.stops[me])
                serial.append(self._settled(name, place, steps))
        orders = list(product(range(stops[0] + 1), range(stops[1] + 1)))
        for order in random.Random(11).sample(orders, most) if most and most < len(orders) else orders:
            self._ordered(one, steps, order, serial)
        return one

    def _ordered(
        self, one: Ordered, steps: tuple[Step, Step], order: tuple[int, int], serial: list[dict[str, Counter[str]]]
    ) -> None:
        one.orders += 1
        turns, failures = Turns(order), list[Exception]()

        def work(me: int, place: str) -> None:
            _here.me = me
            try:
                turns.begin(me)
                self._do(place, self._sessions[me], steps[me])
            except Exception as failure:  # judged below
                failures.append(failure)
            finally:
                turns.end(me)

        with self._copy() as (name, place):
            with _stopping(turns):
                threads = [Thread(target=work, args=(me, place)) for me in range(2)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            one.again += sum(isinstance(failure, PassConflict) for failure in failures)
            here, found = self.found(name)
            if failures or all(_differ(expected, found) for expected in serial):
                # One of them came too early to see what the other wrote.
                found = self._settled(name, place, steps)
                here, _ = self.found(name)
            unfinished_passes = open_passes(here, of_upkeep=True)
        faults = [f"{type(each).__name__}: {each}"[:200] for each in failures if not isinstance(each, PassConflict)]
        if all(_differ(expected, found) for expected in serial):
            faults.append(str(_differ(serial[0], found)))
        faults += [f"never ended: {unfinished}" for unfinished in unfinished_passes]
        if faults:
            one.differing += 1
            one.notes.append(f"{order}: {'; '.join(faults)}")

    def _settled(self, name: str, place: str, steps: Sequence[Step]) -> dict[str, Counter[str]]:
        """What is there once each job was left alone."""
        for step in steps:
            self._do(place, self._spark, step)
        return self.found(name)[1]

    def _do(self, place: str, session: SparkSession, step: Step) -> None:
        driver.run(Warehouse(session, place), self._settings, self._inputs, step)

    @contextmanager
    def _copy(self) -> Iterator[tuple[str, str]]:
        """A copy of the warehouse: its name, and where it is."""
        self._copies += 1
        name = f"copy-{self._copies}"
        yield name, self.copied(name)
        self.removed(name)


def _reports(steps: Sequence[Step]) -> list[Step]:
    """The landings of what a broker reported of its offsets."""
    return [step for step in steps if step.kind == "offset"]


def named(first: str, second: str) -> str:
    """The name of the fault."""
    return f"orders-{first}-{second}"


def run(place: Path, pairs: Sequence[tuple[str, str]], most: int = 0) -> Iterator[Ordered]:
    """A line for each pair of jobs."""
    place.mkdir()
    orders = Orders(place)
    for first, second in pairs:
        yield orders.pair(first, second, most)


_here = local()


@contextmanager
def _stopping(turns: Turns) -> Iterator[None]:
    write, append = Pass._write_through_conflicts, Pass._append_to_log

    def before_write(self: Pass, *rest: Any) -> None:
        _stop(turns)
        write(self, *rest)

    def before_row(self: Pass, *rest: Any) -> None:
        _stop(turns)
        append(self, *rest)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Pass, "_write_through_conflicts", before_write)
        patched.setattr(Pass, "_append_to_log", before_row)
        yield


def _stop(turns: Turns) -> None:
    if (me := getattr(_here, "me", None)) is not None:
        turns.stop(me)


def _differ(expected: dict[str, Counter[str]], found: dict[str, Counter[str]]) -> dict[str, tuple[int, int]]:
    return {table: each for table, each in differences(expected, found).items() if table != "pass"}
