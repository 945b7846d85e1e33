"""The command line: reads the arguments and the clock, calls a pipeline or a view, tells what came of it."""

from __future__ import annotations

import sys
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
            status = run(argv)
        if argv is None and _is_writing():
            signals.leave(status)
        return status


def _is_writing() -> bool:
    writing_runs = sys.modules.get("txmq_lib.cli.run.writing_runs")
    return writing_runs is not None and writing_runs.is_writing()
