"""The landing contract for messages: every way a line can be wrong, and what a good one becomes."""

from __future__ import annotations

import json

import pytest
from builders import table_of
from moment import NOW_MS
from pyspark.sql import functions as F

from txmq_lib.rules.landing_contract import (
    MESSAGE_COLUMNS,
    message_rows,
    quick_message_rows,
    stored_properties,
    topic_fault,
)
from txmq_lib.spark.local_frame import local_frame

pytestmark = pytest.mark.spark

LINES = "value string, source string, position bigint, fault struct<reason:string,detail:string>, long_body binary"
GOOD = {
    "topic": "RMQ_SYS_TRANS_HALF_TOPIC",
    "queueId": 0,
    "queueOffset": 7,
    "commitLogOffset": 4096,
    "sysFlag": 0,
    "flag": 3,
    "bornTimestamp": NOW_MS,
    "storeTimestamp": NOW_MS + 5,
    "bornHost": "10.0.0.1:4242",
    "storeHost": "10.0.0.2:10911",
    "offsetMsgId": "0A00000200002A9F0000000000001000",
    "reconsumeTimes": 0,
    "preparedTransactionOffset": 0,
    "properties": {"UNIQ_KEY": "K", "PGROUP": "G"},
    "bodyBase64": "aGVsbG8=",
}
HIGHEST_TIME = 253_402_300_799_999


def line(**changes):
    """GOOD as JSON with `changes`; a field changed to ... is left out."""
    return json.dumps({name: value for name, value in {**GOOD, **changes}.items() if value is not ...})


# why, the line, reason code, detail; no reason: the line is good
FAULTS = [
    ("good", line(), None, None),
    ("an unknown field is dropped", line(storeSize=99, tags={"deep": [1]}), None, None),
    ("white space around it", "\t " + line() + " ", None, None),
    ("torn", line()[:-20], "BROKEN_JSON", "the line is not one JSON object"),
    ("torn in its last brace", line()[:-1], "BROKEN_JSON", "the line is not one JSON object"),
    ("text behind it", line() + " x", "BROKEN_JSON", "the line is not one JSON object"),
    ("two objects that lost the line end between them", line() * 2, "BROKEN_JSON", "the line is not one JSON object"),
    ("two objects and a comma", line() + "," + line(), "BROKEN_JSON", "the line is not one JSON object"),
    ("an array of one", "[" + line() + "]", "BROKEN_JSON", "the line is not one JSON object"),
    ("a number", "5", "BROKEN_JSON", "the line is not one JSON object"),
    ("a text", '"topic"', "BROKEN_JSON", "the line is not one JSON object"),
    ("null itself", "null", "BROKEN_JSON", "the line is not one JSON object"),
    ("no JSON at all", "topic=x", "BROKEN_JSON", "the line is not one JSON object"),
    ("a byte order mark", "\ufeff" + line(), "BROKEN_JSON", "the line is not one JSON object"),
    (
        "a property named twice",
        line().replace('"UNIQ_KEY"', '"PGROUP": "H", "UNIQ_KEY"'),
        "PROPERTY_REPEATED",
        "properties",
    ),
    (
        "an empty object",
        "{}",
        "MISSING_FIELD",
        "topic, queueId, queueOffset, commitLogOffset, sysFlag, flag, bornTimestamp, storeTimestamp, bornHost, storeHost, "
        "offsetMsgId, reconsumeTimes, preparedTransactionOffset, properties, bodyBase64",
    ),
    ("a field missing", line(queueOffset=...), "MISSING_FIELD", "queueOffset"),
    ("a field null", line(queueOffset=None), "MISSING_FIELD", "queueOffset"),
    ("properties null", line(properties=None), "MISSING_FIELD", "properties"),
    (
        "two missing, one mistyped: missing is said first",
        line(topic=..., bodyBase64=..., queueId="x"),
        "MISSING_FIELD",
        "topic, bodyBase64",
    ),
    ("a number as a text", line(queueOffset="7"), "WRONG_TYPE", "queueOffset"),
    ("a word for a number", line(storeTimestamp="yesterday"), "WRONG_TYPE", "storeTimestamp"),
    ("a fraction", line(queueOffset=7.5), "WRONG_TYPE", "queueOffset"),
    ("a whole number written as a fraction", line(queueOffset=7.0), "WRONG_TYPE", "queueOffset"),
    ("a boolean for a number", line(flag=True), "WRONG_TYPE", "flag"),
    ("an object for a number", line(flag={}), "WRONG_TYPE", "flag"),
    ("one past a 32-bit number", line(queueId=2**31), "WRONG_TYPE", "queueId"),
    ("one past a 64-bit number", line(queueOffset=2**63), "WRONG_TYPE", "queueOffset"),
    ("a number far too long", line(commitLogOffset=10**40), "WRONG_TYPE", "commitLogOffset"),
    ("a number for a text", line(topic=5), "WRONG_TYPE", "topic"),
    ("an object for a text", line(bornHost={"ip": "10.0.0.1"}), "WRONG_TYPE", "bornHost"),
    ("a number for the body", line(bodyBase64=1234), "WRONG_TYPE", "bodyBase64"),
    ("a boolean for a text", line(offsetMsgId=False), "WRONG_TYPE", "offsetMsgId"),
    ("an array for a text", line(storeHost=["10.0.0.2:10911"]), "WRONG_TYPE", "storeHost"),
    ("a text of digits is a text", line(offsetMsgId="1234", bodyBase64="1234", bornHost="true", topic="5"), None, None),
    (
        "a text that looks like an object is a text",
        line(bornHost="{}", properties={"a": '{"b": 1}', "c": "[x"}),
        None,
        None,
    ),
    ("properties as a text", line(properties="UNIQ_KEY=K"), "WRONG_TYPE", "properties"),
    ("properties as an array", line(properties=[]), "WRONG_TYPE", "properties"),
    ("a property that is an object", line(properties={"a": {"b": "c"}}), "WRONG_TYPE", "properties"),
    ("a property that is an array", line(properties={"a": []}), "WRONG_TYPE", "properties"),
    ("a property that is a number is its text", line(properties={"REAL_QID": 3}), None, None),
    ("a property that is null", line(properties={"a": None}), None, None),
    ("no properties", line(properties={}), None, None),
    ("two mistyped", line(queueId="0", flag="3"), "WRONG_TYPE", "queueId, flag"),
    ("a negative offset", line(queueOffset=-1), "NEGATIVE_NUMBER", "queueOffset"),
    (
        "every negative is named",
        line(queueId=-1, commitLogOffset=-(2**63)),
        "NEGATIVE_NUMBER",
        "queueId, commitLogOffset",
    ),
    ("negative reconsume times", line(reconsumeTimes=-1), "NEGATIVE_NUMBER", "reconsumeTimes"),
    ("a negative prepared offset", line(preparedTransactionOffset=-1), "NEGATIVE_NUMBER", "preparedTransactionOffset"),
    ("a negative flag is the user's business", line(flag=-(2**31)), None, None),
    ("offset zero", line(queueOffset=0, commitLogOffset=0), None, None),
    ("the highest offset", line(queueOffset=2**62), None, None),
    ("an offset no queue can reach", line(queueOffset=2**62 + 1), "OFFSET_OUT_OF_RANGE", "queueOffset"),
    (
        "the highest 64-bit numbers",
        line(commitLogOffset=2**63 - 1, preparedTransactionOffset=2**63 - 1),
        "OFFSET_OUT_OF_RANGE",
        "commitLogOffset, preparedTransactionOffset",
    ),
    ("a time before 1970", line(bornTimestamp=-1), "TIMESTAMP_OUT_OF_RANGE", "bornTimestamp"),
    ("1970 itself", line(bornTimestamp=0), None, None),
    ("the last millisecond of the year 9999", line(storeTimestamp=HIGHEST_TIME), None, None),
    ("one later", line(storeTimestamp=HIGHEST_TIME + 1), "TIMESTAMP_OUT_OF_RANGE", "storeTimestamp"),
    (
        "microseconds for milliseconds",
        line(bornTimestamp=NOW_MS * 1000, storeTimestamp=2**63 - 1),
        "TIMESTAMP_OUT_OF_RANGE",
        "bornTimestamp, storeTimestamp",
    ),
    ("an empty body", line(bodyBase64=""), None, None),
    ("a body of other letters", line(bodyBase64="!!!!"), "BODY_NOT_BASE64", "bodyBase64 is no base64"),
    ("a body cut short", line(bodyBase64="aGVsbG8=="), "BODY_NOT_BASE64", "bodyBase64 is no base64"),
    ("a body in the alphabet of URLs", line(bodyBase64="_-__"), "BODY_NOT_BASE64", "bodyBase64 is no base64"),
    (
        "one brace behind it, where a text has the other",
        line(bornHost="{") + "}",
        "BROKEN_JSON",
        "the line is not one JSON object",
    ),
    ("a number for a text that no double holds", line().replace('"10.0.0.1:4242"', "1e400"), "WRONG_TYPE", "bornHost"),
    ("the text of such a number", line(bornHost='"Infinity"'), None, None),
    ("a bracket behind it", line() + "]", "BROKEN_JSON", "the line is not one JSON object"),
    ("a bracket and another object behind it", line() + "]" + line(), "BROKEN_JSON", "the line is not one JSON object"),
    ("a comma behind it", line() + ",", "BROKEN_JSON", "the line is not one JSON object"),
    ("an object and a comma before it", "{}," + line(), "BROKEN_JSON", "the line is not one JSON object"),
    ("single quotes", line().replace('"', "'"), "BROKEN_JSON", "the line is not one JSON object"),
    (
        "a word that is no JSON",
        line().replace('"10.0.0.1:4242"', "NaN"),
        "BROKEN_JSON",
        "the line is not one JSON object",
    ),
    ("a vertical tab behind it", line() + "\v", "BROKEN_JSON", "the line is not one JSON object"),
    ("a line separator behind it", line() + "\u2028", "BROKEN_JSON", "the line is not one JSON object"),
    ("braces by the ten thousand in a text", line(bornHost="{}" * 20_000), None, None),
    ("braces by the ten thousand in a property", line(properties={"a": "{}" * 20_000}), None, None),
    ("objects by the ten thousand", line().replace('"flag"', '"x": {}, ' * 20_000 + '"flag"'), None, None),
    (
        "nested deeper than anybody reads",
        line().replace('"flag"', '"x": ' + "[" * 5000 + "]" * 5000 + ', "flag"'),
        "BROKEN_JSON",
        "the line is not one JSON object",
    ),
    ("braces only", "{" * 100_000, "BROKEN_JSON", "the line is not one JSON object"),
    ("half a surrogate pair", line(offsetMsgId="\ud800"), None, None),
    (
        "two names that are other halves of a pair",
        line(properties=dict([("\ud800", "{"), ("\ud801", "[")])),
        "PROPERTY_REPEATED",
        "properties",
    ),
    ("a half pair and a number for a text", line(topic="\ud800", bornHost=5), "WRONG_TYPE", "bornHost"),
    ("half a pair names an object", line(properties={"\ud800": {"\udc00": 1}}), "WRONG_TYPE", "properties"),
    ("a backslash before what looks like half a pair", line(properties={"\\ud800": "{", "\\ud801": "{"}), None, None),
    ("a backslash, and an object", line(properties={"\\ud800": "{", "a": {}}), "WRONG_TYPE", "properties"),
    (
        "a character for a hex digit, of which the last byte is one",
        line(topic="T").replace('"T"', '"\\u004\u2039"'),
        "BROKEN_JSON",
        "the line is not one JSON object",
    ),
    (
        "a backslash and what looks like such an escape",
        json.dumps({**GOOD, "topic": "\\u004\u2039"}, ensure_ascii=False),
        None,
        None,
    ),
    (
        "a pair of backslashes between hex digits",
        line(topic="T").replace('"T"', '"\\u00\\\\41"'),
        "BROKEN_JSON",
        "the line is not one JSON object",
    ),
    ("a character zero", line(offsetMsgId="a\x00b"), None, None),
]


def lines(spark, texts):
    """Landing lines named by their source."""
    return local_frame(spark, [(text, why, number, None, None) for number, (why, text) in enumerate(texts)], LINES)


def test_each_fault_of_a_line_has_its_reason_and_names_the_fields(spark):
    judged = message_rows(lines(spark, [(why, text) for why, text, _, _ in FAULTS]))
    found = table_of(judged, "source", "reason", "detail", "raw")
    texts = {why: text for why, text, _, _ in FAULTS}
    assert {why: values[:2] for why, values in found.items()} == {why: (code, what) for why, _, code, what in FAULTS}
    kept = {why: raw for why, (_, _, raw) in found.items() if raw is not None}
    assert kept == {why: texts[why] for why, _, code, _ in FAULTS if code}, "bad lines are kept as they came"


def test_a_body_that_was_taken_out_of_its_line_is_the_lines_body(spark):
    note = line(bodyBase64="left out: 28 bytes")
    texts = [("taken out", note, b"seven"), ("no base64", note, None), ("torn", note[:-1], b"seven")]
    frame = local_frame(spark, [(text, why, 0, None, body) for why, text, body in texts], LINES)
    quick = quick_message_rows(frame)
    plain = [(row["source"], bytes(row["body"])) for row in quick.where("suspect_value is null").collect()]
    assert plain == [("taken out", b"seven")]
    found = table_of(message_rows(frame), "source", "reason", "body")
    assert {why: reason for why, (reason, _) in found.items()} == {
        "taken out": None,
        "no base64": "BODY_NOT_BASE64",
        "torn": "BROKEN_JSON",
    }
    assert bytes(found["taken out"][1]) == b"seven"


def test_the_quick_look_takes_no_line_that_the_costly_one_refuses(spark):
    quick = quick_message_rows(lines(spark, [(why, text) for why, text, _, _ in FAULTS]))
    taken = {row["source"] for row in quick.where("suspect_value is null").collect()}
    assert taken >= {"good", "white space around it", "offset zero", "no properties"}
    assert taken & {why for why, _, code, _ in FAULTS if code} == set()


def test_bytes_that_are_no_utf8_are_told_and_kept_as_text_that_every_reader_reads(spark):
    texts = [line().encode().replace(b"TRANS", b"TR\xffNS"), line(topic="\u00e9").encode()]
    frame = local_frame(
        spark,
        [(text, str(place), place, None, None) for place, text in enumerate(texts)],
        LINES.replace("value string", "value binary"),
    )
    lines = frame.withColumn("value", F.col("value").cast("string"))
    found = table_of(message_rows(lines).withColumn("raw", F.col("raw").cast("binary")), "source", "reason", "raw")
    assert found["0"] == ("BROKEN_JSON", texts[0].replace(b"\xff", "\ufffd".encode()))
    assert found["1"] == (None, None)
    assert quick_message_rows(lines).where("suspect_value is null").count() == 1


def test_a_good_line_becomes_typed_columns(spark):
    odd = line(
        offsetMsgId="a\x00b",
        bornHost="\ud800",
        queueOffset=2**62,
        sysFlag=-1,
        bodyBase64="",
        bornTimestamp=0,
        properties={"REAL_QID": 3, "on": True, "none": None},
    )
    repeated = line().replace('"queueOffset": 7', '"queueOffset": 7, "queueOffset": 8')
    landed = message_rows(lines(spark, [("plain", line()), ("odd", odd), ("repeated", repeated)]))
    found = table_of(landed, "source", *MESSAGE_COLUMNS, "position")
    assert found["plain"] == (
        "RMQ_SYS_TRANS_HALF_TOPIC", 0, 7, 4096, 0, 3, 0, 5, "10.0.0.1:4242", "10.0.0.2:10911",
        "0A00000200002A9F0000000000001000", 0, 0, {"UNIQ_KEY": "K", "PGROUP": "G"}, b"hello", 0,
    )  # fmt: skip
    assert found["odd"] == (
        "RMQ_SYS_TRANS_HALF_TOPIC", 0, 2**62, 4096, -1, 3, -NOW_MS, 5, "?", "10.0.0.2:10911",
        "a\x00b", 0, 0, {"REAL_QID": "3", "on": "true", "none": None}, b"", 1,
    )  # fmt: skip
    assert found["repeated"][2] in (7, 8), "a field named twice is no reason to stop"


def test_properties_are_kept_as_a_broker_stores_them(spark):
    sent_properties = {"UNIQ_KEY": "K", "mine": "my value", "MIN_OFFSET": "0", "MAX_OFFSET": "453", "empty": "", "": "nameless",
             "none": None, "min_offset": "kept", "space": " "}  # fmt: skip
    frame = local_frame(spark, [("all", sent_properties), ("nothing", {})], "why string, properties map<string,string>")
    stored = frame.withColumn("stored", stored_properties(F.col("properties")))
    assert table_of(stored, "why", "stored") == {
        "all": {"UNIQ_KEY": "K", "mine": "my value", "min_offset": "kept", "space": " "},
        "nothing": {},
    }


def test_a_message_of_another_kind_is_refused(spark):
    half, op, max_time = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"
    topics = [half, op, max_time, "TopicA", "SCHEDULE_TOPIC_XXXX", "rmq_sys_trans_half_topic"]
    frame = local_frame(spark, [(topic,) for topic in topics], "topic string")
    kinds = ("half", "op", "max-time", "message")
    judged = frame.select("topic", *[topic_fault(kind)["detail"].alias(kind) for kind in kinds])
    found = table_of(judged, "topic", *kinds)
    fitting = {topic: tuple(kind for kind, fault in zip(kinds, faults, strict=True) if fault is None)
               for topic, faults in found.items()}  # fmt: skip
    assert fitting == {
        half: ("half",), op: ("op",), max_time: ("max-time",), "TopicA": ("message",),
        "SCHEDULE_TOPIC_XXXX": ("message",), "rmq_sys_trans_half_topic": ("message",),
    }  # fmt: skip
    assert found[half][3] == "landed as message but its topic is RMQ_SYS_TRANS_HALF_TOPIC"
