"""One landing pass: what its plan names into the tables, each record once, bad ones into quarantine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import NothingToLandError
from txmq_lib.passes.current import Pass, PassReport
from txmq_lib.passes.job import job_of_steps
from txmq_lib.passes.runner import run_passes
from txmq_lib.pipeline.land import unchanged_inputs
from txmq_lib.pipeline.land.broker_state import broker_offsets
from txmq_lib.pipeline.land.files import events, message_landing
from txmq_lib.pipeline.land.files.listing import LandingFile, list_files
from txmq_lib.pipeline.land.kinds import EVENT_TABLES, MESSAGE_TABLES, OFFSET_KINDS, ROCKETMQ, STORE, broker_names
from txmq_lib.pipeline.land.live import broker_landing
from txmq_lib.pipeline.land.live.broker_reading import BrokerReading
from txmq_lib.pipeline.land.records import messages
from txmq_lib.pipeline.land.store import store_landing, store_plan
from txmq_lib.pipeline.shared.roles import record_roles, require_same_role
from txmq_lib.spark.session_conf import session_conf, where_unset

JOB = "land"
WHILE_LANDING = {
    # What a landing keeps has bodies: to compress them takes half as long as to decode them, and gains an eighth.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    # Parquet's writer looks at what it holds after 100 rows, then after up to 10,000: these may be bodies of many MiB.
    "parquet.page.size.row.check.min": "1",
    "parquet.page.size.row.check.max": "1",
    # What a task holds of a file before it writes that out, and twice over while it packs it.
    "parquet.block.size": str(32 << 20),
}


def run_landing(
    warehouse: Warehouse,
    settings: Settings,
    arguments: Callable[[], Mapping[str, Any]],
    *,
    now: datetime,
    wall_clock: Callable[[], datetime],
    is_idle: Callable[[Pass], bool] | None = None,
    readings: Sequence[BrokerReading] = (),
) -> PassReport:
    """Plan what `arguments` gives, and land it.

    is_idle   whether a plan has nothing to land, and is not to be recorded
    readings  of live brokers, where the plan is of some of these
    """

    def work(mine: Pass) -> PassReport:
        with session_conf(warehouse.spark, where_unset(warehouse.spark, WHILE_LANDING)):
            return _land(mine, readings)

    job = job_of_steps(
        JOB,
        work,
        is_idle=is_idle,
        input_bytes=_input_bytes,
        require=_require_same_role,
        abandons_occupied=True,
        lands_again=True,
    )
    return run_passes(warehouse, job, now=now, settings=settings, wall_clock=wall_clock, arguments=arguments)


def _require_same_role(current: Pass) -> None:
    if current.arguments["kind"] not in OFFSET_KINDS:
        require_same_role(current, broker_names(current.arguments))


def _input_bytes(current: Pass) -> int:
    arguments = current.arguments
    if arguments["kind"] == STORE:
        return int(arguments["to_offset"]) - int(arguments["from_offset"])
    if arguments["kind"] == ROCKETMQ:
        return 0  # tasks write what they pull
    return sum(int(file["size"]) for file in arguments["files"])


def _land(current: Pass, readings: Sequence[BrokerReading]) -> PassReport:
    """Land what the plan names, and commit. A plan of another process that nobody can go on with is abandoned."""
    kind = current.arguments["kind"]
    if not current.is_own and not _can_be_carried_on(current):
        return _occupied_and_abandoned(current)
    if kind not in OFFSET_KINDS:
        record_roles(current, broker_names(current.arguments))
    unread: list[LandingFile] = []
    if kind == ROCKETMQ:
        broker_landing.land(current, readings)
    elif kind == STORE:
        store_landing.land(current)
    elif kind in MESSAGE_TABLES:
        unread = message_landing.land(current, _files(current), kind)
    else:
        unread = events.land(current, _files(current), kind=kind, broker_name=current.arguments["broker_name"])
    return current.commit(note=unchanged_inputs.note_of(current, [asdict(file) for file in unread]))


def _can_be_carried_on(current: Pass) -> bool:
    """Whether what another process planned to land is still there, and no step of it is occupied."""
    kind = current.arguments["kind"]
    if current.has_occupied_step:
        return False  # its process died as it dropped the plan, or another as it abandoned it
    if kind == ROCKETMQ:
        # What a broker gave to another process it may not give again, and nobody knows how much of it has landed.
        return False
    if kind == STORE:
        return store_plan.can_be_carried_on(current)
    return message_landing.can_be_carried_on(current) and _are_unchanged(current, _files(current))


def _files(current: Pass) -> list[LandingFile]:
    return [LandingFile(**file) for file in current.arguments["files"]]


def _appends(current: Pass) -> list[tuple[str, str]]:
    """Table and step of each append that the plan may make; a row more in quarantine harms nobody."""
    kind = current.arguments["kind"]
    tables = {**MESSAGE_TABLES, **EVENT_TABLES}
    kinds = [kind] if kind in tables else list(MESSAGE_TABLES)
    prepared = [("half_message", messages.PREPARED)] if "half" in kinds else []
    may_bring_offsets = kind not in tables or kind == "offset"
    offsets = [("consumer_offset_commit", broker_offsets.STEP)] if may_bring_offsets else []
    suspects = [(tables[each], each + messages.SUSPECTS) for each in kinds if each in MESSAGE_TABLES]
    appends = [*[(tables[each], each) for each in kinds], *suspects, *prepared, *offsets]
    # A plan of an older version knows fewer tables, and a process of that version writes no others.
    return [append for append in appends if append[0] in current.input_versions]


def _are_unchanged(current: Pass, files: list[LandingFile]) -> bool:
    paths = [file.path for file in files]
    try:
        found = list_files(current.warehouse.spark, paths, takes_broker_files=True)
    except NothingToLandError:
        return False
    return found == files


def _occupied_and_abandoned(current: Pass) -> PassReport:
    # Its inputs changed or went since it died: landing is by key, so landing them again adds what is missing. Should it
    # live, what it writes from here on would land beside the same rows of the next plan: so its steps are occupied.
    for table, step in _appends(current):
        current.occupy(table, step)
    current.abandon()
    return PassReport(current.job, current.number, {}, {})
