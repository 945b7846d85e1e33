"""A broker's store on an object store: stretches of its log read as they are needed, its other files by copies here.

A log has no copy that stays: what a look or a task reads of one of its files lies in a nameless file of this disk.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from tempfile import NamedTemporaryFile, TemporaryFile
from threading import Lock
from typing import Final, NamedTuple

from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileInfo, FileSelector, FileType, PyFileSystem

from txmq_lib.errors import InputError
from txmq_lib.files.object_stores import looking_options, reason_of, storage_options
from txmq_lib.files.scratch import scratch

PIECE_BYTES: Final = 16 << 20
COMMIT_LOG: Final = "commitlog"
BROKER_CONF: Final = "broker.conf"
# What is read of a store beside its log, by its place in it. Of files that only have to be there, and of files beyond
# MOST_BYTES, the copy is as long and has no content: who reads it refuses what is that long.
_READ: Final = re.compile(
    r"broker\.conf|config/(consumerOffset|topics|topicQueueMapping|lmqConsumerOffset)\.json(\.bak)?"
)
_NAMED: Final = re.compile(
    r"epochFileCheckpoint|config/\w{1,100}/CURRENT|consumequeue(_rocksdb)?/CURRENT|dledger-[^/]{1,100}/data/[0-9]{20}"
)
_QUEUE: Final = re.compile(r"consumequeue/[^/]{1,255}/[0-9]{1,10}/[0-9]{20}")
MOST_BYTES: Final = 128 << 20
# Some stores tell the time of a write in whole seconds: so long behind the first look no other write has that time.
_SETTLED_S: Final = 2.0
_NO_ACCESS: Final = (OSError, DeltaError, ValueError)
_NOT_ALLOWED: Final = ("privileges", "AccessDenied", "403")


class Version(NamedTuple):
    """Of a far file its bytes and when it was written (epoch ns)."""

    size: int
    mtime_ns: int


# The versions of copies by their place in the store, where they are settled; of all files, since when they are known.
_copies: dict[Path, dict[str, Version | None]] = {}
_copying = Lock()
_seen: dict[str, tuple[Version, float]] = {}


def is_far(place: str) -> bool:
    """Whether a store, or a file of one, lies on an object store."""
    return storage_options(place) is not None


def log_files(directory: str) -> list[tuple[str, str, int]]:
    """Place, name and bytes of each file of a directory of a far log, none where there is no such directory.

    Errors  InputError where the object store does not tell.
    """
    found = [each for each in _entries(directory, "") if each.type == FileType.File]
    for each in found:
        _see(f"{directory}/{each.path}", Version(each.size, each.mtime_ns))
    return [(f"{directory}/{each.path}", each.base_name, each.size) for each in found]


def version_of(path: str) -> Version | None:
    """The version of a file of a far log as it was listed last; None where another one of this time may follow."""
    version, since = _seen.get(path, (None, 0.0))
    return version if time.monotonic() - since > _SETTLED_S else None


@contextmanager
def stretch_of(path: str, size: int, start: int, stop: int) -> Iterator[tuple[int, mmap.mmap]]:
    """A descriptor of a far file as a sparse one of this disk, and it mapped: of `size` bytes those in [start, stop).

    Errors  InputError where it is gone, or the object store does not give it.
    """
    directory, _, name = path.rpartition("/")
    with TemporaryFile() as file:
        file.truncate(size)
        try:
            _fetch(directory, name, file.fileno(), range(start, min(stop, size)))
        except FileNotFoundError:
            raise InputError(f"{path} is gone; retention may have removed it meanwhile: land again") from None
        except _NO_ACCESS as failure:
            raise InputError(f"{path}: {reason_of(failure, path)}") from failure
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield file.fileno(), data


def near(store: str, *, has_queues: bool = False) -> Path:
    """The directory on this disk that has all of a store but its log: of a far one copies as it is now.

    has_queues  its consume queues as well: a look for each of their directories

    Errors  InputError where the object store does not give them.
    """
    if not is_far(store):
        return Path(store)
    root = _root_of(store)
    with _copying:
        try:
            _bring_up_to_date(store.rstrip("/"), root, has_queues=has_queues)
        except _NO_ACCESS as failure:
            raise InputError(f"store {store}: {reason_of(failure, store)}") from failure
    return root


def called(store: str, words: str) -> str:
    """Words about the directory `near(store)`, or what lies above it, as they are to be said of the store."""
    if not is_far(store):
        return words
    root, store = _root_of(store), store.rstrip("/")
    return words.replace(str(root), store).replace(str(root.parent), store.rpartition("/")[0])


def _root_of(store: str) -> Path:
    known_as = hashlib.sha256(store.encode()).hexdigest()[:16]
    return scratch() / f"store-{known_as}" / (PurePosixPath(store).name or "store")


def _bring_up_to_date(store: str, root: Path, *, has_queues: bool) -> None:
    found, has_log = _beside_log(store)
    if has_queues:
        queues = _files(store, "consumequeue", is_deep=True)
        found |= {path: version for path, version in queues.items() if _QUEUE.fullmatch(path)}
    (root / COMMIT_LOG if has_log else root).mkdir(parents=True, exist_ok=True)
    known = _copies.setdefault(root, {})
    gone = known.keys() - found.keys()
    for path in gone if has_queues else [path for path in gone if not _QUEUE.fullmatch(path)]:
        (root / path).unlink(missing_ok=True)
        _remove_if_empty((root / path).parent, root)
        del known[path]
    for path, version in found.items():
        _keep_copy(known, store, path, version, root / path)
    _copy_conf_above(store, root)


def _beside_log(store: str) -> tuple[dict[str, Version], bool]:
    """The files of a store beside its log and its queues that are to be here, and whether there is a log."""
    top = _entries(store, "")
    found = {each.path: Version(each.size, each.mtime_ns) for each in top if each.type == FileType.File}
    directories = [each.base_name for each in top if each.type == FileType.Directory]
    if "config" in directories:
        found |= _files(store, "config", is_deep=True)
    for name in directories:
        if name in ("consumequeue", "consumequeue_rocksdb"):
            found |= _files(store, name)
        elif name.startswith("dledger-"):
            found |= _files(store, f"{name}/data")
    kept = {path: each for path, each in found.items() if _READ.fullmatch(path) or _NAMED.fullmatch(path)}
    return kept, COMMIT_LOG in directories


def _copy_conf_above(store: str, root: Path) -> None:
    """The broker.conf that lies beside the store, where there is one that may be read."""
    above, path = store.rpartition("/")[0], root.parent / BROKER_CONF
    if above.endswith(("/", ":")):  # it is a whole bucket
        return
    try:
        found = PyFileSystem(DeltaStorageHandler(above, looking_options(above))).get_file_info(BROKER_CONF)
        version = Version(found.size, found.mtime_ns) if found.type == FileType.File else None
    except _NO_ACCESS as failure:
        if not any(words in str(failure) for words in _NOT_ALLOWED):
            raise
        version = None
    if version is None:
        path.unlink(missing_ok=True)
    else:
        _keep_copy(_copies.setdefault(root.parent, {}), above, BROKER_CONF, version, path)


def _see(place: str, version: Version) -> None:
    if _seen.get(place, (None,))[0] != version:
        _seen[place] = version, time.monotonic()


def _keep_copy(known: dict[str, Version | None], store: str, path: str, version: Version, copy: Path) -> None:
    """Copy a file of a store, unless there is a copy of this very version."""
    if known.get(path) != version:
        place = f"{store}/{path}"
        _see(place, version)
        settled = version_of(place)
        _copy(store, path, version, copy)
        known[path] = settled


def _copy(store: str, path: str, version: Version, copy: Path) -> None:
    """Put a copy of a file of a store in its place, in one piece."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=copy.parent, prefix=".", delete=False) as file:
        try:
            file.truncate(version.size)
            if _QUEUE.fullmatch(path) or (version.size <= MOST_BYTES and not _NAMED.fullmatch(path)):
                _fetch(store, path, file.fileno(), range(version.size))
            os.utime(file.name, ns=(version.mtime_ns, version.mtime_ns))
            os.replace(file.name, copy)
        except BaseException:
            os.unlink(file.name)
            raise


def _remove_if_empty(directory: Path, root: Path) -> None:
    with suppress(OSError):
        while directory != root:
            directory.rmdir()
            directory = directory.parent


def _fetch(store: str, path: str, descriptor: int, positions: range) -> None:
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


def _files(store: str, below: str, *, is_deep: bool = False) -> dict[str, Version]:
    """The files in a directory of a store, or all below it, by their place in the store."""
    found = _entries(store, below, is_deep=is_deep)
    return {each.path: Version(each.size, each.mtime_ns) for each in found if each.type == FileType.File}


def _entries(store: str, below: str, *, is_deep: bool = False) -> list[FileInfo]:
    """What lies in a directory of a store, none where that is not there.

    Errors  InputError where the object store does not tell.
    """
    try:
        system = PyFileSystem(DeltaStorageHandler(store, looking_options(store)))
        found: list[FileInfo] = system.get_file_info(FileSelector(below, allow_not_found=True, recursive=is_deep))
    except _NO_ACCESS as failure:
        raise InputError(f"{store}: {reason_of(failure, store)}") from failure
    return found
