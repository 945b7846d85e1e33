"""History: the same new halves after little and much history, and after one and many earlier passes.

History is decided throughout; a batch of new halves lands, with the ends of nearly all, then a reconcile and an audit
pass are timed. Warehouses take turns in one warm session; the first round is not counted.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from pyspark.sql import functions as F

from tests.bench.bench import Bench
from tests.bench.data import NOW, Stream, append, ends, frontier, halves, is_committed, numbers, queue_ends
from tests.bench.digest import ResultsDifferError
from tests.bench.figures import Figure, middle
from tests.bench.past import audited, reconciled, write_pass
from tests.bench.small_passes import write_small_passes
from tests.bench.warehouses import opened, wall_clock
from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.pipeline.audit import run_audit
from txmq_lib.pipeline.maintain import run_maintain
from txmq_lib.pipeline.reconcile.job import run_reconcile

LITTLE = 100_000
NEW_ROWS, HISTORY, PASSES, ROUNDS = 100_000, (1_000_000, 10_000_000, 100_000_000), 1_000, 4
ROWS_PER_PASS = 100
# Of as many passes, one each five minutes, a day has some; each day ends with a run of maintain.
PASSES_A_DAY = 288
PAST = Stream(body_bytes=16, unended_of=0)
NEW = Stream(body_bytes=16)


def run(bench: Bench) -> list[Figure]:
    """Figures for each length of history and for many passes, reconcile and audit."""
    pasts = {"little": (LITTLE, 0, 0), "passes": (LITTLE, PASSES, 0), "maintained": (LITTLE, PASSES, PASSES_A_DAY)}
    pasts |= {str(rows): (rows, 0, 0) for rows in HISTORY}
    for name in pasts:
        bench.warehouse(name)
    measured = bench.call(
        "passes", measure, is_warm=True, place=bench.scratch, pasts=pasts, new=NEW_ROWS, rounds=ROUNDS
    ).result
    seconds = measured["seconds"]
    figures = []
    for job in ("reconcile", "audit"):
        little = seconds["little"][job]
        for rows in HISTORY:
            label = f"{job}, {rows:,} rows of history, {LITTLE:,} rows"
            figures.append(Figure("history", label, seconds[str(rows)][job], little))
        for name, upkeep in {"passes": "", "maintained": " with maintain each day"}.items():
            label = f"{job}, {PASSES:,} earlier passes{upkeep}, 1 pass"
            figures.append(Figure("history", label, seconds[name][job], little))
    return figures


def prepare(warehouse: Warehouse, settings: Settings, rows: int, passes: int, maintained_each: int) -> None:
    """Fill a warehouse with `rows` decided transactions, the last of them landed and decided in `passes` small passes.

    maintained_each  `txmq maintain` has run behind as many of them, again and again; 0: never
    """
    spark, small = warehouse.spark, passes * ROWS_PER_PASS
    first = rows - small
    append(warehouse, "landing_frontier", frontier(warehouse, queue_ends(rows)))
    if first:
        append(warehouse, "half_message", halves(spark, PAST, 0, first))
        append(warehouse, "end_transaction", ends(spark, PAST, 0, first))
    write_pass(warehouse, settings, "reconcile", reconciled(spark, PAST, 0, first) if first else {})
    write_pass(warehouse, settings, "audit", {"verdict": audited(spark, PAST, 0, first)} if first else {})
    if passes:
        at_once = maintained_each or passes
        for done in range(0, passes, at_once):
            count = min(at_once, passes - done)
            begin = first + done * ROWS_PER_PASS
            write_small_passes(warehouse, PAST, begin, count, ROWS_PER_PASS, numbered_from=done + 2)
            if count == maintained_each:
                run_maintain(warehouse, settings, wall_clock=wall_clock, tell=lambda _: None)
        # Of what was written past it, the real machinery's next pass must know.
        write_pass(warehouse, settings, "reconcile", {})
        write_pass(warehouse, settings, "audit", {})


def measure(place: str, pasts: dict[str, tuple[int, int, int]], new: int, rounds: int) -> dict[str, Any]:
    """Median seconds of a reconcile and an audit pass over `new` halves in each warehouse, and of their steps.

    pasts  name of a warehouse -> rows of history, small passes of the past, behind how many it was maintained
    """
    houses = {name: opened(f"{place}/{name}") for name in pasts}
    for name, past in pasts.items():
        prepare(*houses[name], *past)
    taken: dict[str, dict[str, list[float]]] = {name: {"reconcile": [], "audit": []} for name in pasts}
    steps: dict[str, Any] = {}
    for number in range(rounds):
        for name, (warehouse, settings) in houses.items():
            first = pasts[name][0] + number * new
            seconds, steps[name] = _round(warehouse, settings, first, new, number)
            for job, each in seconds.items():
                taken[name][job] += [each] if number else []
    medians = {name: {job: middle(each) for job, each in jobs.items()} for name, jobs in taken.items()}
    return {"seconds": medians, "steps": steps}


def _round(warehouse: Warehouse, settings: Settings, first: int, new: int, number: int) -> tuple[dict[str, float], Any]:
    append(warehouse, "half_message", halves(warehouse.spark, NEW, first, new, landed_pass=number + 2))
    append(warehouse, "end_transaction", ends(warehouse.spark, NEW, first, new, landed_pass=number + 2))
    now = NOW + timedelta(seconds=number)
    seconds, counts = {}, {}
    for job, function in {"reconcile": run_reconcile, "audit": run_audit}.items():
        begun = time.monotonic()
        report = function(warehouse, settings, now=now, wall_clock=wall_clock)
        seconds[job] = time.monotonic() - begun
        counts[job] = {
            "seconds": {step: round(each, 2) for step, each in report.seconds.items()},
            "counts": report.counts,
        }
    i = F.col("i")
    ended = numbers(warehouse.spark, first, new).where(NEW.is_ended(i))
    commits = ended.where(is_committed(i)).count()
    found = (counts["reconcile"]["counts"].get("message"), counts["audit"]["counts"].get("verdict_COMMITTED"))
    if found != (commits, commits):
        raise ResultsDifferError(f"{commits} commits landed, messages and COMMITTED verdicts are {found}")
    return seconds, counts
