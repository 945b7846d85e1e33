"""Stored records as Arrow rows: equal to what a real broker and client read in them, bad ones with a reason."""

from __future__ import annotations

import json
import zlib
from ipaddress import IPv6Address

import pyarrow as pa
import pytest
from captured import CAPTURE_NAMES, CAPTURES, EPOCH, MESSAGE_KINDS, as_stored, unpack_store
from record_encoder import encode_record, encode_records
from truth import rows as capture_rows

from txmq_lib.rocketmq.store.commit_log import list_files, log_end
from txmq_lib.rocketmq.store.message_batch import ARROW_SCHEMA, decode_batches
from txmq_lib.rocketmq.store.property_maps import property_maps
from txmq_lib.rocketmq.store.records import Records, records_from
from txmq_lib.rocketmq.store_source import read_range

# What a store also holds: the timer's own messages, which the reading client of the captures did not ask for.
UNREAD_TOPICS = {"rmq_sys_wheel_timer"}


def records_of(data: bytes) -> Records:
    """Records that lie one after the other."""
    records, end = records_from(data, 0, len(data), 0)
    assert end == len(data)
    return records


def rows_of(data: bytes) -> list[dict]:
    return as_rows(decode_batches(records_of(data)))


def as_rows(batches) -> list[dict]:
    rows = pa.Table.from_batches(batches, schema=ARROW_SCHEMA).to_pylist()
    return [row | {"properties": dict(row["properties"])} if row["properties"] is not None else row for row in rows]


@pytest.mark.parametrize("capture", CAPTURE_NAMES)
def test_the_store_of_a_capture_equals_what_a_client_read_from_its_broker(capture, tmp_path):
    files = list_files(str(unpack_store(capture, tmp_path))).files
    stored = as_rows(read_range(files[0], 0, log_end(files).offset))
    expected = [as_stored(row) for kind in MESSAGE_KINDS for row in capture_rows(capture, kind)]
    assert len(expected) > 700
    assert [row for row in stored if row["topic"] not in UNREAD_TOPICS] == sorted(expected, key=lambda r: r["position"])


def test_records_of_the_brokers_own_encoder_read_as_its_own_decoder_reads_them():
    lines = [json.loads(line) for line in (CAPTURES / "encoder.jsonl").read_text().splitlines()]
    rows = rows_of(bytes.fromhex("".join(line["record"] for line in lines)))
    for row, line in zip(rows, lines, strict=True):
        hosts = [(as_java_writes(row[name])) for name in ("born_host", "store_host")]
        assert hosts == [line["bornHost"], line["storeHost"]], line["why"]
        assert row == as_stored(line) | {name: row[name] for name in ("born_host", "store_host")}, line["why"]


def as_java_writes(host: str) -> str:
    """Java writes an IPv6 address at full length, without leading zeros."""
    address, _, port = host.rpartition(":")
    if not address.startswith("["):
        return host
    groups = [f"{int(group, 16):x}" for group in IPv6Address(address.strip("[]")).exploded.split(":")]
    return f"[{':'.join(groups)}]:{port}"


def test_property_texts_are_read_as_rocketmq_reads_them():
    cases = [
        ("", {}),
        ("a\x01b\x02", {"a": "b"}),
        ("a\x01b\x02cd\x01ef", {"a": "b", "cd": "ef"}),
        ("a\x01\x02", {}),
        ("\x01b\x02", {}),
        ("\x01\x02", {}),
        ("\x02\x02a\x01b\x02\x02\x02", {"a": "b"}),
        ("ab\x02c\x01d\x02", {"c": "d"}),
        ("x\x01y\x01z\x02", {"x": "y\x01z"}),
        ("x\x01\x01z\x02", {"x": "\x01z"}),
        ("d\x011\x02e\x012\x02d\x013\x02", {"d": "3", "e": "2"}),
        ("d\x011\x02d\x01\x02", {"d": "1"}),
        ("clé\x01值😀\x02", {"clé": "值😀"}),
        ("a b\x01c=d\x02", {"a b": "c=d"}),
    ]
    for text, expected in cases:
        assert [dict(found) for found in property_maps(pa.array([text])).to_pylist()] == [expected], repr(text)
    together = property_maps(pa.array([text for text, _ in cases]))
    assert [dict(found) for found in together.to_pylist()] == [expected for _, expected in cases]
    assert [len(found) for found in together.to_pylist()] == [len(expected) for _, expected in cases]


def test_properties_that_are_no_utf8_are_read_with_replacement_characters_as_java_does():
    [row] = rows_of(encode_record(0, properties=b"a\x01\xffb\x02c\x01\xe2\x82d\x02"))
    assert (row["properties"], row["reason"]) == ({"a": "�b", "c": "�d"}, None)


def test_a_bad_record_says_why_and_keeps_what_could_be_decoded():
    year_10000 = 253_402_300_800_000
    for why, fields, expected in [
        ("good", {}, {"reason": None, "raw": None}),
        ("last millisecond of year 9999", {"born_ms": year_10000 - 1}, {"reason": None}),
        ("the epoch itself", {"store_ms": 0}, {"reason": None, "store_timestamp": EPOCH}),
        ("year 10000", {"born_ms": year_10000}, {"reason": "TIMESTAMP_OUT_OF_RANGE", "born_timestamp": None}),
        ("before the epoch", {"store_ms": -1}, {"reason": "TIMESTAMP_OUT_OF_RANGE", "store_timestamp": None}),
        ("most negative", {"born_ms": -(2**63)}, {"reason": "TIMESTAMP_OUT_OF_RANGE", "body": b"hello"}),
        ("flipped body", {"crc": 1}, {"reason": "BODY_CRC", "body": None, "topic": "TopicA", "queue_offset": 0}),
        ("not compressed", {"sys_flag": 0x301}, {"reason": "BODY_UNREADABLE", "body": None, "sys_flag": 0x301}),
        ("topic no UTF-8", {"topic": b"T\xff"}, {"reason": "RECORD_MALFORMED", "topic": None, "body": b"hello"}),
        ("negative queue id", {"queue_id": -1}, {"reason": "RECORD_MALFORMED", "queue_id": -1}),
        ("negative queue offset", {"queue_offset": -1}, {"reason": "RECORD_MALFORMED"}),
        ("an offset with none behind it", {"queue_offset": 2**63 - 1}, {"reason": "OFFSET_OUT_OF_RANGE"}),
        ("the highest offset", {"queue_offset": 2**62}, {"reason": None, "queue_offset": 2**62}),
        ("one higher", {"queue_offset": 2**62 + 1}, {"reason": "OFFSET_OUT_OF_RANGE"}),
        ("nothing, compressed", {"body": zlib.compress(b""), "sys_flag": 0x301}, {"reason": None, "sys_flag": 0x300}),
        ("no such port", {"born_port": 65536}, {"reason": "RECORD_MALFORMED", "born_host": None}),
        ("bad twice", {"queue_id": -1, "born_ms": -1}, {"reason": "RECORD_MALFORMED", "born_timestamp": None}),
    ]:
        record = encode_record(0, **fields)
        [row] = rows_of(record)
        if expected["reason"]:
            expected |= {"raw": record}
        assert {name: row[name] for name in expected} == expected, why
        assert row["position"] == 0


def test_offset_message_ids_are_made_of_store_host_and_physical_offset():
    ipv4, ipv6 = {"store_ip": "127.0.0.1"}, {"store_ip": "2001:db8::1"}
    of_ipv4, of_ipv6 = "7F00000100002A9F", "20010DB800000000000000000000000100002A9F"
    for hosts, ids in [
        ([ipv4, ipv4], [of_ipv4 + "0000000000000000", of_ipv4 + "0000000000000076"]),
        ([ipv6, ipv6], [of_ipv6 + "0000000000000000", of_ipv6 + "0000000000000082"]),
        ([ipv4, ipv6], [of_ipv4 + "0000000000000000", of_ipv6 + "0000000000000076"]),
    ]:
        log = encode_record(0, **hosts[0])
        log += encode_record(len(log), **hosts[1])
        assert [row["offset_msg_id"] for row in rows_of(log)] == ids


def test_good_and_bad_records_share_a_batch():
    log = encode_records(0, 2)
    log += encode_record(len(log), crc=1, queue_offset=2)
    log += encode_record(len(log), queue_offset=3)
    rows = rows_of(log)
    assert [row["reason"] for row in rows] == [None, None, "BODY_CRC", None]
    assert [row["position"] for row in rows] == [0, 118, 236, 354]
    assert [row["queue_offset"] for row in rows] == [0, 1, 2, 3]


def test_of_a_long_bad_record_the_first_64_kib_are_kept():
    record = encode_record(0, body=bytes(200_000), crc=1)
    [row] = rows_of(record)
    assert row["raw"] == record[: 64 * 1024]


def test_batches_stay_small_where_small_records_unpack_to_large_bodies():
    log = encode_records(0, 7, body=zlib.compress(bytes(3 * 1024 * 1024)), sys_flag=0x301)
    assert len(log) < 30_000
    batches = list(decode_batches(records_of(log)))
    assert [batch.num_rows for batch in batches] == [2, 2, 2, 1]
    assert {row["sys_flag"] for row in as_rows(batches)} == {0x300}


@pytest.mark.parametrize(("body", "sys_flag"), [(zlib.compress(bytes(100_001)), 0x301), (bytes(100_001), 0)])
def test_of_a_record_whose_body_is_too_large_everything_else_is_told(body, sys_flag):
    log = encode_record(0, queue_offset=0) + encode_record(
        118, queue_id=3, queue_offset=9, body=body, sys_flag=sys_flag
    )
    log += encode_record(len(log), queue_offset=1)
    first, refused, last = as_rows(decode_batches(records_of(log), 100_000))
    assert (first["reason"], last["reason"]) == (None, None)
    assert (refused["reason"], refused["body"], refused["raw"]) == (
        "BODY_TOO_LARGE",
        None,
        log[118:][: 64 * 1024][: len(refused["raw"])],
    )
    columns = ("topic", "queue_id", "queue_offset", "commit_log_offset", "sys_flag", "properties")
    assert {name: refused[name] for name in columns} == {
        "topic": "TopicA",
        "queue_id": 3,
        "queue_offset": 9,
        "commit_log_offset": 118,
        "sys_flag": sys_flag,
        "properties": {"KEYS": "k1", "TAGS": "t1"},
    }
    assert refused["store_timestamp"] == first["store_timestamp"]
