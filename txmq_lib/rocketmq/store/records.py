"""Where the parts of many stored records lie (F2), found for all of them at once. Must not know files or Arrow.

What makes a record whole is what read_frame of message_format.py says of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from txmq_lib.rocketmq.store.message_format import MAGIC_V1, MAGIC_V2, SMALLEST_RECORD, Bytes

# Bounds within a record, in the order in which they lie: host, body, topic and properties with where each ends.
START, BORN_HOST, BORN_HOST_END, STORE_HOST, STORE_HOST_END, BODY, BODY_END, TOPIC, TOPIC_END, PROPERTIES, END = range(
    11
)
BOUNDS: Final = 11
MOST_RECORDS: Final = 8192
MOST_BYTES: Final = 4 * 1024 * 1024

Integers = NDArray[np.int64]

_SIZE_AND_MAGIC: Final = Struct(">iI")
_SYS_FLAG_AT, _BORN_HOST_AT = 36, 48
_HOST_BYTES: Final = np.array([8, 20])


class Records(NamedTuple):
    """Whole records in bytes of their own.

    bounds  a row per record, BOUNDS columns: where its parts begin and end
    """

    data: bytes
    bounds: Integers

    def __len__(self) -> int:
        """How many records."""
        return len(self.bounds)

    @property
    def offsets(self) -> Integers:
        """The physical offset that each states as its own."""
        return self.longs(START, 28)

    def where(self, which: NDArray[np.bool_]) -> Records:
        """Some of them."""
        return Records(self.data, self.bounds[which])

    def between(self, first: int, stop: int) -> Records:
        """Those from one to before another, by number."""
        return Records(self.data, self.bounds[first:stop])

    def ints(self, part: int, at: int) -> NDArray[np.int32]:
        """Of each record the 32 bits that lie `at` bytes behind the beginning of a part."""
        return _Numbers(self.data).ints(self.bounds[:, part] + at).astype(np.int32)

    def longs(self, part: int, at: int) -> Integers:
        """Of each record the 64 bits that lie `at` bytes behind the beginning of a part."""
        return _Numbers(self.data).longs(self.bounds[:, part] + at)


class _Numbers:
    """Numbers anywhere in bytes, most significant byte first; of a place outside, the nearest inside."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def bytes(self, at: Integers) -> Integers:
        return self._read("u1", at)

    def shorts(self, at: Integers) -> Integers:
        return self._read(">u2", at)

    def ints(self, at: Integers) -> Integers:
        return self._read(">i4", at)

    def longs(self, at: Integers) -> Integers:
        return self._read(">i8", at)

    def _read(self, kind: str, at: Integers) -> Integers:
        # A number begins at every byte.
        count = len(self._data) - np.dtype(kind).itemsize + 1
        anywhere: NDArray[np.integer] = np.ndarray((count,), kind, self._data, strides=(1,))
        return anywhere[np.clip(at, 0, count - 1)].astype(np.int64)


def records_from(data: Bytes, position: int, limit: int, base: int, most: int = MOST_RECORDS) -> tuple[Records, int]:
    """The whole records that follow each other from `position` on, up to the first that is none, and where that is.

    base  added to a position is the offset that a record must state as its own
    most  records; with MOST_BYTES it bounds what is taken at once: one record where that is larger
    """
    starts = _chain(data, position, limit, most)
    if len(starts) == 1:
        return Records(b"", np.empty((0, BOUNDS), np.int64)), position
    held = bytes(data[position : starts[-1]])
    edges = np.array(starts, np.int64) - position
    bounds, is_whole = outlined(held, edges[:-1], edges[1:])
    records = Records(held, bounds)
    is_whole[is_whole] = records.where(is_whole).offsets == records.bounds[is_whole, START] + (base + position)
    count = len(bounds) if is_whole.all() else int(is_whole.argmin())
    return records.between(0, count), position + int(edges[count])


def whole_records(data: bytes, edges: Sequence[tuple[int, int]]) -> Records:
    """The records that are known to lie between these pairs of places."""
    starts, ends = np.array(edges, np.int64).reshape(-1, 2).T
    return Records(data, outlined(data, starts, ends)[0])


def _chain(data: Bytes, position: int, limit: int, most: int) -> list[int]:
    """Where records begin that follow each other by their sizes, and behind the last of them where it ends."""
    starts = [position]
    end = min(limit, position + MOST_BYTES)
    unpack = _SIZE_AND_MAGIC.unpack_from
    while len(starts) <= most and position + SMALLEST_RECORD <= limit:
        size, magic = unpack(data, position)
        position += size
        if (
            (magic != MAGIC_V1 and magic != MAGIC_V2)
            or size < SMALLEST_RECORD
            or (position > end and (len(starts) > 1 or position > limit))
        ):
            break
        starts.append(position)
    return starts


def outlined(data: bytes, starts: Integers, ends: Integers) -> tuple[Integers, NDArray[np.bool_]]:
    """Bounds of the records that should fill `data` from each start to its end, and which of them do.

    Of those that do not, bounds mean nothing.
    """
    numbers = _Numbers(data)
    bounds = np.empty((len(starts), BOUNDS), np.int64)
    kind = numbers.bytes(starts + _SYS_FLAG_AT + 3) >> 4
    bounds[:, START], bounds[:, END] = starts, ends
    bounds[:, BORN_HOST] = starts + _BORN_HOST_AT
    bounds[:, BORN_HOST_END] = bounds[:, BORN_HOST] + _HOST_BYTES[kind & 1]
    bounds[:, STORE_HOST] = bounds[:, BORN_HOST_END] + 8
    bounds[:, STORE_HOST_END] = bounds[:, STORE_HOST] + _HOST_BYTES[kind >> 1 & 1]
    body = bounds[:, BODY] = bounds[:, STORE_HOST_END] + 16
    size, magic, body_size = numbers.ints(starts), numbers.ints(starts + 4) & 0xFFFFFFFF, numbers.ints(body - 4)
    is_v2 = magic == MAGIC_V2
    body_end = bounds[:, BODY_END] = body + body_size
    is_whole = (ends - starts == size) & (is_v2 | (magic == MAGIC_V1)) & (body_size >= 0) & (body_end + 4 <= ends)
    topic_size = np.where(is_v2, numbers.shorts(body_end), numbers.bytes(body_end))
    bounds[:, TOPIC] = body_end + 1 + is_v2
    topic_end = bounds[:, TOPIC_END] = bounds[:, TOPIC] + topic_size
    properties = bounds[:, PROPERTIES] = topic_end + 2
    # What lies outside the record fails here, whatever was read there.
    is_whole &= (topic_size > 0) & (properties <= ends)
    is_whole &= properties + numbers.shorts(topic_end) == ends
    return bounds, is_whole
