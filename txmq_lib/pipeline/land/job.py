"""The land job: files, stores and live brokers into tables, each record once, bad ones into quarantine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial
from typing import Any

from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import UnreachableError
from txmq_lib.passes.current import Pass, PassReport
from txmq_lib.passes.pass_log import last_note
from txmq_lib.passes.ready import make_ready
from txmq_lib.pipeline.land import unchanged_inputs
from txmq_lib.pipeline.land.files import message_landing
from txmq_lib.pipeline.land.files.listing import list_files
from txmq_lib.pipeline.land.kinds import MESSAGE_TABLES
from txmq_lib.pipeline.land.landing_pass import JOB, run_landing
from txmq_lib.pipeline.land.live import broker_said
from txmq_lib.pipeline.land.live.broker_landing import counts_of
from txmq_lib.pipeline.land.live.broker_reading import BEHIND, UNREAD, WHOLE, BrokerReading, Parts
from txmq_lib.pipeline.land.live.brokers_plan import Asking, plan_all
from txmq_lib.pipeline.land.live.live_brokers import LiveBroker, access_of, live_brokers
from txmq_lib.pipeline.land.store import store_plan
from txmq_lib.pipeline.land.topics import trace_topics
from txmq_lib.pipeline.shared.roles import (
    recorded_roles,
    require_said_role,
    require_same_roles,
    require_some_role,
)
from txmq_lib.rocketmq.remoting.connection import Access


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
            files = [
                file for file in found if not unchanged_inputs.have_landed(known, {**common, "files": [asdict(file)]})
            ]
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
        return is_idle_when_landed and unchanged_inputs.have_landed(
            unchanged_inputs.known(warehouse, settings, mine.last_note), mine.arguments
        )

    report = run_landing(warehouse, settings, arguments, now=now, wall_clock=wall_clock, is_idle=is_idle)
    report = replace(report, brokers=(broker_name,))
    if "idle" in report.counts:
        return report
    return replace(report, findings=(*report.findings, *store_plan.findings(path, settings, broker_name)))


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
    """Land what live brokers, all or those named, have beyond what was landed of them, in one pass.

    A broker that cannot be read is told and counted (`unread`), and the others are landed. One that has nothing new
    takes no part; where none has, there is no pass.
    environ  where the keys for ACL are looked up that the settings name
    Errors   UnreachableError where no name server answers; RemotingError where no broker could be read; SettingsError
             where nobody has said the role of a broker that would land; RoleChanged where it is another than recorded
    """
    require_some_role(settings, brokers)
    make_ready(warehouse)
    access = access_of(settings, environ)
    # Offsets need no queue: every few seconds name servers are not asked for the route of each real topic.
    needs_routes = parts != Parts.OFFSETS or bool(brokers)
    topics, besides = (settings.land.topics, trace_topics(settings.land)) if needs_routes else ((), ())

    def brokers_now(*named: str) -> list[LiveBroker]:
        return live_brokers(name_servers, access, patterns=topics, besides=besides, named=named)

    found = brokers_now(*brokers)
    if not found:
        raise UnreachableError("the name servers know no broker with half messages")
    names = {broker.name for broker in found}
    require_said_role(settings, sorted(names))
    # Also of those that will have no news.
    require_same_roles(settings, {name: role for name, role in recorded_roles(warehouse).items() if name in names})
    readings = [_reading(warehouse, broker, access, parts) for broker in found]
    report = run_landing(
        warehouse,
        settings,
        partial(plan_all, warehouse, Asking(settings, now, brokers_now), readings),
        now=now,
        wall_clock=wall_clock,
        is_idle=lambda mine: not mine.arguments["brokers"],
        readings=readings,
    )
    return _with_readings(report, readings)


def _reading(warehouse: Warehouse, broker: LiveBroker, access: Access, parts: Parts) -> BrokerReading:
    return BrokerReading(
        broker,
        access,
        parts,
        waiting_groups=partial(broker_said.waiting_groups, warehouse, broker.name),
        known_boot=partial(broker_said.known_boot, warehouse, broker.name),
    )


def _with_readings(report: PassReport, readings: Sequence[BrokerReading]) -> PassReport:
    """The report of a pass, or of none, with what was learned of all brokers that were asked."""
    failed = sum(reading.failure is not None for reading in readings)
    counts = Counter({**report.counts, **counts_of(readings), "brokers": len(readings) - failed})
    counts[UNREAD] += failed
    # What never lands, as of a queue that refuses, is no reason to begin again and again.
    has_more = counts[BEHIND] > 0 and any(counts[kind] for kind in MESSAGE_TABLES)
    return replace(
        report,
        counts=dict(counts),
        findings=tuple(words for reading in readings for words in reading.findings),
        brokers=tuple(reading.broker.name for reading in readings if reading.is_whole),
        has_more=has_more,
    )
