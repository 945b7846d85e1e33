"""Commands that run a pass, from init and land to run. Bodies import Spark only when they run."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Annotated

import typer

from txmq_lib.cli.clock import Now, moment, wall_clock
from txmq_lib.cli.decisions import Apply, ToBroker, send, who
from txmq_lib.cli.formats import PASSES_PANEL, Brokers, OutputFormat
from txmq_lib.cli.given import given
from txmq_lib.cli.name_servers import NameServers, NameServersIfAny, name_servers
from txmq_lib.names import ASKED_FOR_GIVEN_UP, COMMIT

DryRun = Annotated[bool, typer.Option("--dry-run", help="Compute the pass and say what it would do; write nothing.")]
AskGivenUp = Annotated[
    bool, typer.Option("--given-up", help="Ask about given-up ones too; list those whose local transaction committed.")
]
Broker = Annotated[str, typer.Option("--broker", metavar="NAME", help="Broker the rows belong to.")]
Paths = Annotated[list[str], typer.Argument(metavar="PATH...", help="Files, directories or patterns of them.")]
Store = Annotated[str, typer.Argument(metavar="DIR", help="Store directory: commitlog, config/consumerOffset.json.")]

FILE_KINDS = {
    "half": "half messages (RMQ_SYS_TRANS_HALF_TOPIC), or prepared messages in the engine role",
    "op": "op messages (RMQ_SYS_TRANS_OP_HALF_TOPIC)",
    "message": "messages of the real topics",
    "max-time": "given-up messages (TRANS_CHECK_MAX_TIME_TOPIC)",
    "end": "END_TRANSACTION requests",
    "offset": "consumer offset reports, or a broker's consumerOffset.json",
    "ack": "what consumers did with their queues: allocated, taken, acked, dropped",
}


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (init, reconcile, resolve, rollup, audit, run):
        app.command(rich_help_panel=PASSES_PANEL)(command)
    land = typer.Typer(
        help="Land files (.jsonl, .jsonl.gz, .parquet), a broker's store, or live brokers.", no_args_is_help=True
    )
    for kind, what in FILE_KINDS.items():
        land.command(kind, help=f"Land {what}.")(_landing(kind))
    land.command("store")(store)
    land.command("rocketmq")(rocketmq)
    app.add_typer(land, name="land", rich_help_panel=PASSES_PANEL)


def init(ctx: typer.Context) -> None:
    """Create the tables that do not exist yet."""
    from txmq_lib.cli.passes import create_tables

    create_tables(given(ctx))


def store(ctx: typer.Context, path: Store, broker: Broker, now: Now = None) -> None:
    """Land what a broker's store directory holds beyond what was landed of it before."""
    from txmq_lib.cli.passes import run_job
    from txmq_lib.pipeline.landing import run_land_store

    job = partial(run_land_store, path=path, broker_name=broker, now=moment(now), wall_clock=wall_clock)
    run_job("land store", given(ctx), job)


def rocketmq(ctx: typer.Context, namesrv: NameServers, broker: Brokers = None, now: Now = None) -> None:
    """Land what live brokers have beyond what was landed of them: queues, consumer offsets."""
    from txmq_lib.cli.passes import run_job
    from txmq_lib.pipeline.landing import run_land_rocketmq

    job = partial(
        run_land_rocketmq,
        name_servers=name_servers(namesrv),
        brokers=tuple(broker or ()),
        now=moment(now),
        wall_clock=wall_clock,
        environ=os.environ,
    )
    run_job("land rocketmq", given(ctx), job)


def reconcile(ctx: typer.Context, now: Now = None, dry_run: DryRun = False) -> None:
    """Settle, close, list what is pending, give up and ask: one reconcile pass."""
    from txmq_lib.cli.passes import run_job
    from txmq_lib.pipeline.reconcile import run_reconcile

    job = partial(run_reconcile, now=moment(now), wall_clock=wall_clock, dry_run=dry_run)
    run_job("reconcile", given(ctx), job)
    if dry_run:
        typer.echo("dry run: nothing was written", err=True)


def resolve(
    ctx: typer.Context,
    now: Now = None,
    ask_given_up: AskGivenUp = False,
    to_broker: ToBroker = False,
    namesrv: NameServersIfAny = None,
    apply: Apply = False,
) -> None:
    """Ask the configured resolvers about open checks; their answers land as ends."""
    from txmq_lib.cli.passes import run_job
    from txmq_lib.cli.show import Shown, show_view
    from txmq_lib.pipeline.decisions import Wanted
    from txmq_lib.pipeline.resolve import run_resolve
    from txmq_lib.views.catalogue import ANSWERS
    from txmq_lib.views.select import Asked

    job = partial(run_resolve, now=moment(now), wall_clock=wall_clock, environ=os.environ, given_up=ask_given_up)
    committed = Asked(filters={"asked-for": [ASKED_FOR_GIVEN_UP], "state": [COMMIT]})
    show = partial(show_view, given(ctx), ANSWERS, committed, Shown(OutputFormat.table)) if ask_given_up else None
    run_job("resolve", given(ctx), job, show=show)
    if to_broker:
        wanted = Wanted(decided_by=who())
        send(given(ctx), "resolve", wanted, namesrv, now=moment(now), apply=apply, format_=OutputFormat.table)


def rollup(ctx: typer.Context, now: Now = None) -> None:
    """Roll offset reports and acknowledgements up into the next offset of every consumer queue."""
    from txmq_lib.cli.passes import run_job
    from txmq_lib.pipeline.rollup import run_rollup

    run_job("rollup", given(ctx), partial(run_rollup, now=moment(now), wall_clock=wall_clock))


def audit(ctx: typer.Context, now: Now = None) -> None:
    """Give every transaction its verdict, reading only what is new."""
    from txmq_lib.cli.passes import run_job
    from txmq_lib.pipeline.audit import run_audit

    run_job("audit", given(ctx), partial(run_audit, now=moment(now), wall_clock=wall_clock))


def run(ctx: typer.Context, now: Now = None) -> None:
    """One whole cycle: land the configured sources, reconcile, resolve, roll up, audit."""
    from txmq_lib.cli.passes import run_job
    from txmq_lib.pipeline.cycle import run_cycle

    run_job("run", given(ctx), partial(run_cycle, now=moment(now), wall_clock=wall_clock, environ=os.environ))


def _landing(kind: str) -> Callable[..., None]:
    def land_files(ctx: typer.Context, paths: Paths, broker: Broker, now: Now = None) -> None:
        from txmq_lib.cli.passes import run_job
        from txmq_lib.pipeline.landing import run_land_files

        job = partial(
            run_land_files, kind=kind, paths=paths, broker_name=broker, now=moment(now), wall_clock=wall_clock
        )
        run_job(f"land {kind}", given(ctx), job)

    return land_files
