"""The command line: reads the arguments and the clock, calls a pipeline or a view, tells what came of it."""

from __future__ import annotations

from collections.abc import Sequence

from txmq_lib.cli import signals

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit status (errors.py). Without `argv` the process's arguments, and it ends then."""
    with signals.watched(is_program=argv is None):
        # Takes a while, in which a signal may come.
        from txmq_lib.cli.app import run
        from txmq_lib.cli.options import umask_restored

        with umask_restored():
            return run(argv)
