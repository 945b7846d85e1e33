"""Passes of a warehouse anywhere, one at a time as they are asked for: `python far_passes.py URI CLASSES FIRST HERE`.

A line of stdin is a step; the answer is a line of JSON, its wall and processor seconds and counts. A process of its own, since its JVM knows S3.

halves  1,000 halves and their ends are there, not yet a pass; those before FIRST thousand are another's
pass    a reconcile
cycle   all that `txmq run` does
beside  another session's first cycle: nothing of the tables is known
round   what the thread of `txmq serve` does at each check interval
row     the row that a command leaves in the table `run`

`halves here` and `pass here` do the same in a warehouse on this disk, at HERE.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.data import NOW, Stream
from tests.bench.small import _land
from tests.bench.taken import taken
from tests.bench.warehouses import RESERVED, opened, wall_clock
from txmq_lib.cli.run.recorded import Run
from txmq_lib.cli.run.writing_runs import write_runs
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.passes.current import PassReport
from txmq_lib.pipeline.cycle import run_cycle
from txmq_lib.pipeline.reconcile.job import run_reconcile
from txmq_lib.service.rounds import Listeners, Step
from txmq_lib.service.service import services


class FarPasses:
    """Such a process, from the side of who asks."""

    def __init__(self, uri: str, classes: str, first: int = 0, here: str = "") -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, uri, classes, str(first), here],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()

    def ask(self, step: str) -> dict[str, Any]:
        """Have a step done: its seconds and counts."""
        assert self._process.stdin is not None
        self._process.stdin.write(step + "\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found
        raise RuntimeError("the process ended")


def main() -> None:
    uri, classes, first, here = sys.argv[1:]
    path = [f"spark.spark.driver.extraClassPath={classes}"] if classes else []
    warehouse, settings = opened(uri, RESERVED, "spark.spark.driver.memory=2g", *path)
    warehouse.ensure()
    here_too = Warehouse(warehouse.spark, here or uri)
    landed = {warehouse.uri: int(first), here_too.uri: int(first)}

    def now() -> datetime:
        return max(NOW + timedelta(seconds=sum(landed.values())), datetime.now(UTC))

    def halves(house: Warehouse = warehouse) -> None:
        _land(house, Stream(unended_of=0), landed[house.uri])
        landed[house.uri] += 1

    def reconcile(house: Warehouse = warehouse) -> PassReport:
        return run_reconcile(house, settings, now=now(), wall_clock=wall_clock)

    def cycle(house: Warehouse = warehouse) -> PassReport:
        return run_cycle(house, settings, now=now(), wall_clock=wall_clock, environ={})

    def row() -> PassReport:
        at = datetime.now(UTC)
        words = write_runs(uri, [Run("audit", at).row(at, "done", 0)], spark=warehouse.spark)
        return PassReport("audit", 0, {"recorded": 0 if words else 1}, {})

    def told(step: Step, words: str, _: float) -> None:
        raise AssertionError(f"{step.name}: {words}")

    listeners = Listeners(report=lambda *_: None, failure=told, lost=lambda *_: None)
    thread = services(warehouse, settings, wall_clock=now, environ={}, listeners=listeners)[0]

    def each_round() -> None:
        thread._work()

    steps: dict[str, Callable[[], PassReport | None]] = {
        "halves": halves,
        "halves here": lambda: halves(here_too),
        "pass": reconcile,
        "pass here": lambda: reconcile(here_too),
        "cycle": cycle,
        "beside": lambda: cycle(Warehouse(warehouse.spark, uri)),
        "round": each_round,
        "row": row,
    }
    answer({})
    for line in sys.stdin:
        with taken() as found:
            report = steps[line.strip()]()
        answer({**found, "counts": {} if report is None else dict(report.counts)})


def answer(facts: dict[str, object]) -> None:
    """A line for whoever asked."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
