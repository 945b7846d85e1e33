"""The commands of `land`: files, a store, live brokers, configured sources. Bodies import Spark when they run."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from txmq_lib.cli.options import options_of
from txmq_lib.cli.output.formats import Brokers
from txmq_lib.cli.run.clock import Now, moment, wall_clock
from txmq_lib.cli.run.name_servers import NameServers, name_servers

if TYPE_CHECKING:
    from txmq_lib.config.settings import Settings

Broker = Annotated[str, typer.Option("--broker", metavar="NAME", help="Broker the rows belong to.")]
Paths = Annotated[list[str], typer.Argument(metavar="PATH...", help="Files, directories or patterns of them.")]
Store = Annotated[
    str, typer.Argument(metavar="DIR", help="Store, a directory or s3://...: commitlog, config/consumerOffset.json.")
]

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


def land_commands() -> typer.Typer:
    """`land` with a command for each kind of source."""
    land = typer.Typer(
        help="Land files (.jsonl, .jsonl.gz, .parquet), a broker's store, or live brokers.", no_args_is_help=True
    )
    for kind, what in FILE_KINDS.items():
        land.command(kind, help=f"Land {what}.")(_landing(kind))
    land.command("store")(store)
    land.command("rocketmq")(rocketmq)
    land.command("sources")(sources)
    return land


def store(ctx: typer.Context, path: Store, broker: Broker, now: Now = None) -> None:
    """Land what a broker's store directory holds beyond what was landed of it before."""
    from txmq_lib.cli.run.before_spark import require_recorded_roles, require_store
    from txmq_lib.cli.run.passes import run_job
    from txmq_lib.pipeline.land.job import run_land_store
    from txmq_lib.pipeline.shared.roles import require_said_role

    job = partial(run_land_store, path=path, broker_name=broker, now=moment(now), wall_clock=wall_clock)

    def require(settings: Settings) -> None:
        require_said_role(settings, [broker])
        require_recorded_roles(settings, broker)
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


def _landing(kind: str) -> Callable[..., None]:
    def land_files(ctx: typer.Context, paths: Paths, broker: Broker, now: Now = None) -> None:
        from txmq_lib.cli.run.before_spark import require_files, require_recorded_roles
        from txmq_lib.cli.run.passes import run_job
        from txmq_lib.pipeline.land.job import run_land_files
        from txmq_lib.pipeline.land.kinds import OFFSET_KINDS

        job = partial(
            run_land_files, kind=kind, paths=paths, broker_name=broker, now=moment(now), wall_clock=wall_clock
        )

        def require(settings: Settings) -> None:
            require_files(settings, kind, paths, os.environ)
            if kind not in OFFSET_KINDS:
                require_recorded_roles(settings, broker)

        run_job(f"land {kind}", options_of(ctx), job, require=require)

    return land_files
