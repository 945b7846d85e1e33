"""The landing contract for ends, offset reports and acknowledgements."""

from __future__ import annotations

import json

import pytest
from builders import table_of
from moment import NOW_MS

from txmq_lib.rules.contract_events import ack_rows, end_rows, offset_rows
from txmq_lib.spark.local_frame import local_frame

pytestmark = pytest.mark.spark

BROKEN = "the line is not one JSON object"
HEADER = {
    "producerGroup": "G",
    "tranStateTableOffset": "60",
    "commitLogOffset": "31224",
    "commitOrRollback": "8",
    "fromTransactionCheck": "false",
    "msgId": "M",
    "transactionId": "T",
    "bname": "b",
    "topic": "TopicA",
}
REPORT = {"ts": NOW_MS, "group": "G", "topic": "TopicA", "queueId": 1, "offset": 5, "clientId": "c@1"}
ACK = {"ts": NOW_MS, "group": "G", "topic": "TopicA", "queueId": 1, "clientId": "c@1", "event": "taken", "offsets": [5]}


def text(fields, **changes):
    """`fields` as JSON with `changes`; a field changed to ... is left out."""
    return json.dumps({name: value for name, value in {**fields, **changes}.items() if value is not ...})


def flat(**changes):
    return text({"ts": NOW_MS, **HEADER}, **changes)


def nested(**changes):
    return json.dumps({"ts": NOW_MS, "client": "G/p3", "code": 37, "header": json.loads(text(HEADER, **changes))})


def judged(spark, rows_of, edges):
    """Reason and detail per edge, in one action."""
    lines = [(line, why, number, None) for number, (why, line, *_) in enumerate(edges)]
    schema = "value string, source string, position bigint, fault struct<reason:string,detail:string>"
    frame = local_frame(spark, lines, schema)
    return rows_of(frame, "b")


ENDS = [  # why, line, reason, detail
    ("flat", flat(), None, None),
    ("under header", nested(), None, None),
    ("numbers as numbers", flat(tranStateTableOffset=60, commitLogOffset=31224, commitOrRollback=8,
                                fromTransactionCheck=False), None, None),
    ("the time as a text", flat(ts=str(NOW_MS)), None, None),
    ("without what is never verified (R17)", flat(msgId=..., transactionId=..., topic=..., bname=...), None, None),
    ("no word of a check means none", flat(fromTransactionCheck=...), None, None),
    ("a check in capitals", flat(fromTransactionCheck="TRUE"), None, None),
    ("unknown fields are dropped", flat(deep={"a": [1]}), None, None),
    ("a code no broker knows is the rules' business (R11)", flat(commitOrRollback=5), None, None),
    ("the highest offsets", flat(tranStateTableOffset=2**63 - 1, commitLogOffset=str(2**63 - 1)), None, None),
    ("torn", flat()[:-9], "BROKEN_JSON", BROKEN),
    ("a bracket behind it", flat() + "]", "BROKEN_JSON", BROKEN),
    ("torn header", nested()[:-1], "BROKEN_JSON", BROKEN),
    ("two on one line", flat() + flat(), "BROKEN_JSON", BROKEN),
    ("an array", "[]", "BROKEN_JSON", BROKEN),
    ("a scalar", "8", "BROKEN_JSON", BROKEN),
    ("nothing in it", "{}", "MISSING_FIELD",
     "ts, tranStateTableOffset, commitLogOffset, commitOrRollback, producerGroup"),
    ("no time", flat(ts=...), "MISSING_FIELD", "ts"),
    ("a time of null", flat(ts=None), "MISSING_FIELD", "ts"),
    ("no group (R11)", flat(producerGroup=...), "MISSING_FIELD", "producerGroup"),
    ("no group under header", nested(producerGroup=...), "MISSING_FIELD", "producerGroup"),
    ("no offset", nested(commitLogOffset=...), "MISSING_FIELD", "commitLogOffset"),
    ("header as a text", json.dumps({"ts": NOW_MS, "header": "x"}), "MISSING_FIELD",
     "tranStateTableOffset, commitLogOffset, commitOrRollback, producerGroup"),
    ("a word for an offset", flat(commitLogOffset="far"), "WRONG_TYPE", "commitLogOffset"),
    ("a fraction", flat(tranStateTableOffset="60.0"), "WRONG_TYPE", "tranStateTableOffset"),
    ("an empty text for a number", flat(commitOrRollback=""), "WRONG_TYPE", "commitOrRollback"),
    ("past 64 bits", flat(commitLogOffset=2**63), "WRONG_TYPE", "commitLogOffset"),
    ("past 32 bits", flat(commitOrRollback=2**31), "WRONG_TYPE", "commitOrRollback"),
    ("an object for a group", flat(producerGroup={"a": 1}), "WRONG_TYPE", "producerGroup"),
    ("a number for a group", nested(producerGroup=7), "WRONG_TYPE", "producerGroup"),
    ("a group that looks like a number", nested(producerGroup="7"), None, None),
    ("a number for a topic", flat(topic=1), "WRONG_TYPE", "topic"),
    ("a check of perhaps", flat(fromTransactionCheck="perhaps"), "WRONG_TYPE", "fromTransactionCheck"),
    ("a check of 1", flat(fromTransactionCheck=1), "WRONG_TYPE", "fromTransactionCheck"),
    ("negative offsets", flat(tranStateTableOffset=-1, commitLogOffset="-1"), "NEGATIVE_NUMBER",
     "tranStateTableOffset, commitLogOffset"),
    ("before 1970", flat(ts=-1), "TIMESTAMP_OUT_OF_RANGE", "ts"),
    ("after 9999", flat(ts=253_402_300_800_000), "TIMESTAMP_OUT_OF_RANGE", "ts"),
    ("of another broker", flat(bname="c"), "BROKER_MISMATCH", "bname is c, landed for b"),
    ("of another broker under header", nested(bname="c"), "BROKER_MISMATCH", "bname is c, landed for b"),
]  # fmt: skip


def test_each_fault_of_an_end_has_its_reason(spark):
    found = table_of(judged(spark, end_rows, ENDS), "source", "reason", "detail")
    assert found == {why: (reason, detail) for why, _, reason, detail in ENDS}


def test_an_end_is_read_flat_or_under_header_with_numbers_as_texts_or_not(spark):
    columns = ("ts", "producer_group", "tran_state_table_offset", "commit_log_offset", "commit_or_rollback",
               "from_transaction_check", "msg_id", "transaction_id", "topic", "broker_name")  # fmt: skip
    found = table_of(judged(spark, end_rows, ENDS[:10]), "source", *columns)
    plain = (0, "G", 60, 31224, 8, False, "M", "T", "TopicA", "b")
    same = ("flat", "under header", "numbers as numbers", "the time as a text", "no word of a check means none",
            "unknown fields are dropped")  # fmt: skip
    assert {why: found[why] for why in same} == dict.fromkeys(same, plain)
    assert found["without what is never verified (R17)"] == (0, "G", 60, 31224, 8, False, None, None, None, "b")
    assert found["a check in capitals"][5] is True
    assert found["a code no broker knows is the rules' business (R11)"][4] == 5
    assert found["the highest offsets"][2:4] == (2**63 - 1, 2**63 - 1)


REPORTS = [  # why, line, reason, detail, (offset, increase only, client)
    ("a report goes up only, unless it says otherwise (R102)", text(REPORT), None, None, (5, True, "c@1")),
    ("a set", text(REPORT, increaseOnly=False), None, None, (5, False, "c@1")),
    ("a set in words", text(REPORT, increaseOnly="False"), None, None, (5, False, "c@1")),
    ("numbers as texts", text(REPORT, ts=str(NOW_MS), queueId="1", offset="5"), None, None, (5, True, "c@1")),
    ("nobody named", text(REPORT, clientId=...), None, None, (5, True, None)),
    ("offset zero", text(REPORT, offset=0), None, None, (0, True, "c@1")),
    ("the highest offset", text(REPORT, offset=2**63 - 1), None, None, (2**63 - 1, True, "c@1")),
    ("torn", text(REPORT)[:-3], "BROKEN_JSON", BROKEN, None),
    ("no offset, no group", text(REPORT, offset=..., group=...), "MISSING_FIELD", "offset, group", None),
    ("null for a topic", text(REPORT, topic=None), "MISSING_FIELD", "topic", None),
    ("a word for a queue", text(REPORT, queueId="q"), "WRONG_TYPE", "queueId", None),
    (
        "an array for a group, a number for a topic",
        text(REPORT, group=["a"], topic=1),
        "WRONG_TYPE",
        "group, topic",
        None,
    ),
    ("past 64 bits", text(REPORT, offset=2**63), "WRONG_TYPE", "offset", None),
    ("neither increase nor set", text(REPORT, increaseOnly="no"), "WRONG_TYPE", "increaseOnly", None),
    ("negative: never committed is no offset", text(REPORT, offset=-1), "NEGATIVE_NUMBER", "offset", None),
    ("a negative queue", text(REPORT, queueId=-1), "NEGATIVE_NUMBER", "queueId", None),
    ("no time anybody meant", text(REPORT, ts=NOW_MS * 1000), "TIMESTAMP_OUT_OF_RANGE", "ts", None),
]


def test_each_fault_of_an_offset_report_has_its_reason(spark):
    columns = ("reason", "detail", "next_offset", "is_increase_only", "client_id")
    found = table_of(judged(spark, offset_rows, REPORTS), "source", *columns)
    assert {why: line[:2] for why, line in found.items()} == {why: (code, what) for why, _, code, what, _ in REPORTS}
    assert {why: values[2:] for why, values in found.items() if values[0] is None} == {
        why: expected for why, _, code, _, expected in REPORTS if code is None
    }


ACKS = [  # why, line, reason, detail, offsets
    ("taken", text(ACK), None, None, [5]),
    ("acked, more than one", text(ACK, event="acked", offsets=[7, 5]), None, None, [7, 5]),
    ("an acknowledgement of nothing", text(ACK, event="acked", offsets=[]), None, None, []),
    ("offsets as texts", text(ACK, offsets=["5", "6"]), None, None, [5, 6]),
    ("allocated names no offsets", text(ACK, event="allocated", offsets=...), None, None, []),
    ("what dropped names does not count", text(ACK, event="dropped", offsets=[9]), None, None, []),
    ("the highest offset", text(ACK, offsets=[2**63 - 1]), None, None, [2**63 - 1]),
    ("torn", text(ACK)[:-2], "BROKEN_JSON", BROKEN, None),
    ("nobody named", text(ACK, clientId=...), "MISSING_FIELD", "clientId", None),
    ("nothing done", text(ACK, event=None), "MISSING_FIELD", "event", None),
    ("taken without offsets", text(ACK, offsets=...), "MISSING_FIELD", "offsets", None),
    ("another event", text(ACK, event="ACKED"), "UNKNOWN_EVENT", "ACKED", None),
    ("a word among the offsets", text(ACK, offsets=[5, "x"]), "WRONG_TYPE", "offsets", None),
    ("a null among the offsets", text(ACK, offsets=[None]), "WRONG_TYPE", "offsets", None),
    ("a fraction among the offsets", text(ACK, offsets=[5.5]), "WRONG_TYPE", "offsets", None),
    ("an array among the offsets", text(ACK, offsets=[[5]]), "WRONG_TYPE", "offsets", None),
    ("past 64 bits among the offsets", text(ACK, offsets=[2**63]), "WRONG_TYPE", "offsets", None),
    ("one number for the offsets", text(ACK, offsets=5), "WRONG_TYPE", "offsets", None),
    ("a word for a queue", text(ACK, queueId="q"), "WRONG_TYPE", "queueId", None),
    ("a number for a client", text(ACK, clientId=7), "WRONG_TYPE", "clientId", None),
    ("a negative among the offsets", text(ACK, offsets=[5, -1]), "NEGATIVE_NUMBER", "offsets", None),
    ("a negative queue", text(ACK, queueId=-1), "NEGATIVE_NUMBER", "queueId", None),
    ("before 1970", text(ACK, ts=-1), "TIMESTAMP_OUT_OF_RANGE", "ts", None),
]


def test_each_fault_of_an_acknowledgement_has_its_reason(spark):
    found = table_of(judged(spark, ack_rows, ACKS), "source", "reason", "detail", "offsets")
    assert {why: values[:2] for why, values in found.items()} == {why: (code, what) for why, _, code, what, _ in ACKS}
    assert {why: values[2] for why, values in found.items() if values[0] is None} == {
        why: offsets for why, _, code, _, offsets in ACKS if code is None
    }
