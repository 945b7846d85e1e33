"""Places of scale.py that grow by rows of tables: each filled, and the pass that reads it."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.bench.data import BROKER, GROUP, NOW, NOW_MS, Stream, append, ends, frontier, halves, numbers, queue_ends
from tests.bench.digest import ResultsDifferError
from tests.bench.taken import taken
from tests.bench.warehouses import RESERVED, opened, wall_clock
from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.conform import conform
from txmq_lib.names import (
    ACK_ACKED,
    ACK_ALLOCATED,
    ACK_TAKEN,
    ACTION_HOLD,
    HALF_TOPIC,
    OP_TAG,
    OP_TOPIC,
    ORIGIN_BROKER_FILE,
    ORIGIN_LANDED,
)
from txmq_lib.passes.current import PassReport
from txmq_lib.pipeline.decision_request import DecisionRequest
from txmq_lib.pipeline.decisions import decide
from txmq_lib.pipeline.land.broker_state.broker_offsets import CONTENT
from txmq_lib.pipeline.land.files.events import ACK_CONTENT
from txmq_lib.pipeline.land.job import run_land_files
from txmq_lib.pipeline.maintain import run_maintain
from txmq_lib.pipeline.reconcile.job import run_reconcile
from txmq_lib.pipeline.rollup.job import run_rollup

QUEUES = 1_000  # that consumers report
MOVED = 10  # of them, once more
ROWS_PER_FILE = 100
# Born within half a minute: all are asked in one pass.
BORN_WITHIN_S, INTERVAL_S = 30, 61
ASKING = (RESERVED, "transaction_check_max=1000")
FEW_BYTES = 16

Taken = dict[str, float]


def rolled_up_acks(path: str, size: int) -> None:
    """So many acknowledgements, rolled up, and a new one. Each queue has one client."""
    warehouse, settings = opened(Path(path, "w"))
    append(warehouse, "consumer_ack", _acks(warehouse.spark, 0, size, landed_pass=1))
    run_rollup(warehouse, settings, now=NOW, wall_clock=wall_clock)
    # Turns of a queue are even where it acknowledges.
    turn = size // QUEUES + size // QUEUES % 2
    append(warehouse, "consumer_ack", _acks(warehouse.spark, turn * QUEUES, 1, landed_pass=2))


def roll_up(path: str, size: int) -> Taken:
    """The roll-up of the one that is new."""
    warehouse, settings = opened(Path(path, "w"))
    with taken() as found:
        report = run_rollup(warehouse, settings, now=NOW + timedelta(minutes=1), wall_clock=wall_clock)
    return _told(found, report, reports=1)


def offsets_of_broker(path: str, size: int) -> None:
    """So many commits of a broker's table of consumer offsets, and that table with a few entries further on."""
    warehouse, _ = opened(Path(path, "w"))
    i = F.col("i")
    queue = i % QUEUES
    rows = numbers(warehouse.spark, 0, size).select(
        *_consumer_queue(queue),
        F.timestamp_millis(F.lit(NOW_MS - 86_400_000) + F.floor(i / QUEUES)).alias("ts"),
        F.floor(i / QUEUES).alias("next_offset"),
        F.lit(False).alias("is_increase_only"),
        F.lit(None).cast("string").alias("client_id"),
        F.lit(0).alias("occurrence"),
        F.lit(ORIGIN_BROKER_FILE).alias("origin"),
        F.lit(1).cast("bigint").alias("landed_pass"),
        i.alias("landing_order"),
    )
    hashed = rows.withColumn("content_hash", F.xxhash64(*CONTENT))
    append(warehouse, "consumer_offset_commit", conform(hashed, table_spec("consumer_offset_commit")))
    table: dict[str, dict[str, int]] = {}
    for number in range(QUEUES):
        last = (size - number - 1) // QUEUES
        queues = table.setdefault(f"orders-{number // 100}@GID_0", {})
        queues[str(number % 100)] = last + (number < MOVED)
    Path(path, "consumerOffset.json").write_text(json.dumps({"offsetTable": table}), encoding="ascii")


def land_offsets(path: str, size: int) -> Taken:
    """The landing of that table."""
    warehouse, settings = opened(Path(path, "w"))
    with taken() as found:
        report = run_land_files(
            warehouse, settings, kind="offset", paths=[f"{path}/consumerOffset.json"], broker_name=BROKER, now=NOW,
            wall_clock=wall_clock,
        )  # fmt: skip
    return _told(found, report, broker_offsets=MOVED)


def commits_to_one_queue(path: str, size: int) -> None:
    """So many halves of one real queue, and a commit of each."""
    warehouse, _ = opened(Path(path, "w"))
    stream = Stream(body_bytes=FEW_BYTES, unended_of=0)
    properties = F.transform_values(
        "properties",
        lambda name, value: F.when(name == "REAL_TOPIC", "orders").when(name == "REAL_QID", "0").otherwise(value),
    )
    of_one_queue = {"real_topic": F.lit("orders"), "real_queue_id": F.lit(0), "properties": properties}
    append(warehouse, "half_message", halves(warehouse.spark, stream, 0, size).withColumns(of_one_queue))
    commits = ends(warehouse.spark, stream, 0, size).withColumns(
        {"commit_or_rollback": F.lit(8), "topic": F.lit("orders")}
    )
    append(warehouse, "end_transaction", commits)
    places = {(HALF_TOPIC, 0): size, (OP_TOPIC, 0): 0, ("orders", 0): 0}
    append(warehouse, "landing_frontier", frontier(warehouse, places))


def reconcile(path: str, size: int) -> Taken:
    """The pass that commits them all."""
    warehouse, settings = opened(Path(path, "w"), RESERVED)
    with taken() as found:
        report = run_reconcile(warehouse, settings, now=NOW, wall_clock=wall_clock)
    return _told(found, report, message=size, op_message=size)


def asked_once(path: str, size: int) -> None:
    """So many pending transactions, all asked about once."""
    _unended(path, size)
    _ask(path, 1)


def ask_again(path: str, size: int) -> Taken:
    """The pass that asks again about all."""
    found, report = _ask(path, 2)
    return _told(found, report, check_request=size)


def halves_and_ops(path: str, size: int) -> None:
    """So many halves, and an op message of each, as a broker writes them."""
    warehouse, _ = opened(Path(path, "w"))
    stream = Stream(body_bytes=FEW_BYTES, unended_of=0)
    append(warehouse, "half_message", halves(warehouse.spark, stream, 0, size))
    i = F.col("i")
    ops = numbers(warehouse.spark, 0, size).select(
        F.lit(BROKER).alias("broker_name"),
        F.lit(0).alias("queue_id"),
        i.alias("queue_offset"),
        F.lit(0).alias("position"),
        i.alias("half_queue_offset"),
        ((size + i) * 512).alias("commit_log_offset"),
        F.lit(NOW).alias("store_timestamp"),
        F.lit(OP_TAG).alias("tags"),
        F.xxhash64(i).alias("content_hash"),
        F.lit(ORIGIN_LANDED).alias("origin"),
        F.lit(1).cast("bigint").alias("landed_pass"),
    )
    append(warehouse, "op_message", conform(ops, table_spec("op_message")))
    append(warehouse, "landing_frontier", frontier(warehouse, queue_ends(size)))


def reconcile_audited(path: str, size: int) -> Taken:
    """The pass that finds each half decided."""
    warehouse, settings = opened(Path(path, "w"), RESERVED, "role=audit")
    with taken() as found:
        report = run_reconcile(warehouse, settings, now=NOW, wall_clock=wall_clock)
    return _told(found, report, pending_half=0)


def undecided(path: str, size: int) -> None:
    """So many transactions that nobody has ended."""
    _unended(path, size)


def hold(path: str, size: int) -> Taken:
    """One `hold` of their group."""
    warehouse, settings = opened(Path(path, "w"), *ASKING)
    request = DecisionRequest(groups=[GROUP], decision=ACTION_HOLD, reason="a benchmark", decided_by="somebody")
    with taken() as found:
        report = decide(warehouse, settings, request, now=NOW, wall_clock=wall_clock)
    return _told(found, report, manual_decision=size)


def small_files(path: str, size: int) -> None:
    """A table of so many small files."""
    warehouse, _ = opened(Path(path, "w"))
    append(warehouse, "half_message", halves(warehouse.spark, Stream(), 0, size * ROWS_PER_FILE, files=size))


def maintain(path: str, size: int) -> Taken:
    """A run of upkeep."""
    warehouse, settings = opened(Path(path, "w"))
    with taken() as found:
        report = run_maintain(warehouse, settings, wall_clock=wall_clock, tell=lambda _: None)
    # So few that it is not worth it are left.
    return _told(found, report, compacted_files=size if size >= settings.maintain.small_files else 0)


def _acks(spark: SparkSession, first: int, count: int, *, landed_pass: int) -> DataFrame:
    """Events in order, a turn of all queues after the other: allocated, then taken and acknowledged by turns."""
    i = F.col("i")
    turn = F.floor(i / QUEUES)
    offset = F.floor((turn - 1) / 2)
    none = F.array().cast("array<bigint>")
    rows = numbers(spark, first, count).select(
        *_consumer_queue(i % QUEUES),
        F.timestamp_millis(F.lit(NOW_MS - 86_400_000) + F.floor(i / 100)).alias("ts"),
        F.concat(F.lit("client-"), i % QUEUES).alias("client_id"),
        F.when(turn == 0, ACK_ALLOCATED).when(turn % 2 == 1, ACK_TAKEN).otherwise(ACK_ACKED).alias("event"),
        F.when(turn == 0, none).otherwise(F.array(offset)).alias("offsets"),
        F.lit(0).alias("occurrence"),
        F.lit(landed_pass).cast("bigint").alias("landed_pass"),
        i.alias("landing_order"),
    )
    return conform(rows.withColumn("content_hash", F.xxhash64(*ACK_CONTENT)), table_spec("consumer_ack"))


def _consumer_queue(number: Column) -> list[Column]:
    return [
        F.lit(BROKER).alias("broker_name"),
        F.lit("GID_0").alias("consumer_group"),
        F.concat(F.lit("orders-"), F.floor(number / 100)).alias("topic"),
        (number % 100).cast("int").alias("queue_id"),
    ]


def _unended(path: str, size: int) -> None:
    warehouse, _ = opened(Path(path, "w"))
    start_ms = NOW_MS - BORN_WITHIN_S * 1000
    stream = Stream(start_ms=start_ms, per_second=size / BORN_WITHIN_S, body_bytes=FEW_BYTES)
    append(warehouse, "half_message", halves(warehouse.spark, stream, 0, size))
    append(warehouse, "landing_frontier", frontier(warehouse, {(HALF_TOPIC, 0): size}))


def _ask(path: str, number: int) -> tuple[Taken, PassReport]:
    warehouse, settings = opened(Path(path, "w"), *ASKING)
    now = NOW + timedelta(seconds=INTERVAL_S * number)
    with taken() as found:
        report = run_reconcile(warehouse, settings, now=now, wall_clock=wall_clock)
    return found, report


def _told(found: Taken, report: PassReport, **counts: int) -> Taken:
    """What was taken, with the seconds of each step; ResultsDifferError where the pass counted otherwise."""
    differing = {
        name: report.counts.get(name, 0) for name, count in counts.items() if report.counts.get(name, 0) != count
    }
    if differing:
        raise ResultsDifferError(f"{counts} should be there, the pass told {report.counts}")
    return {**found, **{step: round(each, 2) for step, each in report.seconds.items()}}
