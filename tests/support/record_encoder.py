"""Commit log records and files laid out as a broker does (F2), for what no capture has."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB
MAGIC_BLANK = 0xCBD43194
BORN_MS = 1_795_257_051_730
STORE_MS = 1_795_257_051_862


def encode_record(
    physical_offset: int,
    *,
    topic: bytes = b"TopicA",
    body: bytes = b"hello",
    properties: bytes = b"KEYS\x01k1\x02TAGS\x01t1\x02",
    queue_id: int = 0,
    queue_offset: int = 0,
    sys_flag: int = 0,
    born_ms: int = BORN_MS,
    store_ms: int = STORE_MS,
    born_ip: str = "10.1.2.3",
    born_port: int = 42426,
    store_ip: str = "127.0.0.1",
    prepared: int = 0,
    crc: int | None = None,
) -> bytes:
    """One whole record; the host lengths of `sys_flag` follow the addresses, the magic the topic's length."""
    born, store = ip_address(born_ip), ip_address(store_ip)
    sys_flag |= (born.version == 6) << 4 | (store.version == 6) << 5
    is_long = len(topic) > 127
    rest = b"".join(
        [
            struct.pack(">iii", zlib.crc32(body) & 0x7FFFFFFF if crc is None else crc, queue_id, 7),
            struct.pack(">qqiq", queue_offset, physical_offset, sys_flag, born_ms),
            born.packed + struct.pack(">iq", born_port, store_ms) + store.packed,
            struct.pack(">iiqi", 10911, 0, prepared, len(body)) + body,
            struct.pack(">h" if is_long else ">b", len(topic)) + topic,
            struct.pack(">h", len(properties)) + properties,
        ]
    )
    return struct.pack(">iI", len(rest) + 8, MAGIC_V2 if is_long else MAGIC_V1) + rest


def encode_records(start: int, count: int, **fields: object) -> bytes:
    """`count` records one after the other, the first at physical offset `start`, queue offsets from 0."""
    log = b""
    for queue_offset in range(count):
        log += encode_record(start + len(log), queue_offset=queue_offset, **fields)  # type: ignore[arg-type]
    return log


def write_log(store: Path, contents: Sequence[bytes], *, file_size: int = 4096) -> Path:
    """A store directory whose mapped files, `file_size` bytes each, begin with `contents` and end in a sparse tail."""
    (store / "commitlog").mkdir(parents=True, exist_ok=True)
    for index, content in enumerate(contents):
        with (store / "commitlog" / f"{index * file_size:020d}").open("wb") as file:
            file.write(content)
            file.truncate(file_size)
    return store


def blank(position: int, file_size: int = 4096) -> bytes:
    """The end-of-file record that a broker writes at a position of a mapped file."""
    return struct.pack(">iI", file_size - position, MAGIC_BLANK)
