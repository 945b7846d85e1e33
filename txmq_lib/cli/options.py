"""What the user gave in front of the command, as it was given."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from txmq_lib.errors import UsageError
from txmq_lib.files.atomic_file import own_umask

if TYPE_CHECKING:
    from txmq_lib.config.settings import Settings

FILES_VARIABLE = "TXMQ_CONF"
FOUND_FILE = "txmq.yaml"
UMASKS = {"owner": 0o077, "group": 0o027, "all": 0o000}


@dataclass(frozen=True)
class Options:
    """The global options as given; `are_files_found` where `conf` is what any command in this place finds by itself."""

    conf: tuple[str, ...]
    assignments: tuple[str, ...]
    warehouse: str | None
    are_files_found: bool = False


def settings_files(environment: Mapping[str, str], directory: Path) -> tuple[str, ...]:
    """The settings files of a command that names none: those of TXMQ_CONF, else txmq.yaml where `directory` has one.

    environment  TXMQ_CONF: files as PATH has directories, later ones win; empty: no file, whatever the directory has
    """
    listed = environment.get(FILES_VARIABLE)
    if listed is not None:
        return tuple(file for file in listed.split(os.pathsep) if file)
    here = directory / FOUND_FILE
    return (f"./{here}",) if here.is_file() else ()


def location(warehouse: str) -> str:
    """A warehouse as every part of txmq understands it: Spark takes a relative path for the name of a table."""
    return warehouse if ":" in warehouse else str(Path(warehouse).absolute())


def settings_of(options: Options) -> Settings:
    """The settings of this run. What it writes from here on can be read by whom they say, and by no more."""
    from txmq_lib.config.settings import Settings

    settings = Settings.load(options.conf, options.assignments, options.warehouse)
    os.umask(UMASKS[settings.readable_by] | own_umask())
    return settings


@contextmanager
def umask_restored() -> Iterator[None]:
    """Who called a command may write on as before."""
    before = own_umask()
    try:
        yield
    finally:
        os.umask(before)


def options_of(ctx: typer.Context) -> Options:
    """The global options of this run."""
    options = ctx.find_object(Options)
    if options is None:
        raise UsageError("commands run under txmq, which takes the global options")
    return options
