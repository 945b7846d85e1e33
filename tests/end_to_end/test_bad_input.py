"""Bad records go to quarantine with a reason, once; the good ones beside them land."""

from __future__ import annotations

import base64
import copy
import errno
import gzip
import json
import os
import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO

import pytest
import truth
import zstandard
from captured import unpack_store
from house import House, wall_clock
from moment import NOW
from record_encoder import encode_record, write_log

from txmq_lib.errors import InputError
from txmq_lib.files import line_reader
from txmq_lib.passes.current import PassReport
from txmq_lib.pipeline.land.job import run_land_files
from txmq_lib.views.declared.running import QUARANTINE
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.select import ViewQuery, view_rows

HALF_MS = 1_795_257_051_730


def half(offset: int, **changes) -> dict:
    row = copy.deepcopy(truth.rows("basic", "half")[0])
    row |= {"queueOffset": offset, "commitLogOffset": 1000 * offset, **changes}
    row["properties"]["UNIQ_KEY"] = f"T{offset}"
    return row


def op(offset: int, text: bytes, tag: str | None = "d") -> dict:
    row = copy.deepcopy(truth.rows("basic", "op")[0])
    row.update(queueOffset=offset, commitLogOffset=5_000_000 + offset, bodyBase64=base64.b64encode(text).decode())
    row["properties"] = {"WAIT": "true", **({"TAGS": tag} if tag else {})}
    return row


def reasons(house: House, kind: str) -> list[str]:
    return sorted(row["reason"] for row in house.rows("quarantine") if row["kind"] == kind)


@pytest.mark.parametrize("is_small", [True, pytest.param(False, marks=pytest.mark.long)], indirect=True)
def test_bad_half_lines_are_quarantined_and_good_ones_land_once(open_house, is_small):
    house = open_house("role=audit")
    without = half(2)
    del without["commitLogOffset"]
    lines = [
        json.dumps(half(0)),
        json.dumps({**half(1), "someNewField": [1, 2]}),
        json.dumps(half(3))[:-40],
        json.dumps(without),
        json.dumps(half(4, queueOffset="four")),
        json.dumps(half(5, queueOffset=-5)),
        json.dumps(half(6, bornTimestamp=2**62)),
        json.dumps(half(7, topic="TopicA")),
        json.dumps(half(0, flag=77)),
        json.dumps(half(2**63 - 1, commitLogOffset=99)),
        "",
        json.dumps(half(8)),
    ]
    house.land_rows("half", lines)
    assert sorted(row["queue_offset"] for row in house.rows("half_message")) == [0, 1, 8]
    assert reasons(house, "half") == [
        *("BROKEN_JSON", "KEY_CONFLICT", "MISSING_FIELD", "NEGATIVE_NUMBER", "OFFSET_OUT_OF_RANGE"),
        *("TIMESTAMP_OUT_OF_RANGE", "WRONG_TOPIC", "WRONG_TYPE"),
    ]
    before = house.versions()
    house.land_rows("half", lines)
    assert house.versions() == before


@pytest.mark.parametrize("is_small", [True, pytest.param(False, marks=pytest.mark.long)], indirect=True)
def test_each_usable_token_of_an_op_lands_and_each_other_is_named(open_house, is_small):
    house = open_house("role=audit")
    ops = [op(0, b"7,x,,9"), op(1, b"8,", tag="z"), op(2, b"5,5,"), op(3, b"-1,4,")]
    house.land_rows("op", ops)
    named = sorted((row["queue_offset"], row["position"], row["half_queue_offset"]) for row in house.rows("op_message"))
    assert [(offset, token) for offset, _, token in named] == [(0, 7), (0, 9), (2, 5), (2, 5), (3, 4)]
    faults = sorted((row["reason"], row["detail"]) for row in house.rows("quarantine"))
    assert [reason for reason, _ in faults] == ["OP_TAG", "OP_TOKEN", "OP_TOKEN"]
    assert [detail.split()[-1] for _, detail in faults[1:]] == ["-1", "x"]
    before = house.versions()
    house.land_rows("op", ops)
    assert house.versions() == before


def test_bad_ends_offsets_and_acks_are_quarantined(open_house):
    house = open_house()
    end = {"ts": HALF_MS, "producerGroup": "G", "tranStateTableOffset": "1", "commitLogOffset": "2"}
    house.land_rows(
        "end",
        [
            {**end, "commitOrRollback": "8"},
            {**end, "commitOrRollback": "eight"},
            end,
            {**end, "commitOrRollback": 8, "bname": "another"},
            {**end, "commitOrRollback": 8, "commitLogOffset": -2},
        ],
    )
    assert len(house.rows("end_transaction")) == 1
    assert reasons(house, "end") == ["BROKER_MISMATCH", "MISSING_FIELD", "NEGATIVE_NUMBER", "WRONG_TYPE"]
    report = {"ts": HALF_MS, "group": "G", "topic": "T", "queueId": 0, "offset": 5}
    reports = [report, {**report, "offset": -1}, {**report, "offset": "x"}, {**report, "group": {"a": 1}}, "[]"]
    house.land_rows("offset", reports)
    assert [row["next_offset"] for row in house.rows("consumer_offset_commit")] == [5]
    assert reasons(house, "offset") == ["BROKEN_JSON", "NEGATIVE_NUMBER", "WRONG_TYPE", "WRONG_TYPE"]
    ack = {"ts": HALF_MS, "group": "G", "topic": "T", "queueId": 0, "clientId": "c", "event": "taken"}
    house.land_rows("ack", [{**ack, "offsets": [1]}, ack, {**ack, "event": "eaten"}, {**ack, "offsets": [-1]}])
    assert [row["offsets"] for row in house.rows("consumer_ack")] == [[1]]
    assert reasons(house, "ack") == ["MISSING_FIELD", "NEGATIVE_NUMBER", "UNKNOWN_EVENT"]


@pytest.mark.parametrize("is_small", [True, False], indirect=True)
def test_damage_inside_a_store_is_quarantined_and_reading_goes_on(open_house, tmp_path: Path, is_small):
    store = unpack_store("restart", tmp_path)
    log = next((store / "commitlog").iterdir())
    data = bytearray(log.read_bytes())
    halves = truth.rows("restart", "half")
    flipped, torn = halves[3], halves[10]
    data[flipped["commitLogOffset"] + 88 + 2] ^= 0xFF  # within the body: 88 bytes stand before it
    struct.pack_into(">i", data, torn["commitLogOffset"], 7)
    log.write_bytes(data)
    house = open_house("role=audit")
    house.land_store(store)
    found = {row["queue_offset"] for row in house.rows("half_message")}
    assert found == {row["queueOffset"] for row in halves} - {flipped["queueOffset"], torn["queueOffset"]}
    damage = [row for row in house.rows("quarantine") if row["raw"]]
    assert sorted(row["reason"] for row in damage) == ["BODY_CRC", "RECORD_TORN"]
    assert all(row["source"].startswith(str(store)) for row in damage)


def test_a_store_that_grows_lands_only_what_is_new(open_house, tmp_path: Path):
    store = unpack_store("restart", tmp_path)
    log = next((store / "commitlog").iterdir())
    whole = log.read_bytes()
    halves = truth.rows("restart", "half")
    cut = halves[60]["commitLogOffset"]
    torn = whole[: cut + 30]  # the record at the cut is half written
    log.write_bytes(torn + bytes(len(whole) - len(torn)))
    house = open_house("role=audit")
    first = house.land_store(store)
    assert sorted(row["queue_offset"] for row in house.rows("half_message")) == list(range(60))
    assert first.counts["waiting"] == 1
    log.write_bytes(whole)
    house.land_store(store)
    assert sorted(row["queue_offset"] for row in house.rows("half_message")) == list(range(len(halves)))
    landed = {row["landed_pass"] for row in house.rows("half_message")}
    assert landed == {1, 2}
    assert not house.rows("quarantine")
    assert house.land_store(store, is_idle_when_landed=True).counts == {"idle": 1}


@pytest.mark.long
def test_a_store_put_in_anothers_place_is_read_to_its_own_end_and_one_with_a_gap_is_refused(open_house, tmp_path: Path):
    store = unpack_store("restart", tmp_path)
    log = next((store / "commitlog").iterdir())
    whole = log.read_bytes()
    cut = truth.rows("restart", "half")[60]["commitLogOffset"]
    house = open_house("role=audit")
    first = house.land_store(store)
    (read_to,) = (row["next_offset"] for row in house.rows("landing_frontier") if row["topic"] == "*")
    log.write_bytes(whole[:cut] + bytes(len(whole) - cut))
    second = house.land_store(store)
    # Every record it has was landed: an older copy, or a log that was cut back and does not go on yet.
    assert (first.counts["rebuilt"], second.counts["rebuilt"]) == (0, 0)
    ends = [row["next_offset"] for row in house.rows("landing_frontier") if row["topic"] == "*"]
    assert ends == [read_to]
    far = log.with_name(f"{4 * len(whole):020d}")
    far.write_bytes(whole)
    with pytest.raises(InputError, match=f"misses physical offsets {len(whole)} to {4 * len(whole)}"):
        house.land_store(store)
    far.unlink()
    log.write_bytes(whole)
    house.land_store(store)
    assert len(house.rows("half_message")) == len(truth.rows("restart", "half"))


def test_a_store_whose_headers_state_no_times_and_no_offsets_lands_its_other_records(open_house, tmp_path: Path):
    absurd = {"first": {"store_ms": 2**63 - 1}, "far": {"queue_offset": 2**63 - 1}, "last": {"store_ms": -(2**63)}}
    log = b""
    for fields in (absurd["first"], {"queue_offset": 1}, absurd["far"], {"queue_offset": 3}, absurd["last"]):
        log += encode_record(len(log), **fields)
    house = open_house("role=audit")
    house.land_store(write_log(tmp_path / "store", [log]))
    assert sorted(row["queue_offset"] for row in house.rows("message")) == [1, 3]
    assert reasons(house, "message") == ["OFFSET_OUT_OF_RANGE", *["TIMESTAMP_OUT_OF_RANGE"] * 2]
    [whole] = [row for row in house.rows("landing_frontier") if row["topic"] == "*"]
    assert (whole["next_offset"], whole["highest_store_timestamp"]) == (len(log), None)


def test_what_is_quarantined_can_be_read_whatever_the_bytes_were(open_house):
    house = open_house("role=audit")
    path = house.scratch / "odd.jsonl"
    path.write_bytes(
        json.dumps(half(0)).encode() + b"\n" + json.dumps(half(1)).encode().replace(b"TRANS", b"\xff\xfe") + b"\n"
    )
    house.land("half", path)
    assert [row["queue_offset"] for row in house.rows("half_message")] == [0]
    [shown] = view_rows(WarehouseReader(house.warehouse.uri), QUARANTINE, ViewQuery(), columns=("reason", "raw"))
    assert shown[0] == "BROKEN_JSON"
    assert "\ufffd\ufffd" in shown[1]


@pytest.mark.parametrize("is_small", [True, pytest.param(False, marks=pytest.mark.long)], indirect=True)
def test_a_broken_file_or_a_line_too_long_costs_only_itself_and_is_named(open_house, is_small):
    house = open_house("role=audit", "land.max_body_size=1")
    place = house.scratch / "given"
    place.mkdir()
    (place / "a.parquet").write_bytes(b"no parquet")
    (place / "b.jsonl.gz").write_bytes(gzip.compress(json.dumps(half(1)).encode() * 500)[:-40])
    with gzip.open(place / "c.jsonl.gz", "wb") as lines:
        lines.write(json.dumps(half(2)).encode() + b"\n" + bytes(70_000_000) + b"\n" + json.dumps(half(3)).encode())
    (place / "d.jsonl").write_text(json.dumps(half(4)) + "\n", encoding="utf-8")
    house.land("half", place)
    assert sorted(row["queue_offset"] for row in house.rows("half_message")) == [2, 3, 4]
    faults = sorted(
        (row["source"].rpartition("/")[2], row["reason"], row["detail"]) for row in house.rows("quarantine")
    )
    long_at = len(json.dumps(half(2))) + 1
    assert [(source, reason) for source, reason, _ in faults] == [
        ("a.parquet:0", "FILE_BROKEN"),
        ("b.jsonl.gz:0", "FILE_BROKEN"),
        (f"c.jsonl.gz:{long_at}", "LINE_TOO_LONG"),
    ]
    assert all(f"{place}/{source}" in detail for source, _, detail in faults)
    before = house.versions()
    house.land("half", place)
    assert house.versions() == before


@pytest.mark.long
@pytest.mark.parametrize("is_small", [True, False], indirect=True)
def test_a_large_line_lands_with_its_body_or_costs_only_itself(open_house, is_small):
    house = open_house("role=audit")
    body = bytes(range(256)) * 14_000
    large = base64.b64encode(body).decode()
    repeated = json.dumps({**half(1), "bodyBase64": large})
    unnamed = {name: value for name, value in half(2).items() if name != "bornHost"}
    lines = [
        json.dumps(half(0)),
        repeated,
        json.dumps({**unnamed, "bodyBase64": large}),
        json.dumps({**half(3), "bodyBase64": large + "A"}),
        "{" * len(large),
        # Half a surrogate pair makes a suspect of it, and the long look finds it good.
        json.dumps({**half(4), "bodyBase64": large, "bornHost": "\ud800"}),
        repeated,
    ]
    (house.scratch / "lines.jsonl").write_text("\n".join(lines), encoding="utf-8")
    house.land("half", house.scratch / "lines.jsonl")
    assert {row["queue_offset"]: row["body"] for row in house.rows("half_message")} == {
        0: base64.b64decode(half(0)["bodyBase64"]),
        1: body,
        4: body,
    }
    kept = {row["reason"]: row["raw"] for row in house.rows("quarantine")}
    assert sorted(kept) == ["BODY_NOT_BASE64", "BROKEN_JSON", "MISSING_FIELD"]
    assert kept["BROKEN_JSON"] == "{" * (64 << 10)
    assert all(len(raw) <= 64 << 10 for raw in kept.values())
    before = house.versions()
    house.land("half", house.scratch / "lines.jsonl")
    assert house.versions() == before


def test_a_file_that_cannot_be_opened_is_counted_and_looked_at_again(open_house):
    house = open_house("role=audit")
    path = house.scratch / "held.jsonl"
    (house.scratch / "good.jsonl").write_text(json.dumps(half(0)) + "\n", encoding="utf-8")
    path.write_text(json.dumps(half(1)) + "\n", encoding="utf-8")
    files = [house.scratch / "good.jsonl", path]
    with unopened(path):
        assert land_when_new(house, files).counts["unread"] == 1
    assert sorted(row["queue_offset"] for row in house.rows("half_message")) == [0]
    assert [row["reason"] for row in house.rows("quarantine")] == ["FILE_UNREADABLE"]
    assert "idle" not in land_when_new(house, files).counts
    assert sorted(row["queue_offset"] for row in house.rows("half_message")) == [0, 1]
    assert land_when_new(house, files).counts == {"idle": 1}


@contextmanager
def unopened(path: Path) -> Iterator[None]:
    """Within it the file is there and cannot be opened; root can open what permissions forbid, so they do not do."""
    real = line_reader._opened

    def refuse(name: bytes) -> AbstractContextManager[BinaryIO]:
        if name == os.fsencode(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
        return real(name)

    line_reader._opened = refuse
    try:
        yield
    finally:
        line_reader._opened = real


def land_when_new(house: House, files: list[Path]) -> PassReport:
    return run_land_files(
        house.warehouse,
        house.settings,
        kind="half",
        paths=[str(file) for file in files],
        broker_name="b",
        now=NOW,
        wall_clock=wall_clock,
        is_idle_when_landed=True,
    )


def test_a_few_kb_that_stand_for_much_are_told_of_and_the_records_around_them_land(open_house, tmp_path: Path):
    log = bytearray()
    for offset in range(9):
        size = {2: 20 << 20, 4: 15 << 20, 5: 15 << 20, 6: 15 << 20, 7: 15 << 20, 8: 15 << 20}.get(offset, 0)
        large = {"body": zstandard.compress(bytes(size)), "sys_flag": 0x201} if size else {}
        log += encode_record(len(log), queue_offset=offset, **large)
    house = open_house("role=audit")
    house.land_store(write_log(tmp_path / "store", [bytes(log)], file_size=1 << 20))
    sizes = {row["queue_offset"]: len(row["body"]) for row in house.rows("message")}
    assert sizes == {0: 5, 1: 5, 3: 5, **dict.fromkeys(range(4, 9), 15 << 20)}
    [refused] = house.rows("quarantine")
    assert refused["reason"] == "BODY_TOO_LARGE"
    assert refused["detail"] == f"at physical offset {2 * len(encode_record(0))}"
