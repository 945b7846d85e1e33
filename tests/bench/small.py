"""Small passes: idle, a thousand halves, warm and from a cold spark-submit, against the least a Spark user pays."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyspark

from tests.bench.bench import Bench
from tests.bench.data import NOW, Stream, append, ends, frontier, halves
from tests.bench.digest import ResultsDifferError
from tests.bench.figures import Figure, middle
from tests.bench.warehouses import opened, wall_clock
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.names import HALF_TOPIC
from txmq_lib.pipeline.reconcile.job import run_reconcile

NEW = 1000
ROUNDS = {"small": 5, "full": 12}
WARM_UP = 2
ROOT = Path(__file__).parents[2]
LONGEST_S = 300


def run(bench: Bench) -> list[Figure]:
    """Warm passes against one small append to a Delta table; a cold job against one that only makes that append."""
    place = bench.warehouse("w")
    warm = bench.call("warm", measure, is_warm=True, path=place, rounds=ROUNDS[bench.size]).result
    job = bench.call("spark-submit", submit, script=ROOT / "jobs" / "reconcile.py", path=place).result
    if f"op_message {NEW}" not in job["told"]:
        raise ResultsDifferError(f"the job should have written {NEW} ops and told {job['told']}")
    least = bench.call("least spark-submit", submit, script=ROOT / "tests/bench/least_job.py", path=place).result
    return [
        Figure("small", "idle pass, one small append", warm["idle"], warm["append"]),
        Figure("small", "pass of 1,000, one small append", warm["pass"], warm["append"]),
        Figure("small", "spark-submit of a pass of 1,000, of one small append", job["seconds"], least["seconds"]),
    ]


def measure(path: str, rounds: int) -> dict[str, Any]:
    """Medians of idle passes, of passes over NEW halves and their ends, and of appends of NEW rows; a batch left over."""
    warehouse, settings = opened(path)
    stream = Stream(body_bytes=256, unended_of=0)
    taken: dict[str, list[float]] = {"pass": [], "idle": [], "append": []}
    steps: dict[str, float] = {}
    for number in range(rounds):
        _land(warehouse, stream, number)
        now = NOW + timedelta(seconds=number)
        for kind in ("pass", "idle"):
            begun = time.monotonic()
            report = run_reconcile(warehouse, settings, now=now, wall_clock=wall_clock)
            taken[kind].append(time.monotonic() - begun)
            if ("idle" in report.counts) != (kind == "idle") or report.counts.get("op_message", NEW) != NEW:
                raise ResultsDifferError(f"a {kind} pass told {report.counts}")
            steps = {step: round(each, 2) for step, each in report.seconds.items()} or steps
        begun = time.monotonic()
        rows = ends(warehouse.spark, stream, number * NEW, NEW)
        rows.coalesce(1).write.format("delta").mode("append").save(str(Path(path).with_name("least")))
        taken["append"].append(time.monotonic() - begun)
    _land(warehouse, stream, rounds)
    return {**{kind: middle(each[WARM_UP:]) for kind, each in taken.items()}, "steps": steps}


def submit(script: str, path: str) -> dict[str, Any]:
    """Wall seconds of spark-submit with its defaults, from the shell's point of view."""
    home = Path(pyspark.__file__).parent
    tools = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    command = [str(tools / "spark-submit"), script, "--warehouse", path]
    begun = time.monotonic()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    seconds = time.monotonic() - begun
    if done.returncode != 0:
        raise ValueError(f"{Path(script).name} ended with status {done.returncode}: {done.stderr[-2000:]}")
    return {"seconds": round(seconds, 2), "told": done.stdout.splitlines()}


def _land(warehouse: Warehouse, stream: Stream, number: int) -> None:
    append(
        warehouse, "half_message", halves(warehouse.spark, stream, number * NEW, NEW, files=1, landed_pass=number + 1)
    )
    append(
        warehouse, "end_transaction", ends(warehouse.spark, stream, number * NEW, NEW, files=1, landed_pass=number + 1)
    )
    if number == 0:
        append(warehouse, "landing_frontier", frontier(warehouse, {(HALF_TOPIC, 0): NEW}))
