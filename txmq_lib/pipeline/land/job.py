"""The land job: files, stores and live brokers into tables, each record once, bad ones into quarantine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial
from typing import Any

from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import RemotingError, UnreachableError, UsageError
from txmq_lib.passes.current import Pass, PassReport
from txmq_lib.passes.pass_log import last_note
from txmq_lib.passes.ready import make_ready
from txmq_lib.pipeline.land import unchanged_inputs
from txmq_lib.pipeline.land.broker_state import check_cursors
from txmq_lib.pipeline.land.files import message_landing
from txmq_lib.pipeline.land.files.listing import list_files
from txmq_lib.pipeline.land.kinds import MESSAGE_TABLES
from txmq_lib.pipeline.land.landing_pass import JOB, run_landing
from txmq_lib.pipeline.land.live import broker_plan, broker_said
from txmq_lib.pipeline.land.live.broker_reading import BEHIND, UNREAD, WHOLE, BrokerReading, Parts
from txmq_lib.pipeline.land.live.live_brokers import LiveBroker, access_of, live_brokers
from txmq_lib.pipeline.land.store import store_plan
from txmq_lib.pipeline.land.topics import trace_topics
from txmq_lib.pipeline.shared.roles import require_said_role, require_some_role
from txmq_lib.rocketmq.remoting.connection import Access

BROKERS_AT_ONCE = 16


def run_land_files(
    warehouse: Warehouse,
    settings: Settings,
    *,
    kind: str,
    paths: list[str],
    broker_name: str,
    now: datetime,
    wall_clock: Callable[[], datetime],
    is_idle_when_landed: bool = False,
) -> PassReport:
    """Land JSON lines or Parquet files of one `kind` for one broker (docs/pages/reference/landing.md).

    With `is_idle_when_landed`, files that landed before and are unchanged are passed over.
    """
    make_ready(warehouse)
    found = list_files(warehouse.spark, paths, takes_broker_files=kind == "offset")
    common = {"kind": kind, "broker_name": broker_name}

    def arguments() -> dict[str, Any]:
        files = found
        if is_idle_when_landed:
            known = unchanged_inputs.known(warehouse, settings, last_note(warehouse, warehouse.log("pass"), JOB))
            files = [file for file in found if not _have_landed(known, {**common, "files": [asdict(file)]})]
        task_bytes = message_landing.task_bytes(warehouse, files, kind)
        return {**common, "files": [asdict(file) for file in files], "task_bytes": task_bytes}

    report = run_landing(
        warehouse, settings, arguments, now=now, wall_clock=wall_clock, is_idle=lambda mine: not mine.arguments["files"]
    )
    return replace(report, brokers=(broker_name,))


def run_land_store(
    warehouse: Warehouse,
    settings: Settings,
    *,
    path: str,
    broker_name: str,
    now: datetime,
    wall_clock: Callable[[], datetime],
    is_idle_when_landed: bool = False,
) -> PassReport:
    """Land what a broker's store directory holds beyond what was landed of it before.

    With `is_idle_when_landed` there is no pass where the store has not moved. Settings in a broker.conf beside it that
    differ from those of txmq, or endanger transactions, are told.

    Errors  SettingsError where nobody has said the broker's role
    """
    require_said_role(settings, [broker_name])
    make_ready(warehouse)
    arguments = partial(store_plan.plan, warehouse, settings, path=path, broker_name=broker_name)

    def is_idle(mine: Pass) -> bool:
        return is_idle_when_landed and _have_landed(
            unchanged_inputs.known(warehouse, settings, mine.last_note), mine.arguments
        )

    report = run_landing(warehouse, settings, arguments, now=now, wall_clock=wall_clock, is_idle=is_idle)
    report = replace(report, brokers=(broker_name,))
    if "idle" in report.counts:
        return report
    return replace(report, findings=(*report.findings, *store_plan.findings(path, settings, broker_name)))


def _have_landed(known: Mapping[str, str], arguments: Mapping[str, Any]) -> bool:
    """Whether all inputs that a plan names have landed in the state in which they are now."""
    return all(known.get(place) == state for place, state in unchanged_inputs.states(arguments).items())


def run_land_rocketmq(
    warehouse: Warehouse,
    settings: Settings,
    *,
    name_servers: Sequence[str],
    brokers: Sequence[str] = (),
    parts: Parts = WHOLE,
    now: datetime,
    wall_clock: Callable[[], datetime],
    environ: Mapping[str, str],
) -> PassReport:
    """Land what live brokers, all or those named, have beyond what was landed of them; a pass each, as one report.

    All of them are asked at once what there is to read: one that is slow or down holds up no other.

    A broker that cannot be read is told and counted (`unread`), and the others are landed. One that has nothing new
    makes no pass.
    environ  where the keys for ACL are looked up that the settings name
    Errors   UnreachableError where no name server answers; RemotingError where no broker could be read; SettingsError
             where nobody has said the role of a broker that would land
    """
    require_some_role(settings, brokers)
    make_ready(warehouse)
    access = access_of(settings, environ)
    # Offsets need no queue: every few seconds name servers are not asked for the route of each real topic.
    needs_routes = parts != Parts.OFFSETS or bool(brokers)
    topics, besides = (settings.land.topics, trace_topics(settings.land)) if needs_routes else ((), ())

    def brokers_now(*named: str) -> list[LiveBroker]:
        return live_brokers(name_servers, access, patterns=topics, besides=besides, named=named)

    reports: list[PassReport] = []
    failures: list[RemotingError] = []
    found = brokers_now(*brokers)
    require_said_role(settings, [broker.name for broker in found])
    readings = [_reading(warehouse, broker, access, parts) for broker in found]
    for reading, planned in zip(readings, planned_at_once(warehouse, settings, readings, now), strict=True):
        try:
            reports.append(
                _land_live(warehouse, settings, reading, planned, brokers_now, now=now, wall_clock=wall_clock)
            )
        except RemotingError as failure:
            failures.append(failure)
            reading.tell(f"not read: {failure.message}")
    if not reports:
        raise failures[0] if failures else UnreachableError("the name servers know no broker with half messages")
    return _as_one(reports, readings, unread=len(failures))


def _reading(warehouse: Warehouse, broker: LiveBroker, access: Access, parts: Parts) -> BrokerReading:
    return BrokerReading(
        broker,
        access,
        parts,
        waiting_groups=partial(broker_said.waiting_groups, warehouse, broker.name),
        known_boot=partial(broker_said.known_boot, warehouse, broker.name),
    )


def planned_at_once(
    warehouse: Warehouse, settings: Settings, readings: Sequence[BrokerReading], now: datetime
) -> list[Callable[[], dict[str, Any]]]:
    """Of each broker what gives its plan, or raises what was met on the way; all are asked at once."""
    if not readings:
        return []
    known = broker_plan.known_queues(warehouse, [reading.broker.name for reading in readings])
    with ThreadPoolExecutor(min(len(readings), BROKERS_AT_ONCE)) as threads:
        plans = [threads.submit(broker_plan.plan, known, settings, reading, now) for reading in readings]
    return [each.result for each in plans]


def _as_one(reports: Sequence[PassReport], readings: Sequence[BrokerReading], *, unread: int) -> PassReport:
    """What was done to several brokers as one report."""
    counts: Counter[str] = Counter({"brokers": len(reports), UNREAD: unread})
    seconds: Counter[str] = Counter()
    for report in reports:
        counts.update(report.counts)
        seconds.update(report.seconds)
    number = max(report.number for report in reports)
    if number:
        del counts["idle"]
    findings = tuple(words for reading in readings for words in reading.findings)
    whole = tuple(sorted({broker for report in reports for broker in report.brokers}))
    # What never lands, as of a queue that refuses, is no reason to begin again and again.
    has_more = counts[BEHIND] > 0 and any(counts[kind] for kind in MESSAGE_TABLES)
    return PassReport(JOB, number, dict(counts), dict(seconds), findings, whole, has_more)


def _land_live(
    warehouse: Warehouse,
    settings: Settings,
    reading: BrokerReading,
    planned: Callable[[], dict[str, Any]],
    brokers_now: Callable[..., list[LiveBroker]],
    *,
    now: datetime,
    wall_clock: Callable[[], datetime],
) -> PassReport:
    plans = iter([planned])  # the first time; then the broker is asked anew

    def plan_anew() -> dict[str, Any]:
        return broker_plan.plan(broker_plan.known_queues(warehouse, [reading.broker.name]), settings, reading, now)

    def arguments() -> Mapping[str, Any]:
        try:
            return next(plans, plan_anew)()
        except UnreachableError:
            broker = _found_again(reading.broker.name, brokers_now)
            if broker is None or broker.address in (None, reading.broker.address):
                raise
            before, reading.broker = reading.broker.address, broker
            plan = plan_anew()
            reading.tell(f"its master moved from {before} to {broker.address}")
            return plan

    def is_idle(mine: Pass) -> bool:
        known = unchanged_inputs.known(warehouse, settings, mine.last_note)
        is_moved = mine.arguments["queues"] or mine.arguments.get("untold")
        if is_moved or not _have_landed(known, mine.arguments):
            return False
        return reading.offsets is not None or not check_cursors.is_news(mine, reading.passed)

    report = run_landing(
        warehouse, settings, arguments, now=now, wall_clock=wall_clock, is_idle=is_idle, reading=reading
    )
    whole = () if reading.counts[UNREAD] or Parts.QUEUES not in reading.parts else (reading.broker.name,)
    report = replace(report, brokers=whole)
    return replace(report, counts={**report.counts, **reading.counts}) if "idle" in report.counts else report


def _found_again(name: str, brokers_now: Callable[..., list[LiveBroker]]) -> LiveBroker | None:
    """A broker that was listed before; None where it has left the name servers since, as one that is stopped does."""
    try:
        (broker,) = brokers_now(name)
    except UsageError:
        return None
    return broker
