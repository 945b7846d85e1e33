"""Files that outlast a power cut: what a commit names is on the disk before the commit is."""

from __future__ import annotations

import os
from collections.abc import Iterable


def make_durable(paths: Iterable[str]) -> None:
    """Force the files at `paths` of this machine to its disk, and then the entries of their directories."""
    directories = []
    for path in paths:
        _synced(path, os.O_RDONLY)
        directories.append(os.path.dirname(path))
    for directory in dict.fromkeys(directories):
        _synced(directory, os.O_RDONLY | os.O_DIRECTORY)


def _synced(path: str, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
