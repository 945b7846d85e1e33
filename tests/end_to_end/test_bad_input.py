"""Bad records go to quarantine with a reason, once; the good ones beside them land."""

from __future__ import annotations

import copy
import json
import struct
from pathlib import Path

import truth
from captured import unpack_store
from house import House

HALF_MS = 1_795_257_051_730


def half(offset: int, **changes) -> dict:
    row = copy.deepcopy(truth.rows("basic", "half")[0])
    row |= {"queueOffset": offset, "commitLogOffset": 1000 * offset, **changes}
    row["properties"]["UNIQ_KEY"] = f"T{offset}"
    return row


def op(offset: int, text: bytes, tag: str | None = "d") -> dict:
    import base64

    row = copy.deepcopy(truth.rows("basic", "op")[0])
    row.update(queueOffset=offset, commitLogOffset=5_000_000 + offset, bodyBase64=base64.b64encode(text).decode())
    row["properties"] = {"WAIT": "true", **({"TAGS": tag} if tag else {})}
    return row


def reasons(house: House, kind: str) -> list[str]:
    return sorted(row["reason"] for row in house.rows("quarantine") if row["kind"] == kind)


def test_bad_half_lines_are_quarantined_and_good_ones_land_once(open_house):
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
        "",
        json.dumps(half(8)),
    ]
    house.land_rows("half", lines)
    assert sorted(row["queue_offset"] for row in house.rows("half_message")) == [0, 1, 8]
    assert reasons(house, "half") == [
        *("BROKEN_JSON", "KEY_CONFLICT", "MISSING_FIELD", "NEGATIVE_NUMBER"),
        *("TIMESTAMP_OUT_OF_RANGE", "WRONG_TOPIC", "WRONG_TYPE"),
    ]
    before = house.versions()
    house.land_rows("half", lines)
    assert house.versions() == before


def test_each_usable_token_of_an_op_lands_and_each_other_is_named(open_house):
    house = open_house("role=audit")
    ops = [op(0, b"7,x,,9"), op(1, b"8,", tag="z"), op(2, b"5,5,"), op(3, b"-1,4,")]
    house.land_rows("op", ops)
    named = sorted((row["queue_offset"], row["position"], row["half_queue_offset"]) for row in house.rows("op_message"))
    assert [(offset, token) for offset, _, token in named] == [(0, 7), (0, 9), (2, 5), (2, 5), (3, 4)]
    told = sorted((row["reason"], row["detail"]) for row in house.rows("quarantine"))
    assert [reason for reason, _ in told] == ["OP_TAG", "OP_TOKEN", "OP_TOKEN"]
    assert [detail.split()[-1] for _, detail in told[1:]] == ["-1", "x"]
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
    house.land_rows("offset", [report, {**report, "offset": -1}, {**report, "offset": "x"}, "[]"])
    assert [row["next_offset"] for row in house.rows("consumer_offset_commit")] == [5]
    assert reasons(house, "offset") == ["BROKEN_JSON", "NEGATIVE_NUMBER", "WRONG_TYPE"]
    ack = {"ts": HALF_MS, "group": "G", "topic": "T", "queueId": 0, "clientId": "c", "event": "taken"}
    house.land_rows("ack", [{**ack, "offsets": [1]}, ack, {**ack, "event": "eaten"}, {**ack, "offsets": [-1]}])
    assert [row["offsets"] for row in house.rows("consumer_ack")] == [[1]]
    assert reasons(house, "ack") == ["MISSING_FIELD", "NEGATIVE_NUMBER", "UNKNOWN_EVENT"]


def test_damage_inside_a_store_is_quarantined_and_reading_goes_on(open_house, tmp_path: Path):
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
    assert len(damage) == 2
    assert all(row["reason"] and row["source"] for row in damage)


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
