"""The binary form of one commit log record (F2, F4, F5). Must not know files, Spark or Arrow.

What a record says is given as RocketMQ's own decoder gives it (MessageDecoder.decode): a compressed body comes
decompressed and its sysFlag bit cleared. An IPv6 host reads `[2001:db8::1]:42426`.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from ipaddress import IPv6Address
from mmap import mmap
from struct import Struct
from typing import Any, Final

import lz4.frame
import zstandard

from txmq_lib import names

MAGIC_V1: Final = 0xDAA320A7
MAGIC_V2: Final = 0xDAA320AB
MAGIC_BLANK: Final = 0xCBD43194
# Where nobody says more or less: 4 times what a client sends by default (maxMessageSize, which it applies before it
# compresses). A broker looks at the compressed size only, so a body of a few kB may unpack to GiBs.
MAX_BODY_BYTES: Final = 16 * 1024 * 1024
MAX_TIMESTAMP_MS: Final = 253_402_300_799_999  # the last millisecond of year 9999: Spark's TIMESTAMP ends there

# Two layouts per (sysFlag >> 4) & 3 (bit 0: a born host of 16 bytes, bit 1: a store host of 16 bytes): the whole
# header, and of it only total size, magic, physical offset and body length, which is what finding records needs.
_HOST_BYTES: Final = ((4, 4), (16, 4), (4, 16), (16, 16))
_HEADERS: Final = tuple(Struct(f">iIIiiqqiq{born}siq{store}siiqi") for born, store in _HOST_BYTES)
_OUTLINES: Final = tuple(Struct(f">iI20xq{born + store + 40}xi") for born, store in _HOST_BYTES)
HEADER_FIELDS: Final = (
    "size",
    "magic",
    "crc",
    "queue_id",
    "flag",
    "queue_offset",
    "commit_log_offset",
    "sys_flag",
    "born_timestamp",
    "born_address",
    "born_port",
    "store_timestamp",
    "store_address",
    "store_port",
    "reconsume_times",
    "prepared_transaction_offset",
    "body_size",
)
_CRC: Final = HEADER_FIELDS.index("crc")
_SYS_FLAG_LOW_BYTE: Final = 39
SMALLEST_RECORD: Final = _HEADERS[0].size + len(b"tTpp")  # topic length, a topic of one byte, properties length

SYS_FLAG_COMPRESSED: Final = 0x1
_LZ4, _ZSTD, _ZLIB = 1, 2, 3
_ZSTD_SLICE_BYTES: Final = 256
# A proxy keeps a body as its gRPC client compressed it and called GZIP (R127): zlib's format, or that of gzip.
_ZLIB_OR_GZIP: Final = zlib.MAX_WBITS | 32

Bytes = bytes | mmap


# Where the parts of one whole record lie: its end, the physical offset it states as its own, its topic, then where
# it, its body, the end of its body and its properties begin, all counted from the start of the bytes it was found in.
# A plain tuple: one is made for every record of a log, wanted or not, and a named one costs a third of the speed.
Frame = tuple[int, int, bytes, int, int, int, int]
END: Final = 0
STATED_OFFSET: Final = 1
TOPIC: Final = 2
START: Final = 3


def read_frame(data: Bytes, start: int, limit: int) -> Frame | None:
    """The record at `start` if a whole one lies there before `limit`, its lengths adding up to its size; else null."""
    if limit - start < SMALLEST_RECORD:
        return None
    outline = _OUTLINES[data[start + _SYS_FLAG_LOW_BYTE] >> 4 & 3]
    body_start = start + outline.size
    if body_start > limit:
        return None
    size, magic, physical_offset, body_size = outline.unpack_from(data, start)
    end, body_end = start + size, body_start + body_size
    if end > limit or body_size < 0 or body_end + 4 > end:
        return None
    if magic == MAGIC_V1:
        topic_start, topic_size = body_end + 1, data[body_end]
    elif magic == MAGIC_V2:
        topic_start, topic_size = body_end + 2, data[body_end] << 8 | data[body_end + 1]
    else:
        return None
    properties_start = topic_start + topic_size + 2
    if topic_size == 0 or properties_start > end:
        return None
    if properties_start + (data[properties_start - 2] << 8 | data[properties_start - 1]) != end:
        return None
    topic = data[topic_start : properties_start - 2]
    return end, physical_offset, topic, start, body_start, body_end, properties_start


def is_complete(data: Bytes, frame: Frame) -> bool:
    """False where bytes of a record still being written are missing: wrong body CRC, or properties that end in zero."""
    end, _, _, _, body_start, body_end, properties_start = frame
    has_tail = properties_start == end or data[end - 1] != 0
    with memoryview(data) as whole, whole[body_start:body_end] as body:  # a copy may be a GiB
        return has_tail and _is_crc_right(body, read_header(data, frame)[_CRC])


def read_header(data: Bytes, frame: Frame) -> tuple[Any, ...]:
    """The fixed part of a record, in the order of HEADER_FIELDS; times in epoch ms, addresses as their bytes."""
    start = frame[START]
    return _HEADERS[data[start + _SYS_FLAG_LOW_BYTE] >> 4 & 3].unpack_from(data, start)


def read_body(
    stored: bytes, crc: int, sys_flag: int, max_bytes: int = MAX_BODY_BYTES
) -> tuple[bytes | None, str | None]:
    """The body, decompressed where sysFlag says so; or null and the reason why there is none."""
    if not _is_crc_right(stored, crc):
        return None, names.BODY_CRC
    if not sys_flag & SYS_FLAG_COMPRESSED or not stored:
        return stored, None
    try:
        body = _decompress(stored, sys_flag >> 8 & 7, max_bytes + 1)
    except (zlib.error, RuntimeError, zstandard.ZstdError, MemoryError):
        return None, names.BODY_UNREADABLE
    if body is None:
        return None, names.BODY_UNREADABLE
    if len(body) > max_bytes:
        return None, names.BODY_TOO_LARGE
    return body, None


@lru_cache(maxsize=4096)
def topic_text(raw: bytes) -> str | None:
    """A stored topic; null where it is no UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return None


@lru_cache(maxsize=65_536)
def host_text(address: bytes, port: int) -> str | None:
    """`127.0.0.1:42426` or `[2001:db8::1]:42426`; null where there is no such port."""
    if not 0 <= port <= 0xFFFF:
        return None
    if len(address) == 4:
        return "{}.{}.{}.{}:{}".format(*address, port)
    return f"[{IPv6Address(address)}]:{port}"


def _is_crc_right(body: bytes | memoryview, crc: int) -> bool:
    return crc == 0 or zlib.crc32(body) & 0x7FFFFFFF == crc


def _decompress(stored: bytes, compression: int, bound: int) -> bytes | None:
    """The body as far as the bound; null where the stream is cut."""
    if compression in (0, _ZLIB):
        inflater = zlib.decompressobj(_ZLIB_OR_GZIP)
        body = inflater.decompress(stored, bound)
        return body if inflater.eof or len(body) == bound else None
    if compression == _LZ4:
        lz4_frame = lz4.frame.LZ4FrameDecompressor()
        unpacked: bytes = lz4_frame.decompress(stored, bound)
        return unpacked if lz4_frame.eof or len(unpacked) == bound else None
    if compression == _ZSTD:
        return _unzstd(stored, bound)
    return None


def _unzstd(stored: bytes, bound: int) -> bytes | None:
    # It takes no bound of its own; a slice this small cannot unfold into more than some 8 MiB.
    stream, parts, total = zstandard.ZstdDecompressor().decompressobj(), [], 0
    for start in range(0, len(stored), _ZSTD_SLICE_BYTES):
        parts.append(stream.decompress(stored[start : start + _ZSTD_SLICE_BYTES]))
        total += len(parts[-1])
        if stream.eof or total >= bound:
            return b"".join(parts)
    return None
