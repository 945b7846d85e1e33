"""What a broker's store has beside its log, by copies on this disk where the store lies on an object store."""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path, PurePosixPath
from tempfile import NamedTemporaryFile
from threading import Lock
from typing import Final

from pyarrow.fs import FileType

from txmq_lib.errors import InputError
from txmq_lib.files.object_stores import reason_of
from txmq_lib.files.scratch import scratch
from txmq_lib.rocketmq.store import far_files
from txmq_lib.rocketmq.store.commit_log import COMMIT_LOG_DIR
from txmq_lib.rocketmq.store.far_files import Version

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
_NOT_ALLOWED: Final = ("privileges", "AccessDenied", "403")
# The versions of copies by their place in the store, where they are settled.
_copies: dict[Path, dict[str, Version | None]] = {}
_copying = Lock()


def near(store: str, *, has_queues: bool = False) -> Path:
    """The directory on this disk that has all of a store but its log: of a far one copies as it is now.

    has_queues  its consume queues as well: a look for each of their directories

    Errors  InputError where the object store does not give them.
    """
    if not far_files.is_far(store):
        return Path(store)
    root = _root_of(store)
    with _copying:
        try:
            _bring_up_to_date(store.rstrip("/"), root, has_queues=has_queues)
        except far_files.NO_ACCESS as failure:
            raise InputError(f"store {store}: {reason_of(failure, store)}") from failure
    return root


def called(store: str, words: str) -> str:
    """Words about the directory `near(store)`, or what lies above it, as they are to be said of the store."""
    if not far_files.is_far(store):
        return words
    root, store = _root_of(store), store.rstrip("/")
    return words.replace(str(root), store).replace(str(root.parent), store.rpartition("/")[0])


def _root_of(store: str) -> Path:
    known_as = hashlib.sha256(store.encode()).hexdigest()[:16]
    return scratch() / f"store-{known_as}" / (PurePosixPath(store).name or "store")


def _bring_up_to_date(store: str, root: Path, *, has_queues: bool) -> None:
    found, has_log = _beside_log(store)
    if has_queues:
        queues = far_files.files_below(store, "consumequeue", is_deep=True)
        found |= {path: version for path, version in queues.items() if _QUEUE.fullmatch(path)}
    (root / COMMIT_LOG_DIR if has_log else root).mkdir(parents=True, exist_ok=True)
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
    top = far_files.entries(store, "")
    found = far_files.files_of(top)
    directories = [each.base_name for each in top if each.type == FileType.Directory]
    if "config" in directories:
        found |= far_files.files_below(store, "config", is_deep=True)
    for name in directories:
        if name in ("consumequeue", "consumequeue_rocksdb"):
            found |= far_files.files_below(store, name)
        elif name.startswith("dledger-"):
            found |= far_files.files_below(store, f"{name}/data")
    kept = {path: each for path, each in found.items() if _READ.fullmatch(path) or _NAMED.fullmatch(path)}
    return kept, COMMIT_LOG_DIR in directories


def _copy_conf_above(store: str, root: Path) -> None:
    """The broker.conf that lies beside the store, where there is one that may be read."""
    above, path = store.rpartition("/")[0], root.parent / BROKER_CONF
    if above.endswith(("/", ":")):  # it is a whole bucket
        return
    try:
        version = far_files.version_in(above, BROKER_CONF)
    except far_files.NO_ACCESS as failure:
        if not any(words in str(failure) for words in _NOT_ALLOWED):
            raise
        version = None
    if version is None:
        path.unlink(missing_ok=True)
    else:
        _keep_copy(_copies.setdefault(root.parent, {}), above, BROKER_CONF, version, path)


def _keep_copy(known: dict[str, Version | None], store: str, path: str, version: Version, copy: Path) -> None:
    """Copy a file of a store, unless there is a copy of this very version."""
    if known.get(path) != version:
        place = f"{store}/{path}"
        far_files.see(place, version)
        settled = far_files.version_of(place)
        _copy(store, path, version, copy)
        known[path] = settled


def _copy(store: str, path: str, version: Version, copy: Path) -> None:
    """Put a copy of a file of a store in its place, in one piece."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=copy.parent, prefix=".", delete=False) as file:
        try:
            file.truncate(version.size)
            if _QUEUE.fullmatch(path) or (version.size <= MOST_BYTES and not _NAMED.fullmatch(path)):
                far_files.fetch(store, path, file.fileno(), range(version.size))
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
