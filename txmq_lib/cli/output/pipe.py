"""Whoever reads our output may leave at any time."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from txmq_lib.errors import EXIT_DONE


@contextmanager
def while_read() -> Iterator[None]:
    """Ends quietly, with status 0, when whoever reads stdout has seen enough (`txmq ... | head`)."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(EXIT_DONE) from None
