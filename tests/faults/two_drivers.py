"""Two driver processes on one warehouse on S3, each commit of a table held, some of them killed; every table as after one of the
two jobs alone.

Both have looked at a version long before either commits behind it. Needs MinIO, which Go builds: `--only drivers`.
"""

from __future__ import annotations

import json
import random
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import minio
from contents import contents, differences, open_passes
from far import Driver, FarPlaces, far_places
from orders import JOBS, LANDED, PAIRS, SHOWN
from s3_proxy import S3Proxy
from scenario import BY_HAND, DONE, write_inputs

COLUMNS = ("jobs", "rounds", "killed", "rows lost", "rows too many", "told to come again", "seen")
KILLED_EVERY = 2  # of a pair's rounds, from the second on: how long they take is known then
KILLED_WITHIN = 0.6  # of what a round takes: the shorter of the two jobs has ended then, at times
COME_AGAIN, TRIES = "PASS_CONFLICT", 5
KILLED = "killed"


@dataclass
class Rounds:
    """What was seen of one pair of jobs; how long its last round took in which none was killed."""

    jobs: str
    rounds: int = 0
    killed: int = 0
    lost: int = 0
    twice: int = 0
    again: int = 0
    took_s: float = 0.0
    notes: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Whether nothing was lost, there twice, or ended otherwise than by itself."""
        return not (self.lost or self.twice or self.notes)

    def row(self) -> list[str]:
        """The line of the table."""
        counts = (self.rounds, self.killed, self.lost, self.twice, self.again)
        return [self.jobs, *map(str, counts), "; ".join(self.notes[:SHOWN])]


class TwoDrivers:
    """A warehouse with what has landed, and pairs of jobs on copies of it."""

    def __init__(self, place: Path, far: FarPlaces, proxy: S3Proxy, held_s: float) -> None:
        self._place, self._far, self._proxy, self._held_s = place, far, proxy, held_s
        self._inputs = place / "inputs"
        steps = write_inputs(self._inputs, 4, BY_HAND)
        (self._inputs / "steps.json").write_text(json.dumps(steps), encoding="utf-8")
        self._environ = minio.environ(proxy.url)
        self._drivers = [Driver(place, self._inputs, self._environ) for _ in range(2)]
        self._dice = random.Random(5)
        self._rounds = 0
        for step in range(LANDED):
            self._do(0, step, str(place / "base"))
        far.put(place / "base", "base")

    def close(self) -> None:
        """End both."""
        for driver in self._drivers:
            driver.kill()

    def pair(self, first: str, second: str, rounds: int) -> Rounds:
        """So many rounds of two jobs at once."""
        one, steps = Rounds(f"{first}, {second}"), (JOBS[first], JOBS[second])
        serial = self._one_after_the_other(steps)
        for _ in range(rounds):
            self._round(one, steps, serial)
        return one

    def _one_after_the_other(self, steps: tuple[int, int]) -> list[dict[str, Counter[str]]]:
        """What is there after two jobs in either order."""
        found = []
        for turn in ((0, 1), (1, 0)):
            place = self._place / f"serial-{turn[0]}"
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(self._place / "base", place)
            for me in turn:
                self._do(0, steps[me], str(place))
            self._settled(steps, str(place))
            found.append(contents(place))
        return found

    def _round(self, one: Rounds, steps: tuple[int, int], serial: list[dict[str, Counter[str]]]) -> None:
        # A driver keeps what it knows of a place, so that no two rounds may have one.
        name = f"round-{self._rounds}-{one.jobs}".replace(", ", "-")
        uri = self._far.copied("base", name)
        one.rounds += 1
        self._rounds += 1
        for driver in self._drivers:
            driver.be_ready()
        self._proxy.set(held_s=self._held_s)
        begun = time.monotonic()
        for driver, step in zip(self._drivers, steps, strict=True):
            driver.begin(step, uri)
        if one.rounds % KILLED_EVERY == 0:
            victim = self._dice.randrange(2)
            answer_of_victim = self._drivers[victim].answer(self._dice.uniform(0.0, one.took_s * KILLED_WITHIN))
            if answer_of_victim is None:
                self._drivers[victim].kill()
                self._drivers[victim] = Driver(self._place, self._inputs, self._environ)
                one.killed += 1
            answers = [answer_of_victim or KILLED, self._drivers[1 - victim].answer()]
        else:
            answers = [driver.answer() for driver in self._drivers]
            one.took_s = time.monotonic() - begun
        one.again += answers.count(COME_AGAIN)
        if strange := [answer for answer in answers if answer not in (DONE, KILLED, COME_AGAIN)]:
            one.notes.append(f"round {one.rounds}: {strange}")
        self._proxy.set(held_s=0.0)
        if answers != [DONE, DONE]:
            # What was killed may have done nothing yet.
            self._settled(steps, uri)
        here, every = self._differences(name, serial)
        if all(every):
            # One of them came too early to see what the other wrote.
            self._settled(steps, uri)
            here, every = self._differences(name, serial)
        self._judge(one, here, every)
        self._far.removed(name)

    def _judge(self, one: Rounds, here: Path, every: list[dict[str, tuple[int, int]]]) -> None:
        if all(every):
            for table, (lost, extra) in every[0].items():
                one.lost, one.twice = one.lost + lost, one.twice + extra
                one.notes.append(f"round {one.rounds}: {table}: {lost} lost, {extra} too many")
        one.notes += [
            f"round {one.rounds}: never ended: {unfinished}" for unfinished in open_passes(here, of_upkeep=True)
        ]

    def _differences(
        self, name: str, serial: list[dict[str, Counter[str]]]
    ) -> tuple[Path, list[dict[str, tuple[int, int]]]]:
        """The warehouse as it is, on this disk, and how it differs from one job after the other, in either order."""
        here, found = self._far.fetched(name)
        return here, [{t: n for t, n in differences(each, found).items() if t != "pass"} for each in serial]

    def _settled(self, steps: Sequence[int], place: str) -> None:
        """Each job left alone once more."""
        for step in steps:
            self._do(0, step, place)

    def _do(self, number: int, step: int, place: str) -> None:
        for _ in range(TRIES):
            self._drivers[number].begin(step, place)
            if (answer := self._drivers[number].answer()) == DONE:
                return
            if answer != COME_AGAIN:
                break
        raise RuntimeError(f"step {step} in {place}: {answer}")


def named(first: str, second: str) -> str:
    """The name of the fault."""
    return f"drivers-{first}-{second}"


@contextmanager
def two_drivers(place: Path, held_s: float) -> Iterator[TwoDrivers]:
    """Two drivers and a store behind a proxy, ended in the end."""
    with far_places(place) as (far, proxy):
        two = TwoDrivers(place, far, proxy, held_s)
        try:
            yield two
        finally:
            two.close()


def run(place: Path, only: str, rounds: int, held_s: float) -> Iterator[Rounds]:
    """A line for each pair of jobs whose name contains `only`."""
    pairs = [pair for pair in PAIRS if only in named(*pair)]
    with two_drivers(place, held_s) as two:
        for first, second in pairs:
            yield two.pair(first, second, rounds)
