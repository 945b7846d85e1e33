"""Commands that look after tables: init, maintain, mend, take-back, upgrade. Bodies import Spark only when they run."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from txmq_lib.cli.commands import decisions
from txmq_lib.cli.commands.decisions import Apply
from txmq_lib.cli.options import options_of
from txmq_lib.cli.output.formats import TABLE, Format
from txmq_lib.cli.output.said import say
from txmq_lib.cli.run.clock import wall_clock


def init(ctx: typer.Context) -> None:
    """Create the tables that do not exist yet."""
    from txmq_lib.cli.run.passes import create_tables

    create_tables(options_of(ctx))


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
    from txmq_lib.cli.run.take_back import run_take_back

    decisions.require_one_of(apply, dry_run)
    run_take_back(options_of(ctx), broker, of_decisions=of_decisions, apply=apply)


def upgrade(
    ctx: typer.Context, apply: Apply = False, dry_run: decisions.DryRun = False, format_: Format = TABLE
) -> None:
    """Make the tables of an earlier version those of this one: new tables, new columns; each is told first."""
    from txmq_lib.cli.run.upgrade import run_upgrade

    decisions.require_one_of(apply, dry_run)
    run_upgrade(options_of(ctx), format_, apply=apply)
