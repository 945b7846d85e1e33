"""The command line: reads the arguments and the clock, calls a pipeline or a view, tells what came of it."""

from __future__ import annotations

from txmq_lib.cli.app import main

__all__ = ["main"]
