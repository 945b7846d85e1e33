"""Commands that run a pass: init, land, the jobs, a cycle, upkeep, repair. Bodies import Spark only when they run."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from txmq_lib.cli.commands import decisions
from txmq_lib.cli.commands.decisions import Apply, ToBroker, send, who
from txmq_lib.cli.options import Options, options_of, settings_of
from txmq_lib.cli.output.formats import PASSES_PANEL, TABLE, Brokers, Format, OutputFormat
from txmq_lib.cli.output.said import say
from txmq_lib.cli.run.clock import Now, moment, wall_clock
from txmq_lib.cli.run.name_servers import NameServers, NameServersIfAny, name_servers, name_servers_of
from txmq_lib.names import ASKED_FOR_GIVEN_UP, COMMIT

if TYPE_CHECKING:
    from txmq_lib.cli.run.passes import Job
    from txmq_lib.config.settings import Settings

DryRun = Annotated[bool, typer.Option("--dry-run", help="Compute the pass and say what it would do; write nothing.")]
AskGivenUp = Annotated[
    bool, typer.Option("--given-up", help="Ask about given-up ones too; list those whose local transaction committed.")
]
Broker = Annotated[str, typer.Option("--broker", metavar="NAME", help="Broker the rows belong to.")]
Paths = Annotated[list[str], typer.Argument(metavar="PATH...", help="Files, directories or patterns of them.")]
Store = Annotated[str, typer.Argument(metavar="DIR", help="Store directory: commitlog, config/consumerOffset.json.")]

HealthFile = Annotated[
    str, typer.Option("--health-file", metavar="FILE", help="Where the service tells how it fares, and its process.")
]
DEFAULT_HEALTH_FILE = "txmq-serve.json"

NOBODY_TO_ASK = "nobody is asked: the settings name no resolvers (documentation: Configure resolvers)"

FILE_KINDS = {
    "half": "half messages (RMQ_SYS_TRANS_HALF_TOPIC), or prepared messages in the engine role",
    "op": "op messages (RMQ_SYS_TRANS_OP_HALF_TOPIC)",
    "message": "messages of the real topics",
    "max-time": "given-up messages (TRANS_CHECK_MAX_TIME_TOPIC)",
    "end": "END_TRANSACTION requests",
    "trace": "messages of the trace topic: the ends that clients say they sent",
    "offset": "consumer offset reports, or a broker's consumerOffset.json",
    "ack": "what consumers did with their queues: allocated, taken, acked, dropped",
}


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (init, reconcile, resolve, rollup, audit, run, serve, wakeup, maintain, take_back, mend, upgrade):
        app.command(command.__name__.replace("_", "-"), rich_help_panel=PASSES_PANEL)(command)
    land = typer.Typer(
        help="Land files (.jsonl, .jsonl.gz, .parquet), a broker's store, or live brokers.", no_args_is_help=True
    )
    for kind, what in FILE_KINDS.items():
        land.command(kind, help=f"Land {what}.")(_landing(kind))
    land.command("store")(store)
    land.command("rocketmq")(rocketmq)
    land.command("sources")(sources)
    app.add_typer(land, name="land", rich_help_panel=PASSES_PANEL)


def init(ctx: typer.Context) -> None:
    """Create the tables that do not exist yet."""
    from txmq_lib.cli.run.passes import create_tables

    create_tables(options_of(ctx))


def store(ctx: typer.Context, path: Store, broker: Broker, now: Now = None) -> None:
    """Land what a broker's store directory holds beyond what was landed of it before."""
    from txmq_lib.cli.run.before_spark import require_store
    from txmq_lib.cli.run.passes import run_job
    from txmq_lib.pipeline.land.job import run_land_store
    from txmq_lib.pipeline.shared.roles import require_said_role

    job = partial(run_land_store, path=path, broker_name=broker, now=moment(now), wall_clock=wall_clock)

    def require(settings: Settings) -> None:
        require_said_role(settings, [broker])
        require_store(path)

    run_job("land store", options_of(ctx), job, require=require)


def rocketmq(ctx: typer.Context, namesrv: NameServers, broker: Brokers = None, now: Now = None) -> None:
    """Land what live brokers have beyond what was landed of them: queues, consumer offsets."""
    from txmq_lib.cli.run.passes import run_job
    from txmq_lib.pipeline.land.job import run_land_rocketmq
    from txmq_lib.pipeline.land.live.live_brokers import access_of, require_name_server
    from txmq_lib.pipeline.shared.roles import require_some_role

    addresses = name_servers(namesrv)
    job = partial(
        run_land_rocketmq,
        name_servers=addresses,
        brokers=tuple(broker or ()),
        now=moment(now),
        wall_clock=wall_clock,
        environ=os.environ,
    )

    def require(settings: Settings) -> None:
        require_some_role(settings, broker or ())
        require_name_server(addresses, access_of(settings, os.environ))

    run_job("land rocketmq", options_of(ctx), job, require=require)


def sources(ctx: typer.Context, now: Now = None) -> None:
    """Land what the configured sources have beyond what was landed of them: what `txmq run` begins with."""
    from txmq_lib.cli.run.before_spark import access_faults, require_some_source
    from txmq_lib.cli.run.passes import run_job
    from txmq_lib.errors import SettingsError
    from txmq_lib.pipeline.cycle import require_sources, run_sources
    from txmq_lib.pipeline.shared.roles import require_roles_of_sources

    def require(settings: Settings) -> None:
        require_sources(settings)
        require_roles_of_sources(settings)
        if faults := access_faults(settings, os.environ):
            raise SettingsError(faults)
        require_some_source(settings, os.environ)

    job = partial(run_sources, now=moment(now), wall_clock=wall_clock, environ=os.environ)
    run_job("land sources", options_of(ctx), job, require=require, tells_steps=True)


def reconcile(ctx: typer.Context, now: Now = None, dry_run: DryRun = False) -> None:
    """Settle, close, list what is pending, give up and ask: one reconcile pass."""
    from txmq_lib.cli.run.passes import run_job
    from txmq_lib.pipeline.reconcile.job import run_reconcile

    job = partial(run_reconcile, now=moment(now), wall_clock=wall_clock, dry_run=dry_run)
    run_job("reconcile", options_of(ctx), job, is_recorded=not dry_run)
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
    from txmq_lib.cli.run.before_spark import require_name_servers
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
            send(
                options_of(ctx),
                "resolve",
                request,
                servers,
                now=moment(now),
                apply=apply,
                format_=OutputFormat.table,
            )

    def require(settings: Settings) -> None:
        require_secrets(settings, os.environ)
        require_name_servers(settings, servers if apply else (), os.environ)

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
    from txmq_lib.cli.run.passes import run_job
    from txmq_lib.pipeline.audit import run_audit

    run_job("audit", options_of(ctx), partial(run_audit, now=moment(now), wall_clock=wall_clock))


def run(ctx: typer.Context, now: Now = None) -> None:
    """One whole cycle: land the configured sources, reconcile, resolve, roll up, audit; then tell the alerts."""
    from txmq_lib.cli.run.alert import send_alerts_after_pass
    from txmq_lib.cli.run.before_spark import require_secrets, require_some_source
    from txmq_lib.cli.run.passes import run_job
    from txmq_lib.pipeline.cycle import run_cycle
    from txmq_lib.pipeline.shared.roles import require_roles_of_sources

    def require(settings: Settings) -> None:
        require_roles_of_sources(settings)
        require_secrets(settings, os.environ)
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


def maintain(
    ctx: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
) -> None:
    """Compact small files, remove replaced ones and old rows of passes; what is to be done is told first."""
    from txmq_lib.cli.run.passes import run_job
    from txmq_lib.cli.run.upkeep import tell_upkeep
    from txmq_lib.pipeline.maintain import run_maintain

    job = partial(run_maintain, wall_clock=wall_clock, tell=tell_upkeep, dry_run=dry_run)
    run_job("maintain", options_of(ctx), job, is_recorded=not dry_run)
    if dry_run:
        say("dry run: nothing was done", err=True)


def mend(
    ctx: typer.Context,
    apply: Annotated[bool, typer.Option("--apply", help="Do it; without this, only say what would be done.")] = False,
) -> None:
    """Set aside commits that a disk has lost, and all that was built on them; the next run makes them again."""
    from txmq_lib.cli.run.mend import run_mend

    run_mend(options_of(ctx), apply=apply)


def take_back(
    ctx: typer.Context,
    broker: Annotated[str, typer.Option("--broker", metavar="NAME", help="Broker whose rows go, from every table.")],
    of_decisions: Annotated[
        bool,
        typer.Option("--decisions", help="Keep what landed, take back what was decided, and take the role said now."),
    ] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Do it; without this, only say what would go.")] = False,
    dry_run: decisions.DryRun = False,
) -> None:
    """Take back all that was landed under a broker's name, and all that was made of it; or what was decided alone."""
    from txmq_lib.cli.run.before_spark import require_landed
    from txmq_lib.cli.run.passes import run_job
    from txmq_lib.cli.run.upkeep import tell_taken
    from txmq_lib.pipeline.take_back import run_take_back

    decisions.require_one_of(apply, dry_run)
    job = partial(
        run_take_back,
        broker_name=broker,
        now=wall_clock(),
        wall_clock=wall_clock,
        tell=tell_taken,
        apply=apply,
        decisions=of_decisions,
    )

    def require(settings: Settings) -> None:
        # With --apply one that was killed behind its last row is carried on: only its plan knows.
        if not apply:
            require_landed(settings, "broker_name", [broker], "no row of broker")

    run_job("take-back", options_of(ctx), job, require=require, is_recorded=apply)
    if not apply:
        say("nothing was done; --apply does it", err=True)


def upgrade(
    ctx: typer.Context, apply: Apply = False, dry_run: decisions.DryRun = False, format_: Format = TABLE
) -> None:
    """Make the tables of an earlier version those of this one: new tables, new columns; each is told first."""
    from txmq_lib.cli.run.upgrade import run_upgrade

    decisions.require_one_of(apply, dry_run)
    run_upgrade(options_of(ctx), format_, apply=apply)


def _landing(kind: str) -> Callable[..., None]:
    def land_files(ctx: typer.Context, paths: Paths, broker: Broker, now: Now = None) -> None:
        from txmq_lib.cli.run.before_spark import require_files
        from txmq_lib.cli.run.passes import run_job
        from txmq_lib.pipeline.land.job import run_land_files

        job = partial(
            run_land_files, kind=kind, paths=paths, broker_name=broker, now=moment(now), wall_clock=wall_clock
        )

        def require(settings: Settings) -> None:
            require_files(settings, kind, paths, os.environ)

        run_job(f"land {kind}", options_of(ctx), job, require=require)

    return land_files
