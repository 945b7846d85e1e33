"""What landed before: judged by key and content, or counted by content."""

from __future__ import annotations

import pytest
from builders import table_of

from txmq_lib.rules.duplicates import counted_by_content, event_hash, judged_by_key
from txmq_lib.spark.local_frame import local_frame

pytestmark = pytest.mark.spark

BATCH = "broker_name string, queue_offset bigint, content_hash bigint, position bigint, why string"
EXISTING = "broker_name string, queue_offset bigint, content_hash bigint"

EXISTING_ROWS = [
    ("b", 1, 11),
    ("b", 2, 22),
    ("b", 3, None),
    ("b", 4, 44), ("b", 4, 44),
    ("b", 9, 99),
    ("c", 5, 55),
]  # fmt: skip
BATCH_ROWS = [  # broker, key, content, position, why, status
    ("b", 1, 11, 0, "there already", "duplicate"),
    ("b", 2, 23, 1, "there with other content: a rebuilt topic", "conflict"),
    ("b", 3, 33, 2, "where txmq wrote a row itself", "conflict_with_txmq"),
    ("b", 4, 44, 3, "there in many rows, as an op message is", "duplicate"),
    ("b", 5, 55, 4, "there for another broker only", "new"),
    ("b", 6, 66, 6, "twice in the batch, the later one", "duplicate"),
    ("b", 6, 66, 5, "twice in the batch, the earlier one", "new"),
    ("b", 7, 77, 7, "twice with other content, the earlier one", "new"),
    ("b", 7, 78, 8, "twice with other content, the later one", "conflict"),
    ("b", 7, 77, 9, "thrice, equal to the first", "duplicate"),
    ("b", 7, 78, 10, "thrice, equal to the second", "conflict"),
    ("b", 9, 98, 11, "neither equal to what is there, the first", "conflict"),
    ("b", 9, 98, 12, "neither equal to what is there, the second", "conflict"),
    ("b", 9, 99, 13, "equal to what is there, behind a conflict", "duplicate"),
]


def test_the_first_of_a_key_stands_and_equal_content_adds_nothing(spark):
    batch = local_frame(spark, [line[:5] for line in BATCH_ROWS], BATCH)
    existing = local_frame(spark, EXISTING_ROWS, EXISTING)
    judged = judged_by_key(batch, existing, ("broker_name", "queue_offset"))
    assert judged.columns == [*batch.columns, "status"]
    assert table_of(judged, "why", "status") == {line[4]: line[5] for line in BATCH_ROWS}


def test_with_nothing_there_yet_the_batch_alone_decides(spark):
    batch = local_frame(spark, [line[:5] for line in BATCH_ROWS[:10]], BATCH)
    judged = judged_by_key(batch, local_frame(spark, [], EXISTING), ("broker_name", "queue_offset"))
    assert table_of(judged, "why", "status") == {
        **{line[4]: "new" for line in BATCH_ROWS[:5]},
        **{line[4]: line[5] for line in BATCH_ROWS[5:10]},
    }


def test_equal_events_are_counted_and_only_those_beyond_what_is_there_are_new(spark):
    there = [("b", 1, 0), ("b", 2, 0), ("b", 2, 1), ("c", 4, 0)]
    batch = [
        ("b", 0, 1, 10, "one, there already"),
        ("b", 0, 2, 13, "third of two"),
        ("b", 0, 2, 11, "first of two"),
        ("b", 0, 2, 12, "second of two"),
        ("b", 0, 3, 15, "really twice, the second"),
        ("b", 0, 3, 14, "really twice, the first"),
        ("b", 0, 4, 16, "there for another broker"),
    ]
    counted = counted_by_content(
        local_frame(spark, batch, BATCH),
        local_frame(spark, there, "broker_name string, content_hash bigint, occurrence int"),
    )
    assert table_of(counted, "why", "occurrence") == {
        "third of two": 2,
        "really twice, the first": 0,
        "really twice, the second": 1,
        "there for another broker": 0,
    }


def test_which_columns_are_null_is_part_of_a_content(spark):
    contents = [("x", None, None), (None, "x", None), (None, None, "x"), ("x", "x", None), ("x", None, "x"), ("", None, "x"),
                (None, None, None)]  # fmt: skip
    hashed = local_frame(spark, contents, "a string, b string, c string").select(event_hash(("a", "b", "c")).alias("h"))
    assert len({row["h"] for row in hashed.collect()}) == len(contents)
