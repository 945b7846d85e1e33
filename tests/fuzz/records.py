"""Stored records and their properties: the good ones by construction, beside damaged and absurd ones."""

from __future__ import annotations

import zlib
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import lz4.frame
import pyarrow as pa
import zstandard
from fuzz.contract import HIGHEST_OFFSET, LATEST_MS
from fuzz.hostile import damaged, number, text
from record_encoder import encode_record

from txmq_lib.rocketmq.store.commit_log import list_files, log_end, record_at
from txmq_lib.rocketmq.store.message_format import MAX_BODY_BYTES
from txmq_lib.rocketmq.store.property_maps import property_maps
from txmq_lib.rocketmq.store_source import read_range

RECORD_REASONS = {
    *("RECORD_TORN", "RECORD_MALFORMED", "OFFSET_OUT_OF_RANGE", "TIMESTAMP_OUT_OF_RANGE"),
    *("BODY_CRC", "BODY_UNREADABLE", "BODY_TOO_LARGE"),
}


def commit_log(chance: Random) -> int:
    """A mapped file of good, damaged and absurd records: the good ones come out unchanged, no row is half a row."""
    log, good, stored_bytes, absurd, tried = b"", {}, {}, {}, 0
    for _ in range(chance.randrange(4, 40)):
        start = len(log)
        fields = _record_fields(chance)
        if chance.random() < 0.5:
            log += encode_record(start, **fields)
            good[start] = _expected(start, fields)
            stored_bytes[start] = len(fields["body"])
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
    stored_bytes[len(log)] = len(b"hello")
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
        most = chance.choice([MAX_BODY_BYTES, 40, 5])
        batches = list(read_range(files[0], 0, end.offset, max_body_bytes=most))
    rows = {row["position"]: row for batch in batches for row in batch.to_pylist()}
    assert len(rows) == sum(batch.num_rows for batch in batches), "two rows of one position"
    for row in rows.values():
        _assert_whole_or_told(row)
    for start, expected in good.items():
        found = rows.get(start)
        assert found is not None, f"the good record at {start} was lost"
        # Of a record whose body is too large nothing else is left out.
        is_refused = max(stored_bytes[start], len(expected["body"])) > most
        if is_refused:
            assert (found["reason"], found["body"], bool(found["raw"])) == ("BODY_TOO_LARGE", None, True)
        columns = set(expected) - ({"reason", "body", "raw", "sys_flag"} if is_refused else set())
        found |= {"properties": dict(found["properties"])}
        assert {name: found[name] for name in columns} == {name: expected[name] for name in columns}
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


def properties(chance: Random) -> int:
    """Stored property texts become the maps that plain Python makes of them."""
    texts = [_property_text(chance) for _ in range(chance.randrange(1, 6))]
    found = property_maps(pa.array(texts)).to_pylist()
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
