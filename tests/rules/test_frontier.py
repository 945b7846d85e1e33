"""How far each queue has been landed: forward only, and rewritten only where something changed."""

from __future__ import annotations

import pytest
from builders import at, rows, table_of
from chispa import assert_df_equality

from txmq_lib.rules.frontier import MOST_CHANGES, advanced, file_reports, of_another_life, reached
from txmq_lib.rules.runs import RUN_FIELDS
from txmq_lib.spark.local_frame import local_frame

pytestmark = pytest.mark.spark

COLUMNS = ("next_offset", "highest_store_timestamp", "lowest_kept_offset", "lost_before_timestamp", "is_end_known",
           "source_identity", "pass_number")  # fmt: skip
PLACED = "broker_name string, topic string, queue_id int, queue_offset bigint, store_timestamp timestamp"


def placed(spark, *records):
    return local_frame(spark, list(records), PLACED)


def reported(spark, reports):
    return rows(spark, "landing_frontier", reports).drop("pass_number")


def run(first, end, first_place=None, last_place=None, read_to=None):
    return dict(zip(RUN_FIELDS, (first, end, first_place, last_place, read_to), strict=True))


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
    expected = reported(spark, [{"next_offset": 8, "highest_store_timestamp": at(10), "is_end_known": False, "runs": [],
                                 "told_end": 8}])  # fmt: skip
    assert_df_equality(reports, expected, ignore_column_order=True, ignore_nullable=True, ignore_metadata=True)


KNOWN = {"next_offset": 10, "highest_store_timestamp": at(0), "lowest_kept_offset": 2,
         "lost_before_timestamp": at(-9), "is_end_known": False, "source_identity": "i", "pass_number": 3,
         "runs": [], "told_end": 10}  # fmt: skip
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
    ("an older copy keeps more", {**SAME, "lowest_kept_offset": 0}, None),
    ("lost later", {**SAME, "lost_before_timestamp": at(-8)}, (10, 0, 2, -8, False, "i", 7)),
    ("lost earlier", {**SAME, "lost_before_timestamp": at(-10)}, None),
    ("another store", {**SAME, "source_identity": "j"}, (10, 0, 2, -9, False, "j", 7)),
    ("end known before, a file now", {**SAME, "is_end_known": False}, None),
]  # fmt: skip


def test_where_a_whole_log_ends_is_what_the_source_says_though_another_log_ended_later(spark):
    whole = {**KNOWN, "topic": "*", "queue_id": -1}
    known = rows(spark, "landing_frontier", [{**whole, "next_offset": 500_000, "source_identity": "old"}])
    report = {**whole, "next_offset": 100_000, "source_identity": "new"}
    changed = advanced(known, reported(spark, [report]), pass_number=7)
    assert table_of(changed, "topic", "next_offset", "source_identity") == {"*": (100_000, "new")}


def test_only_rows_that_change_are_given_and_none_goes_back(spark):
    known = [{**KNOWN, "topic": why, "is_end_known": why.startswith("end known")} for why, *_ in CHANGES]
    known += [{**KNOWN, "topic": "unreported"}, {**KNOWN, "topic": "new", "queue_id": 1}]
    reports = [{**reported, "topic": why} for why, reported, _ in CHANGES]
    reports += [{**SAME, "topic": "new", "next_offset": 0, "highest_store_timestamp": None}]
    changed = advanced(
        rows(spark, "landing_frontier", known),
        reported(spark, reports),
        pass_number=7,
    )
    assert table_of(changed, "topic", *COLUMNS) == {
        **{why: becomes for why, _, becomes in CHANGES if becomes},
        "new": (0, None, 2, -9, False, "i", 7),
    }


def test_a_file_tells_the_end_of_a_queue_by_its_last_row_alone(spark):
    told_ends = {"to the end": (9, 10), "cut short": (9, 12), "no end": (9, None), "the one before told it": (9, None)}
    records = [("b", why, 0, offset, at(0), 7 * offset, end) for why, (offset, end) in told_ends.items()]
    records += [("b", "the one before told it", 0, 8, at(0), 56, 10), ("b", "in conflict", 0, 9, at(0), None, 10)]
    reports = file_reports(local_frame(spark, records, f"{PLACED}, commit_log_offset bigint, told_end bigint"))
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
    reports = file_reports(local_frame(spark, records, f"{PLACED}, commit_log_offset bigint, told_end bigint"))
    assert table_of(reports, "topic", "first_told_end") == {
        "one reading": 10, "as it grew": 9, "some told none": 10, "none": None
    }  # fmt: skip
    known = {  # what was known, what it is after a reading that told 10
        "another reading": ({"first_told_end": 7, "told_end": 7}, 7),
        "a later reading": ({"first_told_end": 12, "told_end": 12, "next_offset": 12}, 10),
        "nothing told": ({"told_end": 5}, 10),
        "of before, to its end": ({"told_end": 7, "file_end": 7}, 7),
        "of before, cut short": ({"told_end": 9, "is_end_known": False}, 9),
        "of before, live": ({"told_end": 9, "is_end_known": True}, 10),
    }
    before = [{"topic": why, "next_offset": 5, "runs": [], **row} for why, (row, _) in known.items()]
    report = {"next_offset": 10, "runs": [], "told_end": 10, "file_end": 10, "first_told_end": 10}
    changed = advanced(rows(spark, "landing_frontier", before),
                       reported(spark, [{**report, "topic": why} for why in known]), pass_number=7)  # fmt: skip
    assert table_of(changed, "topic", "first_told_end") == {why: lowest for why, (_, lowest) in known.items()}


def runs_after(spark, known, report, **options):
    changed = advanced(rows(spark, "landing_frontier", known), reported(spark, [report], **options), pass_number=7)
    return {row["topic"]: [tuple(run) for run in row["runs"]] for row in changed.collect()}


def rows_of_each(spark, cases):
    """What one pass changes, a row a case: each is a broker of its own, with known rows and a report."""
    known = [{**row, "broker_name": why} for why, (before, _) in cases.items() for row in before]
    reports = [{**report, "broker_name": why} for why, (_, report) in cases.items()]
    changed = advanced(rows(spark, "landing_frontier", known), reported(spark, reports), pass_number=7).collect()
    by_broker = {row["broker_name"]: row for row in changed}
    assert len(by_broker) == len(changed)
    return by_broker


def runs_of_each(spark, cases):
    return {why: [tuple(run) for run in row["runs"]] for why, row in rows_of_each(spark, cases).items()}


def test_what_landed_before_and_what_lands_are_joined(spark):
    known = [{"next_offset": 3, "runs": [run(0, 3, 10, 30)], "told_end": 3}]
    more = {"next_offset": 5, "runs": [run(3, 5, 40, 50)], "told_end": 5}
    assert runs_after(spark, known, more) == {"TopicA": [(0, 5, 10, 50, None)]}
    lower = {"next_offset": 2, "runs": [run(0, 2, 10, 20)], "told_end": 2}
    assert runs_after(spark, known, lower) == {}, "nothing is new"


def test_another_log_in_the_place_of_the_one_before_has_been_read_on_its_own(spark):
    whole = {"topic": "*", "queue_id": -1, "runs": [run(0, 900)]}
    anew = {**whole, "runs": [run(0, 100), run(101, 200)], "former_timestamp": at(0)}
    assert runs_after(spark, [whole], anew) == {"*": [(0, 100, *[None] * 3), (101, 200, *[None] * 3)]}


def test_of_a_broker_made_anew_nothing_that_was_read_before_proves_anything(spark):
    left_out = {"topic": "LeftOut", "runs": [run(0, 3, 10, 30)], "changes": [{"behind": 1, "before": 2}]}
    before = [{"topic": "*", "queue_id": -1, "runs": [run(0, 150)]}, left_out, {**left_out, "topic": "Read"}]
    known = rows(spark, "landing_frontier", before)
    whole, read = {"topic": "*", "queue_id": -1, "runs": [run(0, 100)]}, {"topic": "Read", "runs": [run(4, 5, 40, 50)]}
    now_read = reported(spark, [whole, read])
    changed = advanced(known, of_another_life(known, now_read, now=at(5)), pass_number=2).collect()
    runs = {row.topic: [tuple(run)[:4] for run in row.runs] for row in changed}
    assert runs == {"*": [(0, 100, None, None)], "LeftOut": [], "Read": [(4, 5, 40, 50)]}
    assert [[*map(tuple, row.changes)] for row in changed if row.topic == "LeftOut"] == [[(1, 2)]]
    assert {row.former_timestamp for row in changed} == {row.former_timestamp for row in changed[:1]} != {None}


def test_the_lowest_offset_kept_goes_back_only_where_the_queue_began_anew(spark):
    known = rows(spark, "landing_frontier", [{**SAME, "lowest_kept_offset": 5}])
    older = {**SAME, "lowest_kept_offset": 2, "next_offset": 12}
    anew = {**older, "changes": [{"behind": None, "before": 700}]}
    kept = [advanced(known, reported(spark, [one]), pass_number=2).first().lowest_kept_offset for one in (older, anew)]
    assert kept == [5, 2]


@pytest.mark.parametrize("topic", ["**", "TopicA"])
def test_what_the_last_reading_of_all_queues_said_of_one_stays_when_it_goes_on(spark, topic):
    whole = {"topic": topic, "queue_id": -1, "runs": [run(0, 0, read_to=99)]}
    still = {"runs": [run(0, 3, 10, 30, 50)], "told_end": 3, "is_untold": False}
    empty = {"runs": [run(0, 0, read_to=50)], "told_end": 0, "next_offset": 0, "is_untold": False}
    behind_a_gap = {"next_offset": 6, "runs": [run(5, 6, 120, 120, 130)], "told_end": 6}
    cases = {  # rows known of it besides, its runs then
        "it had rows": ([still], [(0, 3, 10, 30, 99), (5, 6, 120, 120, 130)]),
        "it was empty": ([empty], [(0, 0, None, None, 99), (5, 6, 120, 120, 130)]),
        "nobody told of it before": ([], [(5, 6, 120, 120, 130)]),
        "told of no more": ([{**still, "is_untold": True}], [(0, 3, 10, 30, 50), (5, 6, 120, 120, 130)]),
    }
    found = runs_of_each(spark, {why: ([whole, *rows_known], behind_a_gap) for why, (rows_known, _) in cases.items()})
    assert found == {why: runs for why, (_, runs) in cases.items()}


def test_what_a_reading_of_all_queues_said_of_one_counts_only_if_it_was_told_of_that_queue(spark):
    """A version of before did not say whether it was: only a broker that tells of the queue now proves that."""
    whole = {"topic": "**", "queue_id": -1, "runs": [run(0, 0, read_to=500)]}
    known = {"runs": [run(0, 9, 10, 90, 100)], "told_end": 9}
    cases = {  # known, reported: up to where it is read then
        (None, True): 100, (None, False): 500, (None, None): 100, (False, True): 500, (False, None): 500,
        (True, False): 100,
    }  # fmt: skip
    report = {"next_offset": 12, "told_end": 12, "runs": []}
    found = runs_of_each(
        spark,
        {
            f"{before}, {now}": ([whole, {**known, "is_untold": before}], {**report, "is_untold": now})
            for before, now in cases
        },
    )
    assert {why: runs[0][-1] for why, runs in found.items()} == {
        f"{before}, {now}": read_to for (before, now), read_to in cases.items()
    }


def test_whether_a_live_broker_tells_of_a_queue_is_what_the_newest_live_landing_says(spark):
    cases = {  # known, reported, what it is then (null: the row did not change)
        "told of no more": (False, True, True),
        "told of again": (True, False, False),
        "a file says nothing": (True, None, None),
        "new": (None, True, True),
    }
    known = [{**KNOWN, "topic": why, "is_untold": before} for why, (before, *_) in cases.items()]
    reports = [{**SAME, "topic": why, "is_untold": now} for why, (_, now, _) in cases.items()]
    changed = advanced(rows(spark, "landing_frontier", known), reported(spark, reports), pass_number=7)
    assert table_of(changed, "topic", "is_untold") == {
        why: then for why, (*_, then) in cases.items() if then is not None
    }


def changes_of_each(spark, cases):
    found = {why: row["changes"] for why, row in rows_of_each(spark, cases).items()}
    return {why: changes and [(*each,) for each in changes] for why, changes in found.items()}


def test_where_a_queue_that_began_anew_was_read_to_and_had_begun_stays_known(spark):
    """As far as its rows reach, and its ends were told; all queues' readings count only if they were told of it."""
    whole = {"topic": "**", "queue_id": -1, "runs": [run(0, 0, read_to=500)]}
    began = {**SAME, "next_offset": 12, "changes": [{"behind": None, "before": 700}]}
    of_rows = {**KNOWN, "runs": [run(0, 9, 10, 90)], "is_untold": False}
    to_its_end = {**KNOWN, "runs": [run(0, 9, 10, 90, 100)], "is_untold": None}
    to_all_ends = {**to_its_end, "is_untold": False}
    began_before = {**to_all_ends, "changes": [{"behind": 1, "before": 2}]}
    # Places of a broker made anew begin at 0 again.
    lower = {**began, "changes": [{"behind": None, "before": 40}]}
    cases = {  # known, reported, its changes then
        "rows": ([whole, of_rows], began, [(90, 700)]),
        "its end": ([whole, to_its_end], began, [(100, 700)]),
        "all ends": ([whole, to_all_ends], began, [(500, 700)]),
        "nothing": ([whole, {**KNOWN, "runs": []}], began, [(-1, 700)]),
        "before": ([whole, began_before], began, [(1, 2), (500, 700)]),
        "a broker made anew": ([of_rows], lower, [(-1, 91)]),
        "it goes on": (
            [whole, {**KNOWN, "changes": [{"behind": 1, "before": 2}]}],
            {**SAME, "next_offset": 13},
            [(1, 2)],
        ),
    }
    found = changes_of_each(spark, {why: (known, report) for why, (known, report, _) in cases.items()})
    assert found == {why: changes for why, (*_, changes) in cases.items()}


def test_of_too_many_beginnings_the_first_two_are_one(spark):
    many = [{"behind": 10 * number, "before": 10 * number + 5} for number in range(MOST_CHANGES)]
    known = {**KNOWN, "runs": [run(0, 9, 10, 5_000)], "changes": many}
    began = {**SAME, "next_offset": 12, "changes": [{"behind": None, "before": None}]}
    (changes,) = changes_of_each(spark, {"many": ([known], began)}).values()
    assert len(changes) == MOST_CHANGES
    assert (changes[0], changes[1], changes[-1]) == ((0, 15), (20, 25), (5_000, None))
