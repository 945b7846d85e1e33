"""`txmq mend`: what is damaged in the warehouse, what would be set aside for it, and doing so. Starts no JVM."""

from __future__ import annotations

from pathlib import Path

import typer

from txmq_lib.cli.options import Options, location, settings_of
from txmq_lib.cli.output.said import say
from txmq_lib.delta.log_entries import on_disk
from txmq_lib.errors import EXIT_FAILED, UsageError
from txmq_lib.passes.damage import examined
from txmq_lib.passes.mending import SET_ASIDE, mend


def run_mend(options: Options, *, apply: bool) -> None:
    """Tell what is damaged and what is set aside; with `apply` do it. Status 3 where it cannot be mended.

    UsageError where the warehouse is not on this machine.
    """
    uri = location(settings_of(options).warehouse)
    root = on_disk(uri)
    if root is None or not Path(root).is_dir():
        why = "an object store keeps what it has confirmed" if "://" in uri else "it is no directory"
        raise UsageError(f"{uri} is no warehouse on a disk of this machine, which mend is for: {why}")
    found = mend(uri) if apply else examined(Path(root))
    for line in found.lines():
        say(line)
    if not found.damaged:
        say("nothing is damaged: the newest commits of all tables are whole")
    elif found.refusal:
        say(f"cannot be mended: {found.refusal}", err=True)
        raise typer.Exit(EXIT_FAILED)
    elif apply:
        say(f"kept in {Path(root, SET_ASIDE)}; txmq run goes on from here")
    else:
        say("nothing was done; --apply does it, while nothing else runs", err=True)
