"""What consumers took and acknowledged, and what they may report, judged by hand (R107)."""

from __future__ import annotations

import pytest
from offset_rows import at, rows, second_of

from txmq_lib.rules.acks import acked_reports, redelivery_counts

pytestmark = pytest.mark.spark


def allocated(second, client="A"):
    return (second, client, "allocated", [])


def taken(second, *offsets, client="A"):
    return (second, client, "taken", list(offsets))


def acked(second, *offsets, client="A"):
    return (second, client, "acked", list(offsets))


def dropped(second, client="A"):
    return (second, client, "dropped", [])


# why, events as they landed, reports found (client, second of the acknowledgement, next offset)
REPORTED = [
    ("nothing acknowledged", [allocated(1), taken(2, 5, 6)], []),
    ("all acknowledged: the highest taken + 1", [allocated(1), taken(2, 5, 6), acked(3, 6, 5)], [("A", 3, 7)]),
    ("one in flight pins what is done above it", [allocated(1), taken(2, 5, 6, 7), acked(3, 6, 7)], [("A", 3, 5)]),
    ("of several in flight the smallest counts", [allocated(1), taken(2, 5, 6, 7, 8), acked(3, 6)], [("A", 3, 5)]),
    ("wherever it was taken", [allocated(1), taken(2, 7), taken(3, 5, 6), acked(4, 6)], [("A", 4, 5)]),
    ("the gap closed", [allocated(1), taken(2, 5, 6, 7), acked(3, 7), acked(4, 5)], [("A", 4, 6)]),
    ("taken after the acknowledgement does not count", [allocated(1), taken(2, 5), acked(3, 5), taken(4, 9)],
     [("A", 3, 6)]),
    ("the gap of what was taken later does not count", [allocated(1), taken(2, 5, 6), acked(3, 5), taken(4, 7)],
     [("A", 3, 6)]),
    ("an acknowledgement on an empty queue reports nothing", [allocated(1), acked(3, 5)], []),
    ("nor does one after all was acknowledged", [allocated(1), taken(2, 5), acked(3, 5), acked(4, 5)], [("A", 3, 6)]),
    ("one of something never taken reports what is left", [allocated(1), taken(2, 5), acked(3, 99)], [("A", 3, 5)]),
    ("one of nothing at all as well", [allocated(1), taken(2, 5), acked(3)], [("A", 3, 5)]),
    ("the same offset twice in one", [allocated(1), taken(2, 5, 5, 6), acked(3, 5, 5)], [("A", 3, 6)]),
    ("acknowledged after dropped", [allocated(1), taken(2, 5), dropped(3), acked(4, 5)], []),
    ("before dropped it counts", [allocated(1), taken(2, 5), acked(3, 5), dropped(4)], [("A", 3, 6)]),
    ("never allocated", [taken(2, 5), acked(3, 5)], []),
    ("taken before allocated is not in the queue", [taken(1, 5), allocated(2), taken(3, 6), acked(4, 6)],
     [("A", 4, 7)]),
    ("allocated again begins with an empty queue",
     [allocated(1), taken(2, 5, 6), acked(3, 5), allocated(4), acked(5, 6)],
     [("A", 3, 6)]),
    ("each holding reports",
     [allocated(1), taken(2, 5), acked(3, 5), dropped(4), allocated(5), taken(6, 5, 6), acked(7, 5)],
     [("A", 3, 6), ("A", 7, 6)]),
    ("each client reports what it holds",
     [allocated(1), allocated(1, "B"), taken(2, 5), taken(2, 8, client="B"), acked(3, 8), acked(4, 8, client="B")],
     [("A", 3, 5), ("B", 4, 9)]),
    ("one client's drop is not another's", [allocated(1), taken(2, 5), dropped(3, "B"), acked(4, 5)], [("A", 4, 6)]),
    ("event order, not landing order", [acked(3, 5), taken(2, 5), allocated(1)], [("A", 3, 6)]),
    ("same time: landing order", [allocated(1), taken(1, 5), acked(1, 5)], [("A", 1, 6)]),
    ("taken again after it was acknowledged", [allocated(1), taken(2, 5, 6), acked(3, 5), taken(4, 5), acked(5, 6)],
     [("A", 5, 5)]),
    ("the largest offset has none after it", [allocated(1), taken(2, 2**63 - 1), acked(3, 2**63 - 1)], []),
]  # fmt: skip

# why, next offset, events, messages that come again (no key: None)
REDELIVERED = [
    ("in flight", 5, [allocated(1), taken(2, 5, 6, 7)], 3),
    ("acknowledged above a gap", 5, [allocated(1), taken(2, 5, 6, 7), acked(3, 6, 7)], 3),
    ("done and reported", 7, [allocated(1), taken(2, 5, 6), acked(3, 5, 6)], 0),
    ("done, not yet reported", 6, [allocated(1), taken(2, 5, 6), acked(3, 5, 6)], 1),
    ("the queue was given back", 5, [allocated(1), taken(2, 5, 6), dropped(3)], 0),
    ("the newest holding counts", 5, [allocated(1), taken(2, 5, 6), dropped(3), allocated(4), taken(5, 6)], 1),
    ("the newest holder counts", 5, [allocated(1), taken(2, 5, 6), allocated(3, "B"), taken(4, 6, client="B")], 1),
    ("its newest one gave it back", 5, [allocated(1), taken(2, 5, 6), allocated(3, "B"), dropped(4, "B")], 2),
    ("taken twice comes once", 5, [allocated(1), taken(2, 5), taken(3, 5)], 1),
    ("taken by nobody who holds it", 5, [taken(2, 5)], 0),
    ("only allocated", 5, [allocated(1)], None),
]  # fmt: skip


def landed(spark, cases):
    return rows(
        spark,
        "consumer_ack",
        [
            {
                "topic": why,
                "ts": at(second),
                "client_id": client,
                "event": event,
                "offsets": offsets,
                "landing_order": place,
            }
            for why, events in cases
            for place, (second, client, event, offsets) in enumerate(events)
        ],
    )


def test_each_holding_reports_the_smallest_unacknowledged_offset_of_its_last_acknowledgement(spark):
    found = acked_reports(landed(spark, [(why, events) for why, events, _ in REPORTED])).collect()
    reported = {why: [] for why, *_ in REPORTED}
    for row in sorted(found, key=lambda row: (row.client_id, row.ts)):
        reported[row.topic].append((row.client_id, second_of(row.ts), row.next_offset))
    assert reported == {why: expected for why, _, expected in REPORTED}
    assert {(row.origin, row.is_increase_only, row.occurrence, row.landed_pass) for row in found} == {
        ("ack", True, 0, 1)
    }
    assert len({row.content_hash for row in found}) == len(found)


def test_what_comes_again_is_what_the_holder_took_at_or_above_the_next_offset(spark):
    acks = landed(spark, [(why, events) for why, _, events, _ in REDELIVERED])
    offsets = rows(
        spark, "consumer_offset", [{"topic": why, "next_offset": next_offset} for why, next_offset, *_ in REDELIVERED]
    )
    counts = {row.topic: row.redelivery_count for row in redelivery_counts(acks, offsets).collect()}
    assert {why: counts.get(why) for why, *_ in REDELIVERED} == {why: count for why, *_, count in REDELIVERED}
