"""Stored messages as rows of half_message, message and trans_check_max_time."""

from __future__ import annotations

import pytest
from builders import at, rows, schema_of, table_of
from chispa import assert_df_equality

from txmq_lib.rules.half import content_hash, given_up_messages, half_messages, messages
from txmq_lib.rules.landing_contract import MESSAGE_COLUMNS

pytestmark = pytest.mark.spark

WHOLE = {
    "UNIQ_KEY": "K",
    "__transactionId__": "K",
    "PGROUP": "PG",
    "REAL_TOPIC": "TopicA",
    "REAL_QID": "3",
    "TRANSACTION_CHECK_TIMES": "2",
    "CHECK_IMMUNITY_TIME_IN_SECONDS": "60",
    "TRAN_PREPARED_QUEUE_OFFSET": "41",
    "TAGS": "tagA",
    "KEYS": "k1 k2",
}
PLACE = {"queue_offset": 45, "commit_log_offset": 9000, "offset_msg_id": "0A00", "reconsume_times": 1, "flag": 7}


def stored(spark, *rows_stored):
    """Stored messages: what landing has before the rules name anything in them."""
    return rows(spark, "half_message", rows_stored).select("broker_name", *MESSAGE_COLUMNS, "content_hash", "origin",
                                                     "landed_pass")  # fmt: skip


def test_a_half_is_named_by_its_properties_and_keeps_all_it_was_stored_with(spark):
    found = half_messages(stored(spark, {**PLACE, "properties": WHOLE}))
    expected = rows(
        spark,
        "half_message",
        [{**PLACE, "properties": WHOLE, "tags": "tagA", "keys": "k1 k2", "transaction_id": "K", "producer_group": "PG",
          "real_topic": "TopicA", "real_queue_id": 3, "broker_check_times": 2, "check_immunity": "60",
          "prepared_queue_offset": 41}],
    )  # fmt: skip
    assert_df_equality(found, expected, ignore_column_order=True, ignore_nullable=True, ignore_metadata=True)
    assert sorted(found.columns) == sorted(schema_of("half_message").names)


def test_no_property_is_needed_for_a_half_to_land_and_odd_ones_are_absent(spark):
    properties = {
        "nothing": {},
        "no number": {"REAL_QID": "x", "TRANSACTION_CHECK_TIMES": "many", "TRAN_PREPARED_QUEUE_OFFSET": "1.5"},
        "too large": {"REAL_QID": "2147483648", "TRANSACTION_CHECK_TIMES": "-1",
                      "TRAN_PREPARED_QUEUE_OFFSET": "9223372036854775808"},
        "resumed (R73)": {"TRANSACTION_CHECK_TIMES": "0", "TRAN_PREPARED_QUEUE_OFFSET": "9223372036854775807"},
        "immunity as written": {"CHECK_IMMUNITY_TIME_IN_SECONDS": " 5", "UNIQ_KEY": "K"},
    }  # fmt: skip
    halves = half_messages(
        stored(spark, *[{"offset_msg_id": why, "properties": has} for why, has in properties.items()])
    )
    columns = ("transaction_id", "producer_group", "real_topic", "real_queue_id", "broker_check_times",
               "prepared_queue_offset", "check_immunity")  # fmt: skip
    assert table_of(halves, "offset_msg_id", *columns) == {
        "nothing": ("nothing", None, None, None, None, None, None),
        "no number": ("no number", None, None, None, None, None, None),
        "too large": ("too large", None, None, None, -1, None, None),
        "resumed (R73)": ("resumed (R73)", None, None, None, 0, 2**63 - 1, None),
        "immunity as written": ("K", None, None, None, None, None, " 5"),
    }, "without UNIQ_KEY a half is its own transaction"


def test_a_visible_message_is_named_but_never_given_an_id(spark):
    visible = messages(stored(spark, {"offset_msg_id": "named", "properties": WHOLE}, {"offset_msg_id": "bare"}))
    assert sorted(visible.columns) == sorted(schema_of("message").names)
    assert table_of(visible, "offset_msg_id", "transaction_id", "producer_group", "tags", "keys") == {
        "named": ("K", "PG", "tagA", "k1 k2"),
        "bare": (None, None, None, None),
    }


def test_a_landed_given_up_row_says_what_the_broker_counted_and_nothing_of_ours(spark):
    landed = given_up_messages(stored(spark, {**PLACE, "store_timestamp": at(-500), "properties": WHOLE}))
    expected = rows(
        spark,
        "trans_check_max_time",
        [{**PLACE, "topic": "RMQ_SYS_TRANS_HALF_TOPIC", "store_timestamp": at(-500), "properties": WHOLE,
          "tags": "tagA", "keys": "k1 k2", "transaction_id": "K", "real_queue_id": 3, "broker_check_times": 2,
          "given_up_timestamp": at(-500)}],
    )  # fmt: skip
    assert_df_equality(landed, expected, ignore_column_order=True, ignore_nullable=True, ignore_metadata=True)


def test_the_content_of_a_message_is_all_but_its_place_in_the_queue(spark):
    first, second = {"a": "1", "b": "2"}, {"b": "2", "a": "1"}
    changes = {
        "as it is": {},
        "at another offset": {"queue_offset": 46},
        "in another queue": {"queue_id": 1},
        "properties in another order": {"properties": second},
        "topic": {"topic": "TopicB"},
        "commit_log_offset": {"commit_log_offset": 9001},
        "sys_flag": {"sys_flag": 1},
        "flag": {"flag": 8},
        "born_timestamp": {"born_timestamp": at(1)},
        "store_timestamp": {"store_timestamp": at(1)},
        "born_host": {"born_host": "h"},
        "store_host": {"store_host": "h"},
        "offset_msg_id": {"offset_msg_id": "0A01"},
        "reconsume_times": {"reconsume_times": 2},
        "prepared_transaction_offset": {"prepared_transaction_offset": 1},
        "body": {"body": b"other"},
        "a property's value": {"properties": {"a": "1", "b": "3"}},
        "one property less": {"properties": {"a": "1"}},
        "values changed about": {"properties": {"a": "2", "b": "1"}},
    }
    hosts = {"born_host": "p", "store_host": "s"}
    messages = [{**PLACE, **hosts, "properties": first, "origin": why, **change} for why, change in changes.items()]
    hashes = table_of(stored(spark, *messages).withColumn("hash", content_hash()), "origin", "hash")
    same = {why for why, hash_ in hashes.items() if hash_ == hashes["as it is"]}
    assert same == {"as it is", "at another offset", "in another queue", "properties in another order"}
    assert len(set(hashes.values())) == len(changes) - 3
