"""What of a table is on the disk, and not only in the memory of its operating system.

Neither Spark's writer nor deltalake asks for it. A local file system may forget, when the power goes, what a file holds
and that it is there, in any order, until both the file and its directory were synced. Tables elsewhere have no part in
this: an object store answers when it has kept what it was sent.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote

LOG = "_delta_log"
_OF_A_VERSION = re.compile(r"\.?(\d{20})\.(?:json|crc|checkpoint\..*|.*\.parquet|json\.crc)")
_LAST_CHECKPOINT = "_last_checkpoint"


def sync_files(root: str, names: Iterable[str]) -> None:
    """Put files below `root` on the disk, then every directory between them and `root`; what is gone is passed over.

    names  paths below `root` as the file system has them
    """
    files = [Path(root, name) for name in names]
    # Hadoop keeps checksums beside what it writes, and believes them.
    beside = [file.with_name(f".{file.name}.crc") for file in files]
    _sync_all([*files, *(file for file in beside if file.exists())])
    _sync_all(sorted({above for file in files for above in _directories(file, Path(root))}))


def sync_commits(root: str, after: int, upto: int) -> None:
    """Put the commits behind version `after` up to `upto` on the disk: the files they name, then the log's own."""
    log = Path(root, LOG)
    if after >= upto or not log.is_dir():
        return
    found = {name: int(match[1]) for name in os.listdir(log) if (match := _OF_A_VERSION.fullmatch(name))}
    kept = [log / name for name, version in sorted(found.items()) if after < version <= upto]
    entries = (entry for entry in kept if entry.suffix == ".json")
    sync_files(root, [name for entry in entries for name in files_named(entry.read_text(encoding="utf-8"))])
    if any(".checkpoint." in entry.name for entry in kept):
        kept.append(log / _LAST_CHECKPOINT)
    _sync_all(kept)
    _sync_all([log])


def sync_new_table(root: str, *, syncs_way: bool = True) -> None:
    """Put a table that was just made on the disk: its first commits, and all directories that lead to it.

    syncs_way  False: only its own directory; another table beside it, made later, puts those above on the disk
    """
    sync_commits(root, -1, max(_versions(Path(root, LOG)), default=-1))
    place = Path(root).absolute()
    _sync_all([place])
    for above in place.parents if syncs_way else ():
        try:
            _sync(above)
        except OSError as error:
            # Where this user may not read, or nobody writes, no directory was made for this table.
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise


def sync_directories(places: Iterable[Path]) -> None:
    """Put what is in directories, and what no longer is, on the disk."""
    _sync_all(sorted(places))


def files_named(entry: str) -> Iterator[str]:
    """Paths of the data files that a log entry adds, those of the change feed too, as the file system has them."""
    for line in filter(None, entry.split("\n")):
        for kind, action in json.loads(line).items():
            if kind in ("add", "cdc"):
                yield unquote(action["path"])


def _versions(log: Path) -> Iterator[int]:
    return (int(match[1]) for name in os.listdir(log) if (match := _OF_A_VERSION.fullmatch(name)))


def _directories(file: Path, root: Path) -> Iterator[Path]:
    yield from (above for above in file.parents if above == root or root in above.parents)


def _sync_all(paths: Iterable[Path]) -> None:
    # One after the other: the first takes a journal along, and those behind it wait for little.
    for path in dict.fromkeys(paths):
        _sync(path)


def _sync(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # upkeep has removed it since
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some file systems cannot be asked for a directory; such keep their names by themselves.
        if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP):
            raise
    finally:
        os.close(descriptor)
