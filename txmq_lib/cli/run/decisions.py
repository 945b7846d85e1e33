"""Shows the plan of a manual decision, or carries it out. Only command bodies import it: it needs Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from txmq_lib.cli.options import Options, settings_of
from txmq_lib.cli.output.formats import OutputFormat
from txmq_lib.cli.output.hints import pasteable
from txmq_lib.cli.output.said import say
from txmq_lib.cli.output.show import write_rows
from txmq_lib.cli.run.before_spark import require_landed
from txmq_lib.cli.run.passes import run_job, spark_warehouse
from txmq_lib.pipeline.decisions import PLAN_COLUMNS, DecisionRequest, decide, findings, planned


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
    if apply:
        work = partial(decide, request=request, now=now, wall_clock=wall_clock, sends_to=sends_to)
        run_job(request.decision, options, work)
        return
    with spark_warehouse(request.decision, settings) as (warehouse, _):
        plan = planned(warehouse, settings, request, now=now)
    write_rows(format_, PLAN_COLUMNS, [[shown(row[name]) for name in PLAN_COLUMNS] for row in plan])
    for finding in findings(plan, sends_to):
        say(finding, err=True)
    say(pasteable(options)(summary(plan, is_sent=bool(sends_to))), err=True)


def summary(plan: Sequence[dict[str, Any]], *, is_sent: bool) -> str:
    """How many of each action a plan has, and that it is only a plan."""
    if not plan:
        return "nothing to do: no given-up transaction fits; txmq verdicts --state discarded lists those there are"
    actions = sorted({row["action"] for row in plan})
    summary = ", ".join(f"{sum(row['action'] == action for row in plan)} {action}" for action in actions)
    return f"{summary}; nothing was written{' or sent' if is_sent else ''}: --apply does it"


def shown(value: object) -> object:
    """A value of a plan as it is printed: times in ISO 8601."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return value
