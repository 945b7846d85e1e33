"""Offset reports and resets of one queue, judged by hand."""

from __future__ import annotations

import pytest
from offset_rows import at, no_rows, rows, second_of
from pyspark.sql import functions as F

from txmq_lib.rules.offset_kinds import queue_kinds
from txmq_lib.rules.offsets import (
    queues_to_replay,
    reports_not_rolled_up,
    rolled_up,
    starting_points,
)

pytestmark = pytest.mark.spark

WINDOW_MS = 15_000


def up(second, offset, client=None):
    return (second, offset, True, client)


def put(second, offset, client=None):
    return (second, offset, False, client)


# why, events as they landed, what they leave:
# next offset, moved at, by whom, ignored, late, rewinds, value waiting to be jumped back to, jumps
HISTORIES = [
    ("absent: inserted", [up(1, 5)], (5, 1, None, 0, 0, [], None, [])),
    ("the very first offset may be 0", [up(1, 0)], (0, 1, None, 0, 0, [], None, [])),
    ("equal is ignored, time and reporter stay", [up(1, 5, "A"), up(2, 5, "B")], (5, 1, "A", 1, 0, [], None, [])),
    ("smaller is ignored", [up(1, 5), up(2, 4)], (5, 1, None, 1, 0, [], None, [])),
    ("one larger is taken", [up(1, 5), up(2, 6, "B")], (6, 2, "B", 0, 0, [], None, [])),
    ("landing order is not event order", [up(2, 6), up(1, 5)], (6, 2, None, 0, 0, [], None, [])),
    ("a set may go forward", [up(1, 5), put(2, 9)], (9, 2, None, 0, 0, [], None, [])),
    ("a set to what is held moves nothing", [up(1, 5), put(2, 5)], (5, 1, None, 1, 0, [], None, [])),
    ("a set that goes back is a rewind", [up(1, 107), put(2, 27, "adm")],
     (27, 2, "adm", 0, 0, [(2, 107, 27, "adm")], 107, [])),
    ("after a reset the count goes on from it", [up(1, 107), put(2, 27), up(3, 40)],
     (40, 3, None, 0, 0, [(2, 107, 27, None)], None, [])),
    ("smaller than the reset is ignored", [up(1, 107), put(2, 27), up(3, 20)],
     (27, 2, None, 1, 0, [(2, 107, 27, None)], 107, [])),
    ("a stale report jumps back over the reset", [up(1, 107), put(2, 27), up(3, 107, "C")],
     (107, 3, "C", 0, 0, [(2, 107, 27, None)], None, [(3, 27, 107, "C")])),
    ("one below what was held is no jump", [up(1, 107), put(2, 27), up(3, 106)],
     (106, 3, None, 0, 0, [(2, 107, 27, None)], None, [])),
    ("an ignored report does not end the wait for a jump", [up(1, 107), put(2, 27), up(3, 27), up(4, 108)],
     (108, 4, None, 1, 0, [(2, 107, 27, None)], None, [(4, 27, 108, None)])),
    ("consumed again up to there is no jump", [up(1, 107), put(2, 27), up(3, 28), up(4, 107)],
     (107, 4, None, 0, 0, [(2, 107, 27, None)], None, [])),
    ("a set back to where it was is no jump", [up(1, 107), put(2, 27), put(3, 107)],
     (107, 3, None, 0, 0, [(2, 107, 27, None)], None, [])),
    ("of two rewinds the newest counts", [up(1, 107), put(2, 27), put(3, 10), up(4, 27)],
     (27, 4, None, 0, 0, [(2, 107, 27, None), (3, 27, 10, None)], None, [(4, 10, 27, None)])),
    ("same time: landing order", [put(1, 9), put(1, 4), up(1, 5)], (5, 1, None, 0, 0, [(1, 9, 4, None)], None, [])),
    ("a late report older than the reset is ignored", [up(1, 50), put(5, 20), up(3, 70)],
     (20, 5, None, 1, 1, [(5, 70, 20, None)], 70, [])),
    ("a late set older than the reset changes nothing but shows", [up(1, 50), put(5, 20), put(3, 10)],
     (20, 5, None, 1, 1, [(3, 50, 10, None)], None, [])),
    ("a set newer than the reset, older than a report, counts in its place", [put(1, 50), up(9, 60), put(5, 10)],
     (60, 9, None, 0, 0, [(5, 50, 10, None)], None, [(9, 10, 60, None)])),
    ("a repeated report moves nothing twice", [up(1, 5), up(1, 5), up(1, 5)], (5, 1, None, 2, 0, [], None, [])),
    ("the largest offset there is", [up(1, 2**63 - 1), put(2, 0), up(3, 2**63 - 1)],
     (2**63 - 1, 3, None, 0, 0, [(2, 2**63 - 1, 0, None)], None, [(3, 0, 2**63 - 1, None)])),
]  # fmt: skip


# why, events of clients, reports in conflict (second, client, other)
CONFLICTS = [
    ("one client alone", [up(1, 1, "A"), up(6, 2, "A"), up(11, 3, "A")], []),
    ("a queue that changes hands", [up(1, 1, "A"), up(6, 2, "A"), up(7, 3, "B"), up(12, 4, "B")], []),
    ("two at once", [up(1, 1, "A"), up(3, 1, "B"), up(6, 2, "A")], [(3, "B", "A")]),
    ("each sees the other", [up(1, 1, "A"), up(3, 1, "B"), up(6, 2, "A"), up(8, 2, "B")],
     [(3, "B", "A"), (6, "A", "B")]),
    ("the whole window apart", [up(1, 1, "A"), up(3, 1, "B"), up(16, 2, "A")], [(3, "B", "A")]),
    ("a millisecond more than the window", [up(1, 1, "A"), up(3, 1, "B"), up(16.001, 2, "A")], []),
    ("the same time", [up(1, 1, "A"), up(1, 1, "B")], [(1, "B", "A")]),
    ("the same time, one client twice", [up(1, 1, "A"), up(1, 2, "A")], []),
    ("nobody known is nobody else", [up(1, 1, "A"), up(3, 1), up(6, 2, "A")], []),
    ("ignored reports and sets take part", [up(1, 9, "A"), put(3, 9, "B"), up(6, 1, "A")], [(3, "B", "A")]),
    ("several between two", [up(1, 1, "A"), up(2, 1, "B"), up(3, 1, "B"), up(6, 2, "A")],
     [(2, "B", "A"), (3, "B", "A")]),
    ("landed in another order", [up(6, 2, "A"), up(1, 1, "A"), up(3, 1, "B")], [(3, "B", "A")]),
    ("one after another with the window between", [up(1, 1, "A"), up(3, 1, "B"), up(17, 2, "A"), up(19, 2, "B")], []),
]  # fmt: skip


# Too many to type: what they leave is told by the tests at the end.
FLAPPING = [event for second in range(0, 300, 2) for event in (put(second, 1), up(second + 1, 9))]
ALONE = [up(second / 100, second, "A") for second in range(1_500)]
AFTER_ANOTHER = [up(0, 0, "B"), *[up(second / 1_000, second, "A") for second in range(1, 1_001)]]
LONG = {"flapping": FLAPPING, "alone": ALONE, "1001 recent": AFTER_ANOTHER, "1000 recent": AFTER_ANOTHER[:1_000]}


def landed(spark, cases):
    """The reports of every case, for each of its cuts in a queue of its own: topic the case, queue id the cut."""
    return rows(
        spark,
        "consumer_offset_commit",
        [
            {
                "topic": why,
                "queue_id": cut,
                "ts": at(second),
                "next_offset": offset,
                "is_increase_only": is_increase_only,
                "client_id": client,
                "landing_order": place,
            }
            for why, events, cuts in cases
            for cut in cuts
            for place, (second, offset, is_increase_only, client) in enumerate(events)
        ],
    )


@pytest.fixture(scope="module", params=["each key as the others", "each key as its kind"])
def left(spark, request):
    """What every history leaves, by (case, cut): in one pass, and in two, cut before the event of that number.

    As in small passes, and as in those over many reports.
    """
    typed = [(why, events, range(len(events))) for why, events, _ in (*HISTORIES, *CONFLICTS)]
    long = [(why, events, (0, 101)) for why, events in LONG.items()]
    reports = landed(spark, [*typed, *long])
    state, is_first = no_rows(spark, "consumer_offset"), F.col("landing_order") < F.col("queue_id")
    passes = []
    for new in (reports, reports.where(is_first), reports.where(~is_first)):
        known = no_rows(spark, "consumer_offset") if len(passes) < 2 else state
        start = starting_points(known, new, reports)
        kinds = queue_kinds(*start).localCheckpoint() if request.param.endswith("kind") else None
        rolled = rolled_up(*start, conflict_window_ms=WINDOW_MS, kinds=kinds).collect()
        passes.append({(row.topic, row.queue_id): row.asDict(recursive=True) for row in rolled})
        state = rows(spark, "consumer_offset", passes[-1].values())
    at_once, _, in_two = passes
    return at_once, in_two


def moves(row, name):
    return [(second_of(move["ts"]), move["from_offset"], move["to_offset"], move["client_id"]) for move in row[name]]


def test_each_history_leaves_what_was_judged_by_hand(left):
    left_by_history = {
        why: (
            row["next_offset"],
            second_of(row["updated_timestamp"]),
            row["client_id"],
            row["ignored_count"],
            row["late_count"],
            moves(row, "rewinds"),
            row["rewound_from_offset"],
            moves(row, "jumps"),
        )
        for why, row in ((why, left[0][why, 0]) for why, *_ in HISTORIES)
    }
    assert left_by_history == {why: expected for why, _, expected in HISTORIES}


def test_two_clients_on_one_queue_are_in_conflict_as_judged_by_hand(left):
    conflicts = {
        why: (
            left[0][why, 0]["conflict_count"],
            [(second_of(one["ts"]), one["client_id"], one["other_client_id"]) for one in left[0][why, 0]["conflicts"]],
        )
        for why, *_ in CONFLICTS
    }
    assert conflicts == {why: (len(expected), expected) for why, _, expected in CONFLICTS}


def test_every_history_cut_anywhere_into_two_passes_ends_as_in_one(left):
    at_once, in_two = left
    assert len(at_once) == sum(len(events) for _, events, _ in (*HISTORIES, *CONFLICTS)) + 2 * len(LONG)
    assert in_two == at_once


def test_the_newest_hundred_rewinds_and_jumps_are_listed_and_all_counted(left):
    row = left[1]["flapping", 101]
    assert (row["rewind_count"], row["jump_count"], row["report_count"]) == (149, 149, 300)
    assert moves(row, "rewinds") == [(second, 9, 1, None) for second in range(100, 300, 2)]
    assert moves(row, "jumps") == [(second, 1, 9, None) for second in range(101, 300, 2)]


def test_a_state_row_keeps_few_recent_reports_and_none_at_all_above_a_thousand(left):
    kept = {why: left[1][why, 101]["recent_reports"] for why in LONG}
    assert kept["flapping"] == []
    assert [second_of(report["ts"]) for report in kept["alone"]] == [14.99]
    assert kept["1001 recent"] is None
    assert [second_of(report["ts"]) for report in kept["1000 recent"]] == [place / 1_000 for place in range(1_000)]


STATES = [
    {
        "queue_id": queue,
        "last_report_timestamp": at(10),
        "last_report_landed_pass": 2,
        "last_report_landing_order": 7,
        "recent_reports": recent,
    }
    for queue, recent in enumerate([[], [], [], [], None, None])
]


def test_only_queues_with_a_report_that_the_state_cannot_judge_are_replayed(spark):
    new = [
        {"queue_id": 0, "ts": at(10), "landed_pass": 2, "landing_order": 8},
        {"queue_id": 1, "ts": at(10), "landed_pass": 2, "landing_order": 7},
        {"queue_id": 2, "ts": at(9.999), "landed_pass": 3, "landing_order": 0},
        {"queue_id": 2, "ts": at(11), "landed_pass": 3, "landing_order": 1},
        {"queue_id": 3, "ts": at(11), "landed_pass": 1, "landing_order": 0, "client_id": "A"},
        {"queue_id": 4, "ts": at(11), "landed_pass": 3, "landing_order": 0, "client_id": "A"},
        {"queue_id": 5, "ts": at(11), "landed_pass": 3, "landing_order": 0},
        {"queue_id": 9, "ts": at(1), "landed_pass": 3, "landing_order": 0},
    ]
    reports = rows(spark, "consumer_offset_commit", [{"next_offset": 1, **row} for row in new])
    replayed = queues_to_replay(rows(spark, "consumer_offset", STATES), reports)
    assert sorted(row.queue_id for row in replayed.collect()) == [1, 2, 4]


def test_what_a_rollup_found_from_acknowledgements_is_not_rolled_up_again(spark):
    again = [
        {"queue_id": 0, "ts": at(10), "landed_pass": 2, "landing_order": 7, "origin": "ack"},
        {"queue_id": 1, "ts": at(10), "landed_pass": 2, "landing_order": 8, "origin": "ack"},
        {"queue_id": 2, "ts": at(10), "landed_pass": 2, "landing_order": 7},
        {"queue_id": 9, "ts": at(10), "landed_pass": 2, "landing_order": 7, "origin": "ack"},
    ]
    reports = rows(spark, "consumer_offset_commit", [{"next_offset": 1, **row} for row in again])
    new = reports_not_rolled_up(rows(spark, "consumer_offset", STATES), reports)
    assert new.columns == reports.columns
    assert sorted(row.queue_id for row in new.collect()) == [1, 2, 9]
