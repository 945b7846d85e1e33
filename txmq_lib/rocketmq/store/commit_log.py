"""The mapped files of a commit log: which there are, where the log ends, and a walk over the records of one file.

Offsets are physical (from the start of the log), ranges half-open. Must not decode more of a record than its frame.
"""

from __future__ import annotations

import errno
import mmap
import os
import re
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from txmq_lib.errors import InputError
from txmq_lib.files.plain_file import open_plain
from txmq_lib.rocketmq.store import far_files
from txmq_lib.rocketmq.store.message_format import (
    END,
    HEADER_FIELDS,
    MAGIC_BLANK,
    START,
    STATED_OFFSET,
    Frame,
    is_complete,
    read_frame,
    read_header,
)
from txmq_lib.rocketmq.store.records import MOST_RECORDS, Records, records_from

COMMIT_LOG_DIR: Final = "commitlog"
CUT_BYTES: Final = 16 << 20

FEW_RECORDS: Final = 32
MOST_REMEMBERED: Final = 64

_FILE_NAME: Final = re.compile(r"[0-9]{20}")
_HIGHEST_BASE: Final = 2**62  # what lies behind must have an offset of 64 bits too
_MAGIC: Final = re.compile(rb"\xda\xa3\x20[\xa7\xab]")
_MAGIC_AT: Final = 4
_PHYSICAL_OFFSET_AT: Final = 28
_SIZE_AND_MAGIC: Final = Struct(">iI")
_SIZE_BYTES: Final = 4
_LONG: Final = Struct(">q")


class LogFile(NamedTuple):
    """One mapped file: physical offset of its first byte, and its bytes on disk."""

    path: str
    base_offset: int
    size: int

    @property
    def end_offset(self) -> int:
        """Physical offset just after its last byte."""
        return self.base_offset + self.size


class LogFiles(NamedTuple):
    """The files of a log in order, and the (start, end) ranges missing between two of them."""

    files: tuple[LogFile, ...]
    gaps: tuple[tuple[int, int], ...]


class RecordIdentity(NamedTuple):
    """Tells a record from another one that a rebuilt store has at the same offset."""

    offset: int
    store_timestamp_ms: int
    size: int


class LogEnd(NamedTuple):
    """Just after `last`, the last whole record; `waiting` counts torn ones behind it, still to be completed.

    cuts  where whole records follow whole ones in the file that ends there, CUT_BYTES or more apart: read between two
          of them, it gives what it gives read as one
    """

    offset: int
    last: RecordIdentity | None
    waiting: int
    cuts: tuple[int, ...] = ()


_Last = tuple[RecordIdentity | None, int, list[int]]
_remembered: dict[tuple[LogFile, int, far_files.Version | None], _Last] = {}


class Torn(NamedTuple):
    """Bytes [start, end) of the log that should be a record and are not."""

    start: int
    end: int


class MappedLog:
    """The bytes of one mapped file; positions count from its first byte."""

    def __init__(self, file: LogFile, descriptor: int, data: mmap.mmap) -> None:
        self.base_offset = file.base_offset
        self.size = len(data)
        self.data = data
        self._descriptor = descriptor

    def frame_at(self, position: int, limit: int) -> Frame | None:
        """The whole record at a position, provided that it states this position as its own."""
        frame = read_frame(self.data, position, limit)
        return frame if frame is not None and frame[STATED_OFFSET] == self.base_offset + position else None

    def bytes_between(self, start: int, end: int) -> bytes:
        """The stored bytes between two physical offsets."""
        return self.data[start - self.base_offset : end - self.base_offset]

    def next_header(self, position: int, limit: int) -> int:
        """The first position where a record's magic and its own offset stand; `limit` where there is none."""
        searched_end = min(limit, self._data_end(position))
        for found in _MAGIC.finditer(self.data, position + _MAGIC_AT, max(searched_end, position)):
            start = found.start() - _MAGIC_AT
            stated_at = start + _PHYSICAL_OFFSET_AT
            if stated_at + _LONG.size > limit:
                break
            if _LONG.unpack_from(self.data, stated_at)[0] == self.base_offset + start:
                return start
        return limit

    def is_blank(self, position: int, limit: int) -> bool:
        """Whether the rest of the file is declared unused here (the broker's end-of-file record)."""
        rest = self.size - position
        if rest < _SIZE_AND_MAGIC.size:
            return False
        size, magic = _SIZE_AND_MAGIC.unpack_from(self.data, position)
        return magic == MAGIC_BLANK and (size == rest or self.next_header(position + 1, limit) == limit)

    def _data_end(self, position: int) -> int:
        # A sparse tail reads as zeros, 5 seconds a GiB; the file system knows at once where it begins.
        end = position
        try:
            while True:
                end = os.lseek(self._descriptor, os.lseek(self._descriptor, end, os.SEEK_DATA), os.SEEK_HOLE)
        except OSError as failure:
            return end if failure.errno == errno.ENXIO else self.size


def list_files(store_dir: str, commit_log_dirs: Sequence[str] = ()) -> LogFiles:
    """The non-empty mapped files of a store, from `<store_dir>/commitlog` or the directories of a multi-path log.

    Errors  InputError where a directory cannot be listed, two files claim the same offsets, or one none of 64 bits.
    """
    dirs = list(commit_log_dirs) or [f"{store_dir.rstrip('/')}/{COMMIT_LOG_DIR}"]
    files = sorted((file for each in dirs for file in _files_in(each)), key=lambda file: file.base_offset)
    kept = tuple(file for file in files if file.size)
    if kept and kept[-1].base_offset > _HIGHEST_BASE:
        raise InputError(f"{kept[-1].path} is named for an offset that no commit log reaches: take it away")
    gaps = []
    for before, after in pairwise(kept):
        if after.base_offset < before.end_offset:
            raise InputError(f"{after.path} begins inside {before.path}: these are not files of one commit log")
        if after.base_offset > before.end_offset:
            gaps.append((before.end_offset, after.base_offset))
    return LogFiles(kept, tuple(gaps))


def _files_in(directory: str) -> list[LogFile]:
    if far_files.is_far(directory):
        found = far_files.log_files(directory)
        return [LogFile(path, int(name), size) for path, name, size in found if _FILE_NAME.fullmatch(name)]
    try:
        with os.scandir(Path(directory)) as entries:  # a Path, for `commitlog` and not `./commitlog`
            named = [entry for entry in entries if _FILE_NAME.fullmatch(entry.name)]
        kept = [entry for entry in named if not entry.is_dir(follow_symlinks=False)]
        for entry in kept:
            if not entry.is_file(follow_symlinks=False):
                raise InputError(
                    f"commit log {entry.path} is a link, a pipe or a device: give a whole copy of the store"
                )
        return [LogFile(entry.path, int(entry.name), entry.stat().st_size) for entry in kept]
    except OSError as failure:
        raise InputError(
            f"commit log {failure.filename}: {failure.strerror}; give a store directory that holds {COMMIT_LOG_DIR}/"
        ) from failure


def files_of(store_dir: str) -> LogFiles:
    """The same of a store that must have some; InputError where it holds none."""
    listed = list_files(store_dir)
    if not listed.files:
        raise InputError(
            f"{store_dir} holds no commit log files (commitlog/<20 digits>); give a broker's store directory"
        )
    return listed


@contextmanager
def open_log(file: LogFile, start: int, stop: int) -> Iterator[MappedLog]:
    """The file mapped for reading; InputError where it is gone or unreadable.

    start, stop  physical offsets between which records are read: of a far file no more than these is fetched
    """
    if far_files.is_far(file.path):
        places = (start - file.base_offset, stop - file.base_offset + _SIZE_AND_MAGIC.size)
        with far_files.stretch_of(file.path, file.size, *places) as (descriptor, data):
            yield MappedLog(file, descriptor, data)
        return
    try:
        descriptor = open_plain(file.path)
    except OSError as failure:
        raise InputError(
            f"commit log file {file.path}: {failure.strerror}; retention may have removed it meanwhile: land again"
        ) from failure
    try:
        with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as data:
            yield MappedLog(file, descriptor, data)
    finally:
        os.close(descriptor)


def walk(log: MappedLog, start: int, stop: int) -> Iterator[Records | Torn]:
    """All records of the file in [start, stop), several at once, and each stretch that should be a record and is not.
    Ends at a blank record.

    Rule    F2: a record states its own offset, so reading can go on behind a torn one.
    """
    base = log.base_offset
    position, limit = max(start - base, 0), min(stop - base, log.size)
    most = FEW_RECORDS
    while position < limit:
        records, end = records_from(log.data, position, limit, base, most)
        if len(records):
            # Where records are torn one after the other, little is looked at in vain.
            most = min(2 * most, MOST_RECORDS)
            yield records
        elif log.is_blank(position, limit):
            return
        else:
            most, end = FEW_RECORDS, log.next_header(position + 1, limit)
            yield Torn(base + position, base + end)
        position = end


def log_end(files: Sequence[LogFile], start: int = 0) -> LogEnd:
    """Where the whole records end; files that a broker allocated ahead and never wrote do not count.

    `start` is an offset known to begin a record (where the last landing stopped): nothing before it is read, and
    where no record follows it is the end, `last` then being null.
    """
    waiting = 0
    for file in reversed([file for file in files if file.end_offset > start]):
        last, torn, cuts = _last_of(file, max(start, file.base_offset))
        waiting += torn
        if last is not None:
            return LogEnd(last.offset + last.size, last, waiting, tuple(cut for cut in cuts if cut <= last.offset))
    return LogEnd(max(start, files[0].base_offset) if files else start, None, waiting)


def record_at(files: Sequence[LogFile], offset: int) -> RecordIdentity | None:
    """The identity of the record that begins at a physical offset; null where none does (any more)."""
    if (file := file_at(files, offset)) is None:
        return None
    with open_log(file, offset, record_end(file, offset)) as log:
        frame = log.frame_at(offset - file.base_offset, log.size)
        return _identity(log, frame) if frame is not None else None


def torn_ends(files: Sequence[LogFile], offsets: Sequence[int]) -> dict[int, int]:
    """Where the bytes from each offset on end that should be a record and are not, as far as there are such."""
    found: dict[int, int] = {}
    for file in files:
        own = [offset for offset in offsets if file.base_offset <= offset < file.end_offset]
        if own:
            with open_log(file, min(own), file.end_offset) as log:
                stretches = {offset: next(walk(log, offset, file.end_offset), None) for offset in own}
            found |= {offset: each.end for offset, each in stretches.items() if isinstance(each, Torn)}
    return found


def record_end(file: LogFile, offset: int) -> int:
    """Where the record at a physical offset of a file says that it ends; `offset` where that is not in the file."""
    position = offset - file.base_offset
    with open_log(file, offset, offset) as log:
        stated = log.data[position : position + _SIZE_BYTES]
    end = offset + int.from_bytes(stated, "big", signed=True)
    return end if offset < end <= file.end_offset else offset


def file_at(files: Sequence[LogFile], offset: int) -> LogFile | None:
    """The file that has a physical offset; null where none does (any more)."""
    return next((file for file in files if file.base_offset <= offset < file.end_offset), None)


def _last_of(file: LogFile, start: int) -> _Last:
    """`_last_record` of a file. A far one is fetched for it, so that is remembered until somebody writes the file."""
    key = file, start, far_files.version_of(file.path)
    if key in _remembered:
        return _remembered[key]
    with open_log(file, start, file.end_offset) as log:
        found = _last_record(log, start)
    if key[2] is not None:
        while len(_remembered) >= MOST_REMEMBERED:
            _remembered.pop(next(iter(_remembered)))
        _remembered[key] = found
    return found


def _identity(log: MappedLog, frame: Frame) -> RecordIdentity:
    store_timestamp_ms = read_header(log.data, frame)[HEADER_FIELDS.index("store_timestamp")]
    return RecordIdentity(frame[STATED_OFFSET], store_timestamp_ms, frame[END] - frame[START])


def _last_record(log: MappedLog, start: int) -> _Last:
    """The last whole record from `start` on, how many torn ones follow it, and the cuts of LogEnd."""
    starts = array("q")
    cuts, cut, is_behind_whole = [], start, False
    for stretch in walk(log, start, log.base_offset + log.size):
        is_torn = isinstance(stretch, Torn)
        begins = array("q", [stretch.start] if isinstance(stretch, Torn) else stretch.offsets.tobytes())
        starts.extend(begins)
        if is_behind_whole and not is_torn and begins[0] - cut >= CUT_BYTES:
            cut = begins[0]
            cuts.append(cut)
        is_behind_whole = not is_torn
    torn = 0
    for begin in reversed(starts):
        position = begin - log.base_offset
        frame = log.frame_at(position, log.size)
        if frame is not None and is_complete(log.data, frame):
            return _identity(log, frame), torn, cuts
        torn += any(log.data[position : position + _SIZE_AND_MAGIC.size])  # zeros were never written
    return None, torn, cuts
