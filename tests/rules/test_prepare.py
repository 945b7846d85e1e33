"""Prepared messages on their way in: which become halves, and how (R1-R5, R8, R9)."""

from __future__ import annotations

import pytest
from builders import rows, table_of
from chispa import assert_df_equality
from pyspark.sql import functions as F

from txmq_lib.rules.landing_contract import MESSAGE_COLUMNS
from txmq_lib.rules.prepare import as_halves, has_delay, is_prepared, is_under_own_topic, prepare_fault

pytestmark = pytest.mark.spark

PREPARED = {"TRAN_MSG": "true", "PGROUP": "PG", "UNIQ_KEY": "K"}

EDGES = [  # why, properties, other columns, fault
    ("prepared", PREPARED, {}, None),
    ("any case parses as true (R1)", {"TRAN_MSG": "TrUe"}, {}, None),
    ("nothing says so", {}, {}, "NOT_PREPARED"),
    ("false", {"TRAN_MSG": "false"}, {}, "NOT_PREPARED"),
    ("1 is not true", {"TRAN_MSG": "1"}, {}, "NOT_PREPARED"),
    ("a space before true is not true", {"TRAN_MSG": " true"}, {}, "NOT_PREPARED"),
    ("the prepared bit alone does not make one (R1)", {}, {"sys_flag": 4}, "NOT_PREPARED"),
    ("an old client's retry: sent back and delayed (R1)", {**PREPARED, "DELAY": "3"}, {"reconsume_times": 1},
     "NOT_PREPARED"),
    ("sent back but not delayed", PREPARED, {"reconsume_times": 1}, None),
    ("sent back with delay 0", {**PREPARED, "DELAY": "0"}, {"reconsume_times": 1}, None),
    ("delayed but not sent back: the delay is dropped (R8)", {**PREPARED, "DELAY": "3"}, {}, None),
    ("a delay that is no number", {**PREPARED, "DELAY": "soon"}, {"reconsume_times": 1}, None),
    ("timer in seconds (R8)", {**PREPARED, "TIMER_DELAY_SEC": "5"}, {}, "TIMER_IN_TRANSACTION"),
    ("timer in milliseconds", {**PREPARED, "TIMER_DELAY_MS": "0"}, {}, "TIMER_IN_TRANSACTION"),
    ("timer at a moment", {**PREPARED, "TIMER_DELIVER_MS": "x"}, {}, "TIMER_IN_TRANSACTION"),
    ("an empty timer is none: it is never stored", {**PREPARED, "TIMER_DELAY_SEC": ""}, {}, None),
    ("a null timer is none", {**PREPARED, "TIMER_DELAY_SEC": None}, {}, None),
    ("an inner batch (R9)", PREPARED, {"sys_flag": 0x80}, "BATCH_IN_TRANSACTION"),
    ("a batch to unwrap", PREPARED, {"sys_flag": 0x40 | 4}, "BATCH_IN_TRANSACTION"),
    ("compressed, prepared, from an IPv6 host: no batch", PREPARED, {"sys_flag": 0x1 | 4 | 0x30 | 0x300}, None),
    ("not prepared is said before anything else", {"TIMER_DELAY_SEC": "5"}, {"sys_flag": 0x80}, "NOT_PREPARED"),
]  # fmt: skip


def under_topic(spark, *values):
    """Messages still under their own topic, as landing hands them over."""
    frame = rows(spark, "half_message", [{"topic": "TopicA", "queue_id": 2, **columns} for columns in values])
    places = F.col("landed_pass").cast("bigint")
    return frame.select("broker_name", *MESSAGE_COLUMNS, "origin", places.alias("position"))


def test_who_becomes_a_half_and_who_is_refused(spark):
    messages = [{"origin": why, "properties": has, **more} for why, has, more, _ in EDGES]
    judged = under_topic(spark, *messages).withColumn("fault", prepare_fault()["reason"])
    assert table_of(judged, "origin", "fault") == {why: fault for why, *_, fault in EDGES}


def test_what_is_prepared_and_what_is_delayed_is_never_unknown(spark):
    messages = [{"origin": why, "properties": has, **more} for why, has, more, _ in EDGES]
    judged = under_topic(spark, *messages).withColumns({"prepared": is_prepared(), "delay": has_delay()})
    found = table_of(judged, "origin", "prepared", "delay")
    assert {why for why, (prepared, _) in found.items() if not prepared} == {
        why for why, *_, fault in EDGES if fault == "NOT_PREPARED"
    }
    assert {why for why, (_, delayed) in found.items() if delayed} == {
        "an old client's retry: sent back and delayed (R1)",
        "delayed but not sent back: the delay is dropped (R8)",
    }
    assert None not in {value for pair in found.values() for value in pair}


def test_a_message_of_the_half_topic_is_one_already(spark):
    frame = under_topic(spark, {"origin": "half", "topic": "RMQ_SYS_TRANS_HALF_TOPIC"}, {"origin": "own"})
    assert table_of(frame.withColumn("own", is_under_own_topic()), "origin", "own") == {"half": False, "own": True}


def test_a_prepared_message_becomes_a_half_as_a_broker_makes_it(spark):
    properties = {**PREPARED, "DELAY": "3", "TAGS": "tagA", "mine": "x", "REAL_TOPIC": "forged", "REAL_QID": "99",
                  "__transactionId__": "forged"}  # fmt: skip
    kept = {"commit_log_offset": 9000, "flag": 7, "body": b"hello", "born_host": "h:1", "reconsume_times": 2}
    prepared = under_topic(spark, {**kept, "sys_flag": 0x1 | 4, "properties": properties, "queue_offset": 77})
    expected = under_topic(
        spark,
        {**kept, "topic": "RMQ_SYS_TRANS_HALF_TOPIC", "queue_id": 0, "queue_offset": 12, "sys_flag": 0x1,
         "properties": {"TRAN_MSG": "true", "PGROUP": "PG", "TAGS": "tagA", "mine": "x", "UNIQ_KEY": "K",
                        "__transactionId__": "K", "REAL_TOPIC": "TopicA", "REAL_QID": "2"}},
    )  # fmt: skip
    found = as_halves(prepared, F.lit(12).cast("bigint"))
    assert_df_equality(found, expected, ignore_column_order=True, ignore_nullable=True, ignore_metadata=True)


def test_a_missing_key_is_given_and_transaction_bits_are_cleared(spark):
    messages = [
        {"origin": "keyless", "commit_log_offset": 1, "offset_msg_id": "0A01", "properties": {"TRAN_MSG": "true"}},
        {"origin": "rollback bits", "commit_log_offset": 2, "sys_flag": 0xC | 0x10, "properties": PREPARED},
        {"origin": "commit bits", "commit_log_offset": 3, "sys_flag": 0x8, "properties": PREPARED},
    ]
    halves = as_halves(under_topic(spark, *messages), F.lit(0).cast("bigint"))
    named = halves.select("origin", "sys_flag", F.expr("properties['UNIQ_KEY']").alias("key"),
                          F.expr("properties['__transactionId__']").alias("id"))  # fmt: skip
    assert table_of(named, "origin", "sys_flag", "key", "id") == {
        "keyless": (0, "0A01", "0A01"),
        "rollback bits": (0x10, "K", "K"),
        "commit bits": (0, "K", "K"),
    }, "R5: a broker gives a key where there is none"


def test_halves_are_numbered_densely_in_the_order_of_the_log_per_broker(spark):
    places = [("b", 300, 9), ("b", 100, 8), ("b", 200, 7), ("b", 200, 6), ("c", 5, 1)]
    messages = [
        {"broker_name": broker, "commit_log_offset": physical, "landed_pass": position, "queue_id": number % 3,
         "origin": f"{broker} {physical} {position}", "properties": PREPARED}
        for number, (broker, physical, position) in enumerate(places)
    ]  # fmt: skip
    numbered = as_halves(under_topic(spark, *messages), F.lit(40).cast("bigint"))
    assert table_of(numbered, "origin", "queue_offset", "queue_id") == {
        "b 100 8": (40, 0),
        "b 200 6": (41, 0),
        "b 200 7": (42, 0),
        "b 300 9": (43, 0),
        "c 5 1": (40, 0),
    }, "R4: queue 0 whatever queue was asked for"
