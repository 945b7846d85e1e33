"""Runs of a queue as a list: joined over landings in any order, and what a reading of all queues tells of them."""

from __future__ import annotations

from itertools import permutations

import pytest

from txmq_lib.rules import run_lists
from txmq_lib.rules.run_lists import Run, joined, last_place, told_to, within_log


def runs_of(*tuples):
    return [Run(*each) for each in tuples]


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
def test_runs_say_the_same_in_whatever_order_they_landed(runs, expected):
    for order in permutations(runs):
        assert joined(runs_of(*order)) == tuple(expected)
    assert joined(runs_of(*expected, *runs)) == tuple(expected), "what landed before adds nothing"


def test_no_more_than_so_many_runs_are_kept_the_newest(monkeypatch):
    monkeypatch.setattr(run_lists, "MOST_RUNS", 2)
    runs = runs_of((0, 1, 1, 1), (2, 3, 3, 3), (4, 5, 5, 5))
    assert joined(runs) == tuple(runs[1:])


def test_a_place_behind_the_end_of_the_log_was_misread():
    runs = runs_of((0, 2, 10, 100), (2, 4, 100, 120, 90), (4, 4, None, None, 110))
    assert within_log(runs, 100) == ((0, 2, 10, 10, None), (2, 4, None, None, 90), (4, 4, None, None, 110))


def test_a_reading_of_all_queues_tells_of_the_newest_end_of_each():
    runs = tuple(runs_of((0, 3, 10, 30, 50), (5, 6, 60, 60, 70), (8, 9, 80, 80)))
    later = (runs[0], Run(5, 6, 60, 60, 99), runs[2])
    assert told_to(runs, 99, is_untold=False) == later
    assert told_to(runs, 9, is_untold=False) == runs, "nothing goes back"
    assert told_to(runs, None, is_untold=False) == runs
    assert told_to(runs[2:], 99, is_untold=False) == runs[2:], "files alone say no end"
    assert told_to(runs, 99, is_untold=True) == runs, "of a queue that nobody tells of it says nothing"
    assert told_to((), 99, is_untold=False) == ()


def test_a_last_place_that_the_run_behind_contradicts_tells_nothing():
    assert last_place(runs_of((0, 3, 10, 900), (4, 5, 40, 50), (6, 6, None, None, 70))) == 50
    assert last_place(runs_of((0, 3, 10, 40), (4, 5, 40, 45))) == 45, "no two records lie in one place"
    assert last_place(runs_of((3, 3, 40, 40), (3, 5, 40, 40))) == 40, "where an empty run ends the next may lie"
    assert last_place([]) is None
