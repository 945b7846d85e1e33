"""A small file written in one piece: whoever reads it never sees half of it, even after a power cut, and nobody can put
it elsewhere."""

from __future__ import annotations

import errno
import fcntl
import os
import re
from contextlib import suppress
from pathlib import Path

from txmq_lib.files.plain_file import is_plain

_HALF_WAY = re.compile(r"\.txmq-[0-9a-f]{16}\.half")


def write_whole(path: Path, text: str) -> None:
    """Put `text` in the place of what the file holds; what a process that was killed left of one goes.

    OSError where it cannot be written, or where something else than a plain file is in its place.
    """
    if os.path.lexists(path) and not is_plain(path):
        raise OSError(errno.EINVAL, "it is no plain file: name the file that a link leads to", str(path))
    data = text.encode("utf-8")
    _remove_leftovers(path.parent)
    descriptor, half_way = _begun(path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            half_way.replace(path)
        _sync_directory(path.parent)
    except OSError:
        half_way.unlink(missing_ok=True)
        raise


def own_umask() -> int:
    """What this process withholds of the permissions of what it makes."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # some file systems cannot be asked for a directory
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _begun(directory: Path) -> tuple[int, Path]:
    """A new file of a name that nobody can guess, locked as long as it is open."""
    while True:
        half_way = directory / f".txmq-{os.urandom(8).hex()}.half"
        descriptor = os.open(half_way, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor, half_way
        os.close(descriptor)  # taken for a leftover before it was locked


def _remove_leftovers(directory: Path) -> None:
    with os.scandir(directory) as entries:
        left = [entry.path for entry in entries if _HALF_WAY.fullmatch(entry.name)]
    for path in left:
        with suppress(OSError):
            descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # its writer holds it while it lives
                os.unlink(path)
            finally:
                os.close(descriptor)
