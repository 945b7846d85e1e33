"""Shows what is planned for live brokers, by the views' reader, or sends it, which alone needs Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import typer

from txmq_lib.cli.options import Options, settings_of
from txmq_lib.cli.output.formats import OutputFormat
from txmq_lib.cli.output.said import say
from txmq_lib.cli.output.show import write_rows
from txmq_lib.cli.run.before_spark import require_name_servers
from txmq_lib.cli.run.decisions import chosen_of, limits_of, reader_of, shown
from txmq_lib.config.settings import Settings
from txmq_lib.errors import EXIT_FINDINGS
from txmq_lib.names import ACTION_RESEND, ACTION_RESUME, REQUEST_NOT_SENT, REQUEST_REFUSED, REQUEST_UNANSWERED
from txmq_lib.pipeline.decision_request import Planned, ToSend
from txmq_lib.views.send_plan import SEND_COLUMNS, ends_by_answers, resends, resumes_by_brokers

NOT_ACCEPTED = (REQUEST_REFUSED, REQUEST_UNANSWERED, REQUEST_NOT_SENT)


def show_requests(options: Options, to_send: ToSend, *, now: datetime, format_: OutputFormat) -> None:
    """What `resend`, or `resume` and `resolve` with --to-broker, would send."""
    plan, left_out = requests_planned(settings_of(options), to_send, now)
    write_rows(format_, SEND_COLUMNS, [[shown(row[name]) for name in SEND_COLUMNS] for row in plan])
    for finding in left_out:
        say(finding, err=True)
    does = "--apply does it" if plan else "--apply would send nothing either"
    say(f"{len(plan)} to be sent to brokers; nothing was sent: {does}", err=True)


def requests_planned(settings: Settings, to_send: ToSend, now: datetime) -> tuple[list[Planned], list[str]]:
    """What would be sent now, one row (SEND_COLUMNS) per transaction, and of named ones why they are not."""
    reader, chosen, limits = reader_of(settings), chosen_of(to_send.request), limits_of(settings)
    if to_send.requested_for == ACTION_RESEND:
        return resends(reader, chosen, limits)
    if to_send.requested_for == ACTION_RESUME:
        return resumes_by_brokers(reader, chosen, limits, now)
    return ends_by_answers(reader, chosen, limits), []


def send_requests(
    options: Options,
    to_send: ToSend,
    *,
    name_servers: Sequence[str],
    now: datetime,
    wall_clock: Callable[[], datetime],
    environ: Mapping[str, str],
) -> None:
    """Send it and tell the report; status 1 where a broker did not accept.

    name_servers  by which brokers are found
    """
    from txmq_lib.cli.run.passes import spark_warehouse, stopping_spark, tell
    from txmq_lib.cli.run.recorded import recorded
    from txmq_lib.pipeline.to_broker.job import JOB, run_to_broker

    settings = settings_of(options)
    with stopping_spark(), recorded(f"{to_send.requested_for} --to-broker", settings) as run:
        _, left_out = requests_planned(settings, to_send, now)  # the pass judges anew, and says less
        require_name_servers(settings, name_servers, environ)
        with spark_warehouse(JOB, settings) as (warehouse, _):
            run.spark = warehouse.spark
            report = run_to_broker(
                warehouse,
                settings,
                to_send,
                name_servers=name_servers,
                now=now,
                wall_clock=wall_clock,
                environ=environ,
            )
        run.step(JOB, report)
        tell({"job": report.job, "pass": report.number, **report.counts})
        for finding in dict.fromkeys((*report.findings, *left_out)):
            say(finding, err=True)
        if any(report.counts.get(state) for state in NOT_ACCEPTED):
            raise typer.Exit(EXIT_FINDINGS)
