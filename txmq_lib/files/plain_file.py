"""Files that others may have put there: no links, pipes or devices, and no more of one than there is room for."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


class UnfitError(OSError):
    """What is there is no plain file, or larger than there is room for."""


def open_plain(path: str | os.PathLike[str]) -> int:
    """A descriptor to read a plain file with; whatever leads to it, the last part of its name is no link.

    UnfitError where it is none, IsADirectoryError for a directory, OSError where it cannot be opened. Nobody is waited
    for and no device is opened.
    """
    require_plain(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    _close_if_unfit(descriptor, path)
    return descriptor


def read_plain(path: str | os.PathLike[str], most_bytes: int) -> bytes:
    """What a plain file holds. UnfitError where it holds more than `most_bytes`, else as for `open_plain`."""
    with os.fdopen(open_plain(path), "rb") as file:
        is_larger = os.fstat(file.fileno()).st_size > most_bytes
        data = b"" if is_larger else file.read(most_bytes + 1)
    if is_larger or len(data) > most_bytes:  # it may grow meanwhile
        raise UnfitError(errno.EFBIG, f"it has more than {most_bytes:,} bytes", os.fspath(path))
    return data


def is_plain(path: Path) -> bool:
    """Whether a plain file is there; a link is none, wherever it leads."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def open_lock(path: str | os.PathLike[str]) -> int:
    """A descriptor of a plain file that processes lock, made where there is none; errors as those of `open_plain`."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    _close_if_unfit(descriptor, path)
    return descriptor


def require_plain(path: str | os.PathLike[str]) -> None:
    """UnfitError where what is there is no plain file, IsADirectoryError for a directory."""
    _require_plain(os.lstat(path).st_mode, path)


def _require_plain(mode: int, path: str | os.PathLike[str]) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(mode):
        what = "a link" if stat.S_ISLNK(mode) else "a pipe, a socket or a device"
        raise UnfitError(errno.EINVAL, f"it is {what} and no plain file", os.fspath(path))


def _close_if_unfit(descriptor: int, path: str | os.PathLike[str]) -> None:
    try:
        _require_plain(os.fstat(descriptor).st_mode, path)
    except OSError:
        os.close(descriptor)
        raise
