"""The binary form of one record: whole or not, its body, hosts and ids; hostile bytes never raise."""

from __future__ import annotations

import gzip
import struct
import zlib
from ipaddress import ip_address

import lz4.frame
import pytest
import zstandard
from record_encoder import encode_record

from txmq_lib.rocketmq.store.message_format import (
    END,
    host_text,
    is_complete,
    read_body,
    read_frame,
)

TEXT = b"a body worth compressing " * 40
BODY_LENGTH_AT, TOTAL_SIZE_AT, MAGIC_AT, SYS_FLAG_AT = 84, 0, 4, 36


def changed(record: bytes, position: int, new: bytes) -> bytes:
    return record[:position] + new + record[position + len(new) :]


def test_a_record_is_whole_only_with_its_last_byte():
    for record in (encode_record(0), encode_record(0, born_ip="::1", store_ip="::1", topic=b"T" * 200)):
        assert read_frame(record, 0, len(record)) is not None
        assert [n for n in range(len(record)) if read_frame(record[:n], 0, n) is not None] == []
        assert read_frame(b"..." + record + b"...", 3, len(record) + 3)[END] == len(record) + 3


@pytest.mark.parametrize(
    ("position", "new"),
    [
        pytest.param(TOTAL_SIZE_AT, struct.pack(">i", -1), id="total size of 4 GiB - 1, read as negative"),
        pytest.param(TOTAL_SIZE_AT, struct.pack(">i", 0x7FFFFFFF), id="total size of 2 GiB"),
        pytest.param(TOTAL_SIZE_AT, struct.pack(">i", 0), id="total size of nothing"),
        pytest.param(TOTAL_SIZE_AT, struct.pack(">i", 117), id="total size one short"),
        pytest.param(MAGIC_AT, struct.pack(">I", 0xDAA320A8), id="unknown magic"),
        pytest.param(MAGIC_AT, struct.pack(">I", 0xCBD43194), id="magic of a blank record"),
        pytest.param(MAGIC_AT, struct.pack(">I", 0xDAA320AB), id="v2 magic on a v1 record"),
        pytest.param(SYS_FLAG_AT, struct.pack(">i", 0x10), id="flag of an IPv6 born host that is none"),
        pytest.param(SYS_FLAG_AT, struct.pack(">i", 0x20), id="flag of an IPv6 store host that is none"),
        pytest.param(BODY_LENGTH_AT, struct.pack(">i", -1), id="negative body length"),
        pytest.param(BODY_LENGTH_AT, struct.pack(">i", -0x80000000), id="most negative body length"),
        pytest.param(BODY_LENGTH_AT, struct.pack(">i", 0x7FFFFFFF), id="body of 2 GiB"),
        pytest.param(BODY_LENGTH_AT, struct.pack(">i", 6), id="body one longer"),
        pytest.param(93, b"\x00", id="no topic"),
        pytest.param(93, b"\x05", id="topic one shorter"),
        pytest.param(93, b"\xff", id="topic longer than the record"),
        pytest.param(100, struct.pack(">h", 17), id="properties one longer"),
        pytest.param(100, struct.pack(">h", 15), id="properties one shorter"),
        pytest.param(100, struct.pack(">h", -1), id="negative properties length"),
    ],
)
def test_lengths_that_do_not_add_up_are_no_record(position, new):
    record = encode_record(0)
    assert len(record) == 118
    assert read_frame(record, 0, len(record)) is not None
    assert read_frame(changed(record, position, new) + bytes(4096), 0, 4096) is None


def test_a_record_without_a_topic_is_no_record():
    record = encode_record(0, topic=b"", body=b"a longer body")
    assert read_frame(record, 0, len(record)) is None


def test_a_body_is_unpacked_as_its_flags_say_or_gives_the_reason():
    zlib_body, lz4_body, zstd_body = zlib.compress(TEXT), lz4.frame.compress(TEXT), zstandard.compress(TEXT)
    for why, stored, crc, sys_flag, expected in [
        ("plain", b"hello", 907060870, 0, (b"hello", None)),
        ("no CRC stored", b"hello", 0, 0, (b"hello", None)),
        ("wrong CRC", b"hellp", 907060870, 0, (None, "BODY_CRC")),
        ("empty", b"", 0, 0, (b"", None)),
        ("empty, said to be compressed", b"", 0, 0x1, (b"", None)),
        ("compressed without a type is zlib", zlib_body, 0, 0x001, (TEXT, None)),
        ("lz4", lz4_body, 0, 0x101, (TEXT, None)),
        ("zstd", zstd_body, 0, 0x201, (TEXT, None)),
        ("zlib", zlib_body, 0, 0x301, (TEXT, None)),
        ("gzip, as a client over gRPC may send it", gzip.compress(TEXT), 0, 0x001, (TEXT, None)),
        ("gzip cut", gzip.compress(TEXT)[:-3], 0, 0x001, (None, "BODY_UNREADABLE")),
        ("type bits alone do not compress", zlib_body, 0, 0x300, (zlib_body, None)),
        ("other flags do not matter", zlib_body, 0, 0x339, (TEXT, None)),
        ("unknown type", zlib_body, 0, 0x401, (None, "BODY_UNREADABLE")),
        ("zlib that is lz4", lz4_body, 0, 0x301, (None, "BODY_UNREADABLE")),
        ("lz4 that is zstd", zstd_body, 0, 0x101, (None, "BODY_UNREADABLE")),
        ("zstd that is zlib", zlib_body, 0, 0x201, (None, "BODY_UNREADABLE")),
        ("zlib cut", zlib_body[:-3], 0, 0x301, (None, "BODY_UNREADABLE")),
        ("lz4 cut", lz4_body[:-3], 0, 0x101, (None, "BODY_UNREADABLE")),
        ("zstd cut", zstd_body[:-3], 0, 0x201, (None, "BODY_UNREADABLE")),
    ]:
        assert read_body(stored, crc, sys_flag) == expected, why


def test_a_body_that_unpacks_to_more_than_the_bound_is_refused():
    for sys_flag, compress in ((0x301, zlib.compress), (0x101, lz4.frame.compress), (0x201, zstandard.compress)):
        assert read_body(compress(bytes(100_000)), 0, sys_flag, 100_000) == (bytes(100_000), None)
        assert read_body(compress(bytes(100_001)), 0, sys_flag, 100_000) == (None, "BODY_TOO_LARGE")
        assert read_body(compress(bytes(5_000_000)), 0, sys_flag, 100_000) == (None, "BODY_TOO_LARGE")


def test_hosts_are_written_as_people_know_them():
    loopback = ip_address("127.0.0.1").packed
    documentation = ip_address("2001:db8::1").packed
    assert host_text(loopback, 42426) == "127.0.0.1:42426"
    assert host_text(documentation, 65535) == "[2001:db8::1]:65535"
    assert host_text(loopback, 65536) is None
    assert host_text(loopback, -1) is None


def test_a_record_still_being_written_is_not_complete():
    record = encode_record(0)
    for why, data, expected in [
        ("all there", record, True),
        ("body not there yet", changed(record, 88, bytes(5)), False),
        ("last byte of the properties not there yet", changed(record, 117, b"\0"), False),
        ("no properties at all", encode_record(0, properties=b""), True),
    ]:
        assert is_complete(data, read_frame(data, 0, len(data))) is expected, why
