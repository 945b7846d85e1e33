"""Shows the plan of a manual decision, by the views' reader, or carries it out, which alone needs Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from txmq_lib.cli.options import Options, location, settings_of
from txmq_lib.cli.output.formats import OutputFormat
from txmq_lib.cli.output.hints import pasteable
from txmq_lib.cli.output.said import say
from txmq_lib.cli.output.show import write_rows
from txmq_lib.cli.run.before_spark import require_landed, require_name_servers, require_recorded_roles
from txmq_lib.config.settings import Settings
from txmq_lib.names import ACTION_HOLD, ACTION_RELEASE, ACTION_RESUME, COMMIT, PLAN_BROKERS, ROLE_AUDIT, ROLLBACK
from txmq_lib.pipeline.decision_request import PLAN_COLUMNS, DecisionRequest, Planned, findings
from txmq_lib.views.decision_plan import hold_plan, resume_plan, settle_plan
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.send_plan import ends_shut_out
from txmq_lib.views.standing import Chosen, Limits


def run_decision(
    options: Options,
    request: DecisionRequest,
    *,
    now: datetime,
    wall_clock: Callable[[], datetime],
    apply: bool,
    format_: OutputFormat,
    sends_to: Sequence[str] = (),
) -> None:
    """With `apply` decide and tell the report, else print the plan.

    sends_to  name servers by which the broker is told afterwards
    """
    settings = settings_of(options)
    require_landed(settings, "transaction_id", request.transaction_ids, "no half message of transaction")
    require_landed(settings, "producer_group", request.groups, "no half message of group")
    require_landed(settings, "broker_name", request.brokers, "nothing of broker")
    if apply:
        from txmq_lib.cli.run.passes import run_job
        from txmq_lib.pipeline.decisions import decide

        work = partial(decide, request=request, now=now, wall_clock=wall_clock, sends_to=sends_to)
        # Before anything is recorded that could then not be sent.
        require = partial(require_name_servers, name_servers=sends_to, environ=os.environ)
        name = "settle" if request.decision in (COMMIT, ROLLBACK) else request.decision
        run_job(name, options, work, require=require)
        return
    plan = plan_of(settings, request, now)
    write_rows(format_, PLAN_COLUMNS, [[shown(row[name]) for name in PLAN_COLUMNS] for row in plan])
    for finding in findings(plan, sends_to):
        say(finding, err=True)
    if sends_to:
        for finding in ends_shut_out(reader_of(settings), plan, request.decision):
            say(pasteable(options)(finding), err=True)
    say(pasteable(options)(summary(plan, is_sent=bool(sends_to))), err=True)


def plan_of(settings: Settings, request: DecisionRequest, now: datetime) -> list[Planned]:
    """What would be decided now, one row (PLAN_COLUMNS) per transaction; UsageError where nothing can be."""
    reader, chosen, limits = reader_of(settings), chosen_of(request), limits_of(settings)
    if request.decision == ACTION_RESUME:
        return resume_plan(reader, chosen, limits, now)
    if request.decision in (ACTION_HOLD, ACTION_RELEASE):
        return hold_plan(reader, chosen, request.decision, limits)
    return settle_plan(reader, chosen, request.decision, limits)


def reader_of(settings: Settings) -> WarehouseReader:
    """Reads the warehouse of the settings; RoleChanged where brokers have another role in it than in them."""
    require_recorded_roles(settings)
    return WarehouseReader(location(settings.warehouse))


def chosen_of(request: DecisionRequest) -> Chosen:
    """Which transactions a request means."""
    return Chosen(request.transaction_ids, request.groups, request.brokers, request.born_ms)


def limits_of(settings: Settings) -> Limits:
    """What the settings say of brokers."""
    return Limits(
        is_brokers=lambda name: settings.for_broker(name).role == ROLE_AUDIT,
        reserved_ms=lambda name: settings.for_broker(name).file_reserved_time_ms,
    )


def summary(plan: Sequence[dict[str, Any]], *, is_sent: bool) -> str:
    """How many of each action a plan has, and that it is only a plan."""
    if not plan:
        return "nothing to do: no given-up transaction fits; txmq verdicts --state stuck lists what nobody decided"
    actions = sorted({row["action"] for row in plan})
    is_left = not is_sent and actions == [PLAN_BROKERS]
    does = "--apply would do nothing either" if is_left else "--apply does it"
    summary = ", ".join(f"{sum(row['action'] == action for row in plan)} {action}" for action in actions)
    return f"{summary}; nothing was written{' or sent' if is_sent else ''}: {does}"


def shown(value: object) -> object:
    """A value of a plan as it is printed: times in ISO 8601."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return value
