"""Stored records as Arrow batches: the one place that types their columns. Must not know where the bytes came from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from txmq_lib import names
from txmq_lib.rocketmq.store import records as r
from txmq_lib.rocketmq.store.message_format import (
    MAX_BODY_BYTES,
    MAX_TIMESTAMP_MS,
    SYS_FLAG_COMPRESSED,
    host_text,
    read_body,
    topic_text,
)
from txmq_lib.rocketmq.store.property_maps import property_maps
from txmq_lib.rocketmq.store.records import Records

MAX_BATCH_BYTES: Final = 8 * 1024 * 1024
MAX_RAW_BYTES: Final = 64 * 1024

_MICROS: Final = pa.timestamp("us", "UTC")
_HEX_DIGITS: Final = np.frombuffer(bytes(range(256)).hex().upper().encode(), np.uint16)

Body = tuple[bytes | None, str | None]

ARROW_SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("queue_id", pa.int32()),
        ("queue_offset", pa.int64()),
        ("commit_log_offset", pa.int64()),
        ("sys_flag", pa.int32()),
        ("flag", pa.int32()),
        ("born_timestamp", _MICROS),
        ("store_timestamp", _MICROS),
        ("born_host", pa.string()),
        ("store_host", pa.string()),
        ("offset_msg_id", pa.string()),
        ("reconsume_times", pa.int32()),
        ("prepared_transaction_offset", pa.int64()),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("body", pa.binary()),
        ("reason", pa.string()),
        ("raw", pa.binary()),
        ("position", pa.int64()),
    ]
)


def decode_batches(records: Records, max_body_bytes: int = MAX_BODY_BYTES) -> Iterator[pa.RecordBatch]:
    """One row per record, in batches of 8 MiB unpacked, or of one record that is larger.

    A bad one has a `reason`, and its first 64 KiB in `raw`; what could not be decoded is null: where a body is too
    large, the body alone.

    As RocketMQ's own decoder does, bit 0 of sys_flag is cleared where a body comes decompressed.
    """
    sizes = (records.bounds[:, r.END] - records.bounds[:, r.START]).tolist()
    bodies: list[Body] = []
    first, batch_bytes = 0, 0
    for row, body in enumerate(_bodies(records, max_body_bytes)):
        size = sizes[row] + len(body[0] or b"")
        if bodies and batch_bytes + size > MAX_BATCH_BYTES:
            yield _batch(records.between(first, row), bodies)
            first, bodies, batch_bytes = row, [], 0
        bodies.append(body)
        batch_bytes += size
    if bodies:
        yield _batch(records.between(first, len(records)), bodies)


def _bodies(records: Records, max_body_bytes: int) -> Iterator[Body]:
    data = records.data
    starts, ends = records.bounds[:, r.BODY].tolist(), records.bounds[:, r.BODY_END].tolist()
    crcs, flags = records.ints(r.START, 8).tolist(), records.ints(r.START, 36).tolist()
    for start, end, crc, flag in zip(starts, ends, crcs, flags, strict=True):
        if end - start > max_body_bytes:
            yield None, names.BODY_TOO_LARGE
        else:
            yield read_body(data[start:end], crc, flag, max_body_bytes)


def torn_batch(position: int, raw: bytes, place: tuple[str, int, int] | None = None) -> pa.RecordBatch:
    """One row for bytes that should be a record and are not: all is null but reason, raw and position.

    place  topic, queue and queue offset that they were read from, where that is known
    """
    topic, queue_id, queue_offset = place or (None, None, None)
    row = {
        "topic": topic,
        "queue_id": queue_id,
        "queue_offset": queue_offset,
        "reason": names.RECORD_TORN,
        "raw": raw,
        "position": position,
    }
    return pa.RecordBatch.from_pylist([row], schema=ARROW_SCHEMA)


def _batch(records: Records, bodies: list[Body]) -> pa.RecordBatch:
    columns = _decoded(records, bodies)
    is_malformed = reduce(
        pc.or_,
        [pc.less(columns[name], 0) for name in ("queue_id", "queue_offset")]
        + [columns[name].is_null() for name in ("topic", "born_host", "store_host")],
    )
    is_out_of_range = pc.or_(columns["born_timestamp"].is_null(), columns["store_timestamp"].is_null())
    reason = pc.if_else(is_out_of_range, names.TIMESTAMP_OUT_OF_RANGE, columns["reason"])
    # Only the body has a CRC: one flipped bit makes an offset that no queue can go on from.
    is_too_far = pc.greater(columns["queue_offset"], names.HIGHEST_OFFSET)
    reason = pc.if_else(is_too_far, names.OFFSET_OUT_OF_RANGE, reason)
    reason = pc.if_else(is_malformed, names.RECORD_MALFORMED, reason)
    columns |= {"reason": reason, "raw": _raw(records, np.asarray(reason.is_valid()))}
    return pa.RecordBatch.from_arrays([columns[name] for name in ARROW_SCHEMA.names], schema=ARROW_SCHEMA)


def _raw(records: Records, is_bad: NDArray[np.bool_]) -> pa.BinaryArray:
    if not is_bad.any():
        return pa.nulls(len(records), pa.binary())
    starts, ends = records.bounds[:, r.START], records.bounds[:, r.END]
    ends = np.minimum(ends, starts + MAX_RAW_BYTES)
    raw = [
        records.data[start:end] if bad else None
        for start, end, bad in zip(starts.tolist(), ends.tolist(), is_bad.tolist(), strict=True)
    ]
    return pa.array(raw, pa.binary())


def _decoded(records: Records, bodies: list[Body]) -> dict[str, pa.Array]:
    """Every column but raw; reason only as far as the body goes."""
    parts = _Parts(records)
    offsets = pa.array(records.offsets)
    return {
        "topic": parts.looked_up(r.TOPIC, topic_text),
        "queue_id": pa.array(records.ints(r.START, 12)),
        "queue_offset": pa.array(records.longs(r.START, 20)),
        "commit_log_offset": offsets,
        "sys_flag": pa.array(_flags(records, bodies)),
        "flag": pa.array(records.ints(r.START, 16)),
        "born_timestamp": _timestamps(records.longs(r.START, 40)),
        "store_timestamp": _timestamps(records.longs(r.BORN_HOST_END, 0)),
        "born_host": parts.looked_up(r.BORN_HOST, _host),
        "store_host": parts.looked_up(r.STORE_HOST, _host),
        "offset_msg_id": _message_ids(records),
        "reconsume_times": pa.array(records.ints(r.STORE_HOST_END, 0)),
        "prepared_transaction_offset": pa.array(records.longs(r.STORE_HOST_END, 4)),
        "properties": property_maps(parts.text(r.PROPERTIES)),
        "body": pa.array([body for body, _ in bodies], pa.binary()),
        "reason": pa.array([reason for _, reason in bodies], pa.string()),
        "position": offsets,
    }


class _Parts:
    """Parts of many records as arrays: the bytes of all are cut into parts, and what lies between, at once."""

    def __init__(self, records: Records) -> None:
        self._count = len(records)
        offsets = np.append(records.bounds.ravel(), records.bounds[-1:, r.END]).astype(np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(records.data)]
        self._cut = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)

    def of(self, part: int) -> pa.BinaryArray:
        """One part of each record."""
        return self._cut.take(pa.array(np.arange(part, self._count * r.BOUNDS, r.BOUNDS)))

    def looked_up(self, part: int, meaning: Callable[[bytes], str | None]) -> pa.StringArray:
        """What a part that repeats means: each different one is looked at once."""
        encoded = self.of(part).dictionary_encode()
        meanings = pa.array([meaning(each) for each in encoded.dictionary.to_pylist()], pa.string())
        return meanings.take(encoded.indices)

    def text(self, part: int) -> pa.StringArray:
        """A part as text, with replacement characters where it is no UTF-8."""
        stored = self.of(part)
        try:
            return stored.cast(pa.string())
        except pa.ArrowInvalid:
            return pa.array([each.decode("utf-8", "replace") for each in stored.to_pylist()], pa.string())


def _host(stored: bytes) -> str | None:
    return host_text(stored[:-4], int.from_bytes(stored[-4:], "big", signed=True))


def _message_ids(records: Records) -> pa.StringArray:
    """The broker's ids of stored messages (F5): store host and physical offset, as hex digits."""
    widths = records.bounds[:, r.STORE_HOST_END] - records.bounds[:, r.STORE_HOST]
    if widths.min() < widths.max():
        data, places = records.data, records.bounds[:, [r.STORE_HOST, r.STORE_HOST_END, r.START]].tolist()
        stated = [data[host:host_end] + data[start + 28 : start + 36] for host, host_end, start in places]
        return pa.array([each.hex().upper() for each in stated], pa.string())
    stored, width = np.frombuffer(records.data, np.uint8), int(widths[0])
    digits = np.empty((len(records), width + 8), np.uint16)
    digits[:, :width] = _HEX_DIGITS[stored[records.bounds[:, r.STORE_HOST, None] + np.arange(width)]]
    digits[:, width:] = _HEX_DIGITS[stored[records.bounds[:, r.START, None] + np.arange(28, 36)]]
    ends = np.arange(len(records) + 1, dtype=np.int32) * (2 * (width + 8))
    return pa.Array.from_buffers(pa.string(), len(records), [None, pa.py_buffer(ends), pa.py_buffer(digits)])


def _flags(records: Records, bodies: list[Body]) -> NDArray[np.int32]:
    flags = records.ints(r.START, 36)
    if not (flags & SYS_FLAG_COMPRESSED).any():
        return flags
    has_body = np.array([body is not None for body, _ in bodies])
    is_stored = records.bounds[:, r.BODY_END] > records.bounds[:, r.BODY]
    return np.where(has_body & is_stored, flags & ~np.int32(SYS_FLAG_COMPRESSED), flags)


def _timestamps(epoch_ms: NDArray[np.int64]) -> pa.Array:
    """Times that Spark can hold; null for others."""
    is_out_of_range = (epoch_ms < 0) | (epoch_ms > MAX_TIMESTAMP_MS)
    micros = np.where(is_out_of_range, 0, epoch_ms) * 1000
    return pa.array(micros, mask=is_out_of_range if is_out_of_range.any() else None).cast(_MICROS)
