"""The rollup job: new offset reports and acknowledgements into the next offset of every consumer queue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.names import OFFSET_KEY, ORIGIN_ACK
from txmq_lib.passes.current import Pass, PassReport
from txmq_lib.passes.frames import MOST_QUEUES_SENT
from txmq_lib.passes.job import Job
from txmq_lib.passes.runner import run_passes
from txmq_lib.pipeline.rollup.report_files import OFFSETS, REPORTS, folded_by_files
from txmq_lib.pipeline.shared.pruning import near_values
from txmq_lib.rules.acks import HOLDER, acked_reports, redelivery_counts
from txmq_lib.rules.offset_kinds import queue_kinds
from txmq_lib.rules.offsets import (
    queues_to_replay,
    reports_not_rolled_up,
    rolled_up,
    rolled_up_folded,
    starting_points,
)

JOB = "rollup"
ACKS = "consumer_ack"
# A client reports every queue it holds each interval; two missed and it may be another's.
CONFLICT_INTERVALS = 3
COUNTED = ("report", "ignored", "late", "rewind", "jump", "conflict")


@dataclass(frozen=True)
class Inputs:
    """What a pass reads.

    state    rows of consumer_offset
    from_acks  reports that new acknowledgements make
    seeds    rows of consumer_offset to go on from
    reports  those to roll up, `from_acks` among them; None where no queue is left for Spark
    folded   queues that are folded already (rules.offset_kinds.FOLDED_DDL); None where Spark folds all
    """

    state: DataFrame
    from_acks: DataFrame
    seeds: DataFrame
    reports: DataFrame | None
    folded: DataFrame | None = None


@dataclass(frozen=True)
class Decided:
    """What a pass has decided: reports from acknowledgements, and rows of consumer_offset that have changed."""

    from_acks: DataFrame
    rows: DataFrame
    row_count: int
    counts: dict[str, int]


def run_rollup(
    warehouse: Warehouse, settings: Settings, *, now: datetime, wall_clock: Callable[[], datetime]
) -> PassReport:
    """Find what acknowledgements report, then roll up every report that is new.

    Counts: rows inserted and advanced, and by how much the counters of consumer_offset grew; a late report can make an
    earlier one count otherwise, so a growth may be negative.
    """
    return run_passes(warehouse, ROLLUP, now=now, settings=settings, wall_clock=wall_clock)


def _inputs(current: Pass) -> Inputs:
    with current.timed("find"):
        state = current.cached(current.read(OFFSETS))
        from_acks = current.cached(_reports_from_acks(current))
        # Reports from acknowledgements are in no file yet.
        is_in_files = not current.has_new_rows(ACKS)
        found = current.by_files(lambda: folded_by_files(current, state)) if is_in_files else None
        folded, landed = found if found is not None else (None, current.new_rows(REPORTS))
        if landed is None:
            return Inputs(state, from_acks, state, None, folded)
        # A table's version 0 is its creation, unless it is another's copy.
        if not current.input_versions[OFFSETS] and state.isEmpty():
            reports = current.kept_in_small_pass(landed.unionByName(from_acks.select(*landed.columns)))
            return Inputs(state, from_acks, state, reports, folded)
        return Inputs(state, from_acks, *_seeds_and_reports(current, state, landed, from_acks), folded)


def _decide(current: Pass, inputs: Inputs) -> Decided:
    state = inputs.state
    parts = [] if inputs.folded is None else [rolled_up_folded(state, inputs.folded)]
    if inputs.reports is not None:
        parts.append(_rolled_up(current, inputs.seeds, inputs.reports))
    with current.timed("roll_up"):
        rolled = current.kept_whole(reduce(DataFrame.unionByName, parts))
        rows = current.kept_whole(_changed(_with_redelivery(current, state, rolled), state, current.number))
        return Decided(inputs.from_acks, rows, *_tally(rows, state))


def _rolled_up(current: Pass, seeds: DataFrame, reports: DataFrame) -> DataFrame:
    with current.timed("find"):
        kinds = current.few_or_none(lambda: queue_kinds(seeds, reports), most=MOST_QUEUES_SENT)
    window_ms = CONFLICT_INTERVALS * current.settings.persist_consumer_offset_interval_ms
    return rolled_up(seeds, reports, conflict_window_ms=window_ms, kinds=kinds)


def _write(current: Pass, decided: Decided) -> PassReport:
    current.append(REPORTS, decided.from_acks, step="from_acks")
    current.upsert(OFFSETS, decided.rows, step=OFFSETS, count=decided.row_count)
    return current.commit(decided.counts)


def _reports_from_acks(current: Pass) -> DataFrame:
    """Reports that the new acknowledgements make and no earlier pass has found."""
    if not current.has_new_rows(ACKS):
        return current.warehouse.empty(REPORTS)
    clients = current.new_rows(ACKS).select(*HOLDER).distinct()  # a client has many new events
    found = current.cached(acked_reports(current.read(ACKS).join(clients, list(HOLDER), "left_semi")))
    earlier = near_values("ts", found, "ts").rows(current, REPORTS).where(F.col("origin") == ORIGIN_ACK)
    fresh = found.join(earlier, ["broker_name", "content_hash"], "left_anti")
    return fresh.select(*earlier.columns)


def _seeds_and_reports(
    current: Pass, state: DataFrame, landed: DataFrame, from_acks: DataFrame
) -> tuple[DataFrame, DataFrame]:
    """Seeds and reports (Inputs), of the reports that have `landed` and those `from_acks`."""
    # Those from acknowledgements are new, however old the acknowledgements are.
    fresh = reports_not_rolled_up(state, landed)
    reports = current.cached(fresh.unionByName(from_acks.select(*fresh.columns)))
    history = current.warehouse.empty(REPORTS)
    if not queues_to_replay(state, reports).isEmpty():
        history = current.read(REPORTS).unionByName(from_acks)
    return starting_points(state, reports, history)


def _with_redelivery(current: Pass, state: DataFrame, rolled: DataFrame) -> DataFrame:
    """`rolled` and the state rows of queues with new events, with redelivery_count as it is now."""
    # A table's version 0 is its creation, unless it is another's copy.
    if not current.input_versions[ACKS] and current.read(ACKS).isEmpty():
        return rolled.withColumn("redelivery_count", F.lit(None).cast("bigint"))
    new_events = current.new_rows(ACKS).select(*OFFSET_KEY).distinct().withColumn("has_events", F.lit(True))
    silent = state.select(*rolled.columns).join(new_events, list(OFFSET_KEY), "left_semi")
    rows = rolled.unionByName(silent.join(rolled, list(OFFSET_KEY), "left_anti"))
    known = state.select(*OFFSET_KEY, "pass_number", F.col("redelivery_count").alias("known_count"))
    # Other queues never had an event: neither by the pass before, nor since.
    may_have_events = F.col("has_events") | F.col("known_count").isNotNull() | F.col("pass_number").isNull()
    with_events = (
        rows.join(known, list(OFFSET_KEY), "left").join(new_events, list(OFFSET_KEY), "left").where(may_have_events)
    )
    with_events = with_events.select(*OFFSET_KEY, "next_offset")
    if with_events.isEmpty():
        return rows.withColumn("redelivery_count", F.lit(None).cast("bigint"))
    return rows.join(redelivery_counts(current.read(ACKS), with_events), list(OFFSET_KEY), "left")


def _changed(rows: DataFrame, state: DataFrame, pass_number: int) -> DataFrame:
    """`rows` that differ from what is known, with this pass's number."""

    def state_of(age: str) -> Column:
        return F.struct(*[F.col(f"{age}.{name}") for name in rows.columns])

    known = state.alias("known")
    differing = (
        rows.alias("new").join(known, list(OFFSET_KEY), "left").where(~state_of("new").eqNullSafe(state_of("known")))
    )
    return differing.select("new.*").withColumn("pass_number", F.lit(pass_number).cast("bigint"))


def _tally(rows: DataFrame, state: DataFrame) -> tuple[int, dict[str, int]]:
    """How many rows there are, and the counts of the pass."""
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
    sums = [F.coalesce(count, F.lit(0)).alias(name) for name, count in counts.items()]
    row = both.agg(F.count("*").alias("rows"), *sums).collect()[0]
    return row["rows"], {name: int(row[name]) for name in counts}


ROLLUP = Job(
    name=JOB,
    inputs=_inputs,
    decide=_decide,
    write=_write,
    is_idle=lambda current: current.has_nothing_new((REPORTS, ACKS)),
    input_bytes=lambda current: current.new_bytes((REPORTS, ACKS)),
)
