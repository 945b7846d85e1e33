"""What a cycle is made of: each pass as a work with its name, its job, and when it is due."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from txmq_lib.config.sections import Source
from txmq_lib.config.settings import Settings
from txmq_lib.config.source_steps import step_of_brokers, step_of_files, step_of_offsets, step_of_store
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import NothingToLandError
from txmq_lib.passes.current import PassReport
from txmq_lib.pipeline import audit, resolve
from txmq_lib.pipeline.audit import run_audit
from txmq_lib.pipeline.land.job import run_land_files, run_land_rocketmq, run_land_store
from txmq_lib.pipeline.land.kinds import OFFSET_KINDS, ROCKETMQ, STORE
from txmq_lib.pipeline.land.landing_pass import JOB as LAND
from txmq_lib.pipeline.land.live.broker_reading import WHOLE, Parts
from txmq_lib.pipeline.maintain import run_due_maintain
from txmq_lib.pipeline.reconcile import job as reconcile
from txmq_lib.pipeline.reconcile.job import run_reconcile
from txmq_lib.pipeline.resolve import require_secrets, run_resolve
from txmq_lib.pipeline.rollup.job import ROLLUP, run_rollup
from txmq_lib.pipeline.upkeep_plan import JOB as MAINTAIN
from txmq_lib.pipeline.upkeep_plan import is_due


@dataclass(frozen=True)
class Work:
    """One pass of a cycle: what people call it, its job, what runs it with a clock, and whether it is due at all."""

    name: str
    job: str
    run: Callable[[Warehouse, datetime], PassReport]
    is_due: Callable[[Warehouse], bool] = lambda _: True


def works_of_cycle(
    settings: Settings,
    *,
    takes_offsets: bool,
    wall_clock: Callable[[], datetime],
    environ: Mapping[str, str],
) -> list[Work]:
    """The passes of a cycle, in order. SettingsError where a secret is missing.

    takes_offsets  whether consumer offsets and acknowledgements are landed, too; else `works_on_offsets` does it
    """
    require_secrets(settings, environ)
    sources = [source for source in settings.sources if takes_offsets or source.kind not in OFFSET_KINDS]
    works = [*_landings(settings, sources, wall_clock, environ, WHOLE if takes_offsets else Parts.QUEUES)]
    works.append(
        Work("reconcile", reconcile.JOB, lambda at, now: run_reconcile(at, settings, now=now, wall_clock=wall_clock))
    )
    if settings.resolvers:
        works.append(
            Work(
                "resolve",
                resolve.JOB,
                lambda at, now: run_resolve(at, settings, now=now, wall_clock=wall_clock, environ=environ),
            )
        )
    works.append(_rollup(settings, wall_clock))
    works.append(Work("audit", audit.JOB, lambda at, now: run_audit(at, settings, now=now, wall_clock=wall_clock)))
    upkeep = partial(run_due_maintain, settings=settings, wall_clock=wall_clock)
    works.append(Work("maintain", MAINTAIN, lambda at, _: upkeep(at), partial(is_due, upkeep=settings.maintain)))
    return works


def works_of_sources(
    settings: Settings, *, wall_clock: Callable[[], datetime], environ: Mapping[str, str]
) -> list[Work]:
    """The landings of a cycle alone, in order."""
    return _landings(settings, settings.sources, wall_clock, environ, WHOLE)


def works_on_offsets(
    settings: Settings, *, wall_clock: Callable[[], datetime], environ: Mapping[str, str]
) -> list[Work]:
    """Landing of the sources of offsets and acknowledgements, live brokers too, then the roll-up; none without them."""
    sources = [source for source in settings.sources if source.kind in (*OFFSET_KINDS, ROCKETMQ)]
    landings = _landings(settings, sources, wall_clock, environ, Parts.OFFSETS)
    return [*landings, _rollup(settings, wall_clock)] if landings else []


def _rollup(settings: Settings, wall_clock: Callable[[], datetime]) -> Work:
    return Work("rollup", ROLLUP.name, lambda at, now: run_rollup(at, settings, now=now, wall_clock=wall_clock))


def _landings(
    settings: Settings,
    sources: Iterable[Source],
    wall_clock: Callable[[], datetime],
    environ: Mapping[str, str],
    reads: Parts,
) -> list[Work]:
    works = []
    for source in sources:
        if source.kind == ROCKETMQ:
            works.append(_landing_of_brokers(settings, source, wall_clock, environ, reads))
        elif source.kind == STORE:
            works += [_landing_of_store(settings, source, path, wall_clock) for path in source.paths or ()]
        else:
            works.append(_landing_of_files(settings, source, wall_clock))
    return works


def _landing_of_brokers(
    settings: Settings,
    source: Source,
    wall_clock: Callable[[], datetime],
    environ: Mapping[str, str],
    reads: Parts,
) -> Work:
    def run(warehouse: Warehouse, now: datetime) -> PassReport:
        return run_land_rocketmq(
            warehouse,
            settings,
            name_servers=source.namesrv or (),
            brokers=(source.broker,) if source.broker is not None else (),
            parts=reads,
            now=now,
            wall_clock=wall_clock,
            environ=environ,
        )

    return Work(step_of_offsets(source) if reads == Parts.OFFSETS else step_of_brokers(source), LAND, run)


def _landing_of_store(settings: Settings, source: Source, path: str, wall_clock: Callable[[], datetime]) -> Work:
    def run(warehouse: Warehouse, now: datetime) -> PassReport:
        return run_land_store(
            warehouse,
            settings,
            path=path,
            broker_name=source.broker or "",
            now=now,
            wall_clock=wall_clock,
            is_idle_when_landed=True,
        )

    return Work(step_of_store(path), LAND, run)


def _landing_of_files(settings: Settings, source: Source, wall_clock: Callable[[], datetime]) -> Work:
    def run(warehouse: Warehouse, now: datetime) -> PassReport:
        try:
            return run_land_files(
                warehouse,
                settings,
                kind=source.kind,
                paths=list(source.paths or ()),
                broker_name=source.broker or "",
                now=now,
                wall_clock=wall_clock,
                is_idle_when_landed=True,
            )
        except NothingToLandError:
            return PassReport(LAND, 0, {"sources_empty": 1}, {})

    return Work(step_of_files(source), LAND, run)
