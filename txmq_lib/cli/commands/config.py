"""The commands `config show` and `demo`."""

from __future__ import annotations

import typer

from txmq_lib.cli.options import options_of
from txmq_lib.cli.output.formats import MORE_PANEL, TABLE, Format


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("demo", rich_help_panel=MORE_PANEL)(demo)
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
