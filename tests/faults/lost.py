"""Every job on S3 while answers get lost, requests are refused, or the store is away for a while; every table as undisturbed.

A job that ended with an error is done once more, as its next start would. Needs MinIO, which Go builds: `--only lost`.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import minio
from contents import differences_if_done_twice
from far import Driver, FarPlaces, far_places
from orders import SHOWN
from s3_proxy import Fault, Faults, Rule, S3Proxy, no_fault
from scenario import DONE, write_every_job

COLUMNS = ("job", "requests", "disturbed", "ended with an error", "rows lost", "rows too many", "seen")
JOBS = ("land", "land-store", "reconcile", "rollup", "audit", "maintain", "take-back")
LOST = (Fault.LOST_500, Fault.LOST_CUT, Fault.LOST_SILENT)
PATIENCE = ("--patience", "3")  # seconds until a silent store is asked anew; Hadoop's client waits 15 at least
AWAY = 40  # requests that are not answered, one after the other


@dataclass
class Lost:
    """What was seen of one job."""

    job: str
    requests: int = 0
    runs: int = 0
    failed: int = 0
    lost: int = 0
    twice: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Whether all went well in the end."""
        return not (self.lost or self.twice or self.notes)

    def row(self) -> list[str]:
        """The line of the table."""
        counts = (self.requests, self.runs, self.failed, self.lost, self.twice)
        return [self.job, *map(str, counts), "; ".join(self.notes[:SHOWN])]


def faults(requests: int, most: int) -> Iterator[tuple[str, Rule]]:
    """Ways to disturb so many requests: `most` answers lost (0: each), every third refused, the store away once."""
    numbers = list(range(1, requests + 1))
    chosen = sorted(random.Random(3).sample(numbers, most)) if 0 < most < requests else numbers
    for turn, number in enumerate(chosen):
        fault = LOST[turn % len(LOST)]
        yield f"answer {number} lost ({fault.name})", Faults(fault, first=number, most=1)
    yield "every third request refused", Faults(Fault.UNAVAILABLE, every=3)
    yield f"away for {AWAY} requests", Faults(Fault.CUT, first=requests // 2, most=AWAY)


class _Jobs:
    """The scenario carried on step by step on this disk; before each job the warehouse is put on S3."""

    def __init__(self, place: Path, far: FarPlaces, proxy: S3Proxy) -> None:
        self._place, self._far, self._proxy = place, far, proxy
        self._inputs = place / "inputs"
        self.steps = write_every_job(self._inputs)
        self._environ = minio.environ(proxy.url)
        self._driver = Driver(place, self._inputs, self._environ, *PATIENCE)

    def close(self) -> None:
        self._driver.kill()

    def run(self, only: str, most: int) -> Iterator[Lost]:
        """A line for each of JOBS whose name contains `only`, the first step of each looked at."""
        seen, chain = set(), self._place / "chain"
        for number, step in enumerate(self.steps):
            if step.job in JOBS and step.job not in seen and only in named(step.job) and chain.exists():
                seen.add(step.job)
                yield self._disturbed(number, chain, most)
            if (answer := self._did(number, str(chain))) != DONE:
                raise RuntimeError(f"{step}: {answer}")

    def _disturbed(self, number: int, chain: Path, most: int) -> Lost:
        one = Lost(self.steps[number].job)
        base = f"before-{one.job}"
        self._far.put(chain, base)
        with self._proxy.counting() as seen:
            uri = self._far.copied(base, f"{one.job}-whole")
            if (answer := self._did(number, uri)) != DONE:
                raise RuntimeError(f"{one.job}, undisturbed: {answer}")
        one.requests = seen.total
        expected = self._far.fetched(f"{one.job}-whole")[1]
        for words, rule in faults(one.requests, most):
            self._disturb(one, number, (words, rule), base, expected)
        return one

    def _disturb(
        self, one: Lost, number: int, fault: tuple[str, Rule], base: str, expected: dict[str, Counter[str]]
    ) -> None:
        words, rule = fault
        name = f"{one.job}-{one.runs}"
        uri = self._far.copied(base, name)
        one.runs += 1
        self._proxy.set(fails=rule)
        answer = self._did(number, uri)
        self._proxy.set(fails=no_fault)
        if answer != DONE:
            one.failed += 1
            if (again := self._did(number, uri)) != DONE:
                one.notes.append(f"{words}: {answer}; then {again}")
        for table, (lost, extra) in differences_if_done_twice(expected, self._far.fetched(name)[1]).items():
            one.lost, one.twice = one.lost + lost, one.twice + extra
            one.notes.append(f"{words}: {answer}: {table}: {lost} lost, {extra} too many")
        self._far.removed(name)

    def _did(self, number: int, uri: str) -> str | None:
        self._driver.begin(number, uri)
        return self._driver.answer()


def named(job: str) -> str:
    """The name of the fault."""
    return f"lost-{job}"


def run(place: Path, only: str, most: int) -> Iterator[Lost]:
    """A line for each job whose name contains `only`."""
    with far_places(place) as (far, proxy):
        jobs = _Jobs(place, far, proxy)
        try:
            yield from jobs.run(only, most)
        finally:
            jobs.close()
            shutil.rmtree(place / "chain", ignore_errors=True)
