"""The bounds of a store's queues, from its consume queue files (F3). Must not read whole files."""

from __future__ import annotations

import os
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from txmq_lib.errors import InputError
from txmq_lib.files.plain_file import open_plain, require_plain

CONSUME_QUEUE_DIR: Final = "consumequeue"

_ENTRY: Final = Struct(">qiq")  # physical offset, size, tags code
_PREFILL_SIZE: Final = 0x7FFFFFFF
_BEFORE_ANY_LOG: Final = -1
_BEHIND_ANY_LOG: Final = 2**63
_LARGEST_FILE_OFFSET: Final = 2**63 - 1
_FILE_NAME: Final = re.compile(r"[0-9]{20}")
_QUEUE_NAME: Final = re.compile(r"[0-9]{1,10}")
_LARGEST_QUEUE_ID: Final = 2**31 - 1


class QueueBounds(NamedTuple):
    """Queue offsets of one queue: the lowest whose message is still in the commit log, and the next to be written."""

    lowest_offset: int
    next_offset: int


def queue_bounds(
    store_dir: str, *, lowest_commit_log_offset: int, end_commit_log_offset: int
) -> dict[tuple[str, int], QueueBounds]:
    """The bounds of every queue by (topic, queue id), as of the commit log between two physical offsets.

    Entries that point at the end or behind it do not count; a queue with no message left has lowest = next. Empty
    where there is no consumequeue directory (queues kept in RocksDB). A live broker's queues lag its log slightly.
    What no broker would name so is no topic, no queue and no file of one.

    Errors  InputError where a file cannot be read.
    """
    try:
        return {
            key: _bounds(directory, lowest_commit_log_offset, end_commit_log_offset)
            for key, directory in _queue_dirs(Path(store_dir) / CONSUME_QUEUE_DIR)
        }
    except OSError as failure:
        raise InputError(
            f"consume queue {failure.filename}: {failure.strerror}; retention may have removed it meanwhile: land again"
        ) from failure


def _queue_dirs(root: Path) -> Iterator[tuple[tuple[str, int], Path]]:
    if not root.is_dir():
        return
    for topic in sorted(root.iterdir()):
        if topic.is_dir() and _is_utf8(topic.name):
            for queue in sorted(topic.iterdir()):
                is_queue = _QUEUE_NAME.fullmatch(queue.name) and int(queue.name) <= _LARGEST_QUEUE_ID
                if is_queue and queue.is_dir():
                    yield (topic.name, int(queue.name)), queue


def _is_utf8(name: str) -> bool:
    return not any("\udc80" <= character <= "\udcff" for character in name)  # how Python spells other bytes


def _bounds(directory: Path, lowest_physical: int, end_physical: int) -> QueueBounds:
    with os.scandir(directory) as entries:
        named = [entry for entry in entries if _FILE_NAME.fullmatch(entry.name)]
    files = sorted(
        Path(entry.path)
        for entry in named
        if not entry.is_dir(follow_symlinks=False) and int(entry.name) <= _LARGEST_FILE_OFFSET
    )
    for path in files:
        require_plain(path)
    if not files:
        return QueueBounds(0, 0)
    starts = [int(path.name) // _ENTRY.size for path in files]
    offsets = range(starts[0], starts[-1] + files[-1].stat().st_size // _ENTRY.size)

    def physical_offset(queue_offset: int) -> int:
        index = bisect_right(starts, queue_offset) - 1
        return _physical_offset(files[index], (queue_offset - starts[index]) * _ENTRY.size)

    written = offsets[: bisect_left(offsets, end_physical, key=physical_offset)]
    lowest = bisect_left(written, lowest_physical, key=physical_offset)
    return QueueBounds(written.start + lowest, written.stop)


def _physical_offset(file: Path, position: int) -> int:
    """Where the entry's message lies: before any log where there is none for it, behind any log if not yet written."""
    with os.fdopen(open_plain(file), "rb", buffering=0) as opened:
        opened.seek(position)
        entry = opened.read(_ENTRY.size)
    if len(entry) < _ENTRY.size:
        return _BEFORE_ANY_LOG
    physical_offset, size, _ = _ENTRY.unpack(entry)
    if size == 0:
        return _BEHIND_ANY_LOG
    return _BEFORE_ANY_LOG if size == _PREFILL_SIZE else int(physical_offset)
