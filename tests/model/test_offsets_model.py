"""Roll-ups of thousands of random histories against a plain Python model, each batch of all in one Spark job."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta

import pytest
from offset_model import WINDOW_MS, Outcome, Report, model
from pyspark.sql import functions as F

from txmq_lib.rules.offsets import rolled_up, starting_points
from txmq_lib.schemas import table_spec
from txmq_lib.tables.conform import struct_type
from txmq_lib.tables.local_frame import local_frame

pytestmark = pytest.mark.spark

START = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
REPORT_DDL = (
    "broker_name string, consumer_group string, topic string, queue_id int, ts timestamp, next_offset bigint,"
    " is_increase_only boolean, client_id string, landed_pass bigint, landing_order bigint, origin string"
)


def frame(spark, histories: list[list[Report]]):
    return local_frame(
        spark,
        [
            (
                str(case),
                "g",
                "t",
                0,
                START + timedelta(seconds=event.second),
                event.offset,
                event.is_increase_only,
                event.client,
                event.batch,
                event.place,
                "landed",
            )
            for case, history in enumerate(histories)
            for event in history
        ],
        REPORT_DDL,
    )


def rolled_up_in_batches(spark, landed, batches: int):
    """The state after each batch has been rolled up on its own, in the order of their numbers."""
    state = no_state(spark)
    missing = {name: F.lit(None).cast("bigint") for name in ("redelivery_count", "pass_number")}
    for batch in range(batches):
        new, history = landed.where(F.col("landed_pass") == batch), landed.where(F.col("landed_pass") <= batch)
        changed = rolled_up(*starting_points(state, new, history), conflict_window_ms=WINDOW_MS).withColumns(missing)
        untouched = state.join(changed, "broker_name", "left_anti")
        state = untouched.select(changed.columns).unionByName(changed).localCheckpoint()
    return state


def test_ten_thousand_increase_only_histories_end_at_their_maximum_in_any_order_split_or_repetition(spark):
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
    state = rolled_up_in_batches(spark, frame(spark, histories), batches=3)
    told = {int(row.broker_name): row.next_offset for row in state.select("broker_name", "next_offset").collect()}
    assert told == {case: max(event.offset for event in history) for case, history in enumerate(histories)}


def random_history(dice: random.Random) -> list[Report]:
    batches = dice.choice((1, 2, 3))
    is_in_order = dice.random() < 0.5
    events, places = [], defaultdict(int)
    seconds = sorted(dice.randrange(10) for _ in range(dice.randrange(1, 10)))
    for number, second in enumerate(seconds):
        batch = number * batches // len(seconds) if is_in_order else dice.randrange(batches)
        client = dice.choice((None, "A", "B"))
        events.append(Report(second, dice.randrange(6), dice.random() < 0.7, client, batch, places[batch]))
        places[batch] += 1
    return events


def test_resets_late_reports_and_conflicts_end_as_in_the_model_at_once_or_in_batches(spark):
    dice = random.Random(84_102)
    histories = [random_history(dice) for _ in range(3_000)]
    landed = frame(spark, histories)
    at_once = rolled_up(no_state(spark), landed, conflict_window_ms=WINDOW_MS)
    in_batches = rolled_up_in_batches(spark, landed, batches=3)
    expected = {case: model(history) for case, history in enumerate(histories)}
    assert outcomes(in_batches) == expected
    assert outcomes(at_once) == expected


def no_state(spark):
    return local_frame(spark, [], struct_type(table_spec("consumer_offset")))


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
