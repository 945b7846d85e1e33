"""A broker's commit log of any length, and the plainest reader of one: struct, dict, tuples."""

from __future__ import annotations

import struct
from pathlib import Path
from random import Random

from tests.bench.data import GROUP
from tests.support.record_encoder import blank, encode_record, write_log

FILE_BYTES = 16 << 20
NOISE = Random(1).randbytes(1 << 20)
BODY_BYTES = 256
HALF, _, OP = range(3)
FIXED = struct.Struct(">iIiiiqqiqIiqIiiqi")


def write_store(store: Path, records: int, *, file_bytes: int = FILE_BYTES) -> None:
    """A store directory of so many records: half, message and op in turn, with 256 bytes of noise as bodies."""
    contents, log, place = [], bytearray(), 0
    for number in range(records):
        record = _record(place, number)
        if place % file_bytes + len(record) + 8 > file_bytes:
            log += blank(place % file_bytes, file_bytes)
            contents.append(bytes(log))
            place = len(contents) * file_bytes
            log, record = bytearray(), _record(place, number)
        log += record
        place += len(record)
    write_log(store, [*contents, bytes(log)], file_size=file_bytes)


def decoded_in_plain_python(store: Path) -> int:
    """Records of all files as tuples of their fields, topic, properties and body; how many."""
    records = []
    for path in sorted((store / "commitlog").iterdir()):
        data, place = path.read_bytes(), 0
        while place + FIXED.size <= len(data):
            fields = FIXED.unpack_from(data, place)
            size, magic, body_size = fields[0], fields[1], fields[16]
            if size == 0 or magic != 0xDAA320A7:
                break
            at = place + FIXED.size
            body = data[at : at + body_size]
            at += body_size
            topic = data[at + 1 : at + 1 + data[at]].decode()
            at += 1 + data[at]
            text = data[at + 2 : at + 2 + int.from_bytes(data[at : at + 2])].decode()
            properties = dict(each.split("\1", 1) for each in text.split("\2") if each)
            records.append((*fields, topic, properties, body))
            place += size
    return len(records)


def _record(place: int, number: int) -> bytes:
    transaction, kind = divmod(number, 3)
    if kind == OP:
        return encode_record(
            place,
            topic=b"RMQ_SYS_TRANS_OP_HALF_TOPIC",
            body=f"{transaction},".encode(),
            properties=b"TAGS\1d\2",
            queue_offset=transaction,
        )
    named = {
        "KEYS": f"k{transaction}",
        "PGROUP": GROUP,
        "TAGS": "tagA",
        "UNIQ_KEY": f"C000020246654E0E{transaction:016X}",
        "WAIT": "true",
        "TRAN_MSG": "true",
    }
    named |= {"REAL_QID": "0", "REAL_TOPIC": "orders"} if kind == HALF else {}
    start = number * 257 % (len(NOISE) - BODY_BYTES)
    return encode_record(
        place,
        topic=b"RMQ_SYS_TRANS_HALF_TOPIC" if kind == HALF else b"orders",
        body=NOISE[start : start + BODY_BYTES],
        properties="".join(f"{name}\1{value}\2" for name, value in named.items()).encode(),
        queue_offset=transaction,
    )
