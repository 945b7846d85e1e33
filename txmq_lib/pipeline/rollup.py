"""The rollup job: new offset reports and acknowledgements into the next offset of every consumer queue."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import OFFSET_KEY, ORIGIN_ACK
from txmq_lib.pipeline.pruning import within_times
from txmq_lib.rules.acks import HOLDER, acked_reports, redelivery_counts
from txmq_lib.rules.offsets import queues_to_replay, reports_not_rolled_up, rolled_up, starting_points
from txmq_lib.settings import Settings
from txmq_lib.tables.passes import Pass, PassReport, open_pass, run_passes
from txmq_lib.tables.warehouse import Warehouse

JOB = "rollup"
REPORTS, ACKS, OFFSETS = "consumer_offset_commit", "consumer_ack", "consumer_offset"
# A client reports every queue it holds each interval; two missed and it may be another's.
CONFLICT_INTERVALS = 3
COUNTED = ("report", "ignored", "late", "rewind", "jump", "conflict")


def run_rollup(
    warehouse: Warehouse, settings: Settings, *, now: datetime, wall_clock: Callable[[], datetime]
) -> PassReport:
    """Find what acknowledgements report, then roll up every report that is new.

    Counts: rows inserted and advanced, and by how much the counters of consumer_offset grew; a late report can make an
    earlier one count otherwise, so a growth may be negative.
    """
    return run_passes(
        JOB,
        lambda: open_pass(
            warehouse, JOB, now=now, arguments={}, settings=settings, wall_clock=wall_clock, is_idle=_is_idle
        ),
        _roll_up,
    )


def _is_idle(current: Pass) -> bool:
    return current.is_settled((REPORTS, ACKS))


def _roll_up(current: Pass) -> PassReport:
    if not (current.has_new_rows(REPORTS) or current.has_new_rows(ACKS)):
        return current.commit({"from_acks": 0, OFFSETS: 0})
    with ExitStack() as kept:
        keep = partial(_kept, kept)
        with current.timed("find"):
            found = keep(_found_from_acks(current, keep))
            landed = reports_not_rolled_up(current.read(OFFSETS), current.new_rows(REPORTS))
            rolled = keep(_rolled_up(current, keep(landed.unionByName(found)), found))
        with current.timed("redelivery"):
            rows = keep(_changed(_with_redelivery(current, rolled), current))
            tally = _tally(rows, current.read(OFFSETS))
        current.append(REPORTS, found, step="from_acks")
        current.upsert(OFFSETS, rows, step=OFFSETS)
    return current.commit(tally)


def _kept(kept: ExitStack, frame: DataFrame) -> DataFrame:
    kept.callback(frame.unpersist)
    return frame.persist()


def _found_from_acks(current: Pass, keep: Callable[[DataFrame], DataFrame]) -> DataFrame:
    """Reports that the new acknowledgements make and no earlier pass has found."""
    if not current.has_new_rows(ACKS):
        return current.warehouse.empty(REPORTS)
    clients = current.new_rows(ACKS).select(*HOLDER).distinct()  # a client has many new events
    found = keep(acked_reports(current.read(ACKS).join(clients, list(HOLDER), "left_semi")))
    earlier = current.read(REPORTS).where(F.col("origin") == ORIGIN_ACK).where(within_times("ts", found, "ts"))
    fresh = found.join(earlier, ["broker_name", "content_hash"], "left_anti")
    return fresh.select(*earlier.columns)


def _rolled_up(current: Pass, reports: DataFrame, found: DataFrame) -> DataFrame:
    state = current.read(OFFSETS)
    history = current.warehouse.empty(REPORTS)
    if not queues_to_replay(state, reports).isEmpty():
        history = current.read(REPORTS).unionByName(found)
    seeds, told = starting_points(state, reports, history)
    window_ms = CONFLICT_INTERVALS * current.settings.persist_consumer_offset_interval_ms
    return rolled_up(seeds, told, conflict_window_ms=window_ms)


def _with_redelivery(current: Pass, rolled: DataFrame) -> DataFrame:
    """`rolled` and the state rows of queues with new events, with redelivery_count as it is now."""
    state = current.read(OFFSETS)
    new_events = current.new_rows(ACKS).select(*OFFSET_KEY).distinct().withColumn("has_events", F.lit(True))
    silent = state.select(*rolled.columns).join(new_events, list(OFFSET_KEY), "left_semi")
    rows = rolled.unionByName(silent.join(rolled, list(OFFSET_KEY), "left_anti"))
    known = state.select(*OFFSET_KEY, "pass_number", F.col("redelivery_count").alias("known_count"))
    # Elsewhere no event had landed by the pass before, nor has one since.
    may_have_events = F.col("has_events") | F.col("known_count").isNotNull() | F.col("pass_number").isNull()
    asked = rows.join(known, list(OFFSET_KEY), "left").join(new_events, list(OFFSET_KEY), "left").where(may_have_events)
    asked = asked.select(*OFFSET_KEY, "next_offset")
    if asked.isEmpty():
        return rows.withColumn("redelivery_count", F.lit(None).cast("bigint"))
    return rows.join(redelivery_counts(current.read(ACKS), asked), list(OFFSET_KEY), "left")


def _changed(rows: DataFrame, current: Pass) -> DataFrame:
    """`rows` that differ from what is known, with this pass's number."""

    def told(age: str) -> Column:
        return F.struct(*[F.col(f"{age}.{name}") for name in rows.columns])

    known = current.read(OFFSETS).alias("known")
    differing = rows.alias("new").join(known, list(OFFSET_KEY), "left").where(~told("new").eqNullSafe(told("known")))
    return differing.select("new.*").withColumn("pass_number", F.lit(current.number).cast("bigint"))


def _tally(rows: DataFrame, state: DataFrame) -> dict[str, int]:
    both = rows.alias("new").join(state.alias("known"), list(OFFSET_KEY), "left")
    grown = {
        f"{name}s" if name not in ("ignored", "late") else name: F.sum(
            F.col(f"new.{name}_count") - F.coalesce(F.col(f"known.{name}_count"), F.lit(0))
        )
        for name in COUNTED
    }
    counts = {
        "inserted": F.count_if(F.col("known.pass_number").isNull()),
        "advanced": F.count_if(F.col("new.next_offset") > F.col("known.next_offset")),
        **grown,
    }
    row = both.agg(*[F.coalesce(count, F.lit(0)).alias(name) for name, count in counts.items()]).collect()[0]
    return {name: int(row[name]) for name in counts}
