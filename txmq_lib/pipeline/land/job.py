"""The land job: files, stores and live brokers into tables, each record once, bad ones into quarantine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import NothingToLandError, RemotingError, UnreachableError
from txmq_lib.names import ROLE_ENGINE
from txmq_lib.passes.current import Pass, PassReport
from txmq_lib.passes.job import job_of_steps
from txmq_lib.passes.pass_log import last_note
from txmq_lib.passes.ready import make_ready
from txmq_lib.passes.runner import run_passes
from txmq_lib.pipeline.land import unchanged_inputs
from txmq_lib.pipeline.land.broker_state import broker_offsets
from txmq_lib.pipeline.land.files import events, line_landing
from txmq_lib.pipeline.land.files import lines as inputs
from txmq_lib.pipeline.land.files.reading import LandingFile, list_files
from txmq_lib.pipeline.land.live import broker_landing as live
from txmq_lib.pipeline.land.live.broker_landing import UNREAD, Parts, Reading
from txmq_lib.pipeline.land.live.live_brokers import LiveBroker, access_of, live_brokers
from txmq_lib.pipeline.land.records import messages
from txmq_lib.pipeline.land.records.record_rows import Landing
from txmq_lib.pipeline.land.store import log_landing
from txmq_lib.pipeline.land.store import store_landing as store
from txmq_lib.pipeline.land.topics import trace_topics
from txmq_lib.pipeline.shared.roles import (
    OF_NO_ROLE,
    record,
    require_said_role,
    require_same_role,
    require_some_role,
)
from txmq_lib.rules.contract import message_rows, quick_message_rows, told_end
from txmq_lib.rules.frontier import as_file_reports, file_reports, reached, reached_together
from txmq_lib.rules.half import content_hash
from txmq_lib.spark.session_conf import session_conf, where_unset

JOB = "land"
BROKERS_AT_ONCE = 16
MESSAGE_KINDS = ("half", "op", "message", "max-time", "trace")
WHILE_LANDING = {
    # What a landing keeps has bodies: to compress them takes half as long as to decode them, and gains an eighth.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    # Parquet's writer looks at what it holds after 100 rows, then after up to 10,000: these may be bodies of many MiB.
    "parquet.page.size.row.check.min": "1",
    "parquet.page.size.row.check.max": "1",
    # What a task holds of a file before it writes that out, and twice over while it packs it.
    "parquet.block.size": str(32 << 20),
}


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
            files = [file for file in found if not _is_among(known, {**common, "files": [asdict(file)]})]
        # Messages of the trace topic are taken apart by Spark.
        is_by_tasks = kind in MESSAGE_KINDS and kind != "trace"
        task_bytes = line_landing.task_bytes(warehouse, files) if is_by_tasks else None
        return {**common, "files": [asdict(file) for file in files], "task_bytes": task_bytes}

    report = _passes(
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
    arguments = partial(store.plan, warehouse, settings, path=path, broker_name=broker_name)

    def is_idle(mine: Pass) -> bool:
        return is_idle_when_landed and _is_among(
            unchanged_inputs.known(warehouse, settings, mine.last_note), mine.arguments
        )

    report = _passes(warehouse, settings, arguments, now=now, wall_clock=wall_clock, is_idle=is_idle)
    report = replace(report, brokers=(broker_name,))
    if "idle" in report.counts:
        return report
    return replace(report, findings=(*report.findings, *store.findings(path, settings, broker_name)))


def _is_among(known: Mapping[str, str], arguments: Mapping[str, Any]) -> bool:
    return all(known.get(place) == state for place, state in unchanged_inputs.states(arguments).items())


def run_land_rocketmq(
    warehouse: Warehouse,
    settings: Settings,
    *,
    name_servers: Sequence[str],
    brokers: Sequence[str] = (),
    parts: Parts = live.WHOLE,
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

    def known(*named: str) -> list[LiveBroker]:
        return live_brokers(name_servers, access, patterns=topics, besides=besides, named=named)

    reports: list[PassReport] = []
    failures: list[RemotingError] = []
    found = known(*brokers)
    require_said_role(settings, [broker.name for broker in found])
    readings = [Reading(broker, access, parts) for broker in found]
    for reading, planned in zip(readings, planned_at_once(warehouse, settings, readings, now), strict=True):
        try:
            reports.append(_land_live(warehouse, settings, reading, planned, known, now=now, wall_clock=wall_clock))
        except RemotingError as failure:
            failures.append(failure)
            reading.tell(f"not read: {failure.message}")
    if not reports:
        raise failures[0] if failures else UnreachableError("the name servers know no broker with half messages")
    return _as_one(reports, readings, unread=len(failures))


def planned_at_once(
    warehouse: Warehouse, settings: Settings, readings: Sequence[Reading], now: datetime
) -> list[Callable[[], dict[str, Any]]]:
    """Of each broker what gives its plan, or raises what was met on the way; all are asked at once."""
    if not readings:
        return []
    known = live.known_queues(warehouse, [reading.broker.name for reading in readings])
    with ThreadPoolExecutor(min(len(readings), BROKERS_AT_ONCE)) as threads:
        plans = [threads.submit(live.plan, known, settings, reading, now) for reading in readings]
    return [each.result for each in plans]


def _as_one(reports: Sequence[PassReport], readings: Sequence[Reading], *, unread: int) -> PassReport:
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
    has_more = counts[live.BEHIND] > 0 and any(counts[kind] for kind in messages.TABLE_OF_KIND)
    return PassReport(JOB, number, dict(counts), dict(seconds), findings, whole, has_more)


def _land_live(
    warehouse: Warehouse,
    settings: Settings,
    reading: Reading,
    planned: Callable[[], dict[str, Any]],
    known: Callable[..., list[LiveBroker]],
    *,
    now: datetime,
    wall_clock: Callable[[], datetime],
) -> PassReport:
    plans = iter([planned])

    def of_now() -> dict[str, Any]:
        return live.plan(live.known_queues(warehouse, [reading.broker.name]), settings, reading, now)

    def arguments() -> Mapping[str, Any]:
        try:
            return next(plans, of_now)()
        except UnreachableError:
            (broker,) = known(reading.broker.name)
            if broker.address in (None, reading.broker.address):
                raise
            before, reading.broker = reading.broker.address, broker
            moment = of_now()
            reading.tell(f"its master moved from {before} to {broker.address}")
            return moment

    def is_idle(mine: Pass) -> bool:
        known = unchanged_inputs.known(warehouse, settings, mine.last_note)
        return not mine.arguments["queues"] and _is_among(known, mine.arguments)

    report = _passes(warehouse, settings, arguments, now=now, wall_clock=wall_clock, is_idle=is_idle, reading=reading)
    whole = () if reading.counts[UNREAD] or Parts.QUEUES not in reading.parts else (reading.broker.name,)
    report = replace(report, brokers=whole)
    return replace(report, counts={**report.counts, **reading.counts}) if "idle" in report.counts else report


def _passes(
    warehouse: Warehouse,
    settings: Settings,
    arguments: Callable[[], Mapping[str, Any]],
    *,
    now: datetime,
    wall_clock: Callable[[], datetime],
    is_idle: Callable[[Pass], bool] | None = None,
    reading: Reading | None = None,
) -> PassReport:
    def work(mine: Pass) -> PassReport:
        with session_conf(warehouse.spark, where_unset(warehouse.spark, WHILE_LANDING)):
            return _land(mine, reading)

    job = job_of_steps(
        JOB, work, is_idle=is_idle, input_bytes=_input_bytes, require=_require_same_role, lands_again=True
    )
    return run_passes(warehouse, job, now=now, settings=settings, wall_clock=wall_clock, arguments=arguments)


def _require_same_role(current: Pass) -> None:
    if current.arguments["kind"] not in OF_NO_ROLE:
        require_same_role(current, current.arguments["broker_name"])


def _input_bytes(current: Pass) -> int:
    arguments = current.arguments
    if arguments["kind"] == "store":
        return int(arguments["to_offset"]) - int(arguments["from_offset"])
    if arguments["kind"] == live.KIND:
        return 0  # tasks write what they pull
    return sum(int(file["size"]) for file in arguments["files"])


def _land(current: Pass, reading: Reading | None) -> PassReport:
    kind = current.arguments["kind"]
    if not current.is_own and any(current.is_taken(*each) for each in _appends(kind)):
        return _given_up(current)  # by a process that died on the way
    if kind == live.KIND:
        # What a broker gave to another process it may not give again, and nobody knows how much of it has landed.
        if reading is None or not current.is_own:
            return _given_up(current)
        record(current, current.arguments["broker_name"])
        live.land(current, reading)
        return current.commit(note=unchanged_inputs.word_of(current))
    if kind == "store":
        if not current.is_own and not store.can_be_carried_on(current):
            return _given_up(current)
        record(current, current.arguments["broker_name"])
        store.land(current)
        return current.commit(note=unchanged_inputs.word_of(current))
    files = [LandingFile(**file) for file in current.arguments["files"]]
    is_way_open = current.arguments.get("task_bytes") is None or log_landing.can_write(current.warehouse)
    if not current.is_own and not (is_way_open and _are_unchanged(current, files)):
        return _given_up(current)
    broker_name = current.arguments["broker_name"]
    if kind not in OF_NO_ROLE:
        record(current, broker_name)
    if kind in MESSAGE_KINDS:
        unread = _land_messages(current, files, kind, broker_name)
    else:
        unread = events.land(current, files, kind=kind, broker_name=broker_name)
    return current.commit(note=unchanged_inputs.word_of(current, [asdict(file) for file in unread]))


def _land_messages(current: Pass, files: list[LandingFile], kind: str, broker_name: str) -> list[LandingFile]:
    """The files that could not be read."""
    is_engine = current.settings.for_broker(broker_name).role == ROLE_ENGINE
    common: dict[str, Any] = {
        "kind": kind,
        "broker_name": broker_name,
        "takes_prepared": is_engine and kind == "half",
    }
    # Plans of before say nothing of tasks.
    if current.arguments.get("task_bytes") is not None:
        landing = Landing(broker_name, current.number, is_engine, table=messages.TABLE_OF_KIND[kind])
        landed = line_landing.land(current, files, landing, partial(_kept, current))
        if landed is not None:
            of_queues, suspects = landed
            if suspects is not None:
                places = messages.land(current, suspects, **common, are_suspects=True)
                of_queues = reached_together(of_queues.unionByName(reached(places)))
            messages.move_frontier(current, as_file_reports(of_queues))
            return [] if suspects is None else inputs.unread(current, files, inputs.Lines(suspects, None), suspects)
    lines_read = inputs.lines(current, files)
    with current.timed("decode"):
        quick = _kept(current, quick_message_rows(lines_read.rows))
        stored = _judged(quick, lambda suspects: _kept(current, message_rows(suspects)))
    rows = messages.land(current, stored, **common)
    messages.move_frontier(current, file_reports(rows))
    return inputs.unread(current, files, lines_read, stored)


def _kept(current: Pass, rows: DataFrame) -> DataFrame:
    return current.cached(rows.withColumns({"content_hash": content_hash(), "told_end": told_end()}))


def _judged(quick: DataFrame, look: Callable[[DataFrame], DataFrame]) -> DataFrame:
    """Rows of rules.contract.message_rows from those of quick_message_rows: `look` is what to do at suspects only."""
    no_text = F.lit(None).cast("string")
    plain = quick.where("suspect_value is null").drop("suspect_value", "fault")
    plain = plain.withColumns({name: no_text for name in ("reason", "detail", "raw")})
    suspects = quick.where("suspect_value is not null").select(
        F.col("suspect_value").alias("value"), "source", "position", "fault", F.col("body").alias("long_body")
    )
    return plain.unionByName(look(suspects)) if suspects.limit(1).count() else plain


def _appends(kind: str) -> list[tuple[str, str]]:
    """Table and step of each append that a landing of this kind may make, quarantine apart."""
    tables = {**messages.TABLE_OF_KIND, **events.TABLE_OF_KIND}
    kinds = [kind] if kind in tables else MESSAGE_KINDS
    prepared = [("half_message", messages.PREPARED)] if "half" in kinds else []
    may_have_table = kind not in tables or kind == "offset"
    offsets = [("consumer_offset_commit", broker_offsets.STEP)] if may_have_table else []
    suspects = [(tables[each], each + messages.SUSPECTS) for each in kinds if each in MESSAGE_KINDS]
    return [*[(tables[each], each) for each in kinds], *suspects, *prepared, *offsets]


def _are_unchanged(current: Pass, files: list[LandingFile]) -> bool:
    paths = [file.path for file in files]
    try:
        found = list_files(current.warehouse.spark, paths, takes_broker_files=True)
    except NothingToLandError:
        return False
    return found == files


def _given_up(current: Pass) -> PassReport:
    # Its inputs changed or went since it died: landing is by key, so landing them again adds what is missing. Where it
    # has not died, its steps are taken: what it writes from here on would land beside the same rows of the next plan.
    for table, step in _appends(current.arguments["kind"]):
        current.take(table, step)
    current.abandon()
    return PassReport(current.job, current.number, {}, {})
