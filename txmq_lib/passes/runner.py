"""Runs passes of a job: plans recorded, unfinished ones carried on, a pass of one's own last."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from txmq_lib.config.settings import Settings
from txmq_lib.delta.conflicts import is_left_off
from txmq_lib.delta.log_view import DeltaLogView
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import PassConflict, PassReplayed, RoleChanged
from txmq_lib.files.boot import this_boot
from txmq_lib.files.started_by import started_by
from txmq_lib.passes.current import Pass, PassReport
from txmq_lib.passes.dropping import drop_untouched, has_lost_inputs
from txmq_lib.passes.exclusion import (
    LAST_TAKE_BACK,
    in_the_way,
    is_older_than_take_back,
    last_done_take_back,
    plan_commit,
    plan_note,
)
from txmq_lib.passes.job import Job
from txmq_lib.passes.pass_log import (
    BOOT,
    CARRIED_ON,
    INPUT_VERSIONS,
    STARTED,
    app_id,
    durable_versions,
    known_since,
    last_ended,
    last_note,
    lost_feeds,
    plan_row,
    require_one_moment,
)
from txmq_lib.passes.ready import make_ready
from txmq_lib.spark.jvm import let_go_of_plans
from txmq_lib.spark.tuning import tuned

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SMALL_PASS_BYTES = 4 << 20


def next_pass(
    warehouse: Warehouse,
    job: str,
    *,
    now: datetime,
    arguments: Mapping[str, Any],
    settings: Settings,
    wall_clock: Callable[[], datetime],
    log: DeltaLogView | None = None,
) -> Pass:
    """The job's unfinished pass, else a new one: it may be computed, and written once `_planned` has recorded it.

    log  that of `pass` as it was a moment ago; else it is looked at
    """
    make_ready(warehouse)
    log = log or warehouse.log("pass")
    planned, ended = log.txn_version(app_id(job, "pass", STARTED)), last_ended(log, job)
    if planned > ended:
        return _recorded_pass(warehouse, job, planned, wall_clock=wall_clock)
    note = last_note(warehouse, log, job)
    mine = preview(warehouse, job, now=now, arguments=arguments, settings=settings, wall_clock=wall_clock)
    require_one_moment(job, note, mine.input_versions)
    since = known_since(warehouse, note, mine.input_versions)
    return replace(mine, number=planned + 1, since_versions=since, last_note=note)


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
        input_versions=warehouse.newest_versions(),
        since_versions={},
        arguments=dict(arguments),
        settings=settings,
        is_own=True,
        wall_clock=wall_clock,
    )


def run_passes(
    warehouse: Warehouse,
    job: Job[Any, Any],
    *,
    now: datetime,
    settings: Settings,
    wall_clock: Callable[[], datetime],
    arguments: Callable[[], Mapping[str, Any]] | None = None,
) -> PassReport:
    """Carry unfinished passes of others on, then one of our own; the report of our own.

    `arguments` are asked for anew before each pass, also where a plan of others is open. Where the inputs of a plan are
    gone it is abandoned if nothing of it has landed, or if the job does only what is missing; else PlanInputsGone.
    """
    while True:
        make_ready(warehouse)
        log = warehouse.log("pass")
        last_take_back = last_done_take_back(warehouse, log)
        current = next_pass(
            warehouse,
            job.name,
            now=now,
            # They may take long, and another process may have made a pass by then.
            arguments=arguments() if arguments else {},
            settings=settings,
            wall_clock=wall_clock,
            log=None if arguments else log,
        )
        if current.is_own:
            try:
                job.require(current)
                if job.is_idle is not None and job.is_idle(current):
                    return PassReport(job.name, 0, {"idle": 1}, {})
            finally:
                current.release()
            current = _planned(current, last_take_back=last_take_back)
        if not current.is_own and last_ended(warehouse.log("pass"), job.name) >= current.number:
            continue  # the process that planned it has ended it meanwhile
        if not _claim_or_abandon(current, job):
            continue
        report = _carried_out(current, job)
        if current.is_own:
            return report


def _carried_out(current: Pass, job: Job[Any, Any]) -> PassReport:
    spark, is_known = current.warehouse.spark, job.input_bytes is not None
    size = job.input_bytes(current) if job.input_bytes is not None else None
    current.is_small = size is not None and size <= SMALL_PASS_BYTES
    try:
        with tuned(spark, input_bytes=size, is_small=current.is_small, is_known=is_known):
            return job.run(current)
    except (PassConflict, PassReplayed):
        raise
    except Exception as error:
        # A plan that cannot be carried out must not stand in the way of the next one; one cut off can be.
        if not is_left_off(error):
            drop_untouched(current)
        raise
    finally:
        current.release()
        if not current.is_small:
            let_go_of_plans(spark)


def _planned(mine: Pass, *, last_take_back: int) -> Pass:
    """`mine` once its plan has landed, or the plan of its number that another process landed first.

    last_take_back  the newest take-back that had done all it does before anything was read for this plan
    """
    plan_id = f"{started_by()}:{os.getpid()}:{mine.wall_clock().isoformat()}"
    mine.plan_id = plan_id
    # What a plan reads must not vanish behind it.
    mine.warehouse.make_durable(durable_versions(mine.warehouse))
    mine.append_row(
        STARTED,
        {"plan_id": plan_id, LAST_TAKE_BACK: last_take_back, INPUT_VERSIONS: mine.input_versions, BOOT: this_boot()},
    )
    # Delta skips a second plan of this number without a word, so look whose plan landed.
    if plan_note(plan_commit(mine.warehouse.log("pass"), mine.job, mine.number)).get("plan_id") == plan_id:
        return mine
    return _recorded_pass(mine.warehouse, mine.job, mine.number, wall_clock=mine.wall_clock)


def _claim_or_abandon(current: Pass, job: Job[Any, Any]) -> bool:
    """Take the plan in hand. False where it was abandoned instead: it cannot, or must not, be carried out.

    PlanInputsGone where rows would be lost; PassConflict where our own has to wait for the end of another pass.
    """
    try:
        is_lost = has_lost_inputs(current, lands_again=job.lands_again)
        others = in_the_way(current.warehouse, current.job, current.number)
        is_stale = is_older_than_take_back(current.warehouse, current.job, current.number)
        if not (is_lost or others or is_stale) and (current.is_own or _carry_on(current, job)):
            return True
        current.abandon()
    finally:
        current.release()
    if others and current.is_own:
        raise PassConflict(f"{current.job} cannot run now: {others} is unfinished; end it first, then try again")
    return False


def _carry_on(current: Pass, job: Job[Any, Any]) -> bool:
    """Claim a plan of another process. False where its rows were withdrawn, it was dropped, or its role must not be."""
    if current.is_withdrawn or (not job.abandons_occupied and current.has_occupied_step):
        return False
    return current.claim(CARRIED_ON) and not _is_of_another_role(current, job)


def _is_of_another_role(current: Pass, job: Job[Any, Any]) -> bool:
    try:
        job.require(current)
    except RoleChanged:
        return True
    return False


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
        lost_feeds=lost_feeds(warehouse, row),
    )
