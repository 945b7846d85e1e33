"""Shows what is planned for live brokers, or sends it. Only command bodies import it: it needs Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial

import typer

from txmq_lib.cli.options import Options, settings_of
from txmq_lib.cli.output.formats import OutputFormat
from txmq_lib.cli.output.said import say
from txmq_lib.cli.output.show import write_rows
from txmq_lib.cli.run.decisions import shown
from txmq_lib.cli.run.passes import spark_warehouse, tell
from txmq_lib.cli.run.recorded import recorded
from txmq_lib.errors import EXIT_FINDINGS
from txmq_lib.names import REQUEST_NOT_SENT, REQUEST_REFUSED, REQUEST_UNANSWERED
from txmq_lib.pipeline.to_broker import JOB, PLAN_COLUMNS, ToSend, requests_planned, run_to_broker

NOT_ACCEPTED = (REQUEST_REFUSED, REQUEST_UNANSWERED, REQUEST_NOT_SENT)


def run_sending(
    options: Options,
    to_send: ToSend,
    *,
    name_servers: Sequence[str],
    now: datetime,
    wall_clock: Callable[[], datetime],
    environ: Mapping[str, str],
    apply: bool,
    format_: OutputFormat,
) -> None:
    """With `apply` send and tell the report, with status 1 where a broker did not accept; else print the plan.

    name_servers  by which brokers are found
    """
    settings = settings_of(options)
    send = partial(run_to_broker, name_servers=name_servers, wall_clock=wall_clock, environ=environ)
    if not apply:
        with spark_warehouse(JOB, settings) as (warehouse, _):
            plan, left_out = requests_planned(warehouse, settings, to_send, now=now)
        write_rows(format_, PLAN_COLUMNS, [[shown(row[name]) for name in PLAN_COLUMNS] for row in plan])
        for finding in left_out:
            say(finding, err=True)
        say(f"{len(plan)} to be sent to brokers; nothing was sent: --apply does it", err=True)
        return
    with recorded(f"{to_send.requested_for} --to-broker", settings) as run:
        with spark_warehouse(JOB, settings) as (warehouse, _):
            report = send(warehouse, settings, to_send, now=now)
        run.step(JOB, report)
        tell({"job": report.job, "pass": report.number, **report.counts})
        for finding in report.findings:
            say(finding, err=True)
        if any(report.counts.get(state) for state in NOT_ACCEPTED):
            raise typer.Exit(EXIT_FINDINGS)
