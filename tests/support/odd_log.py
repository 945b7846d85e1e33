"""A commit log with every kind of record that is not as nearly all are, and what makes each odd."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from record_encoder import encode_record, write_log

HALF, OP = b"RMQ_SYS_TRANS_HALF_TOPIC", b"RMQ_SYS_TRANS_OP_HALF_TOPIC"
ROCKSDB_HALF, ROCKSDB_OP = b"RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", b"RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
MAX_TIME = b"TRANS_CHECK_MAX_TIME_TOPIC"
PREPARED, ROLLED_BACK, COMMITTED = 0x4, 0xC, 0x8
FILE_BYTES = 1 << 20
OF_HALF = {"UNIQ_KEY": "U", "PGROUP": "G", "REAL_TOPIC": "T", "REAL_QID": "0", "TRAN_MSG": "true"}
Record = tuple[bytes, dict[str, str], bytes, dict[str, object]]


def records() -> list[Record]:
    """Topic, properties, body and header fields of each, in the order of the log."""
    plain: list[Record] = [
        (HALF, OF_HALF, b"a half", {}),
        (b"T", {"UNIQ_KEY": "U", "TAGS": "t", "KEYS": "k l"}, b"committed", {"sys_flag": COMMITTED, "prepared": 0}),
        (OP, {"TAGS": "d"}, b"0,", {}),
        (OP, {"TAGS": "d"}, b"1,2,2,123456789012345678,", {}),
        (MAX_TIME, {**OF_HALF, "TRANSACTION_CHECK_TIMES": "15"}, b"given up", {}),
        (b"U" * 200, {}, b"", {}),
    ]
    numbers = ["", "x", " 5", "5 ", "+5", "-1", "5.7", "0005", "99999999999", "2147483648", "1e3", "\u0665"]
    halves: list[Record] = [
        (HALF, {**OF_HALF, name: number}, b"", {})
        for name in ("REAL_QID", "TRANSACTION_CHECK_TIMES", "TRAN_PREPARED_QUEUE_OFFSET")
        for number in numbers
    ]
    halves += [
        (HALF, {}, b"no property at all", {}),
        (HALF, {**OF_HALF, "MIN_OFFSET": "0", "MAX_OFFSET": "9"}, b"", {}),
        (HALF, {f"name{number:03}": "v" for number in range(70)}, b"", {}),
        (HALF, OF_HALF, bytes(70 << 10), {}),
        (ROCKSDB_HALF, OF_HALF, b"", {}),
    ]
    bodies = [b"", b",", b"1", b"1,,2,", b"1,x,3,", b" 1,", b"\xff\xfe,1,", b"9999999999999999999,", b"1,2\n,", b"1,\n"]
    ops: list[Record] = [(OP, {"TAGS": "d"}, body, {}) for body in bodies]
    ops += [
        (OP, {"TAGS": "x"}, b"1,", {}),
        (OP, {}, b"1,", {}),
        (OP, {"TAGS": "d", "MAX_OFFSET": "9"}, b"1,", {}),
        (ROCKSDB_OP, {"TAGS": "d", "TRANS_OFFSET": "0"}, b"", {}),
    ]
    others: list[Record] = [
        (b"T", {}, b"prepared", {"sys_flag": PREPARED}),
        (b"T", {}, b"rolled back", {"sys_flag": ROLLED_BACK}),
        (b"T", {}, b"wrong crc", {"crc": 1}),
        (b"T", {}, b"no lz4 at all", {"sys_flag": 0x1 | 0x100}),
        (b"T", {}, b"before 1970", {"born_ms": -5}),
        (b"T", {}, b"no queue", {"queue_id": -3}),
        (b"\xff", {}, b"no topic", {}),
        (b"T", {"MAX_OFFSET": "7", "K\u00e9y": "v\u00e4lue \U0001f600"}, b"", {}),
        (b"T", {}, b"IPv6", {"born_ip": "2001:db8::1", "store_ip": "2001:db8::2"}),
    ]
    return [*plain, *halves, *plain, *ops, *plain, *others, *plain]


def write_odd_store(store: Path, *, repeats: bool = False) -> Path:
    """A store directory of them, with bytes that are no record in the middle.

    repeats  the last record has the key of the one before it
    """
    log, ends = bytearray(), defaultdict[tuple[bytes, object], int](int)
    listed = records()
    for number, (topic, properties, body, fields) in enumerate(listed):
        queue = (topic, fields.get("queue_id", 0))
        is_again = repeats and number == len(listed) - 1
        text = "".join(f"{name}\1{value}\2" for name, value in properties.items()).encode()
        never_queued = fields.get("sys_flag", 0) in (PREPARED, ROLLED_BACK)
        log += encode_record(
            len(log),
            topic=topic,
            body=body,
            properties=text,
            queue_offset=0 if never_queued else ends[queue] - is_again,
            **fields,  # type: ignore[arg-type]
        )
        ends[queue] += not never_queued
        if number == len(listed) // 2:
            log += b"torn" * 30
    return write_log(store, [bytes(log)], file_size=FILE_BYTES)
