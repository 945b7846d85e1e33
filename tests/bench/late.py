"""Late answers: ends for halves of three days ago against ends for fresh ones, and how much of history they read.

History is three days long and lies in many files, as many landings and passes leave it.
"""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from tests.bench.bench import Bench
from tests.bench.data import (
    NOW,
    NOW_MS,
    RECORD_BYTES,
    Stream,
    append,
    ends,
    ends_of,
    frontier,
    halves,
    is_committed,
    numbers,
    queue_ends,
)
from tests.bench.digest import ResultsDifferError
from tests.bench.figures import Figure, middle
from tests.bench.past import reconciled, write_pass
from tests.bench.warehouses import RESERVED, opened, wall_clock
from tests.bench.watch import opened_files
from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.pipeline.reconcile.job import run_reconcile
from txmq_lib.pipeline.shared.policies import policies_of
from txmq_lib.rules import check
from txmq_lib.rules.pending import opened as opened_transactions

SIZES = {
    "small": {"rows": 100_000, "files": 40, "rounds": 3},
    "full": {"rows": 10_000_000, "files": 400, "rounds": 6},
}
ANSWERS = 1000
DAYS = 3
# So many of the oldest and of the newest ones are undecided; each round answers one in ten of them.
WITHIN = 10 * ANSWERS
# Which transaction a row of history is of.
NUMBER = {
    "end_outcome": "tran_state_table_offset",
    "message": f"prepared_transaction_offset div {RECORD_BYTES}",
    "op_message": "half_queue_offset",
}
HISTORY = ("half_message", "end_transaction", "end_outcome/is_held=false", "message", "op_message")


def run(bench: Bench) -> list[Figure]:
    """Seconds of late answers against fresh ones, and files opened against files there."""
    size = SIZES[bench.size]
    measured = bench.call("passes", measure, is_warm=True, path=bench.warehouse("w"), **size).result
    return [
        Figure(
            "late", f"{ANSWERS:,} answers to halves {DAYS} days old, fresh ones", measured["late"], measured["fresh"]
        ),
        Figure("late", "files read, of history", measured["files_read"], measured["files"], "files"),
    ]


def measure(path: str, rows: int, files: int, rounds: int) -> dict[str, Any]:
    """Medians over the rounds but the first."""
    warehouse, settings = opened(path, RESERVED)
    _prepare(warehouse, settings, rows, files)
    taken: dict[str, list[float]] = {"late": [], "fresh": []}
    read: list[int] = []
    steps: dict[str, Any] = {}
    there = {file for table in HISTORY for file in Path(path, table).glob("*.parquet")}
    for number in range(rounds):
        for kind, first in {"late": 0, "fresh": rows - WITHIN}.items():
            answered = numbers(warehouse.spark, first, WITHIN).where(F.col("i") % 10 == number)
            now = NOW + timedelta(seconds=number)
            append(warehouse, "end_transaction", ends_of(answered, now, landed_pass=number + 2))
            with opened_files(Path(path, table) for table in HISTORY) as opened_now:
                begun = time.monotonic()
                report = run_reconcile(warehouse, settings, now=now, wall_clock=wall_clock)
                seconds = time.monotonic() - begun
            commits = answered.where(is_committed(F.col("i"))).count()
            if (report.counts["op_message"], report.counts["message"]) != (ANSWERS, commits):
                raise ResultsDifferError(f"{ANSWERS} answers, {commits} of them commits, became {report.counts}")
            steps[kind] = {step: round(each, 2) for step, each in report.seconds.items()}
            if number:
                taken[kind].append(seconds)
                read += [len(opened_now & there)] if kind == "late" else []
    medians = {kind: middle(seconds) for kind, seconds in taken.items()}
    return {**medians, "files_read": middle(read), "files": len(there), "steps": steps}


def _prepare(warehouse: Warehouse, settings: Settings, rows: int, files: int) -> None:
    """Three days of decided transactions, and the undecided ones at their ends, asked about just now."""
    spark = warehouse.spark

    def is_undecided(number: Column) -> Column:
        return (number < WITHIN) | (number >= rows - WITHIN)

    stream = Stream(
        start_ms=NOW_MS - DAYS * 86_400_000 - 60_000, per_second=rows / (DAYS * 86_400), body_bytes=16, unended_of=0
    )
    landed = halves(spark, stream, 0, rows, files=files)
    append(warehouse, "half_message", landed)
    received = ends(spark, stream, 0, rows, files=files)
    append(warehouse, "end_transaction", received.where(~is_undecided(F.col("tran_state_table_offset"))))
    append(warehouse, "landing_frontier", frontier(warehouse, queue_ends(rows)))
    past = reconciled(spark, stream, 0, rows, files=files)
    left = {table: past[table].where(~is_undecided(F.expr(number))) for table, number in NUMBER.items()}
    undecided = landed.where(is_undecided(F.col("queue_offset")))
    policies = policies_of(settings)
    opened = check.with_held_by_people(opened_transactions(warehouse.empty("pending_half"), undecided), None)
    pending = check.with_action(opened, policies=policies, now=NOW)
    left["pending_half"] = check.pending_after(pending, policies=policies, now=NOW)
    write_pass(warehouse, settings, "reconcile", left)
