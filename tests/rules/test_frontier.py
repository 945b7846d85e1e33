"""How far each queue has been landed: forward only, and rewritten only where something changed."""

from __future__ import annotations

import pytest
from builders import at, rows, table_of
from chispa import assert_df_equality

from txmq_lib.rules.frontier import advanced, file_reports, reached
from txmq_lib.tables.local_frame import local_frame

pytestmark = pytest.mark.spark

COLUMNS = ("next_offset", "highest_store_timestamp", "lowest_kept_offset", "lost_before_timestamp", "is_end_known",
           "source_identity", "pass_number")  # fmt: skip


def placed(spark, *given):
    ddl = "broker_name string, topic string, queue_id int, queue_offset bigint, store_timestamp timestamp"
    return local_frame(spark, list(given), ddl)


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
    reports = file_reports(placed(spark, ("b", "TopicA", 0, 7, at(10))))
    expected = rows(spark, "landing_frontier", [{"next_offset": 8, "highest_store_timestamp": at(10),
                                                 "is_end_known": False}])  # fmt: skip
    expected = expected.drop("pass_number", "runs", "told_end", "file_end")
    assert_df_equality(reports, expected, ignore_column_order=True, ignore_nullable=True, ignore_metadata=True)


KNOWN = {"next_offset": 10, "highest_store_timestamp": at(0), "lowest_kept_offset": 2,
         "lost_before_timestamp": at(-9), "is_end_known": False, "source_identity": "i", "pass_number": 3}  # fmt: skip
SAME = {name: value for name, value in KNOWN.items() if name != "pass_number"}

CHANGES = [  # topic, reported, what the row becomes; None: it does not change
    ("further", {**SAME, "next_offset": 11, "highest_store_timestamp": at(1)}, (11, 1, 2, -9, False, "i", 7)),
    ("the same", SAME, None),
    ("less far", {**SAME, "next_offset": 9, "highest_store_timestamp": at(-1)}, None),
    ("further by offset, older by time: each forward on its own",
     {**SAME, "next_offset": 12, "highest_store_timestamp": at(-5)}, (12, 0, 2, -9, False, "i", 7)),
    ("nothing known of the source", {**SAME, "lowest_kept_offset": None, "lost_before_timestamp": None,
                                     "source_identity": None}, None),
    ("no store time", {**SAME, "highest_store_timestamp": None}, None),
    ("the source knows its end now", {**SAME, "is_end_known": True}, (10, 0, 2, -9, True, "i", 7)),
    ("retention went on", {**SAME, "lowest_kept_offset": 5}, (10, 0, 5, -9, False, "i", 7)),
    ("a rebuilt queue keeps more", {**SAME, "lowest_kept_offset": 0}, (10, 0, 0, -9, False, "i", 7)),
    ("lost later", {**SAME, "lost_before_timestamp": at(-8)}, (10, 0, 2, -8, False, "i", 7)),
    ("lost earlier", {**SAME, "lost_before_timestamp": at(-10)}, None),
    ("another store", {**SAME, "source_identity": "j"}, (10, 0, 2, -9, False, "j", 7)),
    ("end known before, a file now", {**SAME, "is_end_known": False}, None),
]  # fmt: skip


def test_where_a_whole_log_ends_is_what_the_source_says_though_another_log_ended_later(spark):
    whole = {**KNOWN, "topic": "*", "queue_id": -1}
    known = rows(spark, "landing_frontier", [{**whole, "next_offset": 500_000, "source_identity": "old"}])
    report = {**whole, "next_offset": 100_000, "source_identity": "new"}
    changed = advanced(known, rows(spark, "landing_frontier", [report]).drop("pass_number"), pass_number=7)
    assert table_of(changed, "topic", "next_offset", "source_identity") == {"*": (100_000, "new")}


def test_only_rows_that_change_are_given_and_none_goes_back(spark):
    known = [{**KNOWN, "topic": why, "is_end_known": why.startswith("end known")} for why, *_ in CHANGES]
    known += [{**KNOWN, "topic": "unreported"}, {**KNOWN, "topic": "new", "queue_id": 1}]
    reports = [{**reported, "topic": why} for why, reported, _ in CHANGES]
    reports += [{**SAME, "topic": "new", "next_offset": 0, "highest_store_timestamp": None}]
    changed = advanced(
        rows(spark, "landing_frontier", known),
        rows(spark, "landing_frontier", reports).drop("pass_number"),
        pass_number=7,
    )
    assert table_of(changed, "topic", *COLUMNS) == {
        **{why: becomes for why, _, becomes in CHANGES if becomes},
        "new": (0, None, 2, -9, False, "i", 7),
    }
