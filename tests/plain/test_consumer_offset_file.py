"""The broker's offset table: no JSON, its own backup, keys with two @, and entries that are no offsets."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from captured import unpack_store
from truth import CAPTURES

from txmq_lib.errors import InputError
from txmq_lib.rocketmq.store.consumer_offset_file import (
    BadOffsetEntry,
    ConsumerOffsets,
    OffsetEntry,
    parse_consumer_offsets,
    read_consumer_offset_file,
)

NEW = b'{"offsetTable":{"T@g":{0:7,1:9}}}'
OLD = b'{"offsetTable":{"T@g":{0:5}}}'
CONSUMER_TABLE = [
    ("RMQ_SYS_TRANS_OP_HALF_TOPIC", "CID_RMQ_SYS_TRANS", [60]),
    ("TopicR", "CG_BCAST@broadcast", [107, 106]),
    ("TopicQ", "CG_TAG", [85, 106, 85, 107, 85, 106, 85, 106]),
    ("TopicQ", "CG_CLUSTER", [85, 106, 85, 107, 85, 106, 85, 106]),
    ("RMQ_SYS_TRANS_HALF_TOPIC", "CID_RMQ_SYS_TRANS", [1148]),
    ("%RETRY%CG_TAG", "CG_TAG", [0]),
    ("%RETRY%CG_CLUSTER", "CG_CLUSTER", [4]),
    ("TopicR", "CG_RESET", [107, 106]),
]


def write_table(store: Path, main: bytes | None, backup: bytes | None) -> str:
    shutil.rmtree(store, ignore_errors=True)
    (store / "config").mkdir(parents=True)
    for name, content, modified in (("consumerOffset.json", main, 2_000), ("consumerOffset.json.bak", backup, 1_000)):
        if content is not None:
            (store / "config" / name).write_bytes(content)
            os.utime(store / "config" / name, ns=(0, modified * 1_000_000_000 + 5_999_999))
    return str(store)


def test_a_real_brokers_table_is_read_whole():
    offsets = parse_consumer_offsets((CAPTURES / "consumer" / "config" / "consumerOffset.json").read_bytes())
    assert offsets.bad == ()
    assert list(offsets.entries) == [
        OffsetEntry(topic, group, queue_id, offset)
        for topic, group, queues in CONSUMER_TABLE
        for queue_id, offset in enumerate(queues)
    ]


def test_a_store_gives_its_table_the_file_it_came_from_and_its_time(tmp_path):
    store = unpack_store("basic", tmp_path)
    found = read_consumer_offset_file(str(store))
    assert found.offsets.entries == (
        OffsetEntry("RMQ_SYS_TRANS_OP_HALF_TOPIC", "CID_RMQ_SYS_TRANS", 0, 14),
        OffsetEntry("RMQ_SYS_TRANS_HALF_TOPIC", "CID_RMQ_SYS_TRANS", 0, 453),
    )
    assert found.path == str(store / "config" / "consumerOffset.json")
    assert 1_795_257_000_000 < found.modified_ms < 1_795_258_000_000


def test_the_backup_counts_where_the_file_cannot_be_used(tmp_path):
    new = (OffsetEntry("T", "g", 0, 7), OffsetEntry("T", "g", 1, 9))
    old = (OffsetEntry("T", "g", 0, 5),)
    for why, main, backup, entries, suffix, modified_ms in [
        ("both good", NEW, OLD, new, "json", 2_000_005),
        ("no backup", NEW, None, new, "json", 2_000_005),
        ("main missing", None, OLD, old, "json.bak", 1_000_005),
        ("main empty", b"", OLD, old, "json.bak", 1_000_005),
        ("main cut", NEW[:-3], OLD, old, "json.bak", 1_000_005),
        ("main ends in zeros", NEW[:-3] + bytes(3), OLD, old, "json.bak", 1_000_005),
        ("main no object", b"[]", OLD, old, "json.bak", 1_000_005),
        ("main no UTF-8", NEW.replace(b"T", b"\xff"), OLD, old, "json.bak", 1_000_005),
        ("main without a table, as of a new broker", b"{}", OLD, (), "json", 2_000_005),
    ]:
        found = read_consumer_offset_file(write_table(tmp_path / "store", main, backup))
        assert found.offsets == ConsumerOffsets(entries, ()), why
        assert (Path(found.path).name, found.modified_ms) == (f"consumerOffset.{suffix}", modified_ms), why


def test_a_table_that_cannot_be_used_at_all_is_one_bad_entry(tmp_path):
    assert read_consumer_offset_file(write_table(tmp_path / "none", None, None)) is None
    assert read_consumer_offset_file(str(tmp_path / "nowhere")) is None
    found = read_consumer_offset_file(write_table(tmp_path / "both", NEW[:9], b""))
    assert found.offsets == ConsumerOffsets((), (BadOffsetEntry("OFFSET_FILE_UNREADABLE", '{"offsetT'),))
    assert Path(found.path).name == "consumerOffset.json"
    (tmp_path / "directory" / "config" / "consumerOffset.json").mkdir(parents=True)
    with pytest.raises(InputError, match=r"consumerOffset\.json"):
        read_consumer_offset_file(str(tmp_path / "directory"))


def test_quoting_bare_keys_leaves_strings_as_they_are():
    document = r"""{
        "groupTopicMap" : {"g":["{1:2}"]},
        "pullOffsetTable":{"T@pulled":{0:99}},
        "offsetTable":{
            "a{0:1}@g, 2:3" : {0:5 , 1 :6,"2":7},
            "q\"{3:4}\"@g\\" : { 10 : 11 },
            "Tab\u0040g":{0:1},
            "%RETRY%g@g@h":{2147483647:9223372036854775807}
        }
    }"""
    assert parse_consumer_offsets(document.encode()) == ConsumerOffsets(
        (
            OffsetEntry("a{0:1}", "g, 2:3", 0, 5),
            OffsetEntry("a{0:1}", "g, 2:3", 1, 6),
            OffsetEntry("a{0:1}", "g, 2:3", 2, 7),
            OffsetEntry('q"{3:4}"', "g\\", 10, 11),
            OffsetEntry("Tab", "g", 0, 1),
            OffsetEntry("%RETRY%g", "g@h", 2147483647, 9223372036854775807),
        ),
        (),
    )


def test_an_entry_that_is_no_offset_is_bad_and_the_others_count():
    cases = [
        ('"T@g":{0:-1}', "OFFSET_NEGATIVE", {"T@g": {"0": -1}}),
        ('"T@g":{0:1.5}', "OFFSET_NOT_INTEGER", {"T@g": {"0": 1.5}}),
        ('"T@g":{0:"5"}', "OFFSET_NOT_INTEGER", {"T@g": {"0": "5"}}),
        ('"T@g":{0:null}', "OFFSET_NOT_INTEGER", {"T@g": {"0": None}}),
        ('"T@g":{0:true}', "OFFSET_NOT_INTEGER", {"T@g": {"0": True}}),
        ('"T@g":{0:9223372036854775808}', "OFFSET_NOT_INTEGER", {"T@g": {"0": 9223372036854775808}}),
        (f'"T@g":{{0:{"9" * 5000}}}', "OFFSET_NOT_INTEGER", {"T@g": {"0": "9" * 5000}}),
        ('"T\\ud800@g":{0:1}', "OFFSET_ENTRY_MALFORMED", {"T\ud800@g": {"0": 1}}),
        ('"Tg":{0:1}', "OFFSET_ENTRY_MALFORMED", {"Tg": {"0": 1}}),
        ('"@g":{0:1}', "OFFSET_ENTRY_MALFORMED", {"@g": {"0": 1}}),
        ('"T@":{0:1}', "OFFSET_ENTRY_MALFORMED", {"T@": {"0": 1}}),
        ('"T@g":{-1:1}', "OFFSET_ENTRY_MALFORMED", {"T@g": {"-1": 1}}),
        ('"T@g":{2147483648:1}', "OFFSET_ENTRY_MALFORMED", {"T@g": {"2147483648": 1}}),
        (f'"T@g":{{{"9" * 5000}:1}}', "OFFSET_ENTRY_MALFORMED", {"T@g": {"9" * 5000: 1}}),
        ('"T@g":{"x":1}', "OFFSET_ENTRY_MALFORMED", {"T@g": {"x": 1}}),
        ('"T@g":{"³":1}', "OFFSET_ENTRY_MALFORMED", {"T@g": {"³": 1}}),
        ('"T@g":[0,1]', "OFFSET_ENTRY_MALFORMED", {"T@g": [0, 1]}),
        ('"T@g":null', "OFFSET_ENTRY_MALFORMED", {"T@g": None}),
    ]
    for text, reason, entry in cases:
        found = parse_consumer_offsets(f'{{"offsetTable":{{"A@a":{{0:1}},{text},"Z@z":{{0:2}}}}}}'.encode())
        assert found.entries == (OffsetEntry("A", "a", 0, 1), OffsetEntry("Z", "z", 0, 2)), text
        [(found_reason, raw)] = found.bad
        assert (found_reason, json.loads(raw)) == (reason, entry), text


def test_bytes_that_are_no_table_never_raise():
    for data in (b"", b"null", b"5", b'"x"', b'{"offsetTable":[]}', b'{"offsetTable":', b"\xff\xfe", b"[" * 100_000):
        assert [bad.reason for bad in parse_consumer_offsets(data).bad] == ["OFFSET_FILE_UNREADABLE"], data[:20]


@pytest.mark.parametrize(
    "run",
    [b'"' + b'\\"' * 500_000, b"7" * 1_000_000, b"7" * 500_000 + b" " * 500_000],
    ids=["quotes", "digits", "spaces"],
)
def test_long_runs_of_one_byte_take_no_longer_than_their_length(run):
    begun = time.monotonic()
    for document in (run, b'{"offsetTable":{"T@g":{0:1},' + run):
        assert [bad.reason for bad in parse_consumer_offsets(document).bad] == ["OFFSET_FILE_UNREADABLE"]
    assert time.monotonic() - begun < 10


def test_an_entry_nested_as_deep_as_can_be_read_is_told_of_too():
    for depth in range(900, 1000):
        table = b'{"offsetTable":{"T@g":{0:%s%s}}}' % (b"[" * depth, b"]" * depth)
        [bad] = parse_consumer_offsets(table).bad
        assert bad.reason in ("OFFSET_NOT_INTEGER", "OFFSET_FILE_UNREADABLE")


def test_what_is_kept_of_a_bad_entry_is_a_text_that_a_table_can_hold():
    for text in ('"T\\ud800@g":{0:1}', '"T@g":{0:"\\udfff"}'):
        [bad] = parse_consumer_offsets(f'{{"offsetTable":{{{text}}}}}'.encode()).bad
        assert bad.raw.encode("utf-8")
