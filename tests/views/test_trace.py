"""`trace`: the events of one transaction id from every table, told in time order."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from txmq_lib.cli.output import show
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.scan import Scan
from txmq_lib.views.trace import MOST_ROWS, traces

ID = "C000020246654E0E2F2A6940C2510000"
BORN = "2026-11-21T10:30:51.730Z"
KEY = {"broker_name": "a", "transaction_id": ID, "producer_group": "GID_P1", "born_timestamp": BORN}


OF_OUTCOMES = ("outcome", "decision", "end_transaction_id")


def at(second: str) -> str:
    return f"2026-11-21T10:31:{second}Z"


def half(offset: int, physical: int, stored: str, times: int | None, **more: Any) -> dict[str, Any]:
    row = {"queue_id": 0, "queue_offset": offset, "commit_log_offset": physical, "store_timestamp": at(stored)}
    return {**KEY, **row, "real_topic": "TopicA", "real_queue_id": 2, "broker_check_times": times, **more}


def outcome(order: int, ts: str, outcome: str, **more: Any) -> dict[str, Any]:
    row = {"broker_name": "a", "ts": at(ts), "origin": "landed", "landed_pass": 4, "landing_order": order}
    return {
        **row,
        "outcome": outcome,
        "end_transaction_id": ID,
        "producer_group": "GID_P1",
        "decision": "commit",
        **more,
    }


def op(offset: int, half_offset: int, stored: str, **more: Any) -> dict[str, Any]:
    row = {"broker_name": "a", "queue_id": 0, "queue_offset": offset, "position": 0}
    return {**row, "half_queue_offset": half_offset, "store_timestamp": at(stored), **more}


def visible(offset: int, prepared: int, stored: str, **more: Any) -> dict[str, Any]:
    row = {"topic": "TopicA", "queue_id": 2, "queue_offset": offset, "commit_log_offset": 900 + offset, "sys_flag": 8}
    return {**KEY, **row, "prepared_transaction_offset": prepared, "store_timestamp": at(stored), **more}


@pytest.fixture
def traced(warehouse, txmq):
    def run(rows: dict[str, list[dict[str, Any]]], *arguments: str) -> list[dict[str, Any]]:
        status, out, err = txmq("--warehouse", warehouse(rows), "trace", ID, "--format", "json", *arguments)
        assert (status, err) == (0, "")
        return [json.loads(line) for line in out.splitlines()]

    return run


def test_every_table_tells_its_part_in_time_order_and_the_verdict_comes_last(traced):
    events = traced(
        {
            "half_message": [
                half(434, 810, "06.000", 2),
                half(34, 100, "00.000", None),
                half(404, 600, "03.000", 1),
                half(470, 880, "09.500", 0),
                half(99, 111, "00.000", None, transaction_id="OTHER"),
            ],
            "check_request": [
                {**KEY, "check_times": 1, "check_timestamp": at("04.000"), "tran_state_table_offset": 404}
            ],
            "end_outcome": [
                outcome(1, "00.100", "accepted", commit_log_offset=100, transaction_id=ID, decision="unknown"),
                outcome(2, "02.000", "held", is_held=True, commit_log_offset=600, decision="commit"),
                outcome(2, "02.000", "accepted", commit_log_offset=600, transaction_id=ID, from_transaction_check=True),
                outcome(3, "09.000", "refused", commit_log_offset=100, transaction_id=ID, code=1,
                        producer_group="GID_WRONG", reason="producer_group_wrong", remark="The producer group wrong"),
            ],
            "end_transaction": [
                {"broker_name": "a", "ts": at("02.000"), "origin": "landed", "landed_pass": 4, "landing_order": 2,
                 "commit_log_offset": 600, "transaction_id": ID},
                {"broker_name": "a", "ts": at("09.200"), "origin": "landed", "landed_pass": 5, "landing_order": 0,
                 "commit_log_offset": 810, "commit_or_rollback": 12, "producer_group": "GID_P1"},
                {"broker_name": "b", "ts": at("09.300"), "origin": "landed", "landed_pass": 5, "landing_order": 1,
                 "commit_log_offset": 810, "commit_or_rollback": 12, "transaction_id": "OTHER"},
            ],
            "message": [visible(15, 600, "07.000"), visible(16, 600, "08.000", topic="%RETRY%CG", sys_flag=8)],
            "op_message": [op(7, 404, "07.000"), op(8, 99, "07.000"), op(9, 404, "07.500", broker_name="b")],
            "trans_check_max_time": [
                {**KEY, "topic": "TRANS_CHECK_MAX_TIME_TOPIC", "queue_offset": 4, "broker_check_times": 3,
                 "given_up_timestamp": at("06.010"), "commit_log_offset": 820}
            ],
            "pending_half": [{**KEY, "check_times": 1, "next_check_timestamp": at("59.000")}],
            "verdict": [{**KEY, "verdict": "COMMITTED_AND_DISCARDED", "visible_count": 1, "given_up_count": 1}],
        }
    )  # fmt: skip
    assert [(event["time"][17:-1], event["event"], event["table"]) for event in events] == [
        ("00.000", "half_stored", "half_message"),
        ("00.100", "end_accepted", "end_outcome"),
        ("02.000", "end_accepted", "end_outcome"),
        ("03.000", "half_copied", "half_message"),
        ("04.000", "check_asked", "check_request"),
        ("06.000", "half_copied", "half_message"),
        ("06.010", "given_up", "trans_check_max_time"),
        ("07.000", "message_visible", "message"),
        ("07.000", "op_written", "op_message"),
        ("08.000", "message_stored", "message"),
        ("09.000", "end_refused", "end_outcome"),
        ("09.200", "end_received", "end_transaction"),
        ("09.500", "half_resumed", "half_message"),
        ("59.000", "pending", "pending_half"),
        ("00.000", "verdict", "verdict"),
    ]
    texts = [event["text"] for event in events]
    assert texts[0] == "half message stored at queue 0 offset 34 (physical 100) for TopicA queue 2"
    assert texts[1] == "unknown from GID_P1: accepted"
    assert texts[2] == "commit from GID_P1, answering a check: accepted"
    assert texts[5] == "copy 2 put back by the broker at queue 0 offset 434 (physical 810)"
    assert texts[6] == "given up after 3 checks, kept as TRANS_CHECK_MAX_TIME_TOPIC queue 0 offset 4"
    assert texts[7] == "visible as TopicA queue 2 offset 15"
    assert texts[8] == "op message 7 names half offset 404"
    assert texts[9] == "stored as %RETRY%CG queue 2 offset 16, not counted as visible"
    assert texts[10] == ("commit from GID_WRONG: refused, producer_group_wrong (code 1: The producer group wrong)")
    assert texts[11] == "rollback from GID_P1: received, not judged yet"
    assert texts[13] == "pending, asked 1 time; next due 2026-11-21T10:31:59.000Z"
    assert texts[14].startswith("COMMITTED_AND_DISCARDED: visible 1, ops 0,")
    assert all(KEY.items() <= event.items() for event in events)


def test_answers_and_manual_decisions_are_told_between_check_and_end(traced):
    answer = {**KEY, "check_times": 1, "asked_for": "check", "resolver": "GID_*"}
    decision = {**KEY, "decided_by": "me@here", "former_verdict": "DISCARDED"}
    events = traced(
        {
            "half_message": [half(34, 100, "00.000", None)],
            "check_answer": [
                {**answer, "answered_timestamp": at("04.000"), "reason": "UNREACHABLE"},
                {**answer, "answered_timestamp": at("05.000"), "answer": "unknown", "reason": "ABSENT"},
                {**answer, "answered_timestamp": at("09.000"), "answer": "commit", "state": "PAID",
                 "asked_for": "given_up", "is_planned_for_broker": True},
            ],
            "manual_decision": [
                {**decision, "action": "resume", "decided_timestamp": at("07.000")},
                {**decision, "action": "rollback", "reason": "ticket 7", "decided_timestamp": at("08.000")},
            ],
        }
    )  # fmt: skip
    assert [(event["event"], event["text"]) for event in events[1:]] == [
        ("check_answered", "GID_* answers check 1: no answer, UNREACHABLE"),
        ("check_answered", "GID_* answers check 1: unknown, ABSENT"),
        ("resumed", "put back under check by me@here, was DISCARDED"),
        ("settled", "settled as rollback by me@here, was DISCARDED: ticket 7"),
        ("check_answered", "GID_* answers the given-up transaction: commit (PAID); planned for the broker"),
    ]


def test_transactions_that_share_an_id_are_told_one_after_the_other(traced):
    later = {"born_timestamp": "2026-11-21T10:30:52.000Z"}
    rows = {
        "half_message": [
            half(1, 200, "00.500", None, **later),
            half(0, 100, "00.100", None),
            half(2, 300, "09.000", 1),
        ],
        "op_message": [op(0, 1, "01.000"), op(1, 0, "02.000")],
        "verdict": [{**KEY, **later, "verdict": "ROLLED_BACK"}, {**KEY, "verdict": "PENDING"}],
        "message": [{**KEY, "broker_name": "b", "topic": "SCHEDULE_TOPIC_XXXX", "store_timestamp": at("00.000")}],
    }
    assert [(event["broker_name"], event["born_timestamp"][-5:], event["event"]) for event in traced(rows)] == [
        ("a", ".730Z", "half_stored"),
        ("a", ".730Z", "op_written"),
        ("a", ".730Z", "half_copied"),
        ("a", ".730Z", "verdict"),
        ("b", ".730Z", "message_stored"),
        ("a", ".000Z", "half_stored"),
        ("a", ".000Z", "op_written"),
        ("a", ".000Z", "verdict"),
    ]


def test_only_the_broker_asked_for_is_told(traced):
    rows = {
        "half_message": [half(0, 100, "00.000", None), half(0, 100, "00.000", None, broker_name="b")],
        "op_message": [op(1, 0, "01.000"), op(2, 0, "02.000", broker_name="b")],
        "end_outcome": [outcome(1, "03.000", "accepted", commit_log_offset=100, transaction_id=ID)],
    }
    assert [event["event"] for event in traced(rows, "--broker", "b")] == ["half_stored", "op_written"]


def test_a_visible_message_needs_commit_bits_its_real_topic_and_the_offset_of_one_of_its_halves(traced):
    rows = {
        "half_message": [half(0, 100, "00.000", None)],
        "message": [
            visible(1, 100, "01.000"),
            visible(2, 100, "02.000", sys_flag=0),
            visible(3, 0, "03.000"),
            visible(4, 100, "04.000", topic="TopicB"),
            visible(5, 100, "05.000", sys_flag=0x9),
            visible(6, 700, "06.000"),
        ],
        "trans_check_max_time": [{**KEY, "commit_log_offset": 700, "given_up_timestamp": at("05.500")}],
    }
    event_of = {event["queue_offset"]: event["event"] for event in traced(rows) if event["table"] == "message"}
    assert event_of == {
        1: "message_visible",
        2: "message_stored",
        3: "message_stored",
        4: "message_stored",
        5: "message_visible",
        6: "message_visible",
    }


def test_an_end_that_names_the_id_but_another_half_is_told_apart(traced):
    rows = {
        "half_message": [
            half(0, 100, "00.000", None),
            half(5, 500, "00.100", None, born_timestamp="2026-11-21T10:30:59Z"),
        ],
        "end_outcome": [
            outcome(1, "01.000", "accepted", commit_log_offset=777, transaction_id="OTHER"),
            outcome(2, "02.000", "refused", commit_log_offset=778, reason="not_found"),
        ],
    }
    events = traced(rows)
    assert [event["event"] for event in events] == ["half_stored", "half_stored", "end_accepted", "end_refused"]
    assert events[2]["transaction_id"] == "OTHER"
    assert events[2]["text"].endswith(f"it named transaction {ID}, the half there is of OTHER")


def test_an_end_without_a_half_belongs_to_the_only_transaction_of_the_id_it_names(traced):
    rows = {
        "half_message": [half(0, 100, "00.000", None)],
        "end_outcome": [
            outcome(1, "01.000", "held", is_held=True, commit_log_offset=100, end_transaction_id=None),
            outcome(2, "02.000", "refused", commit_log_offset=778, reason="not_found"),
        ],
    }
    events = traced(rows)
    assert [event["event"] for event in events] == ["half_stored", "end_held", "end_refused"]
    assert all(event["born_timestamp"] == BORN for event in events)


def test_an_end_that_waits_is_told_once_whether_it_names_the_id_the_half_or_both(traced):
    end = {"broker_name": "a", "producer_group": "GID_P1", "landed_pass": 4, "commit_log_offset": 100}
    rows = {
        "half_message": [half(0, 100, "00.000", None)],
        "end_transaction": [
            {**end, "ts": at("01.000"), "landing_order": 1, "transaction_id": ID},
            {**end, "ts": at("02.000"), "landing_order": 2, "transaction_id": None},
            {**end, "ts": at("03.000"), "landing_order": 3, "transaction_id": ID, "commit_log_offset": 777},
        ],
    }
    ends = [event for event in traced(rows) if event["table"] == "end_transaction"]
    assert [event["landing_order"] for event in ends] == [1, 2, 3]


def test_an_unknown_id_is_said_on_stderr_and_by_the_status(warehouse, txmq):
    uri = warehouse({})
    words = f"nothing is known of transaction {ID} in {uri}\n"
    assert txmq("--warehouse", uri, "trace", ID) == (1, "", words)
    assert txmq("--warehouse", uri, "trace", ID, "--format", "json") == (1, "", words)


def test_the_table_form_heads_each_story_with_its_transaction(warehouse, txmq):
    uri = warehouse({"half_message": [half(0, 100, "00.000", None)]})
    status, out, _ = txmq("trace", ID, "--warehouse", uri)
    lines = [line.rstrip() for line in out.splitlines()]
    assert status == 0
    assert lines[0] == f"transaction {ID}, GID_P1, born {BORN}, broker a"
    assert lines[1].split() == ["time", "event", "text"]
    assert lines[2].split(maxsplit=2) == [
        "2026-11-21T10:31:00.000Z",
        "half_stored",
        "half message stored at queue 0 offset 0 (physical 100) for TopicA queue 2",
    ]


OFFSET_ID = "C000020200002A9F0000000000000064"


@pytest.mark.parametrize(
    "arguments", [(OFFSET_ID,), (OFFSET_ID.lower(),), ("--key", "order-1"), ("--half-offset", "34")]
)
def test_a_transaction_is_found_by_the_id_of_its_message_its_key_or_the_offset_of_a_half(warehouse, txmq, arguments):
    other = {"transaction_id": "OTHER", "offset_msg_id": OFFSET_ID[:-1] + "5", "keys": "order-11"}
    uri = warehouse(
        {
            "half_message": [
                half(34, 100, "00.000", None, offset_msg_id=OFFSET_ID, keys="pay order-1"),
                half(35, 101, "00.000", None, **other),
                half(34, 100, "00.000", None, transaction_id="OTHER", broker_name="b"),
            ],
            "op_message": [op(1, 34, "01.000")],
        }
    )
    status, out, err = txmq("--warehouse", uri, "trace", *arguments, "--broker", "a", "--format", "json")
    assert (status, err) == (0, "")
    events = [json.loads(line) for line in out.splitlines()]
    assert [(event["transaction_id"], event["event"]) for event in events] == [(ID, "half_stored"), (ID, "op_written")]


def test_the_id_of_a_visible_or_given_up_message_leads_to_its_transaction(warehouse, txmq):
    given_up = {
        **KEY,
        "topic": "TRANS_CHECK_MAX_TIME_TOPIC",
        "commit_log_offset": 200,
        "given_up_timestamp": at("06.010"),
    }
    uri = warehouse(
        {
            "message": [visible(1, 100, "01.000", commit_log_offset=100, offset_msg_id=OFFSET_ID)],
            "trans_check_max_time": [{**given_up, "offset_msg_id": OFFSET_ID[:-2] + "C8"}],
        }
    )
    for message_id in (OFFSET_ID, OFFSET_ID[:-2] + "C8"):
        assert txmq("--warehouse", uri, "trace", message_id)[1].startswith(f"transaction {ID}, GID_P1, ")


def test_what_is_sought_and_unknown_is_said_and_two_ways_to_seek_are_too_many(warehouse, txmq):
    uri = warehouse({})
    assert txmq("--warehouse", uri, "trace", "--key", "k")[2] == f"nothing is known of message key k in {uri}\n"
    for offset in (7, 1 << 63):
        words = f"nothing is known of half offset {offset} in {uri}\n"
        assert txmq("--warehouse", uri, "trace", "--half-offset", str(offset))[2] == words
    assert txmq("--warehouse", uri, "trace", "F" * 32)[2] == f"nothing is known of transaction {'F' * 32} in {uri}\n"
    words = "error USAGE: trace takes one of: an id, --key, --half-offset\n"
    assert txmq("--warehouse", uri, "trace") == (2, "", words)
    assert txmq("--warehouse", uri, "trace", ID, "--key", "k") == (2, "", words)


@pytest.fixture
def closing(warehouse, txmq):
    def run(verdict: str, more: dict[str, Any] | None = None, **tables: list[dict[str, Any]]) -> list[str]:
        counts = dict.fromkeys(["visible_count", "op_count", "half_count", "given_up_count", "contradicting_count"], 0)
        counts["half_count"] = len(tables.get("half_message", ()))
        counts["given_up_count"] = len(tables.get("trans_check_max_time", ()))
        counts["check_times"] = len(tables.get("check_request", ()))
        rows = {"verdict": [{**KEY, "verdict": verdict, **counts, **(more or {})}], **tables}
        status, out, _ = txmq("--warehouse", warehouse(rows), "trace", ID)
        assert status == 0
        lines = out.splitlines()
        return lines[next(place for place, line in enumerate(lines) if ": visible" in line and verdict in line) + 1 :]

    return run


def test_a_story_ends_with_what_its_verdict_means_why_and_what_to_do(closing):
    assert closing("DISCARDED", half_message=[half(34, 100, "00.000", None), half(404, 600, "03.000", 3)]) == [
        "means: given up after the last check: nobody decided it",
        "why:   asked 3 times by a broker; no answer and no end has landed",
        f"do:    look in the producer's database, then txmq settle {ID} --commit --reason TEXT",
        f"       or, where it rolled back: txmq settle {ID} --rollback --reason TEXT",
        f"       or, while younger than file_reserved_time, have it asked again: txmq resume {ID}",
        "       where a broker decides, both with --to-broker",
    ]
    # Somebody may have: nobody is advised to decide it once more.
    assert closing("DISCARDED", {"reason": "op_unread"}, half_message=[half(34, 100, "00.000", 3)]) == [
        "means: given up after the last check",
        "why:   an op of it may lie where nobody has read: ops or halves are missing behind its half; asked 3 times by a"
        " broker; no answer and no end has landed",
        "do:    land what is missing of the half topic and the op topic; else look in the producer's database",
    ]
    # R8: committed, it would come back into the half topic.
    _, _, *to_do = closing(
        "DISCARDED", {"real_topic": "RMQ_SYS_TRANS_HALF_TOPIC"}, half_message=[half(34, 100, "00.000", 3)]
    )
    assert to_do == [
        "do:    a timer property took its real topic away: no consumer gets it, whatever is answered",
        "       do not commit it; where the producer's database did, let the application send the message anew",
        f"       then end it: txmq settle {ID} --rollback --reason TEXT",
        "       where a broker decides, with --to-broker",
    ]
    assert closing("COMMITTED") == []


@pytest.mark.parametrize(
    ("ops", "why"),
    [
        # R18; R64 and R78; R76
        ([34, 34], "2 ops: they name one half: its commit was accepted more than once"),
        (
            [34, 404],
            "2 ops: one names a copy of the half: a check was answered with a commit when the half was committed"
            " already",
        ),
        ([34], "2 messages, 1 op: an op was lost with its broker, which then asked again, or it has not landed"),
    ],
)
def test_what_is_visible_twice_says_by_its_ops_how_it_came(closing, ops, why):
    rows = {
        "half_message": [half(34, 100, "00.000", None), half(404, 600, "03.000", 3)],
        "message": [visible(4, 100, "01.000"), visible(6, 100, "04.000")],
        "op_message": [op(at_, half_, f"05.{at_:03}") for at_, half_ in enumerate(ops)],
    }
    assert closing("DUPLICATED", {"visible_count": 2, "op_count": len(ops)}, **rows) == [
        "means: visible more than once: an end was accepted twice",
        f"why:   {why}",
        "do:    consumers must drop repeats by transaction id (UNIQ_KEY)",
    ]


def decision(action: str, when: str, **more: Any) -> dict[str, Any]:
    return {
        **KEY,
        "action": action,
        "decided_timestamp": at(when),
        "decided_by": "me@here",
        "former_verdict": "DISCARDED",
        **more,
    }


def request(action: str, state: str, when: str, number: int = 1) -> dict[str, Any]:
    return {**KEY, "action": action, "state": state, "requested_timestamp": at(when), "pass_number": number}


GIVEN_UP = {**KEY, "given_up_timestamp": at("05.000"), "reason": "check_max", "check_times": 0}
SENT_ONCE = [request("commit", "sending", "07.000")]
LAND = "do:    land its broker again, then txmq audit: the verdict changes when what the broker writes has landed"


@pytest.mark.parametrize(
    ("decisions", "requests", "why", "to_do"),
    [
        ([decision("commit", "06.000")], [], "commit recorded", "do:    txmq reconcile applies it, txmq audit tells it"),
        ([decision("resume", "06.000")], [], "resume recorded",
         "do:    txmq reconcile asks from the first check on, txmq audit tells it"),
        ([decision("commit", "06.000", is_planned_for_broker=True)], [], "commit recorded, and not sent to its broker",
         f"do:    send it: txmq settle {ID} --commit --reason TEXT --to-broker --namesrv HOST:PORT --apply"),
        ([decision("commit", "06.000", is_planned_for_broker=True)], SENT_ONCE,
         "commit may have been sent, and is not sent again", LAND),
        ([decision("commit", "06.000", is_planned_for_broker=True)], [*SENT_ONCE, request("commit", "accepted", "07.000")],
         "commit sent, its broker took it", LAND),
        ([decision("rollback", "06.000", is_planned_for_broker=True)], [request("rollback", "not_sent", "07.000")],
         "rollback recorded, and not sent", f"do:    send it: txmq settle {ID} --rollback --reason TEXT --to-broker --namesrv HOST:PORT --apply"),
        ([], [request("resume", "accepted", "07.000")], "resume sent, its broker took it", LAND),
    ],
)  # fmt: skip
def test_what_was_decided_is_not_asked_for_once_more(closing, decisions, requests, why, to_do):
    lines = closing("DISCARDED", trans_check_max_time=[GIVEN_UP], manual_decision=decisions, broker_request=requests)
    assert lines == ["means: given up after the last check", f"why:   {why}", to_do]


def test_a_resume_is_used_up_when_the_transaction_is_given_up_again_or_pending(closing):
    resumed = [decision("resume", "04.000")]
    lines = closing("DISCARDED", trans_check_max_time=[GIVEN_UP], manual_decision=resumed)
    assert lines[-1] == "       where a broker decides, both with --to-broker"
    assert closing("PENDING", manual_decision=resumed)[2].startswith("do:    wait for the next check")


def test_what_was_given_up_without_a_trace_may_be_asked_about_again_until_that_was_done(closing):
    """A resume makes the broker store the half again (R120): its row uses the request up."""
    first, copy = half(34, 100, "00.000", None, queue_id=-2), half(40, 900, "08.000", 0, queue_id=-2)
    unseen = {"reason": "checks_over", "half_count": 1}
    assert f"       or, while younger than file_reserved_time, have it asked again: txmq resume {ID}" in closing(
        "DISCARDED_UNSEEN", unseen, half_message=[first]
    )
    accepted = [request("resume", "accepted", "07.000")]
    assert closing("DISCARDED_UNSEEN", unseen, half_message=[first], broker_request=accepted) == [
        "means: given up without a trace",
        "why:   resume sent, its broker took it",
        LAND,
    ]
    again = closing(
        "DISCARDED_UNSEEN", {**unseen, "half_count": 2}, half_message=[first, copy], broker_request=accepted
    )
    assert again[2].startswith("do:    look in the producer's database")


OVERTAKEN = [
    "why:   more has happened since: what is above counts, not the verdict",
    "do:    txmq audit gives it anew",
]


def test_a_verdict_that_stands_before_later_events_says_that_an_audit_is_due(closing):
    halves = [half(34, 100, "00.000", None)]
    late = {
        "op": {"op_message": [op(1, 34, "01.000")]},
        "message": {"message": [visible(1, 100, "01.000", commit_log_offset=900)]},
        "copy": {"more": {"half_count": 0}},
        "given up": {"trans_check_max_time": [GIVEN_UP], "more": {"given_up_count": 0}},
        "check": {
            "check_request": [{**KEY, "check_times": 1, "check_timestamp": at("04.000")}],
            "more": {"check_times": 0},
        },
    }
    for what, tables in late.items():
        assert closing("PENDING", half_message=halves, **tables)[1:] == OVERTAKEN, what
    resumed = {"manual_decision": [decision("resume", "06.000")], "pending_half": [{**KEY, "half_offsets": [34]}]}
    lines = closing("DISCARDED", {"last_timestamp": at("05.000")}, trans_check_max_time=[GIVEN_UP], **resumed)
    assert lines[1:] == OVERTAKEN


def test_an_id_in_a_command_is_one_word_of_a_shell(warehouse, txmq):
    uri = warehouse({"verdict": [{**KEY, "transaction_id": "x;id>/tmp/p", "verdict": "DISCARDED"}]})
    _, out, _ = txmq("--warehouse", uri, "trace", "x;id>/tmp/p")
    assert "txmq settle 'x;id>/tmp/p' --commit" in out
    assert "txmq resume 'x;id>/tmp/p'\n" in out


def test_what_a_broker_decides_must_be_told_to_it(closing):
    settle = f"txmq settle {ID} --commit --reason TEXT"
    or_else = f"       or, where it rolled back: txmq settle {ID} --rollback --reason TEXT"
    assert closing("PENDING")[2:] == [
        "do:    wait for the next check, or configure a resolver for GID_P1",
        f"       or look in the producer's database, then {settle}",
        or_else,
        "       where a broker decides, with --to-broker",
    ]
    assert closing("EXPIRED_UNSEEN")[2:] == [
        f"do:    look in the producer's database, then {settle}",
        or_else,
        "       with --to-broker, while the broker still keeps its half; and check the broker's retention",
    ]


def test_what_txmq_decided_itself_is_told_as_it_was(closing):
    expired = {**KEY, "given_up_timestamp": at("05.000"), "reason": "expired", "check_times": 0}
    assert closing("DISCARDED", trans_check_max_time=[expired]) == [
        "means: given up when it grew older than the reserved time: nobody decided it",
        "why:   never asked about; no answer and no end has landed",
        f"do:    look in the producer's database, then txmq settle {ID} --commit --reason TEXT",
        f"       or, where it rolled back: txmq settle {ID} --rollback --reason TEXT",
    ]
    lines = closing("CONFLICT")[0]
    assert lines.startswith("means: decided, and an end that says otherwise came later")


def test_where_the_role_is_known_each_command_is_whole(closing):
    """Of a broker in the audit role what is not sent to it does nothing."""
    by_role = {}
    for role in ("audit", "engine"):
        broker = [{"broker_name": KEY["broker_name"], "role": role}]
        by_role[role] = closing("DISCARDED", trans_check_max_time=[GIVEN_UP], broker=broker)[2:]
    send = "--to-broker --namesrv HOST:PORT"
    assert by_role["audit"] == [
        f"do:    look in the producer's database, then txmq settle {ID} --commit --reason TEXT {send}",
        f"       or, where it rolled back: txmq settle {ID} --rollback --reason TEXT {send}",
        f"       or, while younger than file_reserved_time, have it asked again: txmq resume {ID} {send}",
        "       each shows a plan; --apply sends it",
    ]
    assert by_role["engine"] == [
        f"do:    look in the producer's database, then txmq settle {ID} --commit --reason TEXT",
        f"       or, where it rolled back: txmq settle {ID} --rollback --reason TEXT",
        f"       or, while younger than file_reserved_time, have it asked again: txmq resume {ID}",
        "       each shows a plan; --apply does it",
    ]


def test_texts_of_others_do_not_steer_the_terminal(closing):
    answer = {**KEY, "check_times": 1, "asked_for": "check", "resolver": "GID_*", "answered_timestamp": at("04.100")}
    why = closing("PENDING", check_answer=[{**answer, "reason": "\x1b[2J\nwhy:   all is well"}])[1]
    assert why.endswith(r"no answer, \x1b[2J\x0awhy:   all is well")


def test_what_came_last_tells_why_a_transaction_is_undecided(closing):
    requests = [{**KEY, "check_times": 1, "check_timestamp": at("04.000"), "tran_state_table_offset": 34}]
    answer = {**KEY, "check_times": 1, "asked_for": "check", "resolver": "GID_*", "answered_timestamp": at("04.100")}
    down = closing("PENDING", check_request=requests, check_answer=[{**answer, "reason": "UNREACHABLE"}])
    assert down[1] == "why:   asked 1 time by txmq; last came: GID_* answers check 1: no answer, UNREACHABLE"
    assert closing("PENDING")[1] == "why:   never asked about; no answer and no end has landed"


@pytest.mark.parametrize("count", [999, 20_000])
def test_a_producer_that_stores_one_id_again_and_again_ends_no_reader(warehouse, count):
    """deltalake ends the process, JVM of `serve` and all, where it is asked for ten thousand values."""
    uri = warehouse({"op_message": [op(1, 5, "51"), op(2, 7, "51"), op(3, 50_000, "51")]})
    where = {"broker_name": ["a"], "half_queue_offset": [5, *range(10, count + 8)]}
    columns = ("broker_name", "queue_offset", "half_queue_offset")
    found = WarehouseReader(uri).rows(Scan("op_message", columns, (where,)))
    assert found == [{"broker_name": "a", "queue_offset": 1, "half_queue_offset": 5}]


@pytest.mark.parametrize("id_", ["--all", "-h"])
def test_an_id_that_looks_like_an_option_is_never_shown_as_one(warehouse, txmq, id_):
    verdict = {**KEY, "transaction_id": id_, "verdict": "DISCARDED", "given_up_count": 1}
    out = txmq("--warehouse", warehouse({"verdict": [verdict]}), "trace", "--", id_)[1]
    assert "do:    look in the producer's database, then txmq settle ID --commit --reason TEXT" in out
    assert f"where ID stands: leave it out, and end the command with -- {id_}" in out
    assert f"resume {id_}" not in out


def test_of_an_id_that_is_everywhere_so_many_rows_are_told_and_that_there_are_more(warehouse, txmq, tmp_path):
    many = MOST_ROWS + 500
    halves = [half(5 + number, 500 + number, "51", None) for number in range(many)]
    other = {**half(9999, 99_999, "51", None), "transaction_id": "OTHER"}
    ops = [op(number, 5, "52") for number in range(many)]
    pending = [{**KEY, "transaction_id": id_, "first_store_timestamp": at("51")} for id_ in (ID, "OTHER")]
    uri = warehouse({"half_message": [*halves, other], "op_message": ops, "pending_half": pending})
    lines = txmq("--warehouse", uri, "trace", ID, "--format", "json")[1].splitlines()
    events = [json.loads(line) for line in lines]
    assert [event["table"] for event in events].count("half_message") == MOST_ROWS
    assert [event["table"] for event in events].count("op_message") <= MOST_ROWS
    assert "only 1,000 rows of half_message are told for an id, and there may be more: query the table" in lines[-3]
    out = tmp_path / "r.html"
    assert txmq("--warehouse", uri, "report", "--out", str(out), "--now", at("59"))[0] in (0, 1)
    assert "half message stored at queue 0 offset 9999" in out.read_text(), "it crowds nobody else out"
    assert out.stat().st_size < 2_000_000


def test_of_a_key_that_everybody_has_the_first_transactions_are_told(warehouse, txmq, monkeypatch):
    monkeypatch.setattr(show, "MOST_TRACED", 2)
    halves = [{**half(n, 500 * n, "51", None), "transaction_id": f"T{n}", "keys": "order"} for n in range(5)]
    status, out, err = txmq("--warehouse", warehouse({"half_message": halves}), "trace", "--key", "order")
    assert (status, out.count("half message stored")) == (0, 2)
    assert err == "5 transactions have it, and the first 2 are told: trace others by their ids\n"


@pytest.mark.parametrize(
    ("table", "name"), [("end_outcome", "end_transaction_id"), ("end_transaction", "transaction_id")]
)
def test_ends_without_an_id_of_one_half_crowd_out_none_of_another(warehouse, table, name):
    halves = [half(5, 500, "51", None), {**half(9, 900, "51", None), "transaction_id": "OTHER"}]
    nameless = {"broker_name": "a", "ts": at("52"), "producer_group": "GID_P1", name: None, "landed_pass": 4}
    places = [500] * (MOST_ROWS + 500) + [900]
    ends = [{**nameless, "commit_log_offset": place, "landing_order": n} for n, place in enumerate(places)]
    stories = traces(WarehouseReader(warehouse({"half_message": halves, table: ends})), [ID, "OTHER"])
    ended = {id_: sum(event.table == table for story in of for event in story.events) for id_, of in stories.items()}
    assert ended == {ID: MOST_ROWS, "OTHER": 1}


@pytest.mark.parametrize("each_other", [None, ID])
def test_of_more_ends_than_are_told_none_that_is_judged_is_said_to_wait(warehouse, each_other):
    ends = [
        outcome(n, "52", "refused", commit_log_offset=500, tran_state_table_offset=n, transaction_id=ID)
        | {"end_transaction_id": ID if n % 2 else each_other}
        for n in range(MOST_ROWS + 500)
    ]
    received = [{**end, "transaction_id": end["end_transaction_id"]} for end in ends]
    received = [{name: row[name] for name in row if name not in OF_OUTCOMES} for row in received]
    rows = {"half_message": [half(5, 500, "51", None)], "end_outcome": ends, "end_transaction": received}
    (one_story,) = traces(WarehouseReader(warehouse(rows)), [ID])[ID]
    assert Counter(event.table for event in one_story.events)["end_outcome"] == MOST_ROWS
    assert "end_transaction" not in {event.table for event in one_story.events}
