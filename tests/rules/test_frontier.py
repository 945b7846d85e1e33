"""How far the rows of a landing reach in each queue, as frames tell it."""

from __future__ import annotations

import pytest
from builders import at, rows, table_of
from chispa import assert_df_equality

from txmq_lib.rules.frontier import as_frontier, reached
from txmq_lib.spark.local_frame import local_frame

pytestmark = pytest.mark.spark

PLACED = (
    "broker_name string, topic string, queue_id int, queue_offset bigint, store_timestamp timestamp,"
    " commit_log_offset bigint, told_end bigint"
)


def placed(spark, *records):
    return local_frame(spark, [(*record, *[None] * (7 - len(record))) for record in records], PLACED)


def test_a_queue_is_reached_behind_its_highest_offset(spark):
    frame = placed(
        spark,
        ("b", "TopicA", 0, 7, at(10)), ("b", "TopicA", 0, 9, at(5)), ("b", "TopicA", 0, 8, at(30)),
        ("b", "TopicA", 1, 0, at(0)),
        ("c", "TopicA", 0, 2, at(1)),
        ("b", "TopicB", 0, 2**63 - 1, at(2)),
    )  # fmt: skip
    found = {
        (row.broker_name, row.topic, row.queue_id): row.next_offset
        for row in reached(frame).select("broker_name", "topic", "queue_id", "next_offset").collect()
    }
    assert found == {
        ("b", "TopicA", 0): 10,
        ("b", "TopicA", 1): 1,
        ("c", "TopicA", 0): 3,
        ("b", "TopicB", 0): 2**63 - 1,
    }, "a damaged offset without a next one stops nothing"
    assert table_of(reached(frame).where("topic = 'TopicA' and broker_name = 'b'"), "queue_id",
                    "highest_store_timestamp") == {0: 30, 1: 0}  # fmt: skip


def test_a_landed_file_is_a_source_that_does_not_know_its_end(spark):
    reports = as_frontier(reached(placed(spark, ("b", "TopicA", 0, 7, at(10)))))
    expected = rows(spark, "landing_frontier", [{"next_offset": 8, "highest_store_timestamp": at(10), "is_end_known": False, "runs": [],
                                 "told_end": 8}])  # fmt: skip
    assert_df_equality(
        reports, expected.drop("pass_number"), ignore_column_order=True, ignore_nullable=True, ignore_metadata=True
    )


def test_a_file_tells_the_end_of_a_queue_by_its_last_row_alone(spark):
    told_ends = {"to the end": (9, 10), "cut short": (9, 12), "no end": (9, None), "the one before told it": (9, None)}
    records = [("b", why, 0, offset, at(0), 7 * offset, end) for why, (offset, end) in told_ends.items()]
    records += [("b", "the one before told it", 0, 8, at(0), 56, 10), ("b", "in conflict", 0, 9, at(0), None, 10)]
    reports = reached(placed(spark, *records))
    found = table_of(reports, "topic", "next_offset", "told_end", "file_end", "runs")
    assert {topic: row[:3] for topic, row in found.items()} == {
        "to the end": (10, 10, 10),
        "cut short": (10, 12, None),
        "no end": (10, 10, None),
        "the one before told it": (10, 10, None),
        "in conflict": (10, 10, 10),
    }
    assert [tuple(run) for run in found["the one before told it"][3]] == [(8, 10, 56, 63, None)]
    assert found["in conflict"][3] == [], "another message stands there"


def test_the_lowest_end_that_rows_of_a_queue_told_is_kept(spark):
    told_ends = {"one reading": [10, 10], "as it grew": [9, 10], "some told none": [None, 10], "none": [None, None]}
    records = [
        ("b", why, 0, 8 + number, at(0), 7, end) for why, ends in told_ends.items() for number, end in enumerate(ends)
    ]
    assert table_of(reached(placed(spark, *records)), "topic", "first_told_end") == {
        "one reading": 10, "as it grew": 9, "some told none": 10, "none": None
    }  # fmt: skip
