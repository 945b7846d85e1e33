"""Op messages: the half offsets they name, and what is no half offset."""

from __future__ import annotations

import pytest
from builders import at, lines_of

from txmq_lib.rules.op import KEPT, op_faults, op_tokens
from txmq_lib.spark.local_frame import local_frame

pytestmark = pytest.mark.spark

DDL = """broker_name string, topic string, queue_id int, queue_offset bigint, commit_log_offset bigint, store_timestamp timestamp,
         content_hash bigint, raw string, source string, position bigint, properties map<string,string>, body binary"""
MIB = 1 << 20
TAGGED = {"TAGS": "d", "WAIT": "true"}

BODIES = [  # why, tags, body, (place, half offset) of each row, reason and detail of its fault
    ("one, as brokers before 5.1 wrote (R31)", TAGGED, b"5", [(0, 5)], []),
    ("several, unsorted, a comma behind each (R26, R27)", TAGGED, b"6,3,7,", [(0, 6), (1, 3), (2, 7)], []),
    ("repeated in one body (R27)", TAGGED, b"64,64,65,65,", [(0, 64), (1, 64), (2, 65), (3, 65)], []),
    ("one that is no number", TAGGED, b"7,x,,9", [(0, 7), (3, 9)], [("OP_TOKEN", "names x")]),
    ("offset zero, and zeros before it", TAGGED, b"0,007,", [(0, 0), (1, 7)], []),
    ("the highest number", TAGGED, b"9223372036854775807,", [(0, 2**63 - 1)], []),
    ("one higher", TAGGED, b"9223372036854775808,1,", [(1, 1)], [("OP_TOKEN", "names 9223372036854775808")]),
    ("twenty digits", TAGGED, b"00000000000000000001,", [], [("OP_TOKEN", "names 00000000000000000001")]),
    ("signs", TAGGED, b"-5,+5,", [], [("OP_TOKEN", "names -5, +5")]),
    ("spaces", TAGGED, b" 5,5 ,", [], [("OP_TOKEN", "names  5, 5 ")]),
    ("a line end", TAGGED, b"5\n,6", [(1, 6)], [("OP_TOKEN", "names 5\n")]),
    ("fractions and words", TAGGED, b"1.0,1e3,0x1,", [],
     [("OP_TOKEN", "names 1.0, 1e3, 0x1")]),
    ("digits of another script", TAGGED, "\u0665,5,".encode(), [(1, 5)], [("OP_TOKEN", "names \u0665")]),
    ("bytes that are no UTF-8 spoil their own token", TAGGED, b"7,\xff,9,", [(0, 7), (2, 9)],
     [("OP_TOKEN", "names \ufffd")]),
    ("seven that are none, the first five are named", TAGGED, b"a,b,1,c,d,e,f,g,", [(2, 1)],
     [("OP_TOKEN", "names a, b, c, d, e and 2 more")]),
    ("a long one is named by how it begins", TAGGED, b"7" * 5000, [], [("OP_TOKEN", "names " + "7" * 40)]),
    ("an empty body", TAGGED, b"", [], [("OP_BODY_EMPTY", "the body names no half")]),
    ("a comma alone", TAGGED, b",", [], [("OP_BODY_EMPTY", "the body names no half")]),
    ("as large as a broker stores", TAGGED, b"5," + b"7" * (4 * MIB - 2), [(0, 5)], [("OP_TOKEN", "names " + "7" * 40)]),
    ("larger", TAGGED, b"5," + b"7" * (4 * MIB - 1), [],
     [("OP_BODY_TOO_LARGE", "a body of 4194305 bytes, and a broker stores 4194304 at most")]),
    ("as many tokens as are read", TAGGED, b"," * MIB + b"5", [(MIB, 5)], []),
    ("more", TAGGED, b"," * MIB + b",5", [],
     [("OP_BODY_TOO_LARGE", "1048577 tokens, and 1048576 at most are read")]),
    ("larger, with another tag", {"TAGS": "x"}, b"7" * (4 * MIB + 1), [], [("OP_TAG", "tag is x, not d")]),
    ("another tag", {"TAGS": "x"}, b"5,", [], [("OP_TAG", "tag is x, not d")]),
    ("a capital tag", {"TAGS": "D"}, b"5,6,", [], [("OP_TAG", "tag is D, not d")]),
    ("no tag", {"WAIT": "true"}, b"5,", [], [("OP_TAG", "tag is absent, not d")]),
    ("no tag and no body", {}, b"", [], [("OP_TAG", "tag is absent, not d")]),
]  # fmt: skip


def test_each_token_of_a_body_is_a_row_or_a_fault(spark):
    bodies = [
        ("b", "RMQ_SYS_TRANS_OP_HALF_TOPIC", 1, number, 100 + number, at(number), 9, f"raw {why}", why, 55, tags, body)
        for number, (why, tags, body, _, _) in enumerate(BODIES)
    ]
    ops = local_frame(spark, bodies, DDL)
    good = lines_of(op_tokens(ops).join(ops.select("queue_offset", "source"), "queue_offset"),
                    "source", "position", "half_queue_offset")  # fmt: skip
    assert good == sorted((why, *one) for why, _, _, named, _ in BODIES for one in named)
    bad = lines_of(op_faults(ops), "source", "reason", "detail", "raw")
    assert bad == sorted((why, *one, f"raw {why}") for why, _, _, _, faults in BODIES for one in faults)
    whole = lines_of(op_tokens(ops).where("queue_offset = 1"), *KEPT, "position", "half_queue_offset")
    assert whole == [("b", 1, 1, 101, 1, "d", 9, place, offset) for place, offset in ((0, 6), (1, 3), (2, 7))]


def test_an_op_of_the_rocksdb_pair_names_a_physical_offset_in_a_property(spark):
    """R117: the body is one byte 0x00."""
    cases = [
        ("named", {**TAGGED, "TRANS_OFFSET": "400"}, [(0, 400)], []),
        ("absent", TAGGED, [], [("OP_HALF_PLACE", "no property TRANS_OFFSET (R117)")]),
        ("no number", {**TAGGED, "TRANS_OFFSET": "4,5"}, [], [("OP_TOKEN", "names 4,5")]),
        ("another tag", {"TAGS": "x", "TRANS_OFFSET": "400"}, [], [("OP_TAG", "tag is x, not d")]),
    ]
    rows = [
        ("b", "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC", -2, number, number, at(number), 9, "raw", why, 55, tags, b"\x00")
        for number, (why, tags, _, _) in enumerate(cases)
    ]
    ops = local_frame(spark, rows, DDL)
    named = lines_of(op_tokens(ops).join(ops.select("queue_offset", "source"), "queue_offset"),
                     "source", "position", "half_queue_offset")  # fmt: skip
    assert named == [(why, *one) for why, _, expected_rows, _ in cases for one in expected_rows]
    faults = lines_of(op_faults(ops), "source", "reason", "detail")
    assert faults == sorted((why, *one) for why, _, _, expected_rows in cases for one in expected_rows)
