"""What the user gave in front of the command, as it was given."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from txmq_lib.errors import UsageError


@dataclass(frozen=True)
class Given:
    """The global options as given."""

    conf: tuple[str, ...]
    assignments: tuple[str, ...]
    warehouse: str | None


def location(warehouse: str) -> str:
    """A warehouse as every part of txmq understands it: Spark takes a relative path for the name of a table."""
    return warehouse if ":" in warehouse else str(Path(warehouse).absolute())


def given(ctx: typer.Context) -> Given:
    """The global options of this run."""
    options = ctx.find_object(Given)
    if options is None:
        raise UsageError("commands run under txmq, which takes the global options")
    return options
