"""Files of a broker's store that lies on an object store: which there are, and stretches of them as they are needed.

No copy of a log stays: what a look or a task reads of one of its files lies in a nameless file of this disk.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import Final, NamedTuple

from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileInfo, FileSelector, FileType, PyFileSystem

from txmq_lib.errors import InputError
from txmq_lib.files.object_stores import looking_options, reason_of, storage_options

PIECE_BYTES: Final = 16 << 20
# Some stores tell the time of a write in whole seconds: so long behind the first look no other write has that time.
SETTLED_S: Final = 2.0
NO_ACCESS: Final = (OSError, DeltaError, ValueError)


class Version(NamedTuple):
    """Of a far file its bytes and when it was written (epoch ns)."""

    size: int
    mtime_ns: int


# Since when a version of a file is known.
_seen: dict[str, tuple[Version, float]] = {}


def is_far(place: str) -> bool:
    """Whether a store, or a file of one, lies on an object store."""
    return storage_options(place) is not None


def log_files(directory: str) -> list[tuple[str, str, int]]:
    """Place, name and bytes of each file of a directory of a far log, none where there is no such directory.

    Errors  InputError where the object store does not tell.
    """
    found = files_below(directory, "")
    for name, version in found.items():
        see(f"{directory}/{name}", version)
    return [(f"{directory}/{name}", name, version.size) for name, version in found.items()]


def version_of(path: str) -> Version | None:
    """The version of a file of a far log as it was listed last; None where another one of this time may follow."""
    version, since = _seen.get(path, (None, 0.0))
    return version if time.monotonic() - since > SETTLED_S else None


@contextmanager
def stretch_of(path: str, size: int, start: int, stop: int) -> Iterator[tuple[int, mmap.mmap]]:
    """A descriptor of a far file as a sparse one of this disk, and it mapped: of `size` bytes those in [start, stop).

    Errors  InputError where it is gone, or the object store does not give it.
    """
    directory, _, name = path.rpartition("/")
    with TemporaryFile() as file:
        file.truncate(size)
        try:
            fetch(directory, name, file.fileno(), range(start, min(stop, size)))
        except FileNotFoundError:
            raise InputError(f"{path} is gone; retention may have removed it meanwhile: land again") from None
        except NO_ACCESS as failure:
            raise InputError(f"{path}: {reason_of(failure, path)}") from failure
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield file.fileno(), data


def files_below(store: str, below: str, *, is_deep: bool = False) -> dict[str, Version]:
    """The files in a directory of a store, or all below it, by their place in the store."""
    return files_of(entries(store, below, is_deep=is_deep))


def files_of(found: Iterable[FileInfo]) -> dict[str, Version]:
    """The files among entries."""
    return {each.path: Version(each.size, each.mtime_ns) for each in found if each.type == FileType.File}


def version_in(directory: str, name: str) -> Version | None:
    """The version of a file of a directory; None where it is not there."""
    found = PyFileSystem(DeltaStorageHandler(directory, looking_options(directory))).get_file_info(name)
    return files_of([found]).get(name)


def entries(store: str, below: str, *, is_deep: bool = False) -> list[FileInfo]:
    """What lies in a directory of a store, none where that is not there.

    Errors  InputError where the object store does not tell.
    """
    try:
        system = PyFileSystem(DeltaStorageHandler(store, looking_options(store)))
        found: list[FileInfo] = system.get_file_info(FileSelector(below, allow_not_found=True, recursive=is_deep))
    except NO_ACCESS as failure:
        raise InputError(f"{store}: {reason_of(failure, store)}") from failure
    return found


def see(place: str, version: Version) -> None:
    """Remember since when this version of a file is known."""
    if _seen.get(place, (None,))[0] != version:
        _seen[place] = version, time.monotonic()


def fetch(store: str, path: str, descriptor: int, positions: range) -> None:
    """Write these bytes of a far file where they belong; stretches of zeros are left out."""
    # A path below the handler's place is taken as it is; in a place, a per cent sign would begin a byte.
    handler = DeltaStorageHandler(store, storage_options(store), {path: positions.stop})
    with handler.open_input_file(path) as opened:
        for start in positions[::PIECE_BYTES]:
            opened.seek(start)
            size = min(PIECE_BYTES, positions.stop - start)
            piece = opened.read(size)
            if len(piece) < size:
                raise OSError(f"it ends {size - len(piece)} bytes early: it was written anew meanwhile; land again")
            if piece.strip(b"\0"):
                os.pwrite(descriptor, piece, start)
