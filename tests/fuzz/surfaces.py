"""Decoders of hostile bytes that need no JVM: one surface each, whose case raises where something escapes.

A case makes good input, damaged input and input that is whole but absurd, and holds the decoder to: no exception but
the errors it names, every bad record with a known reason, every good one unchanged. Good ones are made by construction.
"""

from __future__ import annotations

import lzma
import os
import re
import resource
import signal
import struct
import time
import traceback
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import lz4.frame
import pyarrow as pa
import zstandard
from fuzz.hostile import EDGE_NUMBERS, damaged, json_text, number, text, value
from record_encoder import encode_record

from txmq_lib.errors import InputError, SettingsError
from txmq_lib.layers import read_file
from txmq_lib.settings import Settings
from txmq_lib.sources.commit_log import list_files, log_end, record_at
from txmq_lib.sources.consume_queue import queue_bounds
from txmq_lib.sources.consumer_offset_file import ConsumerOffsets, OffsetEntry, parse_consumer_offsets
from txmq_lib.sources.message_batch import property_maps
from txmq_lib.sources.message_format import MAX_BODY_BYTES, read_body
from txmq_lib.sources.store import read_range

LONGEST_SECONDS = 10
LATEST_MS = 253_402_300_799_999
HIGHEST_OFFSET = 2**62
RECORD_REASONS = {
    *("RECORD_TORN", "RECORD_MALFORMED", "OFFSET_OUT_OF_RANGE", "TIMESTAMP_OUT_OF_RANGE"),
    *("BODY_CRC", "BODY_UNREADABLE", "BODY_TOO_LARGE"),
}
OFFSET_REASONS = {"OFFSET_FILE_UNREADABLE", "OFFSET_ENTRY_MALFORMED", "OFFSET_NOT_INTEGER", "OFFSET_NEGATIVE"}


@dataclass
class Tally:
    """What became of one surface: how many inputs were tried, what escaped, the longest case, memory at its highest."""

    surface: str
    tried: int = 0
    escapes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    longest_seconds: float = 0.0
    peak_mib: int = 0


@dataclass(frozen=True)
class Surface:
    """A decoder under fire: `case` tries some inputs and says how many; it is given one of `share` of all cases."""

    name: str
    case: Callable[[Random], int]
    share: int = 1


def run(surface: Surface, cases: int, seed: int) -> Tally:
    """Try at least `cases` / share inputs; each case has a seed of its own, by which it can be run again."""
    tally = Tally(surface.name)
    begun = time.monotonic()
    for number_ in range(cases):
        if tally.tried >= max(1, cases // surface.share):
            break
        name = f"{surface.name}/{seed}/{number_}"
        started = time.monotonic()
        try:
            with _at_most(LONGEST_SECONDS):
                tally.tried += surface.case(Random(name))
        except Exception:
            tally.tried += 1
            tally.escapes.append(f"{name}\n{traceback.format_exc(limit=-6)}")
        tally.longest_seconds = max(tally.longest_seconds, time.monotonic() - started)
    tally.seconds = time.monotonic() - begun
    tally.peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return tally


@contextmanager
def _at_most(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# --- commit log files


def commit_log(chance: Random) -> int:
    """A mapped file of good, damaged and absurd records: the good ones come out unchanged, no row is half a row."""
    log, good, absurd, tried = b"", {}, {}, 0
    for _ in range(chance.randrange(4, 40)):
        start = len(log)
        fields = _record_fields(chance)
        if chance.random() < 0.5:
            log += encode_record(start, **fields)
            good[start] = _expected(start, fields)
            continue
        tried += 1
        if chance.random() < 0.3:
            wrong = _absurd_fields(chance)
            log += encode_record(start, **{**fields, **wrong})
            absurd[start] = set(wrong)
            continue
        whole = encode_record(start, **fields)
        # What lies behind stays where it is, as on a damaged disk.
        hurt = damaged(chance, whole)[: len(whole)]
        log += hurt + chance.choice([b"\0", b"\xff"]) * (len(whole) - len(hurt))
    good[len(log)] = _expected(len(log), {"queue_offset": 5})
    log += encode_record(len(log), queue_offset=5)
    with TemporaryDirectory() as store:
        place = Path(store, "commitlog", f"{0:020d}")
        place.parent.mkdir()
        place.write_bytes(log + bytes(chance.choice([0, 4096])))
        files = list_files(store).files
        end = log_end(files)
        assert (end.offset, end.waiting) == (len(log), 0), end
        for _ in range(3):
            record_at(files, chance.choice([chance.randrange(len(log)), number(chance)]))
        batches = list(read_range(files[0], 0, end.offset))
    rows = {row["position"]: row for batch in batches for row in batch.to_pylist()}
    assert len(rows) == sum(batch.num_rows for batch in batches), "two rows of one position"
    for row in rows.values():
        _assert_whole_or_told(row)
    for start, expected in good.items():
        found = rows.get(start)
        assert found is not None, f"the good record at {start} was lost"
        assert {name: found[name] for name in expected} | {"properties": dict(found["properties"])} == expected
    for start, wrong in absurd.items():
        assert rows[start]["reason"], f"{wrong} of the record at {start} was taken"
    return tried


def _record_fields(chance: Random) -> dict[str, object]:
    body = chance.randbytes(chance.randrange(60))
    sys_flag = chance.choice([0, 8, 0x100, 0x301, 0x101, 0x201, 0x1])
    if sys_flag & 1:
        body = {0: zlib.compress, 1: lz4.frame.compress, 2: zstandard.compress, 3: zlib.compress}[sys_flag >> 8](body)
    return {
        "topic": (text(chance, has_surrogates=False) or "T").encode()[:200].decode("utf-8", "ignore").encode() or b"T",
        "body": body,
        "properties": _stored_properties(_pairs(chance, 4))[:2000].decode("utf-8", "ignore").encode(),
        "queue_id": chance.choice([0, 1, 2**31 - 1]),
        "queue_offset": chance.choice([0, 7, 2**40, HIGHEST_OFFSET]),
        "sys_flag": sys_flag,
        "born_ms": chance.choice([0, LATEST_MS, chance.randrange(LATEST_MS)]),
        "store_ms": chance.choice([0, LATEST_MS, chance.randrange(LATEST_MS)]),
        "born_ip": chance.choice(["10.0.0.1", "2001:db8::1", "::"]),
        "born_port": chance.choice([0, 65535]),
        "store_ip": chance.choice(["10.0.0.2", "::1"]),
    }


def _absurd_fields(chance: Random) -> dict[str, object]:
    return chance.choice(
        [
            {"queue_id": chance.choice([-1, -(2**31)])},
            {"queue_offset": chance.choice([-1, -(2**63), HIGHEST_OFFSET + 1, 2**63 - 1])},
            {"born_ms": chance.choice([-1, LATEST_MS + 1, 2**63 - 1, -(2**63)])},
            {"store_ms": chance.choice([-1, LATEST_MS + 1, 2**63 - 1, -(2**63)])},
            {"born_port": chance.choice([-1, 65536, 2**31 - 1])},
            {"topic": chance.choice([b"\xff", b"a\xed\xa0\x80"])},
            {"crc": 1},
            {"sys_flag": chance.choice([0x401, 0x701]), "body": b"x"},
        ]
    )


def _expected(start: int, fields: dict[str, object]) -> dict[str, object]:
    """What a good record says, as far as another reader than txmq's can tell."""
    body = fields.get("body", b"hello")
    flags = fields.get("sys_flag", 0)
    if flags & 1:
        body = {0: zlib.decompress, 1: lz4.frame.decompress, 2: _unzstd, 3: zlib.decompress}[flags >> 8](body)
        flags &= ~1
    flags |= (":" in fields.get("born_ip", "")) << 4 | (":" in fields.get("store_ip", "")) << 5
    return {
        "reason": None,
        "raw": None,
        "commit_log_offset": start,
        "topic": fields.get("topic", b"TopicA").decode(),
        "queue_id": fields.get("queue_id", 0),
        "queue_offset": fields["queue_offset"],
        "sys_flag": flags,
        "body": body,
        "properties": _read_properties(fields.get("properties", b"KEYS\x01k1\x02TAGS\x01t1\x02").decode()),
    }


def _unzstd(body: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(body)


def _assert_whole_or_told(row: dict[str, object]) -> None:
    if row["reason"] is not None:
        assert row["reason"] in RECORD_REASONS
        assert row["raw"], "a bad record without its bytes"
        return
    missing = [name for name in row if row[name] is None and name not in ("reason", "raw")]
    assert not missing, f"a good row without {missing}"
    assert row["queue_id"] >= 0
    assert 0 <= row["queue_offset"] <= HIGHEST_OFFSET


# --- bodies


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
    assert reason is None or reason in RECORD_REASONS
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


# --- properties


def properties(chance: Random) -> int:
    """Stored property texts become the maps that plain Python makes of them."""
    texts = [_property_text(chance) for _ in range(chance.randrange(1, 6))]
    found = property_maps(texts).to_pylist()
    assert [dict(pairs) for pairs in found] == [_read_properties(each) for each in texts]
    assert all(len(pairs) == len(dict(pairs)) for pairs in found), "a name twice in a map"
    return len(texts)


def _property_text(chance: Random) -> str:
    if chance.random() < 0.002:
        return "".join(f"p{place}\x01{place}\x02" for place in range(100_000))
    stored = _stored_properties(_pairs(chance, 6))
    return (damaged(chance, stored) if chance.random() < 0.5 else stored).decode("utf-8", "replace")


def _pairs(chance: Random, most: int) -> list[tuple[str, str]]:
    names = ["KEYS", "TAGS", "UNIQ_KEY", "PGROUP", "REAL_QID", text(chance, has_surrogates=False)]
    return [(chance.choice(names), text(chance, has_surrogates=False)) for _ in range(chance.randrange(most))]


def _stored_properties(pairs: list[tuple[str, str]]) -> bytes:
    return "".join(f"{name}\x01{held}\x02" for name, held in pairs).encode()


def _read_properties(stored: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for piece in stored.split("\x02"):
        name, separator, held = piece.partition("\x01")
        if name and separator and held:
            found.pop(name, None)
            found[name] = held
    return found


# --- a broker's offset table


def consumer_offsets(chance: Random) -> int:
    """An offset table, whole with odd entries or damaged: its good entries come out, each other has a reason."""
    good = {
        f"T{place}@{chance.choice(['g', 'g@h', '组'])}{place}": {
            queue: chance.choice([0, 5, 2**63 - 1]) for queue in range(chance.randrange(1, 4))
        }
        for place in range(chance.randrange(1, 4))
    }
    table: dict[str, object] = {**good, **{_key(chance): _queues(chance) for _ in range(chance.randrange(4))}}
    entries = list(table.items())
    chance.shuffle(entries)
    pieces = [f"{json_text(chance, key)}:{_unquoted(json_text(chance, held))}" for key, held in entries]
    if chance.random() < 0.1:
        pieces.insert(0, '"far@g":{0:%s}' % ("9" * chance.choice([20, 5000])))
    depth = chance.randrange(700, 1100) if chance.random() < 0.05 else 5
    pieces.insert(0, f'"deep@g":{{0:{"[" * depth}{"]" * depth}}}')
    table_text = ",".join(pieces)
    document = f'{{"dataVersion":{{}},"offsetTable":{{{table_text}}},"groupTopicMap":{{}}}}'.encode()
    is_hurt = chance.random() < 0.4
    if is_hurt:
        document = damaged(chance, document)
    is_hurt |= depth > 5  # a parser may stop there
    if chance.random() < 0.02:
        document = document[: chance.randrange(len(document))] + chance.choice(LONG_RUNS)
        is_hurt = True
    found = parse_consumer_offsets(document)
    assert_offsets_fit(found)
    if not is_hurt:
        wanted = {
            OffsetEntry(*key.split("@", 1), queue, offset)
            for key, held in good.items()
            for queue, offset in held.items()
        }
        assert wanted <= set(found.entries), wanted - set(found.entries)
    return 1


# Where a regular expression or a parser that goes back would never end.
LONG_RUNS = (
    b'"' + b'\\"' * 200_000,
    b"7" * 400_000,
    b"7" * 100_000 + b" " * 200_000,
    b"[" * 400_000,
    b'{"a":' * 400_000,
)


def assert_offsets_fit(found: ConsumerOffsets) -> None:
    """Every entry fits into the table, every bad one has a known reason and a text that can be kept."""
    texts = [part for entry in found.entries for part in (entry.topic, entry.group)]
    pa.array([*texts, *(bad.raw for bad in found.bad)], pa.string())
    assert all(entry.topic and entry.group for entry in found.entries)
    assert all(0 <= entry.queue_id < 2**31 and 0 <= entry.offset < 2**63 for entry in found.entries)
    assert {bad.reason for bad in found.bad} <= OFFSET_REASONS


def _key(chance: Random) -> str:
    return f"{text(chance)}@{text(chance)}" if chance.random() < 0.7 else text(chance)


def _queues(chance: Random) -> object:
    if chance.random() < 0.2:
        return value(chance)
    return {chance.choice(["0", "-1", "99999999999", text(chance)]): value(chance) for _ in range(chance.randrange(4))}


def _unquoted(written: str) -> str:
    """As the broker writes it: queue ids without quotes."""
    return re.sub(r'"(-?[0-9]+)"(\s*:)', r"\1\2", written)


# --- consume queue files


def consume_queue(chance: Random) -> int:
    """Directories and files by any name and of any length: bounds in order that the table can hold, or InputError."""
    with TemporaryDirectory() as store:
        for _ in range(chance.randrange(1, 4)):
            topic = chance.choice([b"T", b"\xff\xfe", text(chance, has_surrogates=False).encode()[:60]])
            queue = chance.choice(["0", "7", "2147483648", "99999999999", "\u0663", "-1", "x"]).encode()
            directory = os.path.join(os.fsencode(store), b"consumequeue", re.sub(rb"[/\0]|^\.*$", b"_", topic), queue)
            os.makedirs(directory, exist_ok=True)
            for _ in range(chance.randrange(3)):
                base = chance.choice([0, 20, 6_000_000, 10**19, 10**20 - 1])
                with open(os.path.join(directory, f"{base:020d}".encode()), "wb") as file:
                    for _ in range(chance.randrange(6)):
                        file.write(
                            struct.pack(">qiq", chance.choice([0, 50, 2**63 - 1, -1]), chance.choice([0, 9, -5]), 0)
                        )
                    file.write(chance.randbytes(chance.randrange(20)))
        try:
            found = queue_bounds(store, lowest_commit_log_offset=20, end_commit_log_offset=100)
        except InputError:
            return 1
        pa.array([topic for topic, _ in found], pa.string())
        assert all(0 <= queue < 2**31 for _, queue in found)
        assert all(0 <= bounds.lowest_offset <= bounds.next_offset < 2**63 for bounds in found.values())
    return 1


# --- settings


def settings(chance: Random) -> int:
    """Any text as a settings file or an assignment: settings, or SettingsError that names the layer."""
    written = _yaml(chance)
    with TemporaryDirectory() as scratch:
        file = Path(scratch, "odd.yaml")
        file.write_bytes(written)
        key = chance.choice(["role", "brokers.b.role", "land.topics", "spark.spark.x", "warehouse", text(chance)])
        assignments = [f"{key}={json_text(chance, value(chance))}"] if chance.random() < 0.5 else []
        try:
            Settings.load([file], assignments)
        except SettingsError:
            return 1
    return 1


def _yaml(chance: Random) -> bytes:
    base = EVERY_SETTING.encode()
    match chance.randrange(4):
        case 0:
            return damaged(chance, base)
        case 1:
            return f"{chance.choice(KEYS)}: {json_text(chance, value(chance))}\n".encode("utf-8", "backslashreplace")
        case 2:
            return f"{chance.choice(KEYS)}: {chance.choice(ODD_YAML)}\n".encode()
        case _:
            return text(chance).encode("utf-8", "surrogatepass")


KEYS = ("role", "transaction_timeout", "brokers", "warehouse", "land", "sources", "thresholds", "spark", "x")
EVERY_SETTING = """role: audit
transaction_timeout: 2s
transaction_check_max: 3
brokers: {in-house: {role: engine}}
sources: [{kind: store, paths: [store], broker: b}]
spark: {spark.driver.memory: 1g}
"""
BILLIONS = "".join(
    f"  {letter}: &{letter} [{', '.join([f'*{above}'] * 9)}]\n"
    for above, letter in zip("abcdefghi", "bcdefghij", strict=True)
)
ODD_YAML = (
    "!!python/object/apply:os.system [true]",
    "!!python/name:os.system",
    "!!binary x",
    "!!set {a, b}",
    "!!timestamp 2001-99-99",
    "&a [*a]",
    "*nowhere",
    "<<: {a: b}",
    "0x" + "f" * 6000,
    "9" * 6000,
    ".nan",
    "-.inf",
    "1e400",
    "[" * 3000,
    "{a: " * 3000,
    f"{{spark.x: {[2**70]}}}",
    "\n  a: &a [1]\n" + BILLIONS,
    *map(str, EDGE_NUMBERS[:6]),
)


def yaml_bomb(chance: Random) -> int:
    """Aliases that stand for billions of values are a fault, found quickly."""
    with TemporaryDirectory() as scratch:
        file = Path(scratch, "bomb.yaml")
        file.write_text(f"{chance.choice(KEYS)}:\n  a: &a [1]\n{BILLIONS}", encoding="utf-8")
        assert read_file(file, "bomb.yaml").faults
    return 1


SURFACES = (
    Surface("commit log records", commit_log),
    Surface("bodies", body),
    Surface("decompression bombs", bomb, share=5000),
    Surface("properties", properties),
    Surface("consumerOffset.json", consumer_offsets),
    Surface("consume queue files", consume_queue, share=10),
    Surface("settings", settings, share=40),
    Surface("settings that expand", yaml_bomb, share=5000),
)
