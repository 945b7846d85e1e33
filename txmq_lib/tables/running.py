"""Runs passes of a job: plans recorded, unfinished ones carried on, a pass of one's own last."""

from __future__ import annotations

import getpass
import json
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from txmq_lib.errors import PassConflict, PassReplayed, PlanInputsGone, RoleChanged
from txmq_lib.jvm import let_go_of_plans
from txmq_lib.names import JOB_MAINTAIN, JOB_TAKE_BACK
from txmq_lib.schemas import table_specs
from txmq_lib.settings import Settings
from txmq_lib.tables.conflicts import is_cancelled
from txmq_lib.tables.delta_log import DeltaLogView, TaggedCommit
from txmq_lib.tables.effort import effort
from txmq_lib.tables.pass_log import (
    CARRIED_ON,
    GIVEN_UP,
    STARTED,
    app_id,
    known_since,
    last_ended,
    last_note,
    last_take_back,
    lost_feeds,
    pass_tag,
    plan_row,
    unfinished,
)
from txmq_lib.tables.passes import Pass, PassReport
from txmq_lib.tables.warehouse import CHANGE_FEED_MERGES, Warehouse

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_TAKE_BACK = "last_take_back"
SMALL_PASS_BYTES = 4 << 20


def next_pass(
    warehouse: Warehouse,
    job: str,
    *,
    now: datetime,
    arguments: Mapping[str, Any],
    settings: Settings,
    wall_clock: Callable[[], datetime],
) -> Pass:
    """The job's unfinished pass, else a new one without a plan row: it may be computed, never written."""
    warehouse.ensure()
    log = warehouse.log("pass")
    planned, ended = log.txn_version(app_id(job, "pass", STARTED)), last_ended(log, job)
    if planned > ended:
        return _recorded_pass(warehouse, job, planned, wall_clock=wall_clock)
    note = last_note(warehouse, job)
    mine = preview(warehouse, job, now=now, arguments=arguments, settings=settings, wall_clock=wall_clock)
    _require_one_moment(job, note, mine.input_versions)
    since = known_since(warehouse, note, mine.input_versions)
    return replace(mine, number=planned + 1, since_versions=since, last_note=note)


def _require_one_moment(job: str, note: Mapping[str, Any], versions: Mapping[str, int]) -> None:
    own = note.get("own_versions", {})
    known = {name: max([version, *own.get(name, ())]) for name, version in note.get("input_versions", {}).items()}
    # Of other tables nobody reads what is new.
    feeds = {name for name, spec in table_specs().items() if spec.merge in CHANGE_FEED_MERGES}
    older = [name for name, version in known.items() if name in feeds and version > versions.get(name, version)]
    if older:
        raise PassReplayed(
            f"{', '.join(sorted(older))} is older than what the last pass of {job} saw; what lands there would never"
            " be read; restore all of the warehouse to the same moment"
        )


def preview(
    warehouse: Warehouse,
    job: str,
    *,
    now: datetime,
    arguments: Mapping[str, Any],
    settings: Settings,
    wall_clock: Callable[[], datetime],
) -> Pass:
    """A pass over the tables as they are, without a number or a past: to be computed and looked at, never written."""
    return Pass(
        warehouse=warehouse,
        job=job,
        number=0,
        now=now,
        input_versions={name: warehouse.version(name) for name in table_specs() if name != "pass"},
        since_versions={},
        arguments=dict(arguments),
        settings=settings,
        is_own=True,
        wall_clock=wall_clock,
    )


def run_passes(
    warehouse: Warehouse,
    job: str,
    work: Callable[[Pass], PassReport],
    *,
    now: datetime,
    settings: Settings,
    wall_clock: Callable[[], datetime],
    arguments: Callable[[], Mapping[str, Any]] = dict,
    is_idle: Callable[[Pass], bool] | None = None,
    input_bytes: Callable[[Pass], int | None] | None = None,
    lands_again: bool = False,
    require: Callable[[Pass], None] = lambda current: None,
) -> PassReport:
    """Carry unfinished passes of others on, then one of our own; the report of our own.

    `arguments` are asked for anew before each pass. Where `is_idle` says that our own would find nothing to do, it
    leaves no trace and its report counts `idle`. `input_bytes` tells how much there is to work on, None for much. An
    unfinished pass whose inputs are gone is abandoned where nothing of it has landed, or where the job does only what
    is missing (`lands_again`); else PlanInputsGone.

    require  raises RoleChanged where a plan must not be: before our own is recorded; one of others is abandoned
    """
    while True:
        warehouse.ensure()
        taken_back = _last_done_take_back(warehouse)
        current = next_pass(warehouse, job, now=now, arguments=arguments(), settings=settings, wall_clock=wall_clock)
        if current.is_own:
            try:
                require(current)
                if is_idle is not None and is_idle(current):
                    return PassReport(job, 0, {"idle": 1}, {})
            finally:
                current.release()
            current = _planned(current, taken_back=taken_back)
        if not (_may_begin(current, lands_again=lands_again) and _is_as_required(current, require)):
            continue
        size = input_bytes(current) if input_bytes is not None else None
        current.is_small = size is not None and size <= SMALL_PASS_BYTES
        try:
            with effort(warehouse.spark, input_bytes=size, is_small=current.is_small, is_known=input_bytes is not None):
                report = work(current)
        except (PassConflict, PassReplayed):
            raise
        except Exception as error:
            # A plan that cannot be carried out must not stand in the way of the next one; one cut off can be. A write
            # may have landed and failed behind its commit, and another process may be about to make one.
            is_untouched = not (current.has_written or is_cancelled(error)) and current.has_landed_nothing()
            if is_untouched and current.has_fate(GIVEN_UP):
                current.abandon()
            raise
        finally:
            current.release()
            if not current.is_small:
                let_go_of_plans(warehouse.spark)
        if current.is_own:
            return report


def _planned(mine: Pass, *, taken_back: int) -> Pass:
    """`mine` once its plan has landed, or the plan of its number that another process landed first.

    taken_back  the newest take-back that had done all it does before anything was read for this plan
    """
    plan_id = f"{getpass.getuser()}@{socket.gethostname()}:{os.getpid()}:{mine.wall_clock().isoformat()}"
    mine.plan_id = plan_id
    mine.append_row(STARTED, {"plan_id": plan_id, LAST_TAKE_BACK: taken_back})
    # Delta skips a second plan of this number without a word, so look whose plan landed.
    if _plan_note(_plan_commit(mine.warehouse.log("pass"), mine.job, mine.number)).get("plan_id") == plan_id:
        return mine
    return _recorded_pass(mine.warehouse, mine.job, mine.number, wall_clock=mine.wall_clock)


def _may_begin(current: Pass, *, lands_again: bool) -> bool:
    """Whether the plan can and may be worked on; else it is given up. PlanInputsGone where rows would be lost."""
    if not current.is_own and (gone := current.gone_inputs()):
        if not lands_again and not current.has_landed_nothing():
            raise PlanInputsGone(
                f"{current.job} pass {current.number} is unfinished, and {', '.join(gone)} can no longer be read as it"
                " was when the pass was planned; put back a copy of the warehouse from before that pass"
            )
        current.abandon()
        return False
    return _is_apart(current) and _is_in_hand(current)


def _is_as_required(current: Pass, require: Callable[[Pass], None]) -> bool:
    """Whether a plan of others may be carried on; else it is given up, and what it wrote stays."""
    if current.is_own:
        return True
    try:
        require(current)
    except RoleChanged:
        current.abandon()
        return False
    finally:
        current.release()
    return True


def _is_in_hand(current: Pass) -> bool:
    """Whether the plan's own process can no longer give it up; else it already has, and the plan is abandoned."""
    if current.is_own or current.has_fate(CARRIED_ON):
        return True
    current.abandon()
    current.release()
    return False


def _is_apart(current: Pass) -> bool:
    """Whether no take-back lies between what the plan read and its first write; else it is given up, to be made anew.

    PassConflict where it was our own and the other one is still unfinished. Of two that may not be open together the
    one recorded later gives way, whichever process has it in hand: both look after their plan has landed, so no process
    can have found the later one apart while the earlier one is open, and nothing of it has landed.
    """
    log = current.warehouse.log("pass")
    if current.job == JOB_MAINTAIN or not log.txn_version(app_id(JOB_TAKE_BACK, "pass", STARTED)):
        return True
    plan = _plan_commit(log, current.job, current.number)
    in_the_way = _in_the_way(current.job, log, plan)
    is_stale = current.job != JOB_TAKE_BACK and _is_of_before_take_back(current.warehouse, plan)
    if not (in_the_way or is_stale):
        return True
    current.abandon()
    if in_the_way and current.is_own:
        raise PassConflict(f"{current.job} cannot run now: {in_the_way} is unfinished; end it first, then try again")
    current.release()
    return False


def _in_the_way(job: str, log: DeltaLogView, plan: TaggedCommit | None) -> str:
    """The unfinished passes, recorded before `plan`, beside which `job`, not maintain, must not be; empty for none.

    Rows that are taken back must not be read meanwhile.
    """
    meet = {
        other: number
        for other, number in unfinished(log).items()
        if other not in (job, JOB_MAINTAIN) and JOB_TAKE_BACK in (job, other)
    }
    recorded_at = _version_of(plan)
    return ", ".join(
        f"{other} pass {number}"
        for other, number in meet.items()
        if _version_of(_plan_commit(log, other, number)) < recorded_at
    )


def _is_of_before_take_back(warehouse: Warehouse, plan: TaggedCommit | None) -> bool:
    """Whether rows were taken back since the plan began to read: it may know rows that are gone, or a frontier.

    That take-back looked for unfinished passes before this plan was recorded, else it had given way: nobody can have
    found this plan apart.
    """
    latest = last_take_back(warehouse)
    return bool(latest) and latest != _plan_note(plan).get(LAST_TAKE_BACK, latest)


def _plan_commit(log: DeltaLogView, job: str, number: int) -> TaggedCommit | None:
    """The commit that has the plan, however long ago; None where the log no longer tells."""
    return log.tagged_commit(pass_tag(job, number, STARTED), after=-1)


def _version_of(plan: TaggedCommit | None) -> int:
    return plan.version if plan is not None else -1


def _plan_note(plan: TaggedCommit | None) -> dict[str, Any]:
    return dict(json.loads(plan.note)) if plan is not None else {}


def _last_done_take_back(warehouse: Warehouse) -> int:
    latest, unfinished_number = last_take_back(warehouse), unfinished(warehouse.log("pass")).get(JOB_TAKE_BACK)
    return latest if unfinished_number is None else min(latest, unfinished_number - 1)


def _recorded_pass(warehouse: Warehouse, job: str, number: int, *, wall_clock: Callable[[], datetime]) -> Pass:
    row = plan_row(warehouse, job, number)
    return Pass(
        warehouse=warehouse,
        job=job,
        number=number,
        now=EPOCH + timedelta(microseconds=row["now_us"]),
        input_versions=dict(row["input_versions"]),
        since_versions=dict(row["since_versions"]),
        arguments=json.loads(row["arguments"]),
        settings=Settings.from_json(row["settings"]),
        is_own=False,
        wall_clock=wall_clock,
        plan_id=row["plan_id"],
        _lost_feeds=lost_feeds(warehouse, row),
    )
