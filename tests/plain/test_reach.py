"""How far each queue has been landed: forward only, and rewritten only where something changed."""

from __future__ import annotations

import pytest

from txmq_lib.rules.reach import MOST_CHANGES, Change, Reach, advanced, of_another_life, together
from txmq_lib.rules.run_lists import Run

COLUMNS = ("next_offset", "highest_store_timestamp", "lowest_kept_offset", "lost_before_timestamp", "is_end_known",
           "source_identity")  # fmt: skip


def reach(**values):
    """A row or a report: of queue 0 of TopicA of b where nothing else is said."""
    return Reach(**{"broker_name": "b", "topic": "TopicA", "queue_id": 0, "next_offset": 0, **values})


def run(first, end, first_place=None, last_place=None, read_to=None):
    return Run(first, end, first_place, last_place, read_to)


def moved(known, reports):
    """The rows that change, each once."""
    rows = list(advanced([reach(**row) for row in known], [reach(**report) for report in reports]))
    assert len({row.key for row in rows}) == len(rows)
    return rows


def by_topic(rows, *names):
    found = {row.topic: tuple(getattr(row, name) for name in names) for row in rows}
    return {topic: values[0] if len(names) == 1 else values for topic, values in found.items()}


def moved_of_each(cases):
    """What one pass changes, a row a case: each is a broker of its own, with known rows and a report."""
    known = [{**row, "broker_name": why} for why, (before, _) in cases.items() for row in before]
    rows = moved(known, [{**report, "broker_name": why} for why, (_, report) in cases.items()])
    return {row.broker_name: row for row in rows}


KNOWN = {"next_offset": 10, "highest_store_timestamp": 0, "lowest_kept_offset": 2, "lost_before_timestamp": -9,
         "is_end_known": False, "source_identity": "i", "runs": (), "told_end": 10}  # fmt: skip

CHANGES = [  # topic, reported, what the row becomes; None: it does not change
    ("further", {"next_offset": 11, "highest_store_timestamp": 1}, (11, 1, 2, -9, False, "i")),
    ("the same", {}, None),
    ("less far", {"next_offset": 9, "highest_store_timestamp": -1}, None),
    ("further by offset, older by time: each forward on its own",
     {"next_offset": 12, "highest_store_timestamp": -5}, (12, 0, 2, -9, False, "i")),
    ("nothing known of the source", {"lowest_kept_offset": None, "lost_before_timestamp": None,
                                     "source_identity": None}, None),
    ("no store time", {"highest_store_timestamp": None}, None),
    ("the source knows its end now", {"is_end_known": True}, (10, 0, 2, -9, True, "i")),
    ("retention went on", {"lowest_kept_offset": 5}, (10, 0, 5, -9, False, "i")),
    ("an older copy keeps more", {"lowest_kept_offset": 0}, None),
    ("lost later", {"lost_before_timestamp": -8}, (10, 0, 2, -8, False, "i")),
    ("lost earlier", {"lost_before_timestamp": -10}, None),
    ("another store", {"source_identity": "j"}, (10, 0, 2, -9, False, "j")),
    ("end known before, a file now", {"is_end_known": False}, None),
]  # fmt: skip


def test_where_a_whole_log_ends_is_what_the_source_says_though_another_log_ended_later():
    whole = {**KNOWN, "topic": "*", "queue_id": -1}
    changed = moved(
        [{**whole, "next_offset": 500_000, "source_identity": "old"}],
        [{**whole, "next_offset": 100_000, "source_identity": "new"}],
    )
    assert by_topic(changed, "next_offset", "source_identity") == {"*": (100_000, "new")}


def test_only_rows_that_change_are_given_and_none_goes_back():
    known = [{**KNOWN, "topic": why, "is_end_known": why.startswith("end known")} for why, *_ in CHANGES]
    known += [{**KNOWN, "topic": "unreported"}, {**KNOWN, "topic": "new", "queue_id": 1}]
    reports = [{**KNOWN, **reported, "topic": why} for why, reported, _ in CHANGES]
    reports += [{**KNOWN, "topic": "new", "next_offset": 0, "highest_store_timestamp": None}]
    assert by_topic(moved(known, reports), *COLUMNS) == {
        **{why: becomes for why, _, becomes in CHANGES if becomes},
        "new": (0, None, 2, -9, False, "i"),
    }


def test_a_row_of_an_older_version_is_written_anew_once_with_runs():
    (row,) = moved([{**KNOWN, "runs": None}], [KNOWN])
    assert row.runs == ()
    assert moved([row._asdict()], [KNOWN]) == []


def test_the_lowest_end_told_is_kept():
    known = {  # what was known, what it is after a reading that told 10
        "another reading": ({"first_told_end": 7, "told_end": 7}, 7),
        "a later reading": ({"first_told_end": 12, "told_end": 12, "next_offset": 12}, 10),
        "nothing told": ({"told_end": 5}, 10),
        "of before, to its end": ({"told_end": 7, "file_end": 7, "is_end_known": True}, 7),
        "of before, cut short": ({"told_end": 9, "is_end_known": False}, 9),
        "of before, live": ({"told_end": 9, "is_end_known": True}, 10),
    }
    before = [{"topic": why, "next_offset": 5, **row} for why, (row, _) in known.items()]
    report = {"next_offset": 10, "told_end": 10, "file_end": 10, "first_told_end": 10}
    changed = moved(before, [{**report, "topic": why} for why in known])
    assert by_topic(changed, "first_told_end") == {why: lowest for why, (_, lowest) in known.items()}


def test_what_was_read_in_parts_is_told_as_one():
    parts = [
        reach(next_offset=4, highest_store_timestamp=9, runs=(run(2, 4, 30, 40),), told_end=4, first_told_end=4),
        reach(next_offset=2, runs=(run(0, 2, 10, 20),), told_end=6, file_end=2, first_told_end=2),
        reach(topic="Other", next_offset=7, runs=(run(6, 7, 5, 5),)),
    ]
    both, other = together(parts)
    assert both == reach(next_offset=4, highest_store_timestamp=9, runs=(run(0, 4, 10, 40),), told_end=6, file_end=2,
                         first_told_end=2)  # fmt: skip
    assert (other.next_offset, other.told_end, other.file_end, other.first_told_end) == (7, 7, None, None)


def test_what_landed_before_and_what_lands_are_joined():
    known = [{"next_offset": 3, "runs": (run(0, 3, 10, 30),), "told_end": 3}]
    more = {"next_offset": 5, "runs": (run(3, 5, 40, 50),), "told_end": 5}
    assert by_topic(moved(known, [more]), "runs") == {"TopicA": (run(0, 5, 10, 50),)}
    lower = {"next_offset": 2, "runs": (run(0, 2, 10, 20),), "told_end": 2}
    assert moved(known, [lower]) == [], "nothing is new"


def test_another_log_in_the_place_of_the_one_before_has_been_read_on_its_own():
    whole = {"topic": "*", "queue_id": -1, "runs": (run(0, 900),)}
    anew = {**whole, "runs": (run(0, 100), run(101, 200)), "former_timestamp": 0}
    assert by_topic(moved([whole], [anew]), "runs") == {"*": (run(0, 100), run(101, 200))}


def test_of_a_broker_made_anew_nothing_that_was_read_before_proves_anything():
    left_out = {"topic": "LeftOut", "runs": (run(0, 3, 10, 30),), "changes": (Change(1, 2),)}
    known = [{"topic": "*", "queue_id": -1, "runs": (run(0, 150),)}, left_out, {**left_out, "topic": "Read"}]
    whole, read = (
        {"topic": "*", "queue_id": -1, "runs": (run(0, 100),)},
        {"topic": "Read", "runs": (run(4, 5, 40, 50),)},
    )
    before = [reach(**{"highest_store_timestamp": 3, **row}) for row in known]
    reports = of_another_life(before, [reach(**whole), reach(**read)], now_us=5)
    changed = list(advanced(before, reports))
    assert by_topic(changed, "runs") == {"*": (run(0, 100),), "LeftOut": (), "Read": (run(4, 5, 40, 50),)}
    assert by_topic(changed, "changes")["LeftOut"] == (Change(1, 2),)
    assert {row.former_timestamp for row in changed} == {3}


@pytest.mark.parametrize(("newest", "former"), [((3, 9), 5), ((None, 3), 3), ((None, None), 0)])
def test_a_former_life_has_ended_when_its_newest_record_was_stored_and_not_later_than_now(newest, former):
    before = [reach(queue_id=number, highest_store_timestamp=time) for number, time in enumerate(newest)]
    assert {row.former_timestamp for row in of_another_life(before, [], now_us=5)} == {former}


def test_the_lowest_offset_kept_goes_back_only_where_the_queue_began_anew():
    known = {**KNOWN, "lowest_kept_offset": 5}
    older = {**KNOWN, "lowest_kept_offset": 2, "next_offset": 12}
    anew = {**older, "changes": (Change(None, 700),)}
    of_another_broker = {**older, "former_timestamp": 1}
    found = [moved([known], [one])[0].lowest_kept_offset for one in (older, anew, of_another_broker)]
    assert found == [5, 2, 2]


@pytest.mark.parametrize("topic", ["**", "TopicA"])
def test_what_the_last_reading_of_all_queues_said_of_one_stays_when_it_goes_on(topic):
    whole = {"topic": topic, "queue_id": -1, "runs": (run(0, 0, read_to=99),)}
    still = {"runs": (run(0, 3, 10, 30, 50),), "told_end": 3, "is_untold": False}
    empty = {"runs": (run(0, 0, read_to=50),), "told_end": 0, "next_offset": 0, "is_untold": False}
    behind_a_gap = {"next_offset": 6, "runs": (run(5, 6, 120, 120, 130),), "told_end": 6}
    cases = {  # rows known of it besides, its runs then
        "it had rows": ([still], (run(0, 3, 10, 30, 99), run(5, 6, 120, 120, 130))),
        "it was empty": ([empty], (run(0, 0, None, None, 99), run(5, 6, 120, 120, 130))),
        "nobody told of it before": ([], (run(5, 6, 120, 120, 130),)),
        "told of no more": ([{**still, "is_untold": True}], (run(0, 3, 10, 30, 50), run(5, 6, 120, 120, 130))),
    }
    found = moved_of_each({why: ([whole, *rows_known], behind_a_gap) for why, (rows_known, _) in cases.items()})
    assert {why: row.runs for why, row in found.items()} == {why: runs for why, (_, runs) in cases.items()}


def test_what_a_reading_of_all_queues_said_of_one_counts_only_if_it_was_told_of_that_queue():
    """A version of before did not say whether it was: only a broker that tells of the queue now proves that."""
    whole = {"topic": "**", "queue_id": -1, "runs": (run(0, 0, read_to=500),)}
    known = {"runs": (run(0, 9, 10, 90, 100),), "told_end": 9}
    cases = {  # known, reported: up to where it is read then
        (None, True): 100, (None, False): 500, (None, None): 100, (False, True): 500, (False, None): 500,
        (True, False): 100,
    }  # fmt: skip
    report = {"next_offset": 12, "told_end": 12}
    found = moved_of_each(
        {
            f"{before}, {now}": ([whole, {**known, "is_untold": before}], {**report, "is_untold": now})
            for before, now in cases
        }
    )
    assert {why: row.runs[0].read_to for why, row in found.items()} == {
        f"{before}, {now}": read_to for (before, now), read_to in cases.items()
    }


def test_whether_a_live_broker_tells_of_a_queue_is_what_the_newest_live_landing_says():
    cases = {  # known, reported, what it is then (null: the row did not change)
        "told of no more": (False, True, True),
        "told of again": (True, False, False),
        "a file says nothing": (True, None, None),
        "new": (None, True, True),
    }
    known = [{**KNOWN, "topic": why, "is_untold": before} for why, (before, *_) in cases.items()]
    reports = [{**KNOWN, "topic": why, "is_untold": now} for why, (_, now, _) in cases.items()]
    assert by_topic(moved(known, reports), "is_untold") == {
        why: then for why, (*_, then) in cases.items() if then is not None
    }


def test_where_a_queue_that_began_anew_was_read_to_and_had_begun_stays_known():
    """As far as its rows reach, and its ends were told; all queues' readings count only if they were told of it."""
    whole = {"topic": "**", "queue_id": -1, "runs": (run(0, 0, read_to=500),)}
    began = {**KNOWN, "next_offset": 12, "changes": (Change(None, 700),)}
    of_rows = {**KNOWN, "runs": (run(0, 9, 10, 90),), "is_untold": False}
    to_its_end = {**KNOWN, "runs": (run(0, 9, 10, 90, 100),), "is_untold": None}
    to_all_ends = {**to_its_end, "is_untold": False}
    began_before = {**to_all_ends, "changes": (Change(1, 2),)}
    # Places of a broker made anew begin at 0 again.
    lower = {**began, "changes": (Change(None, 40),)}
    cases = {  # known, reported, its changes then
        "rows": ([whole, of_rows], began, ((90, 700),)),
        "its end": ([whole, to_its_end], began, ((100, 700),)),
        "all ends": ([whole, to_all_ends], began, ((500, 700),)),
        "nothing": ([whole, KNOWN], began, ((-1, 700),)),
        "before": ([whole, began_before], began, ((1, 2), (500, 700))),
        "a broker made anew": ([of_rows], lower, ((-1, 91),)),
        "it goes on": ([whole, {**KNOWN, "changes": (Change(1, 2),)}], {**KNOWN, "next_offset": 13}, ((1, 2),)),
    }
    found = moved_of_each({why: (known, report) for why, (known, report, _) in cases.items()})
    assert {why: row.changes for why, row in found.items()} == {why: changes for why, (*_, changes) in cases.items()}


def test_of_too_many_beginnings_the_first_two_are_one():
    many = tuple(Change(10 * number, 10 * number + 5) for number in range(MOST_CHANGES))
    known = {**KNOWN, "runs": (run(0, 9, 10, 5_000),), "changes": many}
    (row,) = moved([known], [{**KNOWN, "next_offset": 12, "changes": (Change(None, None),)}])
    assert len(row.changes) == MOST_CHANGES
    assert (row.changes[0], row.changes[1], row.changes[-1]) == ((0, 15), (20, 25), (5_000, None))
    (row,) = moved([{**known, "changes": (Change(1, None), *many[1:])}], [{**KNOWN, "changes": (Change(None, 9_000),)}])
    assert row.changes[0] == (1, None), "before which it had begun nobody knows"
