"""Commands that run passes: the jobs, a cycle, the service. Bodies import Spark only when they run."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from txmq_lib.cli.commands.decisions import Apply, ToBroker, send, who
from txmq_lib.cli.commands.landing import land_commands
from txmq_lib.cli.commands.upkeep import init, maintain, mend, take_back, upgrade
from txmq_lib.cli.options import Options, options_of, settings_of
from txmq_lib.cli.output.formats import PASSES_PANEL, OutputFormat
from txmq_lib.cli.output.said import say
from txmq_lib.cli.run.clock import Now, moment, wall_clock
from txmq_lib.cli.run.name_servers import NameServersIfAny, name_servers_of
from txmq_lib.names import ASKED_FOR_GIVEN_UP, COMMIT

if TYPE_CHECKING:
    from txmq_lib.cli.run.passes import Job
    from txmq_lib.config.settings import Settings

DryRun = Annotated[bool, typer.Option("--dry-run", help="Compute the pass and say what it would do; write nothing.")]
AskGivenUp = Annotated[
    bool, typer.Option("--given-up", help="Ask about given-up ones too; list those whose local transaction committed.")
]

HealthFile = Annotated[
    str, typer.Option("--health-file", metavar="FILE", help="Where the service tells how it fares, and its process.")
]
DEFAULT_HEALTH_FILE = "txmq-serve.json"

NOBODY_TO_ASK = "nobody is asked: the settings name no resolvers (documentation: Configure resolvers)"


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (init, reconcile, resolve, rollup, audit, run, serve, wakeup, maintain, take_back, mend, upgrade):
        app.command(command.__name__.replace("_", "-"), rich_help_panel=PASSES_PANEL)(command)
    app.add_typer(land_commands(), name="land", rich_help_panel=PASSES_PANEL)


def reconcile(ctx: typer.Context, now: Now = None, dry_run: DryRun = False) -> None:
    """Settle, close, list what is pending, give up and ask: one reconcile pass."""
    from txmq_lib.cli.run.before_spark import require_recorded_roles
    from txmq_lib.cli.run.passes import run_job
    from txmq_lib.pipeline.reconcile.job import run_reconcile

    job = partial(run_reconcile, now=moment(now), wall_clock=wall_clock, dry_run=dry_run)
    run_job("reconcile", options_of(ctx), job, require=require_recorded_roles, is_recorded=not dry_run)
    if dry_run:
        say("dry run: nothing was written", err=True)


def resolve(
    ctx: typer.Context,
    now: Now = None,
    ask_given_up: AskGivenUp = False,
    to_broker: ToBroker = False,
    namesrv: NameServersIfAny = None,
    apply: Apply = False,
) -> None:
    """Ask the configured resolvers about open checks; their answers land as ends."""
    from txmq_lib.cli.output.show import Shown, show_view
    from txmq_lib.cli.run.before_spark import require_name_servers, require_recorded_roles
    from txmq_lib.pipeline.decision_request import DecisionRequest
    from txmq_lib.pipeline.resolve import require_secrets, run_resolve
    from txmq_lib.views.declared.questions import ANSWERS
    from txmq_lib.views.select import ViewQuery

    servers = name_servers_of(options_of(ctx), namesrv) if to_broker else []
    job = partial(run_resolve, now=moment(now), wall_clock=wall_clock, environ=os.environ, given_up=ask_given_up)
    committed = ViewQuery(filters={"asked-for": [ASKED_FOR_GIVEN_UP], "state": [COMMIT]})
    shown = (options_of(ctx), ANSWERS, committed, moment(now), Shown(OutputFormat.table))

    def show_and_send() -> None:
        if ask_given_up:
            show_view(*shown)
        if to_broker:
            request = DecisionRequest(decided_by=who())
            at, as_table = moment(now), OutputFormat.table
            send(options_of(ctx), "resolve", request, servers, now=at, apply=apply, format_=as_table)

    def require(settings: Settings) -> None:
        require_secrets(settings, os.environ)
        require_name_servers(settings, servers if apply else (), os.environ)
        require_recorded_roles(settings)

    _ask(options_of(ctx), job, require=require, show=show_and_send)


def _ask(options: Options, job: Job, *, require: Callable[[Settings], None], show: Callable[[], None]) -> None:
    """The resolve pass, then `show`; `show` alone where the settings name nobody to ask."""
    from txmq_lib.cli.run.passes import run_job

    if settings_of(options).resolvers:
        run_job("resolve", options, job, require=require, show=show)
        return
    say(NOBODY_TO_ASK, err=True)
    show()


def rollup(ctx: typer.Context, now: Now = None) -> None:
    """Roll offset reports and acknowledgements up into the next offset of every consumer queue."""
    from txmq_lib.cli.run.passes import run_job
    from txmq_lib.pipeline.rollup.job import run_rollup

    run_job("rollup", options_of(ctx), partial(run_rollup, now=moment(now), wall_clock=wall_clock))


def audit(ctx: typer.Context, now: Now = None) -> None:
    """Give every transaction its verdict, reading only what is new."""
    from txmq_lib.cli.run.before_spark import require_recorded_roles
    from txmq_lib.cli.run.passes import run_job
    from txmq_lib.pipeline.audit import run_audit

    job = partial(run_audit, now=moment(now), wall_clock=wall_clock)
    run_job("audit", options_of(ctx), job, require=require_recorded_roles)


def run(ctx: typer.Context, now: Now = None) -> None:
    """One whole cycle: land the configured sources, reconcile, resolve, roll up, audit; then tell the alerts."""
    from txmq_lib.cli.run.alert import send_alerts_after_pass
    from txmq_lib.cli.run.before_spark import (
        is_on_object_store,
        require_recorded_roles,
        require_secrets,
        require_some_source,
    )
    from txmq_lib.cli.run.passes import run_job
    from txmq_lib.pipeline.cycle import run_cycle
    from txmq_lib.pipeline.shared.roles import require_roles_of_sources

    def require(settings: Settings) -> None:
        require_roles_of_sources(settings)
        require_secrets(settings, os.environ)
        if not is_on_object_store(settings):  # there the cycle asks: here it would take ten requests
            require_recorded_roles(settings)
        require_some_source(settings, os.environ)

    at = moment(now)
    job = partial(run_cycle, now=at, wall_clock=wall_clock, environ=os.environ)
    send = partial(send_alerts_after_pass, options_of(ctx), at, os.environ)
    try:
        run_job("run", options_of(ctx), job, require=require, tells_steps=True)
    except Exception:  # how a run ends that failed, or is past a threshold: its row is there, and alerts tell of it
        send()
        raise
    send()


def serve(
    ctx: typer.Context,
    now_first: Annotated[
        bool, typer.Option("--now-first", help="Begin the first round at once, not one interval after the start.")
    ] = False,
    health: HealthFile = DEFAULT_HEALTH_FILE,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="[HOST:]PORT",
            help="Show the report at /, and answer /health, /metrics and POST /wakeup there; 127.0.0.1 unless said.",
        ),
    ] = None,
) -> None:
    """Run the cycle every transaction_check_interval in one warm session, until SIGTERM; SIGUSR1 wakes it."""
    from txmq_lib.cli.run.endpoint import listen_address
    from txmq_lib.cli.run.serve import run_serve

    address = None if listen is None else listen_address(listen)
    run_serve(options_of(ctx), is_first_at_once=now_first, health_path=Path(health), listen=address)


def wakeup(health: HealthFile = DEFAULT_HEALTH_FILE) -> None:
    """Let a running `txmq serve` begin its rounds now."""
    from txmq_lib.cli.run.serve import wake
    from txmq_lib.service.health_file import serving_pid

    wake(serving_pid(Path(health)))
