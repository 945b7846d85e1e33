"""Random histories of offset reports, and frames of them."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

from offset_model import Report
from pyspark.sql import DataFrame, SparkSession

from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.conform import struct_type
from txmq_lib.spark.local_frame import local_frame

START = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
REPORT_DDL = (
    "broker_name string, consumer_group string, topic string, queue_id int, ts timestamp, next_offset bigint,"
    " is_increase_only boolean, client_id string, landed_pass bigint, landing_order bigint, origin string"
)


def frame(spark: SparkSession, histories: list[list[Report]]) -> DataFrame:
    """Columns of consumer_offset_commit that the rules read; broker_name is the number of the history."""
    return local_frame(spark, rows(histories), REPORT_DDL)


def rows(histories: list[list[Report]]) -> list[tuple[Any, ...]]:
    """The same rows as tuples, history after history."""
    return [
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
    ]


def random_history(dice: random.Random) -> list[Report]:
    """Reports of one queue in up to three batches, in order or not, with and without sets and clients."""
    batches = dice.choice((1, 2, 3))
    is_in_order = dice.random() < 0.5
    clients, increasing = dice.choice(((None,), ("A",), (None, "A"), (None, "A", "B"))), dice.choice((0.7, 1.0))
    events, places = [], defaultdict(int)
    seconds = sorted(dice.randrange(10) for _ in range(dice.randrange(1, 10)))
    for number, second in enumerate(seconds):
        batch = number * batches // len(seconds) if is_in_order else dice.randrange(batches)
        is_increase_only = dice.random() < increasing
        events.append(Report(second, dice.randrange(6), is_increase_only, dice.choice(clients), batch, places[batch]))
        places[batch] += 1
    return events


def no_state(spark: SparkSession) -> DataFrame:
    """consumer_offset, empty."""
    return local_frame(spark, [], struct_type(table_spec("consumer_offset")))
