"""Checks of a broker that have stopped: in the status, the metrics, a trace and the alert; and what looks like it and is not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from moment import NOW_TEXT as NOON

KEY = {"broker_name": "b", "transaction_id": "T18", "producer_group": "G", "born_timestamp": "2026-11-21T11:00:00Z"}


def at(clock: str) -> str:
    return f"2026-11-21T{clock}Z"


def cursor(**more: Any) -> dict[str, Any]:
    """Read at 11:10:00 and 11:12:06.001, where it may stand for 120 s, and a half is due after 6 s."""
    row = {
        "broker_name": "b", "queue_id": 0, "half_offset": 17, "op_offset": 3, "first_seen_timestamp": at("11:10:00"),
        "last_seen_timestamp": at("11:12:06.001"), "landings": 2, "transaction_timeout_ms": 6_000,
        "longest_stand_ms": 120_000,
    }  # fmt: skip
    return {**row, **more}


def half(offset: int, stored: str, **more: Any) -> dict[str, Any]:
    return {**KEY, "transaction_id": f"T{offset}", "queue_id": 0, "queue_offset": offset, "store_timestamp": at(stored),
            "commit_log_offset": offset * 100, **more}  # fmt: skip


HALVES = [half(16, "11:00:00"), half(17, "11:10:00"), half(18, "11:11:00"), half(19, "11:11:50")]


@pytest.fixture
def unchecked(warehouse, txmq):
    def told(cursors: list[dict[str, Any]], halves: list[dict[str, Any]]) -> list[dict[str, Any]]:
        uri = warehouse({"check_cursor": cursors, "half_message": halves})
        return json.loads(txmq("--warehouse", uri, "status", "--now", NOON, "--format", "json")[1])["unchecked"]

    return told


def test_a_half_that_was_due_for_longer_than_a_cursor_may_stand_shows_that_nothing_checks(unchecked):
    assert unchecked([cursor()], HALVES) == [
        {"broker_name": "b", "queue_id": 0, "half_offset": 17, "first_seen_timestamp": "2026-11-21T11:10:00.000Z",
         "last_seen_timestamp": "2026-11-21T11:12:06.001Z", "waiting": 3, "waiting_since": "2026-11-21T11:10:00.000Z"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("cursors", "halves"),
    [
        ([cursor(last_seen_timestamp=at("11:12:06"))], HALVES),
        ([cursor(half_offset=20)], HALVES),
        ([cursor(landings=1)], HALVES),
        ([cursor(transaction_timeout_ms=7_000)], HALVES),
        ([cursor(longest_stand_ms=180_000)], HALVES),
        ([cursor(first_seen_timestamp=at("11:11:00"))], HALVES),
        ([cursor()], [half(17, "11:10:01"), half(18, "11:00:00")]),
        ([cursor(broker_name="c")], HALVES),
        ([cursor(queue_id=1)], HALVES),
        ([], HALVES),
    ],
    ids=["not a moment longer", "nothing behind it", "one landing", "due later", "rounds are slower",
         "moved since", "the first is younger than the second", "another broker", "another queue", "never landed"],
)  # fmt: skip
def test_what_a_broker_that_checks_may_look_like_is_not_told(unchecked, cursors, halves):
    assert unchecked(cursors, halves) == []


def test_a_broker_whose_cursor_has_never_moved_is_told_from_its_first_half_on(unchecked):
    (found,) = unchecked([cursor(half_offset=None)], HALVES)
    assert (found["half_offset"], found["waiting"], found["waiting_since"]) == (None, 4, "2026-11-21T11:00:00.000Z")


def test_it_is_a_problem_and_an_alert_that_say_the_broker_how_many_and_since_when(warehouse, txmq):
    uri = warehouse({"check_cursor": [cursor()], "half_message": HALVES})
    code, out, _ = txmq("--warehouse", uri, "status", "--now", NOON)
    assert (code, out.splitlines()[1:3]) == (
        1,
        [
            "! 3 halves wait for checks of b, whose cursor of queue 0 stands for 2m 6s (thresholds.unchecked 0)",
            "    txmq offsets --group CID_RMQ_SYS_TRANS --broker b",
        ],
    )
    _, out, _ = txmq("--warehouse", uri, "status", "--now", NOON, "--format", "json")
    assert [each["condition"] for each in json.loads(out)["problems"]] == ["unchecked b/0"]
    assert txmq("--warehouse", uri, "--set", "thresholds.unchecked=3", "status", "--now", NOON)[0] == 0


def test_the_metric_counts_them_and_is_0_where_a_broker_checks(warehouse, txmq):
    uri = warehouse({"check_cursor": [cursor(), cursor(broker_name="fine", half_offset=20)], "half_message": HALVES})
    _, out, _ = txmq("--warehouse", uri, "metrics", "--out", "-", "--now", NOON)
    series = [line for line in out.splitlines() if line.startswith("txmq_unchecked_half_messages{")]
    assert series == [
        'txmq_unchecked_half_messages{node_id="b",node_type="broker"} 3.0',
        'txmq_unchecked_half_messages{node_id="fine",node_type="broker"} 0.0',
    ]


def traced(warehouse, txmq, rows: dict[str, list[dict[str, Any]]], which: str = "T18") -> str:
    return txmq("--warehouse", warehouse(rows), "trace", which)[1]


def test_a_trace_says_that_nothing_checks_what_waits_behind_and_what_to_do(warehouse, txmq):
    verdict = {**KEY, "verdict": "PENDING", "half_count": 1, "last_timestamp": at("11:11:00")}
    rows = {"check_cursor": [cursor()], "half_message": HALVES, "verdict": [verdict]}
    out = traced(warehouse, txmq, rows)
    words = (
        "not checked any more: the broker's cursor of queue 0 stands at offset 17, seen from 2026-11-21T11:10:00.000Z"
        " on; 3 half messages behind it, this one at offset 18"
    )
    assert f"why:   never asked about; no answer and no end has landed; {words}" in out
    assert "do:    do not wait for a check" in out
    assert "txmq settle T18" in out
    before = {**verdict, "transaction_id": "T16"}
    assert "not checked any more" not in traced(warehouse, txmq, {**rows, "verdict": [before]}, "T16"), "it is past it"
    decided = {**verdict, "verdict": "COMMITTED"}
    assert "not checked any more" not in traced(warehouse, txmq, {**rows, "verdict": [decided]})


def test_a_warehouse_of_before_has_no_cursors_and_tells_none(warehouse, txmq):
    uri = warehouse({"half_message": HALVES, "verdict": [{**KEY, "verdict": "PENDING"}]})
    shutil.rmtree(Path(uri) / "check_cursor")
    assert txmq("--warehouse", uri, "status", "--now", NOON)[0] == 0
    assert txmq("--warehouse", uri, "metrics", "--out", "-", "--now", NOON)[0] == 0
    assert txmq("--warehouse", uri, "trace", "T18")[0] == 0


def pending(offset: int, **more: Any) -> dict[str, Any]:
    return {**KEY, "transaction_id": f"T{offset}", "queue_id": 0, "queue_offset": offset, "half_offsets": [offset],
            "commit_log_offset": offset * 100, "first_store_timestamp": at("11:00:00"), **more}  # fmt: skip


PASSED = cursor(half_offset=20, passed_offset=18)
WAITING = [pending(16), pending(17), pending(18)]


def test_undecided_halves_that_the_checks_have_passed_over_are_a_problem_a_metric_and_told_in_a_trace(warehouse, txmq):
    verdict = {**KEY, "transaction_id": "T17", "verdict": "PENDING", "half_count": 1, "last_timestamp": at("11:10:00")}
    uri = warehouse({"check_cursor": [PASSED], "half_message": HALVES, "pending_half": WAITING, "verdict": [verdict]})
    code, out, _ = txmq("--warehouse", uri, "--set", "thresholds.pending_age=null", "status", "--now", NOON)
    words = "! 2 undecided halves that the checks of b passed over: they are at offset 18 of queue 0 (thresholds.unchecked 0)"
    assert (code, out.splitlines()[1:3]) == (1, [words, "    txmq pending --broker b"])
    _, out, _ = txmq("--warehouse", uri, "status", "--now", NOON, "--format", "json")
    document = json.loads(out)
    assert "unchecked b/0 passed over" in [each["condition"] for each in document["problems"]]
    assert [(each["count"], each["passed_offset"]) for each in document["passed_over"]] == [(2, 18)]
    _, out, _ = txmq("--warehouse", uri, "metrics", "--out", "-", "--now", NOON)
    assert 'txmq_unchecked_half_messages{node_id="b",node_type="broker"} 2.0' in out
    _, out, _ = txmq("--warehouse", uri, "trace", "T17")
    assert "passed over by the broker's checks: they are at offset 18 of queue 0, and neither put it back" in out
    assert "do:    do not wait for a check: no round of the broker comes back to it" in out
    assert "passed over" not in txmq("--warehouse", uri, "trace", "T18")[1]


@pytest.mark.parametrize(
    "more",
    [
        {"op_message": [{"broker_name": "b", "queue_id": 0, "half_queue_offset": 17}]},
        {"half_message": [half(17, "11:10:00"), half(21, "11:11:00", transaction_id="T17")]},
        {"trans_check_max_time": [{**KEY, "transaction_id": "T17", "commit_log_offset": 2_000}]},
        {"check_cursor": [cursor(half_offset=20, passed_offset=None)]},
        {"check_cursor": [cursor(half_offset=20, passed_offset=17)]},
        {"check_cursor": [{**PASSED, "broker_name": "c"}]},
        {"check_cursor": [{**PASSED, "queue_id": 1}]},
        {"pending_half": []},
    ],
    ids=["an op names it", "put back", "given up", "not known", "not passed yet", "another broker", "another queue",
         "decided"],
)  # fmt: skip
def test_what_was_decided_or_put_back_since_it_was_listed_was_not_passed_over(warehouse, txmq, more):
    rows = {"check_cursor": [PASSED], "half_message": [half(17, "11:10:00")], "pending_half": [pending(17)], **more}
    _, out, _ = txmq("--warehouse", warehouse(rows), "status", "--now", NOON, "--format", "json")
    assert json.loads(out)["passed_over"] == []


def test_one_that_was_given_up_and_put_back_by_hand_may_be_passed_over_again(warehouse, txmq):
    given_up = {**KEY, "transaction_id": "T17", "commit_log_offset": 900}
    rows = {"check_cursor": [PASSED], "pending_half": [pending(17)], "trans_check_max_time": [given_up]}
    _, out, _ = txmq("--warehouse", warehouse(rows), "status", "--now", NOON, "--format", "json")
    assert [each["count"] for each in json.loads(out)["passed_over"]] == [1]


def test_those_that_were_decided_since_they_were_listed_do_not_hide_one_that_was_passed_over(warehouse, txmq):
    """1,200 older ones were put back 15 times each, and are decided by what landed since."""
    old = [pending(n, half_offsets=[n * 20 + copy for copy in range(16)]) for n in range(1_200)]
    ops = [{"broker_name": "b", "queue_id": 0, "half_queue_offset": n * 20 + 3} for n in range(1_200)]
    last = pending(90_000, first_store_timestamp=at("11:30:00"))
    passed = cursor(half_offset=100_000, passed_offset=100_000)
    uri = warehouse({"check_cursor": [passed], "op_message": ops, "pending_half": [*old, last]})
    _, out, _ = txmq("--warehouse", uri, "status", "--now", NOON, "--format", "json")
    (queue,) = json.loads(out)["passed_over"]
    assert (queue["count"], queue["oldest_timestamp"], len(queue["keys"])) == (1, "2026-11-21T11:30:00.000Z", 1)


def test_all_that_were_passed_over_are_counted_and_told_in_their_traces_though_not_all_are_named(warehouse, txmq):
    old = [pending(n) for n in range(1_200)]
    last = pending(90_000, first_store_timestamp=at("11:30:00"))
    passed = cursor(half_offset=100_000, passed_offset=100_000)
    uri = warehouse({"check_cursor": [passed], "pending_half": [*old, last]})
    _, out, _ = txmq("--warehouse", uri, "status", "--now", NOON, "--format", "json")
    (queue,) = json.loads(out)["passed_over"]
    assert (queue["count"], len(queue["keys"])) == (1_201, 1_000)
    _, out, _ = txmq("--warehouse", uri, "trace", "T90000")
    assert "passed over by the broker's checks: they are at offset 100000 of queue 0" in out


LEFT = "not checked any more: it lies in RocksDB, and its broker landed with transRocksDBEnable off"


@pytest.mark.parametrize(
    ("kind", "set_ups", "queue_id", "is_left"),
    [
        ("rocketmq", "", -2, True),
        ("rocketmq", "controller, lmq", -2, True),
        ("rocketmq", "lmq, rocksdb_halves", -2, False),
        ("rocketmq", "rocksdb_checks", -2, False),
        ("rocketmq", "", 0, False),
        ("store", "", -2, False),
        (None, "", -2, False),
    ],
    ids=["switched back", "set up otherwise as well", "as it was", "new halves go elsewhere, those there are checked",
         "an ordinary half", "a store tells not all", "nobody told"],
)  # fmt: skip
def test_of_a_half_in_rocksdb_where_its_broker_looks_no_more_no_check_is_waited_for(
    warehouse, txmq, kind, set_ups, queue_id, is_left
):
    verdict = {**KEY, "verdict": "PENDING", "half_count": 1, "last_timestamp": at("11:11:00")}
    set_up = {"broker_name": "b", "kind": kind, "set_ups": set_ups, "recorded_timestamp": at("11:20:00")}
    rows = {
        "half_message": [half(18, "11:11:00", queue_id=queue_id)], "pending_half": [pending(18, queue_id=queue_id)],
        "verdict": [verdict], "broker_set_up": [set_up] if kind else [],
    }  # fmt: skip
    out = traced(warehouse, txmq, rows)
    assert (f"no answer and no end has landed; {LEFT}" in out) == is_left
    assert ("do:    do not wait for a check: its broker looks into RocksDB no more" in out) == is_left
    assert "settle T18 --commit" in out
    decided = traced(warehouse, txmq, {**rows, "pending_half": [], "verdict": [{**verdict, "verdict": "COMMITTED"}]})
    assert LEFT not in decided
