"""Offsets as 64-bit words: every offset kept once, looked up and ranked, against sets of plain Python."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest
from builders import lines_of

from txmq_lib.rules.offset_bitmap import offset_bitmap, ranked_offsets, with_membership
from txmq_lib.spark.local_frame import local_frame

pytestmark = pytest.mark.spark

DDL = "broker_name string, queue_id int, queue_offset bigint"
DICE = random.Random(7)
EDGES = (0, 62, 63, 64, 127, 128, 2**31, 2**63 - 1)
PLACES = [
    *((broker, queue_id, offset) for broker, queue_id in (("a", 0), ("b", 3)) for offset in EDGES),
    *((DICE.choice("ab"), DICE.choice((0, 1)), DICE.randrange(400)) for _ in range(500)),
]


def test_words_hold_what_was_put_in_and_nothing_else(spark):
    words = offset_bitmap(local_frame(spark, PLACES, DDL))
    assert words.count() == len({(broker, queue_id, offset >> 6) for broker, queue_id, offset in PLACES})
    offsets = [
        (broker, queue_id, offset) for broker in "abc" for queue_id in (0, 1, 3) for offset in (*range(420), *EDGES)
    ]
    found = with_membership(local_frame(spark, offsets, DDL), words, "is_in")
    assert found.columns == ["broker_name", "queue_id", "queue_offset", "is_in"]
    held = set(PLACES)
    assert lines_of(found, *found.columns) == sorted((*place, place in held) for place in offsets)


@pytest.mark.parametrize("parts", [1, 3])
def test_ranks_are_dense_in_the_order_of_offsets(spark, parts):
    queues = defaultdict(set)
    for broker, queue_id, offset in PLACES:
        queues[broker, queue_id].add(offset)
    found = ranked_offsets(offset_bitmap(local_frame(spark, PLACES, DDL)), parts=parts)
    assert lines_of(found, "broker_name", "queue_id", "queue_offset", "rank") == sorted(
        (*queue, offset, rank) for queue, held in queues.items() for rank, offset in enumerate(sorted(held))
    )
