"""Checks: a pass that asks about every pending transaction, against writing the same rows without any rule."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from tests.bench.bench import Bench
from tests.bench.data import NOW, NOW_MS, Stream, append, frontier, halves
from tests.bench.digest import ResultsDifferError
from tests.bench.figures import Figure, middle
from tests.bench.warehouses import opened, wall_clock
from txmq_lib.names import HALF_TOPIC
from txmq_lib.pipeline.reconcile.job import run_reconcile

PENDING = {"small": 20_000, "full": 1_000_000}
ROUNDS = {"small": 3, "full": 4}
# Born within half a minute, so that all are asked in one pass.
BORN_WITHIN_S = 30
INTERVAL_S = 61


def run(bench: Bench) -> list[Figure]:
    """One figure, with checks a second."""
    count = PENDING[bench.size]
    measured = bench.call(
        "passes", measure, is_warm=True, path=bench.warehouse("w"), count=count, rounds=ROUNDS[bench.size]
    ).result
    return [
        Figure(
            "checks",
            "plain Spark copy of pending and checks",
            measured["pass"],
            measured["copy"],
            rate=count / measured["pass"],
        )
    ]


def measure(path: str, count: int, rounds: int) -> dict[str, Any]:
    """Median seconds of a pass that asks about `count` transactions, and of copying what it wrote; first round apart."""
    warehouse, settings = opened(path, "transaction_check_max=1000")
    stream = Stream(start_ms=NOW_MS - BORN_WITHIN_S * 1000, per_second=count / BORN_WITHIN_S, body_bytes=16)
    append(warehouse, "half_message", halves(warehouse.spark, stream, 0, count))
    append(warehouse, "landing_frontier", frontier(warehouse, {(HALF_TOPIC, 0): count}))
    passes, copies, steps = [], [], {}
    for number in range(rounds):
        begun = time.monotonic()
        now = NOW + timedelta(seconds=INTERVAL_S * (number + 1))
        report = run_reconcile(warehouse, settings, now=now, wall_clock=wall_clock)
        passes.append(time.monotonic() - begun)
        steps = {step: round(each, 2) for step, each in report.seconds.items()}
        if report.counts.get("check_request") != count:
            raise ResultsDifferError(f"{count} transactions are due, the pass wrote {report.counts}")
        begun = time.monotonic()
        raised = warehouse.read("check_request").where(F.col("check_times") == number + 1)
        for table, rows in {"check_request": raised, "pending_half": warehouse.read("pending_half")}.items():
            rows.write.format("delta").save(str(Path(path).with_name(f"copy-{table}-{number}")))
        copies.append(time.monotonic() - begun)
    return {"pass": middle(passes[1:]), "copy": middle(copies[1:]), "steps": steps}
