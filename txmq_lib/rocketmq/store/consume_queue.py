"""The bounds of a store's queues, from its consume queue files (F3). Must not read whole files."""

from __future__ import annotations

import os
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from txmq_lib.errors import InputError
from txmq_lib.files.plain_file import open_plain, require_plain
from txmq_lib.rocketmq.store import near_store

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


class _Entry(NamedTuple):
    """Where the message of a queue offset lies in the log, and its bytes."""

    physical_offset: int
    size: int


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
            for key, directory in _queue_dirs(near_store.near(store_dir, has_queues=True) / CONSUME_QUEUE_DIR)
        }
    except OSError as failure:
        raise _unreadable(failure) from failure


def dispatched_to(store_dir: str, *, end_commit_log_offset: int) -> int:
    """The physical offset behind the last record that some consume queue has an entry for; 0 where none has any.

    A broker dispatches records in the order of its log. Entries that point at the end or behind it do not count.

    Errors  InputError where a file cannot be read.
    """
    try:
        ends = [
            _end(path, end_commit_log_offset)
            for _, path in _queue_dirs(near_store.near(store_dir, has_queues=True) / CONSUME_QUEUE_DIR)
        ]
    except OSError as failure:
        raise _unreadable(failure) from failure
    return max(ends, default=0)


def _unreadable(failure: OSError) -> InputError:
    return InputError(
        f"consume queue {failure.filename}: {failure.strerror}; retention may have removed it meanwhile: land again"
    )


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
    written, entry_of = _written(directory, end_physical)
    lowest = bisect_left(written, lowest_physical, key=lambda queue_offset: entry_of(queue_offset).physical_offset)
    return QueueBounds(written.start + lowest, written.stop)


def _end(directory: Path, end_physical: int) -> int:
    """Behind which physical offset the queue has no entry."""
    written, entry_of = _written(directory, end_physical)
    if not written:
        return 0
    last = entry_of(written[-1])
    return max(last.physical_offset + last.size, 0)


def _written(directory: Path, end_physical: int) -> tuple[range, Callable[[int], _Entry]]:
    """The queue offsets that have an entry before a place of the log, and what reads one."""
    with os.scandir(directory) as entries:
        named = [entry for entry in entries if _FILE_NAME.fullmatch(entry.name)]
    files = sorted(
        Path(entry.path)
        for entry in named
        if not entry.is_dir(follow_symlinks=False) and int(entry.name) <= _LARGEST_FILE_OFFSET
    )
    for path in files:
        require_plain(path)
    starts = [int(path.name) // _ENTRY.size for path in files]
    offsets = range(starts[0], starts[-1] + files[-1].stat().st_size // _ENTRY.size) if files else range(0)

    def entry_of(queue_offset: int) -> _Entry:
        index = bisect_right(starts, queue_offset) - 1
        return _entry(files[index], (queue_offset - starts[index]) * _ENTRY.size)

    ends = bisect_left(offsets, end_physical, key=lambda queue_offset: entry_of(queue_offset).physical_offset)
    return offsets[:ends], entry_of


def _entry(file: Path, position: int) -> _Entry:
    """The entry there: it lies before any log where it is of no message, behind any log if not yet written."""
    with os.fdopen(open_plain(file), "rb", buffering=0) as opened:
        opened.seek(position)
        entry = opened.read(_ENTRY.size)
    if len(entry) < _ENTRY.size:
        return _Entry(_BEFORE_ANY_LOG, 0)
    physical_offset, size, _ = _ENTRY.unpack(entry)
    if size == 0:
        return _Entry(_BEHIND_ANY_LOG, 0)
    return _Entry(_BEFORE_ANY_LOG, 0) if size == _PREFILL_SIZE else _Entry(physical_offset, size)
