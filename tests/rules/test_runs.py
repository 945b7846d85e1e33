"""What has landed of a queue without a hole, found in rows; what is missing of it, and what all queues' ends tell."""

from __future__ import annotations

from itertools import product

import pytest
from pyspark.sql import functions as F

from txmq_lib.rules import runs as rules
from txmq_lib.rules.run_lists import Run, last_place, told_to
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


def with_runs(spark, runs):
    return local_frame(spark, [([dict(zip(rules.RUN_FIELDS, run, strict=True)) for run in runs],)],
                       f"runs array<{rules.RUN_TYPE}>")  # fmt: skip


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


def test_runs_at_hand_are_told_and_found_misread_like_those_in_frames(spark):
    """What rules.run_lists has of told_to and without_misread, over all pairs of some runs."""
    some = [(0, 0, None, None, 9), (0, 3, 10, 30, None), (0, 3, 10, 45, 50), (3, 3, 35, 35, None), (3, 5, 40, 50, 60),
            (4, 6, 20, None, None), (4, 6, 45, 45, 70), (6, 6, None, None, 70), (7, 9, 60, 90, 65)]  # fmt: skip
    pairs = [(first, second) for first, second in product(some, some) if first[1] <= second[0]]
    named = [([dict(zip(rules.RUN_FIELDS, run, strict=True)) for run in pair],) for pair in pairs]
    runs = F.col("runs")
    found = local_frame(spark, named, f"runs array<{rules.RUN_TYPE}>").select(
        rules.told_to(runs, F.lit(66), F.lit(False)).alias("told"),
        F.array_max(F.transform(rules.without_misread(runs), lambda run: run["last_commit_log_offset"])).alias("last"),
    )
    assert len(pairs) > 20
    for pair, row in zip(pairs, found.collect(), strict=True):
        listed = [Run(*run) for run in pair]
        assert told_to(listed, 66, is_untold=False) == tuple(tuple(run) for run in row["told"]), pair
        assert last_place(listed) == row["last"], pair
