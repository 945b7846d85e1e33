"""A broker's commit log of any length, and the plainest reader of one: struct, dict, tuples."""

from __future__ import annotations

import struct
from pathlib import Path

from tests.bench.data import GROUP
from tests.support.record_encoder import blank, encode_record, write_log

FILE_BYTES = 16 << 20
BODY = bytes(range(256))
FIXED = struct.Struct(">iIiiiqqiqIiqIiiqi")


def write_store(store: Path, records: int) -> None:
    """A store directory of so many records in whole files: halves and visible messages in turn, 256-byte bodies."""
    contents, log, place = [], bytearray(), 0
    for number in range(records):
        record = _record(place, number)
        if place % FILE_BYTES + len(record) + 8 > FILE_BYTES:
            log += blank(place % FILE_BYTES, FILE_BYTES)
            contents.append(bytes(log))
            place = len(contents) * FILE_BYTES
            log, record = bytearray(), _record(place, number)
        log += record
        place += len(record)
    write_log(store, [*contents, bytes(log)], file_size=FILE_BYTES)


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
    is_half = number % 2 == 0
    named = {
        "KEYS": f"k{number}",
        "PGROUP": GROUP,
        "TAGS": "tagA",
        "UNIQ_KEY": f"C000020246654E0E{number:016X}",
        "WAIT": "true",
    }
    named |= {"REAL_QID": "0", "REAL_TOPIC": "orders", "TRAN_MSG": "true"} if is_half else {}
    return encode_record(
        place,
        topic=b"RMQ_SYS_TRANS_HALF_TOPIC" if is_half else b"payments",
        body=BODY,
        properties="".join(f"{name}\1{value}\2" for name, value in named.items()).encode(),
        queue_offset=number // 2,
    )
