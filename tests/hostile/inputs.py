"""What one producer, or whoever writes landing files, can make of a few kB: each input with what must become of it."""

from __future__ import annotations

import base64
import gzip
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import zstandard
from record_encoder import encode_record, write_log

MIB = 1 << 20
GOOD = 50
ZSTD = 0x201
MESSAGE = {
    "topic": "TopicA",
    "queueId": 0,
    "queueOffset": 0,
    "commitLogOffset": 0,
    "sysFlag": 0,
    "flag": 0,
    "bornTimestamp": 1_795_257_051_730,
    "storeTimestamp": 1_795_257_051_862,
    "bornHost": "10.0.0.1:1",
    "storeHost": "10.0.0.2:1",
    "offsetMsgId": "A",
    "reconsumeTimes": 0,
    "preparedTransactionOffset": 0,
    "properties": {},
    "bodyBase64": "aGVsbG8=",
}


@dataclass(frozen=True)
class Hostile:
    """An input: what makes it in a directory (kind and path to land), and what must be in the tables afterwards."""

    name: str
    make: Callable[[Path], tuple[str, Path]]
    good: int
    reasons: list[str] = field(default_factory=list)
    table: str = "message"
    then: tuple[str, ...] = ("reconcile", "audit")
    environment: dict[str, str] = field(default_factory=dict)


def store(bodies: int, size: int) -> Callable[[Path], tuple[str, Path]]:
    """Good records around some whose bodies unpack to so many bytes, in one mapped file."""

    def make(place: Path) -> tuple[str, Path]:
        packed = zstandard.ZstdCompressor().compress(bytes(size))
        log = bytearray()
        for offset in range(GOOD + bodies):
            large = {"body": packed, "sys_flag": ZSTD} if offset % 2 and offset < 2 * bodies else {}
            log += encode_record(len(log), queue_offset=offset, **large)
        return "store", write_log(place / "store", [bytes(log)], file_size=64 * MIB)

    return make


def line(offset: int, **fields: object) -> str:
    return json.dumps({**MESSAGE, "queueOffset": offset, "commitLogOffset": offset * 1000, **fields}) + "\n"


def long_line(place: Path) -> tuple[str, Path]:
    """A gzipped line of 400 MB in a directory of good files."""
    for number in range(GOOD):
        (place / f"good-{number}.jsonl").write_text(line(number), encoding="utf-8")
    with gzip.open(place / "bomb.jsonl.gz", "wb", 9) as out:
        for _ in range(400):
            out.write(b"x" * 1_000_000)
    return "message", place


def large_lines(place: Path) -> tuple[str, Path]:
    """Lines with bodies as large as may be, one after the other."""
    body = base64.b64encode(bytes(16 * MIB)).decode()
    with gzip.open(place / "large.jsonl.gz", "wt", 1, encoding="utf-8") as out:
        for offset in range(GOOD):
            out.write(line(offset, bodyBase64=body if offset % 2 else "aGVsbG8="))
    return "message", place


def large_ops(place: Path) -> tuple[str, Path]:
    """Op messages with as many tokens as are read, and more: offsets, nothing at all, and what is no offset."""
    many = [b"," * MIB] * 8 + [b"xxx," * MIB] * 8
    too_large = [b"," * 4 * MIB] * 8 + [b"7," * 8 * MIB] * 8
    bodies = [b"777," * MIB, *many, b"7" * (4 * MIB), *too_large]
    with gzip.open(place / "ops.jsonl.gz", "wt", 1, encoding="utf-8") as out:
        for offset, body in enumerate([*[b"7,"] * GOOD, *bodies]):
            common = {"topic": "RMQ_SYS_TRANS_OP_HALF_TOPIC", "properties": {"TAGS": "d"}}
            out.write(line(offset, bodyBase64=base64.b64encode(body).decode(), **common))
    return "op", place


def trace_bodies(place: Path) -> tuple[str, Path]:
    """Trace messages as large as may be: millions of ends of records with nothing between, and of records of ends."""
    ended = (
        f"EndTransaction\x01{1_795_257_051_730}\x01R\x01G\x01T\x01I\x01t\x01k\x01h:1\x012\x01I\x01UNKNOW\x01false\x02"
    )
    empty = 12 << 20
    bodies = [ended, "\x02" * empty, "EndTransaction\x01\x02" * (empty // 16)]
    with gzip.open(place / "traces.jsonl.gz", "wt", 1, encoding="utf-8") as out:
        for offset, body in enumerate([bodies[0]] * GOOD + [bodies[1]] * 8 + [bodies[2]] * 8):
            text = base64.b64encode(body.encode()).decode()
            out.write(line(offset, topic="RMQ_SYS_TRACE_TOPIC", bodyBase64=text))
    return "trace", place


def many_properties(count: int) -> dict[str, str]:
    """As many as a message can have, of a letter each."""
    return {format(number, "x"): "v" for number in range(count)}


def lines_of_properties(place: Path) -> tuple[str, Path]:
    """Lines whose properties are all they are."""
    properties = many_properties(4000)
    with gzip.open(place / "properties.jsonl.gz", "wt", 1, encoding="utf-8") as out:
        for offset in range(2000):
            out.write(line(offset, properties=properties))
    return "message", place


def records_of_properties(place: Path) -> tuple[str, Path]:
    """Records whose properties are all they are, half of them with one name again and again."""
    different = "".join(f"{name}\x01{value}\x02" for name, value in many_properties(5000).items()).encode()[:32_767]
    repeated = (b"a\x01b\x02" * 16_384)[:32_767]
    log = bytearray()
    for offset in range(1500):
        log += encode_record(len(log), queue_offset=offset, properties=(different, repeated)[offset % 2])
    return "store", write_log(place / "store", [bytes(log)], file_size=128 * MIB)


def broken_lines(place: Path) -> tuple[str, Path]:
    """Lines as long as may be that are no JSON: each is kept in quarantine."""
    with gzip.open(place / "large.jsonl.gz", "wt", 1, encoding="utf-8") as out:
        for offset in range(GOOD):
            out.write(line(offset))
        for number in range(20):
            out.write(f"{number}" + "{" * 20 * MIB + "\n")
    return "message", place


def many_files(place: Path) -> tuple[str, Path]:
    """10,000 files of one line."""
    for number in range(10_000):
        (place / f"{number:05d}.jsonl").write_text(line(number), encoding="utf-8")
    return "message", place


def odd_names(place: Path) -> tuple[str, Path]:
    """Names that Java or Hadoop cannot say, under a locale without UTF-8."""
    for number, name in enumerate((b"a:b", b"\xff\xfe", "é".encode(), b"12:30")):
        with open(os.path.join(os.fsencode(place), name + b".jsonl"), "w", encoding="utf-8") as out:
            out.write(line(number))
    return "message", place


INPUTS = (
    Hostile("4 bodies of 63 MiB", store(4, 63 * MIB), GOOD, ["BODY_TOO_LARGE"] * 4),
    Hostile("4 bodies of a GiB", store(4, 1024 * MIB), GOOD, ["BODY_TOO_LARGE"] * 4),
    Hostile("100 bodies of 16 MiB", store(100, 16 * MIB), GOOD + 100),
    Hostile("1,000 bodies of 1 MiB", store(1000, MIB), GOOD + 1000),
    Hostile("a gzipped line of 400 MB", long_line, GOOD, ["LINE_TOO_LONG"]),
    Hostile("lines with bodies of 16 MiB", large_lines, GOOD),
    Hostile(
        "op bodies of millions of tokens",
        large_ops,
        GOOD + MIB,
        ["OP_BODY_EMPTY"] * 8 + ["OP_BODY_TOO_LARGE"] * 16 + ["OP_TOKEN"] * 9,
        "op_message",
    ),
    Hostile(
        "trace bodies of millions of records",
        trace_bodies,
        GOOD,
        ["TRACE_BODY_TOO_LARGE"] * 16,
        "end_trace",
    ),
    Hostile("lines of thousands of properties", lines_of_properties, 2000),
    Hostile("records of thousands of properties", records_of_properties, 1500),
    Hostile("broken lines of 20 MiB", broken_lines, GOOD, ["BROKEN_JSON"] * 20),
    Hostile("10,000 files", many_files, 10_000),
    Hostile("odd names under LC_ALL=C", odd_names, 4, environment={"LC_ALL": "C", "PYTHONUTF8": "0"}),
)
