"""One cycle of `txmq run`: land the configured sources, reconcile, resolve, roll up, audit; each a pass of its own."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from datetime import datetime

from txmq_lib.errors import NothingToLandError, RemotingError
from txmq_lib.pipeline.audit import run_audit
from txmq_lib.pipeline.landing import run_land_files, run_land_rocketmq, run_land_store
from txmq_lib.pipeline.landing_rocketmq import UNREAD
from txmq_lib.pipeline.reconcile import run_reconcile
from txmq_lib.pipeline.resolve import require_secrets, run_resolve
from txmq_lib.pipeline.rollup import run_rollup
from txmq_lib.settings import Settings, Source
from txmq_lib.tables.passes import PassReport
from txmq_lib.tables.warehouse import Warehouse


def run_cycle(
    warehouse: Warehouse,
    settings: Settings,
    *,
    now: datetime,
    wall_clock: Callable[[], datetime],
    environ: Mapping[str, str],
) -> PassReport:
    """All passes of the cycle as one report: counts and seconds summed per step; the number is the reconcile pass's.

    A source where there is nothing yet is counted (`sources_empty`) and passed over; so are live brokers that cannot be
    reached (`unread`). Without a resolver none is asked.
    environ  where secrets that the settings name are looked up; SettingsError where one is missing
    """
    require_secrets(settings, environ)
    counts: Counter[str] = Counter()
    landed: list[PassReport] = []
    unread: list[str] = []
    for source in settings.sources:
        try:
            landed += _land(warehouse, settings, source, now=now, wall_clock=wall_clock, environ=environ)
        except NothingToLandError:
            counts["sources_empty"] += 1
        except RemotingError as failure:
            counts[UNREAD] += 1
            unread.append(f"source {', '.join(source.namesrv or ())}: not read: {failure.message}")
    reconciled = run_reconcile(warehouse, settings, now=now, wall_clock=wall_clock)
    resolved = (
        [run_resolve(warehouse, settings, now=now, wall_clock=wall_clock, environ=environ)]
        if settings.resolvers
        else []
    )
    rolled_up = run_rollup(warehouse, settings, now=now, wall_clock=wall_clock)
    audited = run_audit(warehouse, settings, now=now, wall_clock=wall_clock)
    seconds: defaultdict[str, float] = defaultdict(float)
    passes = (*landed, reconciled, *resolved, rolled_up, audited)
    for report in passes:
        counts.update(report.counts)
        seconds[report.job] += round(sum(report.seconds.values()), 3)
    findings = [finding for report in passes for finding in report.findings]
    return PassReport("run", reconciled.number, dict(counts), dict(seconds), (*unread, *findings))


def _land(
    warehouse: Warehouse,
    settings: Settings,
    source: Source,
    *,
    now: datetime,
    wall_clock: Callable[[], datetime],
    environ: Mapping[str, str],
) -> list[PassReport]:
    if source.kind == "rocketmq":
        return [
            run_land_rocketmq(
                warehouse,
                settings,
                name_servers=source.namesrv or (),
                brokers=(source.broker,) if source.broker is not None else (),
                now=now,
                wall_clock=wall_clock,
                environ=environ,
            )
        ]
    broker_name, paths = source.broker or "", list(source.paths or ())
    if source.kind == "store":
        return [
            run_land_store(warehouse, settings, path=path, broker_name=broker_name, now=now, wall_clock=wall_clock)
            for path in paths
        ]
    return [
        run_land_files(
            warehouse, settings, kind=source.kind, paths=paths, broker_name=broker_name, now=now, wall_clock=wall_clock
        )
    ]
