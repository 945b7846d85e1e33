"""A broker's table of consumer offsets: config/consumerOffset.json, or the body of GET_ALL_CONSUMER_OFFSET.

Must not judge what an offset means: the values are "next to consume" as the broker holds them (R84, R88, R89).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from txmq_lib import names
from txmq_lib.errors import InputError
from txmq_lib.files.plain_file import UnfitError, read_plain
from txmq_lib.rocketmq.lenient_json import parsed
from txmq_lib.rocketmq.store import near_store

OFFSET_FILE: Final = "config/consumerOffset.json"
BACKUP_SUFFIX: Final = ".bak"

# A million queues of a group take some 10 MB. Bounded is what one file may take of the driver's memory.
MOST_BYTES: Final = 128 << 20

_QUEUE_ID: Final = re.compile(r"[0-9]{1,10}")
_HALF_A_PAIR: Final = re.compile("[\ud800-\udfff]")  # JSON can name it, no table can hold it
_LONGEST_NAME: Final = 512  # RocketMQ takes 255 bytes, and puts some before them
_LONGEST_RAW: Final = 8192
_MOST_BAD: Final = 10_000  # each told with its key, which many may share; what is beyond is one that counts the others
_LARGEST_OFFSET: Final = 2**63 - 1
_LARGEST_QUEUE_ID: Final = 2**31 - 1


class OffsetEntry(NamedTuple):
    """The next offset a group is to consume of one queue."""

    topic: str
    group: str
    queue_id: int
    offset: int


class BadOffsetEntry(NamedTuple):
    """An entry that cannot be used: why, and the entry as JSON."""

    reason: str
    raw: str


class ConsumerOffsets(NamedTuple):
    """What one table holds, in its own order."""

    entries: tuple[OffsetEntry, ...]
    bad: tuple[BadOffsetEntry, ...]


class ConsumerOffsetFile(NamedTuple):
    """A table read from a store directory, the file it really came from, and when that was last written (epoch ms)."""

    offsets: ConsumerOffsets
    path: str
    modified_ms: int


def read_consumer_offset_file(store_dir: str) -> ConsumerOffsetFile | None:
    """The store's offset table; null where the broker has never written one.

    Rule    R88: while the broker writes it the file may be missing, empty or cut; then its `.bak` counts. Where neither
            can be used, the one that is there is a bad entry. A link, a pipe, a device or more than MOST_BYTES is not
            read: it cannot be used.
    Errors  InputError where a file is there and may not be read.
    """
    main = near_store.near(store_dir) / OFFSET_FILE
    found = None
    for path in (main, main.with_name(main.name + BACKUP_SUFFIX)):
        try:
            table = _table(path, near_store.called(store_dir, str(path)))
        except FileNotFoundError:
            continue
        except OSError as failure:
            where = near_store.called(store_dir, str(path))
            raise InputError(f"consumer offsets {where}: {failure.strerror}; let this user read it") from failure
        if not any(bad.reason == names.OFFSET_FILE_UNREADABLE for bad in table.offsets.bad):
            return table
        found = found or table
    return found


def _table(path: Path, called: str) -> ConsumerOffsetFile:
    modified_ms = os.lstat(path).st_mtime_ns // 1_000_000
    try:
        offsets = parse_consumer_offsets(read_plain(path, MOST_BYTES))
    except UnfitError as unfit:
        unreadable = BadOffsetEntry(names.OFFSET_FILE_UNREADABLE, f"not read: {unfit.strerror}")
        offsets = ConsumerOffsets((), (unreadable,))
    return ConsumerOffsetFile(offsets, called, modified_ms)


def consumer_offset_state(store_dir: str) -> str:
    """A text that is another one whenever the store's offset table, or its `.bak`, has other content."""
    main = near_store.near(store_dir) / OFFSET_FILE
    state = hashlib.sha256()
    for path in (main, main.with_name(main.name + BACKUP_SUFFIX)):
        try:
            state.update(hashlib.sha256(read_plain(path, MOST_BYTES)).digest())
        except UnfitError as unfit:
            state.update(str(unfit.strerror).encode())
        except OSError:  # not there, or not to be read: landing it says so
            state.update(b"none")
    return state.hexdigest()[:16]


def parse_consumer_offsets(data: bytes) -> ConsumerOffsets:
    """The offset table in `data`; bytes that are none at all are one bad entry.

    Key     (topic, group, queue_id); a table key splits at its first `@`, since topics have none and groups may.
    Rule    R89: queue ids are unquoted, so this is no JSON; groupTopicMap and pullOffsetTable are not commits. Of a
            key given twice the last counts, as for the broker that reads it.
    """
    try:
        document = parsed(data)
    except ValueError:
        document = None
    table = document.get("offsetTable", {}) if isinstance(document, dict) else None
    if not isinstance(table, dict):
        raw = data[:_LONGEST_RAW].decode("utf-8", "replace")
        return ConsumerOffsets((), (BadOffsetEntry(names.OFFSET_FILE_UNREADABLE, raw),))
    entries: list[OffsetEntry] = []
    bad: list[tuple[str, str, object]] = []
    for key, queues in table.items():
        names_ = _topic_and_group(key)
        if names_ is None or not isinstance(queues, dict):
            bad.append((names.OFFSET_ENTRY_MALFORMED, key, queues))
            continue
        for queue, offset in queues.items():
            entry = _entry(*names_, queue, offset)
            if isinstance(entry, OffsetEntry):
                entries.append(entry)
            else:
                bad.append((entry, key, {queue: offset}))
    return ConsumerOffsets(tuple(entries), tuple(_few(bad)))


def _topic_and_group(key: str) -> tuple[str, str] | None:
    """The names of a key of the table; None where it has none, or one that no broker takes."""
    topic, _, group = key.partition("@")
    is_fit = topic and group and max(len(topic), len(group)) <= _LONGEST_NAME
    return None if not is_fit or _HALF_A_PAIR.search(key) else (topic, group)


def _entry(topic: str, group: str, queue: str, offset: object) -> OffsetEntry | str:
    """The entry, or the reason why it is none."""
    is_queue_id = _QUEUE_ID.fullmatch(queue) is not None and int(queue) <= _LARGEST_QUEUE_ID
    if not is_queue_id:
        return names.OFFSET_ENTRY_MALFORMED
    if type(offset) is not int or offset > _LARGEST_OFFSET:  # a bool is an int, but no offset
        return names.OFFSET_NOT_INTEGER
    if offset < 0:
        return names.OFFSET_NEGATIVE
    return OffsetEntry(topic, group, int(queue), offset)


def _few(bad: Sequence[tuple[str, str, object]]) -> Iterator[BadOffsetEntry]:
    for entry in bad[:_MOST_BAD]:
        yield _bad(*entry)
    if len(bad) > _MOST_BAD:
        reason, *_ = bad[_MOST_BAD]
        yield BadOffsetEntry(reason, f"and {len(bad) - _MOST_BAD} more entries like the others")


def _bad(reason: str, key: str, value: object) -> BadOffsetEntry:
    try:
        raw = json.dumps({key: value}, ensure_ascii=False)
    except RecursionError:  # it could just be read
        raw = json.dumps({key: "nested too deeply"}, ensure_ascii=False)
    return BadOffsetEntry(reason, raw[:_LONGEST_RAW].encode("utf-8", "backslashreplace").decode())
