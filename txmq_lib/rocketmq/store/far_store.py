"""A broker's store on an object store: stretches of its log read as they are needed, its other files by copies here.

A log has no copy that stays: what a look or a task reads of one of its files lies in a nameless file of this disk.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryFile
from threading import Lock
from typing import BinaryIO, Final

from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileInfo, FileSelector, FileType, PyFileSystem

from txmq_lib.errors import InputError
from txmq_lib.files.object_stores import looking_options, reason_of, storage_options
from txmq_lib.files.scratch import scratch

PIECE_BYTES: Final = 16 << 20
COMMIT_LOG: Final = "commitlog"
# What is read of a store beside its log, by its place in it; of the others' files only whether they are there counts.
_COPIED: Final = re.compile(r"broker\.conf|config/[\w.-]{1,100}")
_QUEUES: Final = re.compile(r"consumequeue/[^/]{1,255}/[0-9]{1,10}/[0-9]{20}")
_NAMED: Final = re.compile(
    r"epochFileCheckpoint|config/\w{1,100}/CURRENT|consumequeue(_rocksdb)?/CURRENT|dledger-[^/]{1,100}/data/[0-9]{20}"
)
_NO_ACCESS = (OSError, DeltaError, ValueError)
# When each copy's original was last written, by store.
_copies: dict[Path, dict[str, FileInfo]] = {}
_copying = Lock()


def is_far(place: str) -> bool:
    """Whether a store, or a file of one, lies on an object store."""
    return storage_options(place) is not None


def log_files(directory: str) -> list[tuple[str, str, int]]:
    """Place, name and bytes of each file of a directory of a far log, none where there is no such directory.

    Errors  InputError where the object store does not tell.
    """
    found = _files(directory, is_deep=False)
    return [(f"{directory}/{each.path}", each.base_name, each.size) for each in found]


@contextmanager
def stretch_of(path: str, size: int, start: int, stop: int) -> Iterator[tuple[int, mmap.mmap]]:
    """A descriptor of a far file as a sparse one of this disk, and it mapped: of `size` bytes those in [start, stop).

    Errors  InputError where it is gone, or the object store does not give it.
    """
    with TemporaryFile() as file:
        file.truncate(size)
        try:
            _fetch(path, file, range(start, min(stop, size)))
        except FileNotFoundError:
            raise InputError(f"{path} is gone; retention may have removed it meanwhile: land again") from None
        except _NO_ACCESS as failure:
            raise InputError(f"{path}: {reason_of(failure, path)}") from failure
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield file.fileno(), data


def near(store: str, *, has_queues: bool = False) -> Path:
    """The directory on this disk that has all of a store but its log: of a far one copies as it is now.

    has_queues  its consume queues as well

    Errors  InputError where the object store does not give them.
    """
    if not is_far(store):
        return Path(store)
    root = _root_of(store)
    try:
        with _copying:
            _bring_up_to_date(store, root, has_queues=has_queues)
    except _NO_ACCESS as failure:
        raise InputError(f"store {store}: {reason_of(failure, store)}") from failure
    return root


def called(store: str, words: str) -> str:
    """Words about the directory `near(store)`, or what lies above it, as they are to be said of the store."""
    if not is_far(store):
        return words
    root = _root_of(store)
    return words.replace(str(root), store.rstrip("/")).replace(str(root.parent), store.rstrip("/").rpartition("/")[0])


def _root_of(store: str) -> Path:
    known_as = hashlib.sha256(store.encode()).hexdigest()[:16]
    return scratch() / f"store-{known_as}" / (PurePosixPath(store).name or "store")


def _bring_up_to_date(store: str, root: Path, *, has_queues: bool) -> None:
    found = {each.path: each for each in _files(store, is_deep=True)}
    above = _file_above(store, "broker.conf")
    known = _copies.setdefault(root, {})
    root.mkdir(parents=True, exist_ok=True)
    if any(path.startswith(f"{COMMIT_LOG}/") for path in found):
        (root / COMMIT_LOG).mkdir(exist_ok=True)
    if above is not None:
        found["../broker.conf"] = above
    for path in known.keys() - found.keys():
        (root / path).unlink(missing_ok=True)
        del known[path]
    patterns = (_COPIED, _NAMED, *([_QUEUES] if has_queues else []))
    for path, each in found.items():
        if not any(pattern.fullmatch(path.removeprefix("../")) for pattern in patterns):
            continue
        if path not in known or _state(known[path]) != _state(each):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            with open(root / path, "wb") as file:
                file.truncate(each.size)
                if not _NAMED.fullmatch(path):
                    _fetch(_joined(store, path), file, range(each.size))
            os.utime(root / path, ns=(each.mtime_ns, each.mtime_ns))
            known[path] = each


def _state(file: FileInfo) -> tuple[int, int]:
    return file.size, file.mtime_ns


def _fetch(path: str, file: BinaryIO, positions: range) -> None:
    """Write these bytes of a far file where they belong; stretches of zeros are left out."""
    directory, _, name = path.rpartition("/")
    handler = DeltaStorageHandler(directory, storage_options(path), {name: positions.stop})
    with handler.open_input_file(name) as opened:
        for start in positions[::PIECE_BYTES]:
            opened.seek(start)
            size = min(PIECE_BYTES, positions.stop - start)
            piece = opened.read(size)
            if len(piece) < size:
                raise OSError(f"it ends {size - len(piece)} bytes early: it was written anew meanwhile; land again")
            if piece.strip(b"\0"):
                os.pwrite(file.fileno(), piece, start)


def _files(directory: str, *, is_deep: bool) -> list[FileInfo]:
    """All files below a directory, or in it. InputError where the object store does not tell."""
    try:
        system = PyFileSystem(DeltaStorageHandler(directory, looking_options(directory)))
        found = system.get_file_info(FileSelector("", allow_not_found=True, recursive=is_deep))
    except _NO_ACCESS as failure:
        raise InputError(f"{directory}: {reason_of(failure, directory)}") from failure
    return [each for each in found if each.type == FileType.File]


def _file_above(store: str, name: str) -> FileInfo | None:
    """A file that lies beside the store, where there is one."""
    above = store.rstrip("/").rpartition("/")[0]
    if above.endswith(("/", ":")):  # it is a whole bucket
        return None
    found = PyFileSystem(DeltaStorageHandler(above, looking_options(above))).get_file_info(name)
    return found if found.type == FileType.File else None


def _joined(store: str, path: str) -> str:
    store = store.rstrip("/")
    return f"{store.rpartition('/')[0]}/{path[3:]}" if path.startswith("../") else f"{store}/{path}"
