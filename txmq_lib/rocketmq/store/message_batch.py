"""Stored records as Arrow batches: the one place that types their columns. Must not know where the bytes came from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from txmq_lib import names
from txmq_lib.rocketmq.store.message_format import (
    END,
    HEADER_FIELDS,
    MAX_BODY_BYTES,
    MAX_TIMESTAMP_MS,
    START,
    SYS_FLAG_COMPRESSED,
    TOPIC,
    Bytes,
    Frame,
    host_text,
    offset_message_ids,
    read_body,
    read_header,
    topic_text,
)

MAX_BATCH_BYTES: Final = 8 * 1024 * 1024
MAX_RAW_BYTES: Final = 64 * 1024

_MILLIS: Final = pa.timestamp("ms", "UTC")
_MICROS: Final = pa.timestamp("us", "UTC")
_CRC: Final = HEADER_FIELDS.index("crc")
_SYS_FLAG: Final = HEADER_FIELDS.index("sys_flag")

Header = tuple[Any, ...]
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


def decode_batches(
    data: Bytes, frames: Sequence[Frame], max_body_bytes: int = MAX_BODY_BYTES
) -> Iterator[pa.RecordBatch]:
    """One row per record, in batches of 8 MiB unpacked, or of one record that is larger.

    A bad one has a `reason`, and its first 64 KiB in `raw`; what could not be decoded is null: where a body is too
    large, the body alone.

    As RocketMQ's own decoder does, bit 0 of sys_flag is cleared where a body comes decompressed.
    """
    headers = [read_header(data, frame) for frame in frames]
    bodies: list[Body] = []
    first, batch_bytes = 0, 0
    for row, (frame, header) in enumerate(zip(frames, headers, strict=True)):
        body = _body(data, frame, header, max_body_bytes)
        size = frame[END] - frame[START] + len(body[0] or b"")
        if bodies and batch_bytes + size > MAX_BATCH_BYTES:
            yield _batch(data, frames[first:row], headers[first:row], bodies)
            first, bodies, batch_bytes = row, [], 0
        bodies.append(body)
        batch_bytes += size
    if bodies:
        yield _batch(data, frames[first:], headers[first:], bodies)


def _body(data: Bytes, frame: Frame, header: Header, max_body_bytes: int) -> Body:
    _, _, _, _, body_start, body_end, _ = frame
    if body_end - body_start > max_body_bytes:
        return None, names.BODY_TOO_LARGE
    return read_body(data[body_start:body_end], header[_CRC], header[_SYS_FLAG], max_body_bytes)


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


def property_maps(texts: Sequence[str]) -> pa.MapArray:
    """Stored property texts as maps, each name once, with its last value.

    Rule    F4: name, SOH, value, STX; a piece without both a name and a value does not count.
    """
    pieces = pc.split_pattern(pc.utf8_rtrim(pa.array(texts, pa.string()), "\x02"), "\x02")
    pairs = pc.split_pattern(pieces.flatten(), "\x01", max_splits=1)
    offsets, pairs = _kept(pc.equal(pc.list_value_length(pairs), 2), pieces.offsets, pairs)
    keys, values = pc.list_element(pairs, 0), pc.list_element(pairs, 1)
    offsets, keys, values = _kept(pc.and_(pc.not_equal(keys, ""), pc.not_equal(values, "")), offsets, keys, values)
    # Rows share a few sequences of names, so looking at each sequence once finds a repeated name in no time.
    sequences = pc.unique(pc.binary_join(pa.ListArray.from_arrays(offsets, keys), "\x01")).to_pylist()
    if any(len(set(found)) < len(found) for found in (sequence.split("\x01") for sequence in sequences)):
        return property_maps([_without_repeats(text) for text in texts])
    return pa.MapArray.from_arrays(offsets, keys, values)


def _kept(is_kept: pa.BooleanArray, offsets: pa.Int32Array, *items: pa.Array) -> tuple[pa.Array, ...]:
    """Where each row's items begin once only these are kept, then the items that are."""
    if pc.all(is_kept).as_py():
        return offsets, *items
    kept_before = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(is_kept.cast(pa.int32()))])
    return kept_before.take(offsets), *(item.filter(is_kept) for item in items)


def _without_repeats(text: str) -> str:
    pairs = (piece.partition("\x01") for piece in text.split("\x02"))
    last = {name: value for name, _, value in pairs if name and value}
    return "\x02".join(f"{name}\x01{value}" for name, value in last.items())


def _batch(data: Bytes, frames: Sequence[Frame], headers: Sequence[Header], bodies: Sequence[Body]) -> pa.RecordBatch:
    columns = _decoded(data, frames, headers, bodies)
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
    raw = [
        data[frame[START] : min(frame[END], frame[START] + MAX_RAW_BYTES)] if is_bad else None
        for frame, is_bad in zip(frames, reason.is_valid().to_pylist(), strict=True)
    ]
    columns |= {"reason": reason, "raw": pa.array(raw, pa.binary())}
    return pa.RecordBatch.from_arrays([columns[name] for name in ARROW_SCHEMA.names], schema=ARROW_SCHEMA)


def _decoded(
    data: Bytes, frames: Sequence[Frame], headers: Sequence[Header], bodies: Sequence[Body]
) -> dict[str, pa.Array]:
    """Every column but raw; reason only as far as the body goes."""
    header = dict(zip(HEADER_FIELDS, zip(*headers, strict=True), strict=True))
    flags = [
        flag & ~SYS_FLAG_COMPRESSED if body is not None and stored_size else flag
        for flag, (body, _), stored_size in zip(header["sys_flag"], bodies, header["body_size"], strict=True)
    ]
    born_hosts = list(map(host_text, header["born_address"], header["born_port"]))
    store_hosts = list(map(host_text, header["store_address"], header["store_port"]))
    offsets = header["commit_log_offset"]
    message_ids = offset_message_ids(header["store_address"], header["store_port"], offsets)
    properties = [data[start:end].decode("utf-8", "replace") for end, _, _, _, _, _, start in frames]
    return {
        "topic": pa.array([topic_text(frame[TOPIC]) for frame in frames], pa.string()),
        "queue_id": pa.array(header["queue_id"], pa.int32()),
        "queue_offset": pa.array(header["queue_offset"], pa.int64()),
        "commit_log_offset": pa.array(offsets, pa.int64()),
        "sys_flag": pa.array(flags, pa.int32()),
        "flag": pa.array(header["flag"], pa.int32()),
        "born_timestamp": _timestamps(header["born_timestamp"]),
        "store_timestamp": _timestamps(header["store_timestamp"]),
        "born_host": pa.array(born_hosts, pa.string()),
        "store_host": pa.array(store_hosts, pa.string()),
        "offset_msg_id": pa.array(message_ids, pa.string()),
        "reconsume_times": pa.array(header["reconsume_times"], pa.int32()),
        "prepared_transaction_offset": pa.array(header["prepared_transaction_offset"], pa.int64()),
        "properties": property_maps(properties),
        "body": pa.array([body for body, _ in bodies], pa.binary()),
        "reason": pa.array([reason for _, reason in bodies], pa.string()),
        "position": pa.array(offsets, pa.int64()),
    }


def _timestamps(epoch_ms: Sequence[int]) -> pa.Array:
    """Times that Spark can hold; null for others."""
    times = pa.array(epoch_ms, pa.int64())
    is_in_range = pc.and_(pc.greater_equal(times, 0), pc.less_equal(times, MAX_TIMESTAMP_MS))
    return pc.if_else(is_in_range, times, None).cast(_MILLIS).cast(_MICROS)
