"""What passes cost: seconds, and rows, per job and over time. The period is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from txmq_lib.report.period import PARTS, Period
from txmq_lib.views.column_sql import in_utc, utc
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.scan import Scan, Span

STEPS_LISTED = 12
CYCLE = ("land", "reconcile", "resolve", "rollup", "audit")
_TAKEN = "coalesce(list_sum(map_values(seconds)), 0)"


@dataclass(frozen=True)
class JobCost:
    """Committed passes of a job in the period, and seconds they took: together, the median, the longest."""

    job: str
    passes: int
    total: float
    median: float
    longest: float
    newest_timestamp: datetime


@dataclass(frozen=True)
class StepCost:
    """One step of a job: passes that took it, and seconds together."""

    job: str
    step: str
    passes: int
    total: float


def job_costs(reader: WarehouseReader, period: Period) -> list[JobCost]:
    """Every job with passes in the period, the dearest first."""
    sql = f"""
        SELECT job, count(*), sum(taken), median(taken), max(taken), {utc("max(wall_timestamp)")}
        FROM (SELECT job, wall_timestamp, {_TAKEN} AS taken FROM pass WHERE {_IN_PERIOD})
        GROUP BY ALL ORDER BY sum(taken) DESC, job"""
    rows = reader.query(sql, {"begin": period.begin}, {"pass": _scan(period)})
    return [
        JobCost(job, passes, total, median, longest, in_utc(newest))
        for job, passes, total, median, longest, newest in rows
    ]


def step_costs(reader: WarehouseReader, period: Period) -> list[StepCost]:
    """The dearest steps of all jobs."""
    sql = f"""
        SELECT job, step.key, count(*), sum(step.value) AS total
        FROM (SELECT job, unnest(map_entries(seconds)) AS step FROM pass WHERE {_IN_PERIOD})
        GROUP BY ALL ORDER BY total DESC, job, step.key LIMIT {STEPS_LISTED}"""
    return [StepCost(*row) for row in reader.query(sql, {"begin": period.begin}, {"pass": _scan(period)})]


def cost_over_time(reader: WarehouseReader, period: Period) -> Mapping[str, list[float]]:
    """Seconds of passes committed in each part, per job in the order of a cycle."""
    sql = f"""
        SELECT job, part, sum(taken)
        FROM (SELECT job, greatest({period.part("wall_timestamp")}, 0) AS part, {_TAKEN} AS taken
            FROM pass WHERE {_IN_PERIOD})
        WHERE part < {PARTS} GROUP BY ALL"""
    lines: dict[str, list[float]] = {}
    for job, part, seconds in reader.query(sql, {"begin": period.begin}, {"pass": _scan(period)}):
        lines.setdefault(job, [0.0] * PARTS)[part] = seconds
    return {job: lines[job] for job in sorted(lines, key=lambda job: (CYCLE.index(job) if job in CYCLE else 99, job))}


_IN_PERIOD = "state = 'committed' AND wall_timestamp >= $begin"


def _scan(period: Period) -> Scan:
    return Scan("pass", ("job", "state", "wall_timestamp", "seconds"), span=Span("wall_timestamp", period.begin))
