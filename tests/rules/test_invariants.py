"""What must never be, each seen to be noticed."""

from __future__ import annotations

import pytest
from builders import at, lines_of, rows
from pyspark.sql import functions as F

from txmq_lib.rules.invariants import broken_invariants
from txmq_lib.spark.local_frame import local_frame

pytestmark = pytest.mark.spark

SYSTEM, NOT_ONE, BOTH = (
    "system topic among messages",
    "a commit without exactly one message",
    "a transaction pending and decided",
)


def broken(spark, *, deciding, destinations, pending=(), are_messages_made=False):
    ddl = "broker_name string, commit_log_offset bigint, topic string, half_queue_offset bigint, queue_id int"
    rows_of_destinations = [(*place[:3], place[3] if place[3:] else place[1] // 100, 0) for place in destinations]
    frame = local_frame(spark, rows_of_destinations, ddl).withColumn("queue_offset", F.lit(0).cast("bigint"))
    effective_ends = [{"half_queue_offset": end["commit_log_offset"] // 100, **end} for end in deciding]
    ends, open_ones = rows(spark, "end_outcome", effective_ends), rows(spark, "pending_half", pending)
    found = broken_invariants(ends, frame, open_ones, are_messages_made=are_messages_made)
    return lines_of(found, "invariant", "broker_name", "example")


def test_a_sound_pass_breaks_nothing(spark):
    deciding = [
        {"commit_log_offset": 100},
        {"commit_log_offset": 100, "broker_name": "c"},
        {"commit_log_offset": 300, "transaction_id": "R", "decision": "rollback"},
    ]
    pending = [
        {"transaction_id": "P"}, {"broker_name": "d"}, {"producer_group": None}, {"born_timestamp": at(7)},
    ]  # fmt: skip
    destinations = [("b", 100, "TopicA"), ("c", 100, "TopicA")]
    assert broken(spark, deciding=deciding, destinations=destinations, pending=pending) == []


def test_two_halves_of_a_rebuilt_broker_at_one_place_are_two_commits(spark):
    deciding = [{"commit_log_offset": 100, "half_queue_offset": 1}, {"commit_log_offset": 100, "half_queue_offset": 2}]
    destinations = [("b", 100, "TopicA", 1), ("b", 100, "TopicA", 2)]
    assert broken(spark, deciding=deciding, destinations=destinations) == []
    assert broken(spark, deciding=deciding, destinations=destinations[:1]) == [(NOT_ONE, "b", "100")]


def test_each_broken_rule_is_named_with_an_example(spark):
    deciding = [
        {"commit_log_offset": 100, "transaction_id": "fine"},
        {"commit_log_offset": 200, "transaction_id": "no message"},
        {"commit_log_offset": 300, "transaction_id": "two messages"},
        {"commit_log_offset": 400, "transaction_id": "once"},
        {"commit_log_offset": 400, "transaction_id": "twice"},
        {"commit_log_offset": 500, "transaction_id": "rolled back, visible", "decision": "rollback"},
        {"commit_log_offset": 600, "transaction_id": "in a system topic"},
        {"commit_log_offset": 700, "transaction_id": "still pending", "decision": "rollback", "producer_group": None},
    ]
    destinations = [
        ("b", 100, "TopicA"), ("b", 300, "TopicA"), ("b", 300, "TopicA"), ("b", 400, "TopicA"), ("b", 500, "TopicA"),
        ("b", 600, "RMQ_SYS_TRANS_OP_HALF_TOPIC"), ("b", 800, "TopicA"),
    ]  # fmt: skip
    pending = [{"transaction_id": "still pending", "producer_group": None}, {"transaction_id": "P"}]
    assert broken(spark, deciding=deciding, destinations=destinations, pending=pending) == sorted(
        [(SYSTEM, "b", "RMQ_SYS_TRANS_OP_HALF_TOPIC"), (BOTH, "b", "still pending"),
         *[(NOT_ONE, "b", example) for example in ("200", "300", "400", "500", "800")]]
    )  # fmt: skip


def test_commits_of_which_messages_were_made_are_not_looked_at_again(spark):
    deciding = [{"commit_log_offset": 100}, {"commit_log_offset": 200, "transaction_id": "P"}]
    destinations, pending = [("b", 100, "TRANS_CHECK_MAX_TIME_TOPIC")], [{"transaction_id": "P"}]
    found = broken(spark, deciding=deciding, destinations=destinations, pending=pending, are_messages_made=True)
    assert found == [(BOTH, "b", "P"), (SYSTEM, "b", "TRANS_CHECK_MAX_TIME_TOPIC")]
