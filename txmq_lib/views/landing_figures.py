"""Figures of what landed and what ran: quarantine, landings, last passes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from txmq_lib.errors import TableMissingError
from txmq_lib.views.column_sql import in_utc, utc
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.scan import Scan, sql_literal


@dataclass(frozen=True)
class Quarantined:
    """Records in quarantine for one reason."""

    reason: str
    count: int
    newest_timestamp: datetime


@dataclass(frozen=True)
class Differing:
    """A broker whose own limits txmq counts on otherwise, in words."""

    broker_name: str
    differences: str


@dataclass(frozen=True)
class Landed:
    """How far one broker has been landed: the highest store time of any row, None where no row had one; and in what it
    is not set up as by default (docs/pages/which-brokers.md), empty for in nothing, None where no landing looked."""

    broker_name: str
    read_to_timestamp: datetime | None
    set_ups: str | None


@dataclass(frozen=True)
class LastPass:
    """The newest committed pass of a job, and the number of a newer one that was started and has not ended."""

    job: str
    pass_number: int | None
    committed_timestamp: datetime | None
    counts: Mapping[str, int]
    seconds: Mapping[str, float]
    unfinished_number: int | None
    unfinished_since: datetime | None


def differing(reader: WarehouseReader) -> list[Differing]:
    """Brokers with other limits than the settings have, by name; none in an older warehouse."""
    sql = "SELECT broker_name, differences FROM s WHERE differences <> '' ORDER BY broker_name"
    try:
        rows = list(reader.query(sql, [], {"s": Scan("broker_set_up", ("broker_name", "differences"))}))
    except TableMissingError:
        return []
    return [Differing(*row) for row in rows]


def quarantined(reader: WarehouseReader) -> list[Quarantined]:
    """Quarantine by reason, the most first."""
    sql = f"""SELECT reason, count(*), {utc("max(quarantined_timestamp)")} FROM quarantine
        GROUP BY ALL ORDER BY count(*) DESC, reason"""
    scan = Scan("quarantine", ("reason", "quarantined_timestamp"))
    return [
        Quarantined(reason, count, in_utc(newest))
        for reason, count, newest in reader.query(sql, [], {"quarantine": scan})
    ]


def landed(reader: WarehouseReader) -> list[Landed]:
    """Every broker something was landed of, by name."""
    sql = f"""SELECT broker_name, {utc("max(highest_store_timestamp)")}, any_value(set_ups)
        FROM frontier LEFT JOIN s USING (broker_name) GROUP BY broker_name ORDER BY broker_name"""
    scans = {
        "frontier": Scan("landing_frontier", ("broker_name", "highest_store_timestamp")),
        "s": Scan("broker_set_up", ("broker_name", "set_ups"), may_be_missing=True),
    }
    return [Landed(name, in_utc(read_to), set_ups) for name, read_to, set_ups in reader.query(sql, [], scans)]


def newest_passes(reader: WarehouseReader) -> str | None:
    """Which files may hold the newest passes: a pass writes its rows as files of their own, and there are thousands."""
    newest: dict[str, int] = {}
    for low, high in reader.file_ranges("pass", ("job", "state", "pass_number")):
        if low[:2] == high[:2] and low[1] == "committed":
            newest[low[0]] = max(high[2], newest.get(low[0], 0))
    if not newest:
        return None
    jobs = {job: sql_literal(job) for job in newest}
    since = " OR ".join(f"(job = {jobs[job]} AND pass_number >= {number})" for job, number in newest.items())
    return f"{since} OR job NOT IN ({', '.join(jobs.values())})"


def last_passes(reader: WarehouseReader) -> list[LastPass]:
    """The newest pass of every job, jobs in the order in which a cycle runs them, others after them."""
    newest = "arg_max({}, pass_number) FILTER (state = 'committed')"
    sql = f"""
        SELECT job, max(pass_number) FILTER (state = 'committed'),
            {utc(newest.format("wall_timestamp"))}, {newest.format("counts")}, {newest.format("seconds")},
            max(pass_number) FILTER (state = 'started') AS started,
            max(pass_number) FILTER (state <> 'started') AS ended,
            {utc("arg_max(wall_timestamp, pass_number) FILTER (state = 'started')")}
        FROM pass GROUP BY job
        ORDER BY coalesce(list_position(['land', 'reconcile', 'rollup', 'audit'], job), 99), job"""
    columns = ("job", "pass_number", "state", "wall_timestamp", "counts", "seconds")
    rows = reader.query(sql, [], {"pass": Scan("pass", columns, files=newest_passes(reader))})
    passes = []
    for job, number, wall, counts, seconds, started, ended, since in rows:
        is_open = started is not None and started > (ended or 0)
        unfinished: tuple[Any, Any] = (started, in_utc(since)) if is_open else (None, None)
        passes.append(LastPass(job, number, in_utc(wall), counts or {}, seconds or {}, *unfinished))
    return passes
