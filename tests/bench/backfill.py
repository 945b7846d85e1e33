"""Backfill: halves that have landed, nearly all with an end, everything a reconcile pass makes of them written.

Against a plain Spark copy of the decided halves, and the same job as Spark joins, in DuckDB and in Polars. All read the
same files; what each wrote is counted and summed and must agree.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from tests.bench import backfill_duckdb, backfill_polars, backfill_spark
from tests.bench.bench import Bench
from tests.bench.data import NOW, Stream, append, ends, engine, frontier, halves
from tests.bench.digest import digest, must_agree
from tests.bench.figures import Figure
from tests.bench.warehouses import copied, opened, timed, wall_clock
from txmq_lib.names import HALF_TOPIC
from txmq_lib.pipeline.reconcile.job import run_reconcile

HALVES = {"small": 50_000, "full": 10_000_000}
AGAINST = {
    "plain Spark copy of the decided halves": "plain_copy",
    "Spark joins over whole tables": "joins",
    "DuckDB": "duckdb",
    "Polars": "polars",
}
OF_SPARK = ("plain_copy", "joins")


def run(bench: Bench) -> list[Figure]:
    """A figure for each of AGAINST; of a full run one for cores and one for memory, too."""
    count, is_full = HALVES[bench.size], bench.size == "full"
    landed, copy = bench.warehouse("landed"), bench.scratch / "reconciled"
    bench.call("prepare", prepare, is_warm=True, path=landed, count=count)
    if not is_full:
        # So few rows take no time beside the first pass of a JVM.
        warm_up = copied(landed, bench.scratch / "warm-up")
        bench.call("warm-up", reconcile, is_warm=True, path=warm_up)
        bench.remove(warm_up)
    copied(landed, copy)
    ours = bench.call("txmq", reconcile, is_warm=True, path=copy).result
    contenders = {
        "plain_copy": plain_copy,
        "joins": backfill_spark.run,
        "duckdb": backfill_duckdb.run,
        "polars": backfill_polars.run,
    }
    theirs = {}
    for name, function in contenders.items():
        target = bench.scratch / name
        target.mkdir()
        theirs[name] = bench.call(name, function, is_warm=name in OF_SPARK, path=landed, target=target).result
        if name != "plain_copy":
            must_agree("txmq", digest(copy), name, digest(target))
        bench.remove(target)
    seconds = sum(ours["seconds"].values())
    bench.remove(copy)
    figures = [
        Figure("backfill", label, seconds, sum(theirs[name]["seconds"].values()), rate=count / seconds)
        for label, name in AGAINST.items()
    ]
    if not is_full:
        return figures
    copied(landed, copy)
    alone = sum(bench.call("txmq on one core", reconcile, path=copy, cores=1).result["seconds"].values())
    peaks = {name: bench.run.processes[f"backfill {name}"]["peak_mib"]["all"] for name in ("txmq", "plain_copy")}
    memory = Figure("memory", "backfill, plain Spark copy", peaks["txmq"], peaks["plain_copy"], "MiB")
    return [*figures, Figure("cores", "backfill, one core", seconds, alone), memory]


def prepare(path: str, count: int) -> None:
    """Land `count` halves and the ends of all but a thousandth."""
    warehouse, _ = opened(path)
    stream = Stream()
    append(warehouse, "broker", engine(warehouse))
    append(warehouse, "half_message", halves(warehouse.spark, stream, 0, count))
    append(warehouse, "end_transaction", ends(warehouse.spark, stream, 0, count))
    append(warehouse, "landing_frontier", frontier(warehouse, {(HALF_TOPIC, 0): count}))


def reconcile(path: str) -> dict[str, Any]:
    """The reconcile pass; its seconds per step, and what no step names as `rest`."""
    warehouse, settings = opened(path)
    whole: dict[str, float] = {}
    with timed(whole, "whole"):
        report = run_reconcile(warehouse, settings, now=NOW, wall_clock=wall_clock)
    steps = {step: round(taken, 3) for step, taken in report.seconds.items()}
    return {"seconds": {**steps, "rest": whole["whole"] - sum(steps.values())}, "counts": report.counts}


def plain_copy(path: str, target: str) -> dict[str, Any]:
    """Halves that get an end, all columns, into a new Delta table: found by their number, nothing is joined."""
    warehouse, _ = opened(path)
    steps: dict[str, float] = {}
    with timed(steps, "copy"):
        decided = warehouse.spark.read.format("delta").load(warehouse.path("half_message"))
        decided.where(Stream().is_ended(F.col("queue_offset"))).write.format("delta").save(str(Path(target, "copy")))
    return {"seconds": steps}
