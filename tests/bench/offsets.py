"""Offsets: reports of many consumer queues rolled up, against the same fold in DuckDB.

One report in a thousand is a set that goes back; one client per queue, so there are no conflicts to find. DuckDB finds
the next offset and counts reports, ignored ones and rewinds; txmq finds who, when, jumps and conflicts as well.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import duckdb
from pyspark.sql import functions as F

from tests.bench.bench import Bench
from tests.bench.data import BROKER, NOW, NOW_MS, append, numbers
from tests.bench.digest import ResultsDifferError
from tests.bench.figures import Figure
from tests.bench.warehouses import data_files, opened, timed, wall_clock
from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.conform import conform
from txmq_lib.pipeline.land.files.events import OFFSET_CONTENT
from txmq_lib.pipeline.rollup.job import run_rollup

SIZES = {"small": {"reports": 300_000, "queues": 10_000}, "full": {"reports": 10_000_000, "queues": 100_000}}
SET_OF = 1000
ROLL_UP = """
select broker_name, consumer_group, topic, queue_id, arg_max(value, place) as next_offset, count(*) as report_count,
  count_if(value = held) as ignored_count, count_if(not is_increase_only and value < held) as rewind_count
from (
  select *, row(ts, landed_pass, landing_order) as place, lag(value) over w as held
  from (
    select *, max(next_offset) over (
      partition by broker_name, consumer_group, topic, queue_id, sets order by ts, landed_pass, landing_order) as value
    from (
      select *, count_if(not is_increase_only) over w as sets from reports
      window w as (partition by broker_name, consumer_group, topic, queue_id order by ts, landed_pass, landing_order)
    )
  )
  window w as (partition by broker_name, consumer_group, topic, queue_id order by ts, landed_pass, landing_order)
)
group by all
"""
DIGEST = """
select count(*), sum(next_offset), sum(next_offset % 9973 * (queue_id + 1)), sum(report_count), sum(ignored_count),
  sum(rewind_count)
from read_parquet({})
"""


def run(bench: Bench) -> list[Figure]:
    """One figure, with reports a second."""
    size, path, target = SIZES[bench.size], bench.warehouse("w"), bench.scratch / "rolled.parquet"
    bench.call("prepare", prepare, is_warm=True, path=path, **size)
    ours = bench.call("txmq", roll_up, is_warm=True, path=path).result["whole"]
    theirs = bench.call("duckdb", roll_up_in_duckdb, path=path, target=target).result["whole"]
    digests = [_digest(files) for files in (data_files(path / "consumer_offset"), [str(target)])]
    if digests[0] != digests[1] or digests[0][0] != size["queues"]:
        raise ResultsDifferError(f"txmq and DuckDB rolled up differently: {digests}")
    return [Figure("offsets", "DuckDB", ours, theirs, rate=size["reports"] / ours)]


def prepare(path: str, reports: int, queues: int) -> None:
    """Land the reports: each queue reports in turn, a little further each time."""
    warehouse, _ = opened(path)
    i = F.col("i")
    queue, turn = i % queues, F.floor(i / queues)
    is_set = F.pmod(F.xxhash64(i), F.lit(SET_OF)) == 0
    rows = numbers(warehouse.spark, 0, reports).select(
        F.lit(BROKER).alias("broker_name"),
        F.concat(F.lit("GID_"), F.floor(queue / 1000)).alias("consumer_group"),
        F.concat(F.lit("orders-"), F.floor(queue / 100) % 10).alias("topic"),
        (queue % 100).cast("int").alias("queue_id"),
        F.timestamp_millis(F.lit(NOW_MS - 86_400_000) + F.floor(i / 1000)).alias("ts"),
        # Some reports repeat the one before.
        F.when(is_set, turn * 5 + 1).otherwise(F.floor(turn / 2) * 20 + 1000).alias("next_offset"),
        (~is_set).alias("is_increase_only"),
        F.concat(F.lit("client-"), queue % 16).alias("client_id"),
        F.lit(0).alias("occurrence"),
        F.lit("landed").alias("origin"),
        F.lit(1).cast("bigint").alias("landed_pass"),
        i.alias("landing_order"),
    )
    hashed = rows.withColumn("content_hash", F.xxhash64(*OFFSET_CONTENT))
    append(warehouse, "consumer_offset_commit", conform(hashed, table_spec("consumer_offset_commit")))


def roll_up(path: str) -> dict[str, Any]:
    """The rollup pass."""
    warehouse, settings = opened(path)
    steps: dict[str, float] = {}
    with timed(steps, "whole"):
        report = run_rollup(warehouse, settings, now=NOW, wall_clock=wall_clock)
    return {**steps, "seconds": {step: round(each, 2) for step, each in report.seconds.items()}}


def roll_up_in_duckdb(path: str, target: str) -> dict[str, Any]:
    """The same, Parquet to Parquet."""
    steps: dict[str, float] = {}
    with duckdb.connect(config={"threads": len(os.sched_getaffinity(0))}) as database:
        files = data_files(Path(path, "consumer_offset_commit"))
        with timed(steps, "whole"):
            database.execute(f"create view reports as select * from read_parquet({files!r})")
            database.execute(f"copy ({ROLL_UP}) to '{target}' (format parquet, compression snappy)")
    return steps


def _digest(files: list[str]) -> tuple[Any, ...]:
    with duckdb.connect() as database:
        return database.execute(DIGEST.format(repr(files))).fetchall()[0]
