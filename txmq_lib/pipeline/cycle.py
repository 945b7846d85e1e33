"""One cycle: land the configured sources, reconcile, resolve, roll up, audit, and upkeep when due; each a pass."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import InputError, NothingToLandError, RemotingError, WarehouseUnreached
from txmq_lib.passes.current import PassReport
from txmq_lib.pipeline.land.kinds import OFFSET_KINDS
from txmq_lib.pipeline.land.landing_pass import JOB as LAND
from txmq_lib.pipeline.land.live.broker_reading import UNREAD
from txmq_lib.pipeline.reconcile import job as reconcile
from txmq_lib.pipeline.shared.roles import require_roles_kept
from txmq_lib.pipeline.upkeep_plan import JOB as MAINTAIN
from txmq_lib.pipeline.works import Work, works_of_cycle, works_of_sources


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

    RoleChanged, and nothing is written, where any broker has another role in the settings than its rows were made in.
    A source where there is nothing yet is counted (`sources_empty`) and passed over; so is a store, file or live broker
    that cannot be read (`unread`). Without a resolver none is asked.
    environ  where secrets that the settings name are looked up; SettingsError where one is missing
    on_step  told of each pass by its name: the report, or the error that it ended with
    """
    works = works_of_cycle(settings, takes_offsets=True, wall_clock=wall_clock, environ=environ)
    with warehouse.looking_once():
        require_roles_kept(warehouse, settings, now=now, wall_clock=wall_clock)
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
    """The landings of a cycle alone, summed as `run_cycle` does; the number is that of the last pass.

    RoleChanged, and nothing is written, where that is so of a broker that a source names.
    """
    works = works_of_sources(settings, wall_clock=wall_clock, environ=environ)
    landed = [source.broker for source in settings.sources if source.broker and source.kind not in OFFSET_KINDS]
    with warehouse.looking_once():
        require_roles_kept(warehouse, settings, now=now, wall_clock=wall_clock, landed=landed)
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
