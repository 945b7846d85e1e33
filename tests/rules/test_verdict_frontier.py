"""Verdicts that depend on how far a source has been read: RESOLVED_UNKNOWN and EXPIRED_UNSEEN (design section 3)."""

from __future__ import annotations

import pytest
from builders import NOW, NOW_MS, RESERVED_MS, at, evidence, lines_of, policies, rows, table_of

from txmq_lib.rules.figures import transaction_figures
from txmq_lib.rules.verdict import expiring, judged, next_expiry

pytestmark = pytest.mark.spark

OP_AT, LAST_HALF_AT = at(0), at(-1_000)


def queue(ms=None, *, knows=True, lost_before_ms=None, **place):
    """A frontier row: read up to so many ms after the op was stored, lost before so many ms after it."""
    lost = None if lost_before_ms is None else at(lost_before_ms)
    read = None if ms is None else at(ms)
    return {"highest_store_timestamp": read, "is_end_known": knows, "lost_before_timestamp": lost, **place}


WHOLE = {"topic": "*", "queue_id": -1}
OTHER = {"topic": "TopicB"}
RESOLVED = [  # why, frontier rows of its broker, verdict of a half with an op and no message
    ("files only, its topic not among them", [queue(9, knows=False, **OTHER)], "ROLLED_BACK"),
    ("files only, its topic shorter than the op", [queue(-500, knows=False)], "ROLLED_BACK"),
    ("nothing known of any source", [], "ROLLED_BACK"),
    ("its queue read up to the op", [queue(0)], "ROLLED_BACK"),
    ("its queue read a millisecond less far", [queue(-1)], "RESOLVED_UNKNOWN"),
    ("its queue read further, by time unknown", [queue(None)], "RESOLVED_UNKNOWN"),
    ("its queue never read, another one was", [queue(9, **OTHER)], "RESOLVED_UNKNOWN"),
    ("another queue of its topic was read", [queue(9, queue_id=1)], "RESOLVED_UNKNOWN"),
    ("the whole log read up to the op", [queue(0, **WHOLE)], "ROLLED_BACK"),
    ("the whole log read less far", [queue(-1, **WHOLE)], "RESOLVED_UNKNOWN"),
    ("the queue ends early, the log does not", [queue(-900), queue(0, **WHOLE)], "ROLLED_BACK"),
    ("the log read less far than the queue", [queue(0), queue(-1, **WHOLE)], "ROLLED_BACK"),
    ("lost after its last half: the message may have been", [queue(9, lost_before_ms=-999)], "RESOLVED_UNKNOWN"),
    ("lost before its last half was stored", [queue(9, lost_before_ms=-1_000)], "ROLLED_BACK"),
    ("a file beside a source that knows its end", [queue(9, knows=False), queue(9, **OTHER)], "ROLLED_BACK"),
]


def resolved(spark):
    halves, ops = [], []
    for why, *_ in RESOLVED:
        halves.append({"broker_name": why, "transaction_id": why, "store_timestamp": LAST_HALF_AT})
        ops.append({"broker_name": why, "store_timestamp": OP_AT})
    return evidence(spark, halves=halves, ops=ops)


def test_no_message_means_rolled_back_only_where_it_would_have_been_seen(spark):
    frontier = [{"broker_name": why, **row} for why, found, _ in RESOLVED for row in found]
    verdicts = judged(
        transaction_figures(resolved(spark)),
        rows(spark, "landing_frontier", frontier),
        policies=policies("audit"),
        now=NOW,
        pass_number=1,
    )
    assert table_of(verdicts, "transaction_id", "verdict", "is_settled") == {
        why: (verdict, verdict == "ROLLED_BACK") for why, _, verdict in RESOLVED
    }


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
        transaction_figures(found), rows(spark, "landing_frontier", frontier), policies=limits, now=NOW, pass_number=1
    )
    assert table_of(verdicts, "transaction_id", "verdict", "is_settled") == {
        why: (verdict, verdict != "PENDING") for why, *_, verdict in BORN
    }


def test_time_alone_touches_what_expired_and_what_lacks_proof(spark):
    unsettled = [
        {"transaction_id": "young", "verdict": "PENDING", "born_timestamp": at(-RESERVED_MS)},
        {"transaction_id": "expired", "verdict": "PENDING", "born_timestamp": at(-RESERVED_MS - 1)},
        {"transaction_id": "without proof", "verdict": "RESOLVED_UNKNOWN", "born_timestamp": at(-1)},
        {"transaction_id": "of another broker", "broker_name": "c", "born_timestamp": at(-RESERVED_MS - 1)},
    ]
    frontier = rows(spark, "landing_frontier", [queue(0), queue(-9, **OTHER), queue(-9, broker_name="c")])
    found = expiring(rows(spark, "verdict", unsettled), frontier, policies=policies("audit"), now=NOW)
    assert lines_of(found, "transaction_id") == [("expired",), ("without proof",)]
    engine = expiring(rows(spark, "verdict", unsettled), frontier, policies=policies("engine"), now=NOW)
    assert lines_of(engine, "transaction_id") == [("without proof",)]


AHEAD = 10_000
WAITING = [  # why, ms after NOW at which its half is as old as is reserved, verdict, ms after NOW at which it expires
    ("within what was read ahead of the clock", AHEAD - 1, "PENDING", AHEAD),
    ("beyond it: more has to land", AHEAD, "PENDING", None),
    ("at once after now", 0, "PENDING", 1),
    ("expired already", -1, "PENDING", None),
    ("decided: no clock changes that", 0, "RESOLVED_UNKNOWN", None),
    ("the engine gives up itself", 0, "PENDING", None),
    ("nothing landed of its broker", 0, "PENDING", None),
    ("no store time ahead of the clock", 0, "PENDING", None),
]


def test_the_clock_alone_expires_only_what_was_read_ahead_of_it(spark):
    limits = policies("audit", **{"the engine gives up itself": "engine"})
    for why, reserved_upto, verdict, due in WAITING:
        born = at(reserved_upto - RESERVED_MS)
        unsettled = rows(spark, "verdict", [{"broker_name": why, "verdict": verdict, "born_timestamp": born}])
        read = {"nothing landed of its broker": [], "no store time ahead of the clock": [queue(0)]}
        frontier = [{**row, "broker_name": why} for row in read.get(why, [queue(AHEAD)])]
        told = next_expiry(unsettled, rows(spark, "landing_frontier", frontier), policies=limits, now=NOW)
        assert [row.due_ms for row in told.collect()] == [None if due is None else NOW_MS + due], why
