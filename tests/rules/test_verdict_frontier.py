"""Verdicts that depend on the time up to which a source has been read: EXPIRED_UNSEEN."""

from __future__ import annotations

import pytest
from builders import RESERVED_MS, at, evidence, lines_of, policies, rows, table_of
from moment import NOW, NOW_MS

from txmq_lib.rules.evidence import transaction_figures
from txmq_lib.rules.verdict import expiring, judged, next_change

pytestmark = pytest.mark.spark


def queue(ms=None, *, knows=True, **place):
    """A frontier row: read up to so many ms after NOW."""
    read = None if ms is None else at(ms)
    return {"highest_store_timestamp": read, "is_end_known": knows, **place}


OTHER = {"topic": "TopicB"}
BORN = [  # broker, ms by which its half is older than the reserved time at the frontier, frontier row, verdict
    ("as old as is reserved", 0, queue(0), "PENDING"),
    ("a millisecond older", 1, queue(0), "EXPIRED_UNSEEN"),
    ("older by the clock, not by what landed", 10**9, queue(-2 * 10**9), "PENDING"),
    ("no store time known", 10**9, queue(None), "PENDING"),
    ("files count too", 1, queue(0, knows=False), "EXPIRED_UNSEEN"),
    ("a store time ahead of the clock, as old as is reserved", 0, queue(10**12), "PENDING"),
    ("a store time ahead of the clock, a millisecond older", 1, queue(10**12), "EXPIRED_UNSEEN"),
    ("the furthest queue counts, whichever it is", 1, queue(0, **OTHER), "EXPIRED_UNSEEN"),
    ("the engine gives up itself", 10**9, queue(0), "PENDING"),
    ("nothing landed of its broker", 10**9, None, "PENDING"),
]


def test_a_half_older_than_is_reserved_at_the_frontier_was_never_seen(spark):
    halves = [{"broker_name": why, "transaction_id": why, "born_timestamp": at(-RESERVED_MS - older)}
              for why, older, *_ in BORN]  # fmt: skip
    frontier = [{"broker_name": why, **row} for why, _, row, _ in BORN if row]
    frontier += [{"broker_name": "the furthest queue counts, whichever it is", **queue(-9)}]
    limits = policies("audit", **{"the engine gives up itself": "engine"})
    found = evidence(spark, halves=halves)
    verdicts = judged(
        transaction_figures(found),
        rows(spark, "landing_frontier", frontier),
        rows(spark, "quarantine"),
        policies=limits,
        now=NOW,
        pass_number=1,
    )
    # Ops that turn out to be missing may name any of them.
    assert table_of(verdicts, "transaction_id", "verdict", "is_settled") == {
        why: (verdict, False) for why, *_, verdict in BORN
    }


def test_time_alone_touches_what_expired_and_what_lacks_proof(spark):
    unsettled = [
        {"transaction_id": "young", "verdict": "PENDING", "born_timestamp": at(-RESERVED_MS)},
        {"transaction_id": "expired", "verdict": "PENDING", "born_timestamp": at(-RESERVED_MS - 1)},
        {"transaction_id": "without proof", "verdict": "RESOLVED_UNKNOWN", "born_timestamp": at(-1)},
        {"transaction_id": "proved by a file", "verdict": "ROLLED_BACK", "born_timestamp": at(-1)},
        {"transaction_id": "its op unread", "verdict": "COMMITTED_OP_LOST", "born_timestamp": at(-1)},
        {"transaction_id": "of another broker", "broker_name": "c", "born_timestamp": at(-RESERVED_MS - 1)},
    ]
    ops = {"topic": "RMQ_SYS_TRANS_OP_HALF_TOPIC"}
    of_c = [queue(-9, broker_name="c"), queue(-9, broker_name="c", **ops)]
    frontier = rows(spark, "landing_frontier", [queue(0), queue(-9, **OTHER), queue(-9, **ops), *of_c])
    found = expiring(rows(spark, "verdict", unsettled), frontier, policies=policies("audit"), now=NOW)
    assert lines_of(found, "transaction_id") == [
        ("expired",),
        ("its op unread",),
        ("proved by a file",),
        ("without proof",),
    ]
    engine = expiring(rows(spark, "verdict", unsettled), frontier, policies=policies("engine"), now=NOW)
    assert lines_of(engine, "transaction_id") == [("its op unread",), ("proved by a file",), ("without proof",)]


AHEAD = 10_000
WAITING = [  # why, ms after NOW at which its half is as old as is reserved, checks end, verdict, and it changes
    ("within what was read ahead of the clock", AHEAD - 1, None, "PENDING", AHEAD),
    ("beyond it: more has to land", AHEAD, None, "PENDING", None),
    ("at once after now", 0, None, "PENDING", 1),
    ("expired already", -1, None, "EXPIRED_UNSEEN", None),
    ("its broker forgets it before it expires", AHEAD, AHEAD - 1, "PENDING", AHEAD),
    ("it expires before its broker forgets it", 0, 5, "PENDING", 1),
    ("expired, and its broker forgets it later", -1, 5, "EXPIRED_UNSEEN", 6),
    ("its broker forgets it beyond what was read", AHEAD, AHEAD, "PENDING", None),
    ("decided: no clock changes that", 0, None, "RESOLVED_UNKNOWN", None),
    ("the engine gives up itself", 0, None, "PENDING", None),
    ("nothing landed of its broker", 0, None, "PENDING", None),
    ("no store time ahead of the clock", 0, None, "PENDING", None),
]


def test_the_clock_alone_changes_only_what_was_read_ahead_of_it(spark):
    limits = policies("audit", **{"the engine gives up itself": "engine"})
    for why, reserved_upto, checks_end, verdict, due in WAITING:
        row = {"broker_name": why, "verdict": verdict, "born_timestamp": at(reserved_upto - RESERVED_MS),
               "checks_end_timestamp": None if checks_end is None else at(checks_end)}  # fmt: skip
        unsettled = rows(spark, "verdict", [row])
        read = {"nothing landed of its broker": [], "no store time ahead of the clock": [queue(0)]}
        frontier = [{**row, "broker_name": why} for row in read.get(why, [queue(AHEAD)])]
        due_rows = next_change(unsettled, rows(spark, "landing_frontier", frontier), policies=limits, now=NOW)
        assert [row.due_ms for row in due_rows.collect()] == [None if due is None else NOW_MS + due], why
