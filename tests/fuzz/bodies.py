"""Stored bodies: compressed or not, damaged or not, and a few kB that stand for GiBs."""

from __future__ import annotations

import lzma
import resource
import struct
import zlib
from functools import cache
from random import Random

import lz4.frame
import zstandard
from fuzz.hostile import damaged, text

from txmq_lib.rocketmq.store.message_format import MAX_BODY_BYTES, read_body


def body(chance: Random) -> int:
    """A stored body, good or damaged: unpacked as it was, or refused with a reason; never more than the bound."""
    bound = chance.choice([0, 1, 100, 5000, MAX_BODY_BYTES])
    plain = chance.choice([chance.randbytes(200), bytes(5000), text(chance, has_surrogates=False).encode(), b""])
    sys_flag, stored = chance.choice(
        [
            (0, plain),
            (0x1, zlib.compress(plain)),
            (0x301, zlib.compress(plain)),
            (0x101, lz4.frame.compress(plain, store_size=chance.random() < 0.5)),
            (0x201, zstandard.compress(plain)),
            (0x401, plain),
            (0x201, lzma.compress(plain)),
        ]
    )
    is_hurt = chance.random() < 0.7
    if is_hurt:
        stored = damaged(chance, stored)
    found, reason = read_body(stored, 0, sys_flag, bound)
    assert (found is None) == (reason is not None)
    assert reason is None or reason in ("BODY_CRC", "BODY_UNREADABLE", "BODY_TOO_LARGE")
    assert found is None or not sys_flag & 1 or len(found) <= max(bound, len(stored))
    if not is_hurt and sys_flag in (0, 0x1, 0x101, 0x201, 0x301) and stored[:1] != b"\xfd":
        is_bounded = bool(sys_flag & 1) and bool(stored)
        expected = (None, "BODY_TOO_LARGE") if is_bounded and len(plain) > bound else (plain, None)
        assert (found, reason) == expected
    return 1


def bomb(chance: Random) -> int:
    """A body that unpacks to a GiB ends quickly, in little memory, with its reason."""
    sys_flag, stored = chance.choice(_bombs())
    if chance.random() < 0.3:
        stored = stored[: -chance.randrange(1, 1000)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert read_body(stored, 0, sys_flag) == (None, "BODY_TOO_LARGE")
    grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    assert grown_mib <= 4 * MAX_BODY_BYTES >> 20, f"memory grew by {grown_mib} MiB"
    return 1


@cache
def _bombs() -> tuple[tuple[int, bytes], ...]:
    mib = bytes(1 << 20)
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    deflated = deflater.compress(mib) + deflater.flush(zlib.Z_FULL_FLUSH)
    lz4_head = lz4.frame.compress(mib, block_size=lz4.frame.BLOCKSIZE_MAX1MB, store_size=False, content_checksum=False)
    run_of_zeros = struct.pack("<I", 1 << 1 | 131_072 << 3)[:3] + b"\0"
    zstd_head = bytes.fromhex("28b52ffd") + b"\0" + bytes([7 << 3])
    return (
        (0x301, b"\x78\xda" + deflated * 1024),
        (0x101, lz4_head[:7] + lz4_head[7:-4] * 1024 + bytes(4)),
        (0x201, zstd_head + run_of_zeros * 8192),
        (0x201, zstd_head + run_of_zeros * 1_000_000),
    )
