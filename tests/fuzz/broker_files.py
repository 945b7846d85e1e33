"""A broker's offset table and its consume queues, by any name and with any content."""

from __future__ import annotations

import os
import re
import struct
from random import Random
from tempfile import TemporaryDirectory

import pyarrow as pa
from fuzz.hostile import damaged, json_text, text, value

from txmq_lib.errors import InputError
from txmq_lib.rocketmq.store.consume_queue import queue_bounds
from txmq_lib.rocketmq.store.consumer_offset_file import ConsumerOffsets, OffsetEntry, parse_consumer_offsets

OFFSET_REASONS = {"OFFSET_FILE_UNREADABLE", "OFFSET_ENTRY_MALFORMED", "OFFSET_NOT_INTEGER", "OFFSET_NEGATIVE"}


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
        document = document[: chance.randrange(len(document) + 1)] + chance.choice(LONG_RUNS)
        is_hurt = True
    found = parse_consumer_offsets(document)
    assert_offsets_fit(found)
    if not is_hurt:
        expected = {
            OffsetEntry(*key.split("@", 1), queue, offset)
            for key, held in good.items()
            for queue, offset in held.items()
        }
        assert expected <= set(found.entries), expected - set(found.entries)
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
    return re.sub(r'(?<!\\)"(-?[0-9]+)"(\s*:)', r"\1\2", written)


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
