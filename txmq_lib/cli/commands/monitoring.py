"""The commands that tell whether all is well. Bodies import deltalake and DuckDB only when they run."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from txmq_lib.cli.options import options_of
from txmq_lib.cli.output.formats import MORE_PANEL, TABLE, VIEWS_PANEL, Brokers, Format, OutputFormat, Values
from txmq_lib.cli.output.said import say
from txmq_lib.cli.run.clock import ClockNow, moment, time_ago, wall_clock
from txmq_lib.errors import UsageError

Watch = Annotated[
    float | None,
    typer.Option("--watch", min=0.1, metavar="[SECONDS]", help="Again and again, every 5 seconds or as many as given."),
]
StatusFormat = Annotated[OutputFormat, typer.Option("--format", help="table: one screen; json: one object.")]

IfConfigured = Annotated[
    bool, typer.Option("--if-configured", help="Where the settings name no webhook, say so and end well.")
]
Out = Annotated[
    str, typer.Option("--out", metavar="FILE", help="Where to write; its counters are carried on. -: stdout.")
]


ReportOut = Annotated[str, typer.Option("--out", metavar="FILE", help="The HTML file to write.")]
ReportSince = Annotated[
    str | None,
    typer.Option("--since", metavar="T", help="Charts over time begin here: ISO 8601, epoch ms, or a span before now."),
]


ConsumerGroups = Annotated[
    Values, typer.Option("--group", metavar="NAME", help="Only this consumer group; may be repeated.")
]
ProducerGroups = Annotated[
    Values, typer.Option("--group", metavar="NAME", help="Only this producer group; may be repeated.")
]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("status", rich_help_panel=VIEWS_PANEL)(status)
    app.command("groups", rich_help_panel=VIEWS_PANEL)(groups)
    app.command("producers", rich_help_panel=VIEWS_PANEL)(producers)
    app.command("report", rich_help_panel=VIEWS_PANEL)(report)
    app.command("metrics", rich_help_panel=VIEWS_PANEL)(metrics)
    app.command("alert", rich_help_panel=VIEWS_PANEL)(alert)
    app.command("doctor", rich_help_panel=MORE_PANEL)(doctor)


def status(ctx: typer.Context, watch: Watch = None, format_: StatusFormat = TABLE, now: ClockNow = None) -> None:
    """One screen: problems first, what is pending, checks, verdicts, offsets, quarantine, landing, passes.

    Ends with status 1 past any of the settings `thresholds`.
    """
    from txmq_lib.cli.run.status import show_status

    if format_ is OutputFormat.csv:
        raise UsageError("status has no csv: it is many tables; take --format json")
    show_status(options_of(ctx), lambda: moment(now), is_json=format_ is OutputFormat.json, every=watch)


def groups(
    ctx: typer.Context,
    group: ConsumerGroups = None,
    broker: Brokers = None,
    now: ClockNow = None,
    format_: Format = TABLE,
) -> None:
    """Consumer groups, the worst first: queues, lag, worst state, newest report, rewinds."""
    from txmq_lib.cli.output.groups import show_consumer_groups

    show_consumer_groups(options_of(ctx), group or (), broker or (), moment(now), format_)


def producers(
    ctx: typer.Context, group: ProducerGroups = None, broker: Brokers = None, format_: Format = TABLE
) -> None:
    """Producer groups, most undecided transactions first: the oldest, checks, what was given up, verdicts."""
    from txmq_lib.cli.output.groups import show_producer_groups

    show_producer_groups(options_of(ctx), group or (), broker or (), format_)


def report(ctx: typer.Context, out: ReportOut, since: ReportSince = None, now: ClockNow = None) -> None:
    """One HTML file that opens offline: what is undecided, decided and wrong, over time, with charts and stories."""
    from txmq_lib.cli.run.report import write_report

    at = moment(now)
    write_report(options_of(ctx), out, at, None if since is None else time_ago(since, at))


def metrics(ctx: typer.Context, out: Out, now: ClockNow = None) -> None:
    """Metrics in Prometheus's text format, for the textfile collector of node_exporter or any scraper of files."""
    from txmq_lib.cli.run.metrics import write_metrics

    write_metrics(options_of(ctx), out, moment(now))


def alert(ctx: typer.Context, if_configured: IfConfigured = False, now: ClockNow = None) -> None:
    """Tell the webhook of the settings what is past the thresholds: once when it begins, once when it clears."""
    from txmq_lib.cli.run.alert import has_webhook, send_alerts

    options = options_of(ctx)
    if if_configured and not has_webhook(options):
        say("alerts.url_env is not set: nobody is told")
        return
    send_alerts(options, moment(now), os.environ)


def doctor(ctx: typer.Context, format_: Format = TABLE) -> None:
    """What is wrong with the installation: Java, jars, paths, permissions, settings, disk, clock, tables.

    Each check is ok, warn or fail with what to do; ends with status 3 where one fails.
    """
    from txmq_lib.cli.run.doctor import run_doctor

    run_doctor(options_of(ctx), format_, wall_clock)
