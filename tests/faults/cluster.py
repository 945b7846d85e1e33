"""Every job on a cluster of two workers with the warehouse on S3: a worker goes down in the middle of each, the driver in one of
them, and every other step two drivers do at once; every table as one machine makes it on its disk.

In the middle: the row of its plan is there, and it has not ended. Needs MinIO, which Go builds: `--only cluster`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import minio
from contents import contents, differences_if_done_twice
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from far import Driver, far_places
from orders import SHOWN
from scenario import DONE, write_every_job
from spark_cluster import SparkCluster, spark_cluster
from two_drivers import COME_AGAIN

from txmq_lib.passes.pass_log import STARTED
from txmq_lib.spark.jars import spark_home

COLUMNS = ("what goes down, or two drivers at once", "times", "rows lost", "rows too many", "seen")
NAME = "cluster"
# Each pass takes long enough to be met in its middle.
DELAY_S, HELD_S, LOOK_EVERY_S = 0.02, 0.3, 0.2


@dataclass
class Downs:
    """What went down in the middle of what, what two drivers did at once, and what was seen of it."""

    jobs: list[str] = field(default_factory=list)
    lost: int = 0
    twice: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Whether nothing was lost or there twice, and every job ended by itself."""
        return not (self.lost or self.twice or self.notes)

    def row(self) -> list[str]:
        """The line of the table."""
        counts = (len(self.jobs), self.lost, self.twice)
        return [", ".join(self.jobs), *map(str, counts), "; ".join(self.notes[:SHOWN])]


class OnCluster:
    """The scenario carried on step by step by a driver on a cluster, or by two."""

    def __init__(self, place: Path, cluster: SparkCluster, environ: dict[str, str]) -> None:
        self._place, self._cluster, self._environ = place, cluster, environ
        self._inputs = place / "inputs"
        self._steps = write_every_job(self._inputs)
        self._uri = f"s3a://{minio.BUCKET}/{NAME}"
        self._driver, self._other = self._new_driver(), self._new_driver()
        self.downs = Downs()

    def close(self) -> None:
        """End the drivers."""
        for driver in (self._driver, self._other):
            driver.kill()

    def alone(self) -> Path:
        """The same on this disk, by one machine."""
        place, driver = self._place / "alone", Driver(self._place, self._inputs, self._environ)
        try:
            for number, step in enumerate(self._steps):
                driver.begin(number, str(place))
                if (answer := driver.answer()) != DONE:
                    raise RuntimeError(f"{step}, undisturbed: {answer}")
        finally:
            driver.kill()
        return place

    def run(self) -> None:
        """Every step; in the first of each job a worker goes down, in the second of reconcile the driver; two do the others."""
        seen: list[str] = []
        for number, step in enumerate(self._steps):
            seen.append(step.job)
            if seen.count(step.job) == 1:
                self._do(number, f"worker: {step.job}")
            elif (step.job, seen.count(step.job)) == ("reconcile", 2):
                self._do(number, f"driver: {step.job}")
            else:
                self._by_both(number)

    def _by_both(self, number: int) -> None:
        drivers = (self._driver, self._other)
        for driver in drivers:
            driver.begin(number, self._uri)
        answers = [driver.answer() for driver in drivers]
        job = f"two drivers: {self._steps[number].job}"
        self.downs.jobs.append(job)
        if COME_AGAIN in answers:
            self._driver.begin(number, self._uri)
            answers.append(self._driver.answer())
        if strange := [answer for answer in answers if answer not in (DONE, COME_AGAIN)]:
            self.downs.notes.append(f"{job}: {strange}")

    def _do(self, number: int, down: str) -> None:
        before = self._started()
        self._driver.begin(number, self._uri)
        answer = None
        while answer is None and self._started() == before:
            answer = self._driver.answer(LOOK_EVERY_S)
        if answer is not None:
            self.downs.notes.append(f"{down}: ended before anything went down: {answer}")
            return
        self.downs.jobs.append(down)
        self._go_down(number, is_driver=down.startswith("driver"))
        if (answer := self._driver.answer()) != DONE:
            self.downs.notes.append(f"{down}: {answer}")

    def _go_down(self, number: int, *, is_driver: bool) -> None:
        if is_driver:
            self._driver.kill()
            self._driver = self._new_driver()
            self._driver.begin(number, self._uri)
        else:
            self._cluster.lose_worker(sum(job.startswith("worker") for job in self.downs.jobs) % 2)

    def _started(self) -> int:
        """How many plans there are."""
        options = {**self._environ, "retry_timeout": "60s"}
        try:
            states = DeltaTable(f"{self._uri}/pass", storage_options=options).to_pyarrow_table(columns=["state"])
        except TableNotFoundError:
            return 0
        return states["state"].to_pylist().count(STARTED)

    def _new_driver(self) -> Driver:
        return Driver(self._place, self._inputs, self._environ, "--master", self._cluster.master)


def run(place: Path) -> Downs:
    """The line of the table."""
    with far_places(place) as (far, proxy):
        proxy.set(delay_s=DELAY_S, held_s=HELD_S)
        environ = {**minio.environ(proxy.url), "SPARK_LOCAL_IP": "127.0.0.1"}
        (place / "nodes").mkdir()
        with spark_cluster(spark_home(), place / "nodes", environ, drivers=2) as cluster:
            on_cluster = OnCluster(place, cluster, environ)
            try:
                on_cluster.run()
            finally:
                on_cluster.close()
        downs = on_cluster.downs
        expected, found = contents(on_cluster.alone()), far.fetched(NAME)[1]
    for table, (lost, extra) in differences_if_done_twice(expected, found).items():
        downs.lost, downs.twice = downs.lost + lost, downs.twice + extra
        downs.notes.append(f"{table}: {lost} lost, {extra} too many")
    return downs
