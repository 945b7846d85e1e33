"""Roll-ups of thousands of random histories against a plain Python model, each batch of all in one Spark job."""

from __future__ import annotations

import random
from datetime import datetime

import pytest
from offset_histories import START, frame, no_state, random_history
from offset_model import WINDOW_MS, Outcome, Report, model
from pyspark.sql import functions as F

from txmq_lib.rules.offset_kinds import queue_kinds
from txmq_lib.rules.offsets import rolled_up, starting_points

pytestmark = pytest.mark.spark


@pytest.fixture(params=["each key as the others", "each key as its kind"])
def roll_up(request):
    """`rolled_up` from (seeds, reports), as in small passes and as in those over many reports."""

    def rolled(seeds, reports):
        kinds = queue_kinds(seeds, reports).localCheckpoint() if request.param.endswith("kind") else None
        return rolled_up(seeds, reports, conflict_window_ms=WINDOW_MS, kinds=kinds)

    return rolled


def rolled_up_in_batches(spark, landed, batches: int, roll_up):
    """The state after each batch has been rolled up on its own, in the order of their numbers."""
    state = no_state(spark)
    missing = {name: F.lit(None).cast("bigint") for name in ("redelivery_count", "pass_number")}
    for batch in range(batches):
        new, history = landed.where(F.col("landed_pass") == batch), landed.where(F.col("landed_pass") <= batch)
        changed = roll_up(*starting_points(state, new, history)).withColumns(missing)
        untouched = state.join(changed, "broker_name", "left_anti")
        state = untouched.select(changed.columns).unionByName(changed).localCheckpoint()
    return state


def test_ten_thousand_increase_only_histories_end_at_their_maximum_in_any_order_split_or_repetition(spark, roll_up):
    dice = random.Random(20_261_121)
    histories = []
    for _ in range(10_000):
        offsets = [dice.choice((0, dice.randrange(12), dice.randrange(2**63))) for _ in range(dice.randrange(1, 7))]
        repeated = dice.choices(offsets, k=dice.randrange(0, 4))
        arrivals = dice.sample([*offsets, *repeated], k=len(offsets) + len(repeated))
        histories.append(
            [
                Report(dice.randrange(6), offset, True, None, dice.randrange(3), place)
                for place, offset in enumerate(arrivals)
            ]
        )
    state = rolled_up_in_batches(spark, frame(spark, histories), 3, roll_up)
    next_offsets = {
        int(row.broker_name): row.next_offset for row in state.select("broker_name", "next_offset").collect()
    }
    assert next_offsets == {case: max(event.offset for event in history) for case, history in enumerate(histories)}


def test_resets_late_reports_and_conflicts_end_as_in_the_model_at_once_or_in_batches(spark, roll_up):
    dice = random.Random(84_102)
    histories = [random_history(dice) for _ in range(3_000)]
    landed = frame(spark, histories)
    at_once = roll_up(no_state(spark), landed)
    in_batches = rolled_up_in_batches(spark, landed, 3, roll_up)
    expected = {case: model(history) for case, history in enumerate(histories)}
    assert outcomes(in_batches) == expected
    assert outcomes(at_once) == expected


def outcomes(offsets):
    return {
        int(row.broker_name): Outcome(
            row.next_offset,
            row.ignored_count,
            row.late_count,
            [(second_of(one.ts), one.from_offset, one.to_offset) for one in row.rewinds],
            [(second_of(one.ts), one.from_offset, one.to_offset) for one in row.jumps],
            row.conflict_count,
        )
        for row in offsets.collect()
    }


def second_of(moment: datetime) -> int:
    return int(moment.timestamp() - START.timestamp())
