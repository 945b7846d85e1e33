"""The store reader without Spark: which rows a damaged log gives, which topics, which part of which file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from record_encoder import blank, encode_record, encode_records, write_log

from txmq_lib.errors import UsageError
from txmq_lib.rocketmq.store.commit_log import list_files, log_end
from txmq_lib.rocketmq.store.message_batch import ARROW_SCHEMA
from txmq_lib.rocketmq.store_source import FileRange, StoreReader, materialized_records

THREE = encode_records(0, 3)
NOTHING = dict.fromkeys(ARROW_SCHEMA.names)


def reader(store: Path, start: int = 0, stop: int | None = None, **options: str) -> StoreReader:
    end = log_end(list_files(str(store)).files).offset if stop is None else stop
    return StoreReader({"path": str(store), "from_offset": str(start), "to_offset": str(end), **options})


def rows(reading: StoreReader) -> list[dict]:
    batches = [batch for part in reading.partitions() for batch in reading.read(part)]
    return sorted(pa.Table.from_batches(batches, schema=ARROW_SCHEMA).to_pylist(), key=lambda row: row["position"])


def reasons(store: Path, **options: str) -> list[tuple[int, str | None]]:
    return [(row["position"], row["reason"]) for row in rows(reader(store, **options))]


def test_a_flipped_body_byte_and_a_record_torn_inside_are_rows_with_a_reason_and_their_bytes(tmp_path):
    log = encode_records(0, 5)
    log = log[:90] + b"X" + log[91:]
    log = log[:260] + bytes(80) + log[340:]
    store = write_log(tmp_path, [log + log[:60]])
    found = rows(reader(store))
    assert [(row["position"], row["reason"], row["queue_offset"]) for row in found] == [
        (0, "BODY_CRC", 0),
        (118, None, 1),
        (236, "RECORD_TORN", None),
        (354, None, 3),
        (472, None, 4),
    ]
    assert (found[0]["topic"], found[0]["body"], found[0]["raw"]) == ("TopicA", None, log[:118])
    assert found[2] == NOTHING | {"reason": "RECORD_TORN", "raw": log[236:354], "position": 236}
    assert log_end(list_files(str(store)).files).waiting == 1


def test_of_a_long_torn_stretch_the_first_64_kib_are_kept(tmp_path):
    store = write_log(tmp_path, [b"?" * 100_000 + encode_record(100_000)], file_size=1 << 20)
    [torn, good] = rows(reader(store))
    assert (torn["raw"], torn["position"], good["position"]) == (b"?" * 65_536, 0, 100_000)


def test_every_file_of_the_range_is_a_task_and_a_lost_end_of_an_older_file_is_damage(tmp_path):
    contents = [THREE + blank(354), encode_records(4096, 2), encode_records(8192, 3) + blank(8192), b""]
    store = write_log(tmp_path, contents)
    reading = reader(store, 236)
    assert [(part.start, part.stop) for part in reading.partitions()] == [(236, 4096), (4096, 8192), (8192, 8546)]
    assert [(row["position"], row["reason"]) for row in rows(reading)] == [
        (236, None),
        (4096, None),
        (4214, None),
        (4332, "RECORD_TORN"),
        (8192, None),
        (8310, None),
        (8428, None),
    ]
    assert [row["position"] for row in rows(reader(store, 4214, 4332))] == [4214]
    assert reader(store, 354, 354).partitions() == []
    assert reader(store, 10**6, 10**7).partitions() == []
    assert list(reader(store).read(None)) == []


def test_what_was_deleted_or_lies_in_a_gap_has_no_task(tmp_path):
    store = write_log(tmp_path, [encode_records(4096 * number, 1) for number in range(5)])
    for number in (0, 3):
        (store / "commitlog" / f"{4096 * number:020d}").unlink()
    parts = reader(store).partitions()
    assert all(isinstance(part, FileRange) for part in parts)
    assert [(part.start, part.stop) for part in parts] == [(4096, 8192), (8192, 12288), (16384, 16502)]


def test_only_the_topics_asked_for_are_decoded_and_every_torn_stretch_is_shown(tmp_path):
    log = b""
    for topic in (b"Orders", b"%RETRY%CG", b"orders", b"Orders2", b"Or*"):
        log += encode_record(len(log), topic=topic)
    bad_start = len(log)
    log += b"\xff" * 40
    unread = len(log)
    log += encode_record(unread, topic=b"Other", crc=1)
    store = write_log(tmp_path, [log + encode_record(len(log), topic=b"Orders")])
    by_topics = {
        None: ["Orders", "%RETRY%CG", "orders", "Orders2", "Or*", None, "Other", "Orders"],
        '["Orders"]': ["Orders", None, "Orders"],
        '["Orders", "%RETRY%*"]': ["Orders", "%RETRY%CG", None, "Orders"],
        '["Or*"]': ["Orders", "Orders2", "Or*", None, "Orders"],
        '["?rders"]': ["Orders", "orders", None, "Orders"],
        "[]": [None],
    }
    for topics, expected in by_topics.items():
        options = {} if topics is None else {"topics": topics}
        assert [row["topic"] for row in rows(reader(store, **options))] == expected, topics
    assert (bad_start, "RECORD_TORN") in reasons(store, topics="[]")
    assert (unread, "BODY_CRC") in reasons(store)


def test_a_multi_path_log_is_read_from_all_its_directories(tmp_path):
    store = write_log(tmp_path, [THREE + blank(354), encode_records(4096, 1)])
    (tmp_path / "disk2").mkdir()
    (store / "commitlog" / f"{4096:020d}").rename(tmp_path / "disk2" / f"{4096:020d}")
    dirs = f'["{store}/commitlog", "{tmp_path}/disk2"]'
    found = rows(reader(store, stop=4214, commit_log_dirs=dirs))
    assert [row["position"] for row in found] == [0, 118, 236, 4096]


def test_options_that_cannot_be_meant_are_refused_by_name():
    good = {"path": "/store", "from_offset": "0", "to_offset": "10"}
    assert StoreReader(good).topics is None
    for option, value in [
        ("path", None),
        ("from_offset", None),
        ("to_offset", "-1"),
        ("to_offset", "ten"),
        ("topics", "Orders"),
        ("topics", '{"Orders": 1}'),
        ("topics", "[1]"),
        ("commit_log_dirs", "/a,/b"),
    ]:
        options = {name: text for name, text in (good | {option: value}).items() if text is not None}
        with pytest.raises(UsageError, match=option):
            StoreReader(options)


def test_a_body_that_is_too_large_for_the_reader_is_left_out(tmp_path):
    log = encode_record(0, body=bytes(101)) + encode_record(len(encode_record(0, body=bytes(101))), queue_offset=1)
    options = {"path": str(write_log(tmp_path, [log])), "from_offset": "0", "to_offset": str(len(log))}
    decoded = [
        (row["queue_offset"], row["reason"])
        for row in materialized_records({**options, "max_body_bytes": "100"}).to_pylist()
    ]
    assert decoded == [(0, "BODY_TOO_LARGE"), (1, None)]
    assert materialized_records({**options, "max_body_bytes": "101"})["reason"].to_pylist() == [None, None]
