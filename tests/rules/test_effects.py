"""What a decision writes: restored messages, ops, given-up rows, and where each goes (R20, R25, R26, R70)."""

from __future__ import annotations

import pyarrow as pa
import pytest
from builders import at, lines_of, rows, schema_of, table_of
from chispa import assert_df_equality
from moment import NOW

from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.arrow_files import arrow_schema
from txmq_lib.pipeline.reconcile.in_arrow import message_rows
from txmq_lib.rules.effects import (
    given_up_destinations,
    given_up_messages,
    numbered,
    op_rows,
    restored_destinations,
    restored_messages,
)
from txmq_lib.spark.local_frame import local_frame

pytestmark = pytest.mark.spark

HALF = {
    "queue_offset": 40, "commit_log_offset": 9_000, "flag": 7, "born_timestamp": at(-500), "store_timestamp": at(-400),
    "born_host": "p:1", "store_host": "s:1", "offset_msg_id": "0A00", "reconsume_times": 2, "body": b"hello",
    "tags": "tagA", "keys": "k1", "transaction_id": "K",
}  # fmt: skip
KEPT = {"UNIQ_KEY": "K", "PGROUP": "PG", "TAGS": "tagA", "KEYS": "k1", "__transactionId__": "K", "mine": "x",
        "CHECK_IMMUNITY_TIME_IN_SECONDS": "60"}  # fmt: skip
CLEARED = {"REAL_TOPIC": "TopicA", "REAL_QID": "3", "TRAN_MSG": "true"}
PLACE_DDL = (
    "broker_name string, commit_log_offset bigint, half_queue_id int, half_queue_offset bigint, topic string,"
    " queue_id int, queue_offset bigint"
)


def test_offsets_go_on_densely_where_each_queue_ends(spark):
    ddl = "broker_name string, topic string, queue_id int, name string, turn int"
    decided = [("b", "TopicA", 0, "third", 3), ("b", "TopicA", 0, "first", 1), ("b", "TopicA", 0, "second", 2),
             ("b", "TopicA", 1, "of a new queue", 1), ("b", "TopicB", 0, "of a new topic", 1),
             ("c", "TopicA", 0, "of another broker", 9)]  # fmt: skip
    frontier = rows(spark, "landing_frontier", [{"next_offset": 70}, {"next_offset": 5, "broker_name": "c"},
                                                {"next_offset": 8, "queue_id": 9}])  # fmt: skip
    found = numbered(local_frame(spark, decided, ddl), frontier, ("turn",))
    assert table_of(found, "name", "queue_offset") == {
        "first": 70, "second": 71, "third": 72, "of a new queue": 0, "of a new topic": 0, "of another broker": 5,
    }  # fmt: skip


def test_a_commit_has_a_place_in_its_real_queue_in_the_order_of_ends(spark):
    ends = [
        {"commit_log_offset": 1, "ts": at(2)},
        {"commit_log_offset": 2, "ts": at(1), "landed_pass": 2, "landing_order": 0},
        {"commit_log_offset": 3, "ts": at(1), "landed_pass": 1, "landing_order": 9},
        {"commit_log_offset": 4, "ts": at(1), "landed_pass": 1, "landing_order": 8},
        {"commit_log_offset": 6, "ts": at(3), "origin": "landed"},
        {"commit_log_offset": 5, "ts": at(3), "origin": "resolve"},
        {"commit_log_offset": 9, "ts": at(4), "half_queue_offset": 8},
        {"commit_log_offset": 9, "ts": at(4), "half_queue_offset": 7},
        {"commit_log_offset": 7, "ts": at(0), "commit_or_rollback": 12, "decision": "rollback"},
        {"commit_log_offset": 8, "ts": at(0), "real_queue_id": 1},
    ]
    frontier = rows(spark, "landing_frontier", [{"next_offset": 100}])
    destinations = restored_destinations(rows(spark, "end_outcome", ends), frontier)
    assert sorted(destinations.columns) == [
        "broker_name", "commit_log_offset", "half_queue_id", "half_queue_offset", "queue_id", "queue_offset", "topic",
    ]  # fmt: skip
    assert lines_of(destinations, "topic", "queue_id", "queue_offset", "commit_log_offset") == [
        ("TopicA", 0, 100, 4), ("TopicA", 0, 101, 3), ("TopicA", 0, 102, 2), ("TopicA", 0, 103, 1),
        ("TopicA", 0, 104, 5), ("TopicA", 0, 105, 6), ("TopicA", 0, 106, 9), ("TopicA", 0, 107, 9), ("TopicA", 1, 0, 8),
    ]  # fmt: skip
    of_rebuilt = destinations.where("commit_log_offset = 9")
    assert lines_of(of_rebuilt, "half_queue_offset", "queue_offset") == [(7, 106), (8, 107)]


def batch_of(frame, order):
    return frame.orderBy(*order).toArrow().combine_chunks().to_batches()[0]


def made_in_arrow(spark, table, makes, destinations, halves, on, **more):
    """What `makes` gives for `halves` that have a destination, each with it."""
    same = [halves[half] == destinations[place] for half, place in on.items()]
    there = halves.join(destinations, on=same, how="left_semi")
    schema = arrow_schema(table_spec(table))
    in_order = pa.Table.from_batches([batch_of(destinations, on.values())])
    rows_made = makes(batch_of(there, on), in_order, schema, now=NOW, pass_number=6, **more)
    return spark.createDataFrame(pa.Table.from_batches([rows_made]), schema_of(table))


def restored(spark, destinations, halves, in_arrow):
    if in_arrow:
        on = {
            "broker_name": "broker_name",
            "commit_log_offset": "commit_log_offset",
            "queue_offset": "half_queue_offset",
        }
        return made_in_arrow(spark, "message", message_rows.restored, destinations, halves, on)
    return restored_messages(destinations, halves, now=NOW, pass_number=6)


@pytest.mark.parametrize("in_arrow", [False, True])
def test_a_commit_restores_its_half_to_its_real_topic(spark, in_arrow):
    destinations = local_frame(
        spark,
        [("b", 9_000, 0, 40, "TopicA", 3, 71)],
        PLACE_DDL,
    )
    # Compressed, from an IPv6 host, with the rollback bits an old client may have sent.
    real = {"real_topic": "TopicA", "real_queue_id": 3}
    halves = rows(spark, "half_message",
                  [{**HALF, **real, "sys_flag": 0x1 | 0x10 | 0xC, "properties": {**KEPT, **CLEARED}},
                   {**HALF, **real, "broker_name": "c", "body": b"other"},
                   {**HALF, **real, "queue_offset": 39, "body": b"at the same place before the broker was rebuilt"},
                   {**HALF, **real, "commit_log_offset": 9_001, "queue_offset": 41}])  # fmt: skip
    expected = rows(
        spark,
        "message",
        [{**HALF, "topic": "TopicA", "queue_id": 3, "queue_offset": 71, "commit_log_offset": None,
          "sys_flag": 0x1 | 0x10 | 0x8, "store_timestamp": NOW, "offset_msg_id": None,
          "prepared_transaction_offset": 9_000, "properties": KEPT, "producer_group": "PG", "content_hash": None,
          "origin": "txmq", "landed_pass": 6}],
    )  # fmt: skip
    found = restored(spark, destinations, halves, in_arrow)
    assert sorted(found.columns) == sorted(schema_of("message").names)
    assert_df_equality(found, expected, ignore_column_order=True, ignore_nullable=True, ignore_metadata=True)


@pytest.mark.parametrize("in_arrow", [False, True])
def test_each_of_two_halves_at_one_place_is_restored_to_its_own(spark, in_arrow):
    destinations = local_frame(
        spark,
        [
            ("b", 9_000, 0, 40, "TopicA", 3, 71),
            ("b", 9_000, 0, 39, "TopicA", 3, 72),
            ("b", 9_000, 0, 38, "TopicA", 3, 73),
        ],
        PLACE_DDL,
    )
    real = {"real_topic": "TopicA", "real_queue_id": 3, "properties": KEPT}
    bodies = {40: b"of 40", 39: b"of 39", 38: b"of 38", 37: b"undecided"}
    halves = rows(
        spark, "half_message", [{**HALF, **real, "queue_offset": at, "body": body} for at, body in bodies.items()]
    )
    found = restored(spark, destinations, halves, in_arrow)
    assert table_of(found, "queue_offset", "body") == {71: b"of 40", 72: b"of 39", 73: b"of 38"}


def test_every_decided_half_has_one_op_that_says_no_more_than_its_offset(spark):
    named = local_frame(
        spark,
        [("b", 0, 45), ("b", 0, 40), ("b", 1, 7), ("c", 0, 1)],
        "broker_name string, queue_id int, half_queue_offset bigint",
    )
    frontier = rows(spark, "landing_frontier", [{"topic": "RMQ_SYS_TRANS_OP_HALF_TOPIC", "next_offset": 12},
                                                {"topic": "RMQ_SYS_TRANS_HALF_TOPIC", "next_offset": 99}])  # fmt: skip
    ours = {"store_timestamp": NOW, "content_hash": None, "origin": "txmq", "landed_pass": 6}
    expected = rows(
        spark,
        "op_message",
        [{**ours, "queue_offset": 12, "half_queue_offset": 40}, {**ours, "queue_offset": 13, "half_queue_offset": 45},
         {**ours, "queue_id": 1, "queue_offset": 0, "half_queue_offset": 7},
         {**ours, "broker_name": "c", "queue_offset": 0, "half_queue_offset": 1}],
    )  # fmt: skip
    found = op_rows(named, frontier, now=NOW, pass_number=6, count=4)
    assert_df_equality(found, expected, ignore_column_order=True, ignore_row_order=True, ignore_nullable=True,
                       ignore_metadata=True)  # fmt: skip


def pending_to_give_up(spark):
    """Two undecided transactions, one asked to the limit and one expired unasked."""
    transactions = [
        {"transaction_id": "K", "queue_offset": 40, "commit_log_offset": 9_000, "check_times": 15, "queue_id": 0},
        {"transaction_id": "E", "queue_offset": 30, "commit_log_offset": 8_000, "check_times": 0, "queue_id": 0},
    ]
    reasons = local_frame(spark, [("K", "check_max"), ("E", "expired")], "transaction_id string, reason string")
    return rows(spark, "pending_half", transactions).join(reasons, on="transaction_id", how="inner")


def test_the_given_up_are_numbered_in_queue_0_of_their_topic(spark):
    frontier = rows(spark, "landing_frontier", [{"topic": "TRANS_CHECK_MAX_TIME_TOPIC", "next_offset": 4}])
    destinations = given_up_destinations(pending_to_give_up(spark), frontier)
    columns = ("topic", "queue_id", "queue_offset", "half_queue_offset", "half_commit_log_offset", "check_times")
    assert table_of(destinations, "reason", *columns) == {
        "expired": ("TRANS_CHECK_MAX_TIME_TOPIC", 0, 4, 30, 8_000, 0),
        "check_max": ("TRANS_CHECK_MAX_TIME_TOPIC", 0, 5, 40, 9_000, 15),
    }


@pytest.mark.parametrize("in_arrow", [False, True])
@pytest.mark.parametrize("rolls_back", [False, True])
def test_a_given_up_row_keeps_the_half_and_says_how_often_it_was_asked(spark, rolls_back, in_arrow):
    counted = {**KEPT, **CLEARED, "TRANSACTION_CHECK_TIMES": "2"}
    halves = [
        {**HALF, "sys_flag": 0x1, "properties": counted, "real_queue_id": 3, "broker_check_times": 2},
        {**HALF, "queue_offset": 30, "commit_log_offset": 8_000, "transaction_id": "E", "properties": {}},
        {**HALF, "queue_offset": 31, "commit_log_offset": 8_000, "transaction_id": "of before the broker was rebuilt"},
        {**HALF, "queue_offset": 30, "commit_log_offset": 8_000, "queue_id": -2, "transaction_id": "in RocksDB"},
    ]
    destinations = given_up_destinations(pending_to_give_up(spark), rows(spark, "landing_frontier"))
    halves = rows(spark, "half_message", halves)
    if in_arrow:
        on = {
            "broker_name": "broker_name",
            "commit_log_offset": "half_commit_log_offset",
            "queue_id": "half_queue_id",
            "queue_offset": "half_queue_offset",
        }
        makes = message_rows.given_up
        found = made_in_arrow(spark, "trans_check_max_time", makes, destinations, halves, on, rolls_back=rolls_back)
    else:
        found = given_up_messages(destinations, halves, now=NOW, pass_number=6, rolls_back=rolls_back)
    ours = {"topic": "TRANS_CHECK_MAX_TIME_TOPIC", "store_timestamp": NOW, "given_up_timestamp": NOW,
            "commit_log_offset": None, "content_hash": None, "origin": "txmq", "landed_pass": 6,
            "is_rolled_back": rolls_back}  # fmt: skip
    expected = rows(
        spark,
        "trans_check_max_time",
        [{**HALF, **ours, "queue_offset": 1, "sys_flag": 0x1, "real_queue_id": 3, "broker_check_times": 2,
          "properties": {**KEPT, **CLEARED, "TRANSACTION_CHECK_TIMES": "15"}, "half_queue_offset": 40,
          "half_commit_log_offset": 9_000, "check_times": 15, "reason": "check_max"},
         {**HALF, **ours, "queue_offset": 0, "transaction_id": "E", "properties": {"TRANSACTION_CHECK_TIMES": "0"},
          "half_queue_offset": 30, "half_commit_log_offset": 8_000, "check_times": 0, "reason": "expired"}],
    )  # fmt: skip
    assert sorted(found.columns) == sorted(schema_of("trans_check_max_time").names)
    assert_df_equality(found.orderBy("queue_offset"), expected.orderBy("queue_offset"), ignore_column_order=True,
                       ignore_nullable=True, ignore_metadata=True)  # fmt: skip
