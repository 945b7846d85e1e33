"""What has landed of a queue without a hole: found in rows, joined over landings in any order."""

from __future__ import annotations

from itertools import permutations

import pytest
from pyspark.sql import functions as F

from txmq_lib.rules import runs as rules
from txmq_lib.spark.local_frame import local_frame

pytestmark = pytest.mark.spark

ROWS = "broker_name string, topic string, queue_id int, queue_offset bigint, commit_log_offset bigint"


def landed(spark, **places):
    """Runs of queues of which these (offset, place) landed, without read_to, by the topic of each."""
    records = [("b", topic, 0, *place) for topic, of_queue in places.items() for place in of_queue]
    found = rules.landed_runs(local_frame(spark, records, ROWS)).collect()
    assert len(found) == len({row["topic"] for row in found})
    return {row["topic"]: [tuple(run)[:4] for run in row["runs"]] for row in found}


def test_rows_that_follow_each_other_are_one_run_however_they_come(spark):
    assert landed(
        spark,
        in_any_order=[(2, 30), (0, 10), (1, 20)],
        a_gap=[(5, 10), (6, 20), (8, 30)],
        the_same_one_again=[(0, 10), (1, 20), (1, 20)],
        not_of_one_life=[(0, 10), (1, 20), (2, 15), (3, 18)],
        one_did_not_land=[(0, 10), (1, None), (2, 30)],
        none_did=[(1, None)],
    ) == {
        "in_any_order": [(0, 3, 10, 30)],
        "a_gap": [(5, 7, 10, 20), (8, 9, 30, 30)],
        "the_same_one_again": [(0, 2, 10, 20)],
        "not_of_one_life": [(0, 2, 10, 20), (2, 4, 15, 18)],
        "one_did_not_land": [(0, 1, 10, 10), (2, 3, 30, 30)],
    }


def test_no_more_than_so_many_runs_are_kept_the_newest(spark, monkeypatch):
    monkeypatch.setattr(rules, "MOST_RUNS", 2)
    assert landed(spark, one=[(0, 1), (2, 3), (4, 5)]) == {"one": [(2, 3, 3, 3), (4, 5, 5, 5)]}
    assert joined(spark, [(0, 1, 1, 1, None), (2, 3, 3, 3, None), (4, 5, 5, 5, None)]) == [
        (2, 3, 3, 3, None),
        (4, 5, 5, 5, None),
    ]


def with_runs(spark, runs):
    return local_frame(spark, [([dict(zip(rules.RUN_FIELDS, run, strict=True)) for run in runs],)],
                       f"runs array<{rules.RUN_TYPE}>")  # fmt: skip


def test_a_place_behind_the_end_of_the_log_was_misread(spark):
    runs = [(0, 2, 10, 100, None), (2, 4, 100, 120, 90), (4, 4, None, None, 110)]
    (row,) = with_runs(spark, runs).select(rules.within_log(F.col("runs"), 100).alias("runs")).collect()
    assert [tuple(run) for run in row["runs"]] == [
        (0, 2, 10, 10, None),
        (2, 4, None, None, 90),
        (4, 4, None, None, 110),
    ]


def joined(spark, runs):
    (row,) = with_runs(spark, runs).select(rules.joined_runs(F.col("runs")).alias("runs")).collect()
    return [tuple(run) for run in row["runs"]]


JOINED = [  # why, runs, what they are together
    ("one after the other", [(0, 3, 10, 30, None), (3, 5, 40, 50, None)], [(0, 5, 10, 50, None)]),
    ("one after the other, whose places nobody knows", [(0, 3, 10, 30, None), (3, 5, None, None, None)],
     [(0, 5, 10, 30, None)]),
    ("a gap between", [(0, 3, 10, 30, None), (4, 5, 40, 50, None)], [(0, 3, 10, 30, None), (4, 5, 40, 50, None)]),
    ("a gap closed", [(0, 3, 10, 30, None), (3, 4, 35, 35, None), (4, 5, 40, 50, None)], [(0, 5, 10, 50, None)]),
    ("over each other", [(0, 4, 10, 40, None), (2, 6, 30, 60, None)], [(0, 6, 10, 60, None)]),
    ("one within another", [(0, 9, 10, 90, None), (2, 4, 30, 40, 35)], [(0, 9, 10, 90, None)]),
    ("places that do not ascend", [(0, 3, 10, 30, None), (3, 5, 20, 25, None)],
     [(0, 3, 10, 30, None), (3, 5, 20, 25, None)]),
    ("an end told of a run", [(0, 3, 10, 30, None), (3, 3, None, None, 99)], [(0, 3, 10, 30, 99)]),
    ("an end told twice", [(0, 3, 10, 30, 50), (3, 3, None, None, 40)], [(0, 3, 10, 30, 50)]),
    ("an end told, then more", [(0, 3, 10, 30, 50), (3, 4, 60, 60, None)], [(0, 4, 10, 60, None)]),
    ("an end told, then a gap: it stays", [(0, 3, 10, 30, 50), (5, 6, 60, 60, 70)],
     [(0, 3, 10, 30, 50), (5, 6, 60, 60, 70)]),
    ("an end told where nothing landed", [(3, 3, None, None, 40), (5, 6, 60, 60, None)],
     [(3, 3, None, None, 40), (5, 6, 60, 60, None)]),
    ("what lies behind an end does not say what lies before it", [(3, 3, 35, 35, None), (3, 5, 40, 50, None)],
     [(3, 3, 35, 35, None), (3, 5, 40, 50, None)]),
    ("then that lands", [(3, 3, 35, 35, None), (3, 5, 40, 50, None), (0, 3, 10, 30, None)], [(0, 5, 10, 50, None)]),
    ("where a queue ended in a log, told twice", [(3, 3, 35, 35, None), (3, 3, 60, 60, None)], [(3, 3, 35, 35, None)]),
    ("an empty queue that began", [(0, 0, None, None, 9), (0, 2, 10, 20, None)], [(0, 2, 10, 20, None)]),
    ("an empty queue of which the beginning is missing", [(0, 0, None, None, 9), (1, 2, 20, 20, None)],
     [(0, 0, None, None, 9), (1, 2, 20, 20, None)]),
    ("of a log", [(0, 100, None, None, None), (100, 200, None, None, None), (201, 300, None, None, None)],
     [(0, 200, None, None, None), (201, 300, None, None, None)]),
    ("nothing", [], []),
]  # fmt: skip


@pytest.mark.parametrize(("runs", "expected"), [case[1:] for case in JOINED], ids=[case[0] for case in JOINED])
def test_runs_say_the_same_in_whatever_order_they_landed(spark, runs, expected):
    for order in permutations(runs):
        assert joined(spark, order) == expected
    assert joined(spark, [*expected, *runs]) == expected, "what landed before adds nothing"


def test_what_is_missing_lies_between_runs_and_before_the_first(spark):
    runs = [(2, 4, 30, 40, 45), (6, 6, None, None, 50), (7, 9, 70, 80, None), (12, 12, 99, 99, None)]
    (row,) = with_runs(spark, runs).select(rules.holes_between(F.col("runs")).alias("holes")).collect()
    assert [tuple(hole) for hole in row["holes"]] == [(0, 2, -1, 30), (4, 7, 45, 70), (9, 12, 80, 99)]
    # It was read while it was empty: what is missing before the first came later.
    (row,) = with_runs(spark, [(0, 0, None, None, 20), *runs]).select(rules.holes_between(F.col("runs"))).collect()
    assert tuple(row[0][0]) == (0, 2, 20, 30)


def told(spark, runs, read_to, is_untold=None):
    column = rules.told_to(F.col("runs"), F.lit(read_to).cast("bigint"), F.lit(is_untold).cast("boolean"))
    (row,) = with_runs(spark, runs).select(column).collect()
    return [tuple(run) for run in row[0]]


def test_a_reading_of_all_queues_tells_of_the_newest_end_of_each(spark):
    runs = [(0, 3, 10, 30, 50), (5, 6, 60, 60, 70), (8, 9, 80, 80, None)]
    assert told(spark, runs, 99) == [runs[0], (5, 6, 60, 60, 99), runs[2]]
    assert told(spark, runs, 9) == runs, "nothing goes back"
    assert told(spark, runs[2:], 99) == runs[2:], "files alone say no end"
    assert told(spark, runs, 99, is_untold=False) == [runs[0], (5, 6, 60, 60, 99), runs[2]]
    assert told(spark, runs, 99, is_untold=True) == runs, "of a queue that nobody tells of it says nothing"
    assert told(spark, [], 99) == []
