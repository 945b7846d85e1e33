"""The commands `config show`, `init-config` and `demo`."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from txmq_lib.cli.options import FOUND_FILE, options_of
from txmq_lib.cli.output.formats import MORE_PANEL, TABLE, Format


class Start(enum.StrEnum):
    """Which settings to begin with; the files are in `conf/start`."""

    audit = "audit"
    engine = "engine"
    live = "live"


StartArgument = Annotated[
    Start,
    typer.Argument(help="audit: brokers' stores; engine: txmq decides what lands as files; live: running brokers."),
]
Out = Annotated[Path, typer.Option("--out", metavar="FILE", help="The file to write; one that exists is left alone.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("demo", rich_help_panel=MORE_PANEL)(demo)
    app.command("init-config", rich_help_panel=MORE_PANEL)(init_config)
    config = typer.Typer(help="Settings.", no_args_is_help=True)
    config.command("show")(config_show)
    # A callback keeps `show` a sub-command although it is the only one.
    config.callback()(lambda: None)
    app.add_typer(config, name="config", rich_help_panel=MORE_PANEL)


def demo(ctx: typer.Context) -> None:
    """Take a real broker's store through everything and tell what it holds (tables in ./demo-warehouse)."""
    from txmq_lib.cli.run.demo import run_demo

    run_demo(options_of(ctx))


def config_show(ctx: typer.Context, format_: Format = TABLE) -> None:
    """Every setting in force, and which layer set it: base.yaml, a file, --set or --warehouse."""
    from txmq_lib.cli.output.show import show_settings

    show_settings(options_of(ctx), format_)


def init_config(start: StartArgument, out: Out = Path(FOUND_FILE)) -> None:
    """Write a settings file to begin with, every line explained; commands find ./txmq.yaml by themselves."""
    from txmq_lib.cli.output.said import say
    from txmq_lib.cli.run.settings_start import write_start

    for line in write_start(start.value, out):
        say(line)
