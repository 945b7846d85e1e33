"""Resolve: a database is asked about very many open checks; what this process holds of them, against 1 GiB.

The checks are raised by a reconcile pass, the database is SQLite. Every check must be answered once.
"""

from __future__ import annotations

import sqlite3
import time
from datetime import timedelta
from typing import Any

from tests.bench.bench import Bench
from tests.bench.data import GROUP, NOW, NOW_MS, Stream, append, frontier, halves
from tests.bench.digest import ResultsDifferError
from tests.bench.figures import Figure
from tests.bench.warehouses import opened, wall_clock
from txmq_lib.names import HALF_TOPIC
from txmq_lib.pipeline.reconcile.job import run_reconcile
from txmq_lib.pipeline.resolve import run_resolve

CHECKS = {"small": 10_000, "full": 1_000_000}
BORN_WITHIN_S = 30
RESOLVER = "kind: sql, url_env: DB, table: log, key_column: id, state_column: state, commit: [C], batch_size: 1000"
SETTINGS = (f"resolvers={{{GROUP}: {{{RESOLVER}}}}}", "resolve.checks_per_write=10000")
MOST_MIB = 1024


def run(bench: Bench) -> list[Figure]:
    """One figure, with checks a second."""
    count, path = CHECKS[bench.size], bench.warehouse("w")
    bench.call("prepare", prepare, is_warm=True, path=path, count=count)
    called = bench.call("asked", ask, path=path, count=count, database=str(bench.scratch / "log.db"))
    held = called.peak_mib["driver"]
    return [Figure("resolve", "1 GiB of Python", held, MOST_MIB, "MiB", rate=count / called.result["whole"])]


def prepare(path: str, count: int) -> None:
    """Halves that nobody has ended, and a pass that asks about each."""
    warehouse, settings = opened(path)
    stream = Stream(start_ms=NOW_MS - BORN_WITHIN_S * 1000, per_second=count / BORN_WITHIN_S, body_bytes=16)
    append(warehouse, "half_message", halves(warehouse.spark, stream, 0, count))
    append(warehouse, "landing_frontier", frontier(warehouse, {(HALF_TOPIC, 0): count}))
    run_reconcile(warehouse, settings, now=NOW + timedelta(seconds=61), wall_clock=wall_clock)


def ask(path: str, count: int, database: str) -> dict[str, Any]:
    """The resolve pass, over a database that says commit of all."""
    warehouse, settings = opened(path, *SETTINGS)
    with sqlite3.connect(database) as connection:
        connection.execute("create table log (id text primary key, state text)")
        numbers = ((f"C000020246654E0E{number:016X}", "C") for number in range(count))
        connection.executemany("insert into log values (?, ?)", numbers)
    begun = time.monotonic()
    environ = {"DB": f"sqlite:///{database}"}
    moment = NOW + timedelta(seconds=62)
    report = run_resolve(warehouse, settings, now=moment, wall_clock=wall_clock, environ=environ)
    whole = time.monotonic() - begun
    if (report.counts["asked"], report.counts["commit"]) != (count, count):
        raise ResultsDifferError(f"{count} checks are open, the pass answered {report.counts}")
    return {"whole": whole, "seconds": {step: round(each, 2) for step, each in report.seconds.items()}}
