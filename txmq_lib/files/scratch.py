"""One directory for all that this process keeps on disk for a while: its own alone, and gone when the process is."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import stat
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import gettempdir, mkdtemp

PREFIX = "txmq-scratch-"
# Held as long as the process lives: the directory of one that was killed is known by nobody holding it.
_held: list[int] = []


@cache
def scratch() -> Path:
    """The directory, under TMPDIR: of a name that nobody can guess, for this user alone.

    What processes that were killed have left is removed first. OSError where none can be made.
    """
    _remove_leftovers(Path(gettempdir()))
    while True:
        made = Path(mkdtemp(prefix=PREFIX))
        with suppress(FileNotFoundError):  # another process took it for a leftover before it was locked
            descriptor = os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if made.exists():
                break
            os.close(descriptor)
    _held.append(descriptor)
    atexit.register(_remove_own, made, os.getpid())
    return made


def remove_scratch() -> None:
    """Remove the directory, where one was made, before the process ends in a way that `atexit` does not see."""
    if scratch.cache_info().currsize:
        _remove_own(scratch(), os.getpid())


def _remove_own(made: Path, owner: int) -> None:
    if os.getpid() == owner:  # not a child that was forked
        shutil.rmtree(made, ignore_errors=True)


def _remove_leftovers(directory: Path) -> None:
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX):
                with suppress(OSError):
                    _remove_if_left(entry.path)


def _remove_if_left(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) == stat.S_IRWXU:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(descriptor)
