"""Keys taken by their kind end as they do when each is taken as the others."""

from __future__ import annotations

import random

import pytest
from offset_histories import frame, no_state, random_history
from offset_model import WINDOW_MS
from pyspark.sql import functions as F

from txmq_lib.rules.offset_kinds import queue_kinds
from txmq_lib.rules.offsets import rolled_up, starting_points

pytestmark = pytest.mark.spark


def test_a_key_taken_as_its_kind_leaves_the_whole_row_that_it_leaves_as_the_others(spark):
    dice = random.Random(1_102)
    landed = frame(spark, [random_history(dice) for _ in range(3_000)])
    is_old = F.col("landed_pass") == 0
    rolled = rolled_up(no_state(spark), landed.where(is_old), conflict_window_ms=WINDOW_MS)
    state = no_state(spark).unionByName(rolled, allowMissingColumns=True).localCheckpoint()
    start = [rows.localCheckpoint() for rows in starting_points(state, landed.where(~is_old), landed)]
    kinds = queue_kinds(*start).localCheckpoint()
    kinds_seen = {(row.has_sets, row.has_clients, row.known is not None) for row in kinds.collect()}
    assert len(kinds_seen) == 8
    as_others, as_kinds = (
        {
            row.broker_name: row.asDict(recursive=True)
            for row in rolled_up(*start, conflict_window_ms=WINDOW_MS, kinds=some_kinds).collect()
        }
        for some_kinds in (None, kinds)
    )
    assert as_kinds == as_others
