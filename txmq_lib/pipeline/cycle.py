"""One cycle: land the configured sources, reconcile, resolve, roll up, audit, and upkeep when due; each a pass."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from txmq_lib.config.sections import Source
from txmq_lib.config.settings import Settings
from txmq_lib.config.source_steps import step_of_brokers, step_of_files, step_of_offsets, step_of_store
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import InputError, NothingToLandError, RemotingError, WarehouseUnreached
from txmq_lib.passes.current import PassReport
from txmq_lib.pipeline import audit, resolve
from txmq_lib.pipeline.audit import run_audit
from txmq_lib.pipeline.land.job import run_land_files, run_land_rocketmq, run_land_store
from txmq_lib.pipeline.land.kinds import ROCKETMQ, STORE
from txmq_lib.pipeline.land.landing_pass import JOB as LAND
from txmq_lib.pipeline.land.live.broker_reading import UNREAD, WHOLE, Parts
from txmq_lib.pipeline.maintain import run_due_maintain
from txmq_lib.pipeline.reconcile import job as reconcile
from txmq_lib.pipeline.reconcile.job import run_reconcile
from txmq_lib.pipeline.resolve import require_secrets, run_resolve
from txmq_lib.pipeline.rollup.job import ROLLUP, run_rollup
from txmq_lib.pipeline.upkeep_plan import JOB as MAINTAIN
from txmq_lib.pipeline.upkeep_plan import is_due

OFFSET_KINDS = ("offset", "ack")


@dataclass(frozen=True)
class Work:
    """One pass of a cycle: what people call it, its job, what runs it with a clock, and whether it is due at all."""

    name: str
    job: str
    run: Callable[[Warehouse, datetime], PassReport]
    is_due: Callable[[Warehouse], bool] = lambda _: True


def _untold(_name: str, _became: PassReport | Exception) -> None:
    return None


def run_cycle(
    warehouse: Warehouse,
    settings: Settings,
    *,
    now: datetime,
    wall_clock: Callable[[], datetime],
    environ: Mapping[str, str],
    on_step: Callable[[str, PassReport | Exception], None] = _untold,
) -> PassReport:
    """All passes of the cycle as one report: counts and seconds summed per step; the number is the reconcile pass's.

    A source where there is nothing yet is counted (`sources_empty`) and passed over; so is a store, file or live broker
    that cannot be read (`unread`). Without a resolver none is asked.
    environ  where secrets that the settings name are looked up; SettingsError where one is missing
    on_step  told of each pass by its name: the report, or the error that it ended with
    """
    works = works_of_cycle(settings, takes_offsets=True, wall_clock=wall_clock, environ=environ)
    passes, unread = _run(works, warehouse, now, on_step)
    number = next(report.number for report in passes if report.job == reconcile.JOB)
    return _sum("run", number, passes, unread)


def run_sources(
    warehouse: Warehouse,
    settings: Settings,
    *,
    now: datetime,
    wall_clock: Callable[[], datetime],
    environ: Mapping[str, str],
    on_step: Callable[[str, PassReport | Exception], None] = _untold,
) -> PassReport:
    """The landings of a cycle alone, summed as `run_cycle` does; the number is that of the last pass."""
    works = _landings(settings, settings.sources, wall_clock, environ, WHOLE)
    passes, unread = _run(works, warehouse, now, on_step)
    return _sum(LAND, max((report.number for report in passes), default=0), passes, unread)


def require_sources(settings: Settings) -> None:
    """NothingToLandError where no source is configured."""
    if not settings.sources:
        raise NothingToLandError("the settings name no sources; txmq init-config shows how they look")


def _run(
    works: Sequence[Work], warehouse: Warehouse, now: datetime, on_step: Callable[[str, PassReport | Exception], None]
) -> tuple[list[PassReport], list[str]]:
    """The report of every pass, and in words which sources could not be read."""
    passes: list[PassReport] = []
    unread: list[str] = []
    with warehouse.looking_once():
        for work in works:
            try:
                if not work.is_due(warehouse):
                    continue
                passes.append(work.run(warehouse, now))
            except Exception as failure:
                on_step(work.name, failure)
                if work.job == MAINTAIN:  # the passes are made
                    passes.append(PassReport(MAINTAIN, 0, {}, {}, (f"{work.name}: failed: {failure}",)))
                elif work.job == LAND and _is_of_source(failure):
                    unread.append(f"{work.name}: not read: {failure}")
                else:
                    raise
            else:
                on_step(work.name, passes[-1])
    return passes, unread


def _is_of_source(failure: Exception) -> bool:
    """Whether a source is to blame, so that the others may land."""
    return isinstance(failure, RemotingError | InputError) and not isinstance(failure, WarehouseUnreached)


def _sum(job: str, number: int, passes: Sequence[PassReport], unread: Sequence[str]) -> PassReport:
    counts: Counter[str] = Counter({UNREAD: len(unread)} if unread else {})
    seconds: defaultdict[str, float] = defaultdict(float)
    for report in passes:
        counts.update(report.counts)
        if report.seconds:
            seconds[report.job] += round(sum(report.seconds.values()), 3)
    findings = (*unread, *[finding for report in passes for finding in report.findings])
    return PassReport(job, number, dict(counts), dict(seconds), findings)


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
