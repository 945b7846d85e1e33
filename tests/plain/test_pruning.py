"""Ranges that a pass reads of history: all that is looked for, over the widest gaps nothing else."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from txmq_lib.pipeline.shared.pruning import MOST_RANGES, _joined_over_least_gaps

BUCKET = 100


@st.composite
def disjoint(draw):
    steps = draw(st.lists(st.tuples(st.integers(1, 1_000), st.integers(0, 50)), max_size=80))
    ranges, at = [], 0
    for gap, length in steps:
        ranges.append((at + gap, at + gap + length))
        at += gap + length
    return ranges


@given(disjoint())
def test_ranges_are_joined_over_their_least_gaps_until_few_are_left(ranges):
    joined = _joined_over_least_gaps(ranges, BUCKET)
    assert all(any(low <= start and end <= high for low, high in joined) for start, end in ranges)
    assert len(joined) <= MOST_RANGES
    left_out = sorted(after[0] - before[1] for before, after in pairwise(joined))
    gaps = sorted((after[0] - before[1] for before, after in pairwise(ranges)), reverse=True)
    assert left_out == sorted([gap for gap in gaps if gap > BUCKET][: MOST_RANGES - 1])
