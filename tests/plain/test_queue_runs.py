"""Runs of queue offsets of a landing: few, ascending, and none where two records have one key."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from txmq_lib.pipeline.land.records import queue_runs
from txmq_lib.pipeline.land.records.queue_runs import Runs, joined_runs, runs_of
from txmq_lib.rocketmq.store.message_batch import ARROW_SCHEMA

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
Record = tuple[str, int, int, int]


def records(*tuples: Record) -> pa.RecordBatch:
    """Of each topic, queue, queue offset and place; a second later per place."""
    rows = [
        {
            "topic": topic,
            "queue_id": queue,
            "queue_offset": offset,
            "commit_log_offset": place,
            "store_timestamp": NOON + timedelta(seconds=place),
        }
        for topic, queue, offset, place in tuples
    ]
    return pa.RecordBatch.from_pylist(rows, ARROW_SCHEMA)


def told(runs: pa.Table | None) -> list[tuple[object, ...]] | None:
    if runs is None:
        return None
    rows = runs.to_pylist()
    return sorted((*list(row.values())[:6], (row["highest_store_timestamp"] - NOON).seconds) for row in rows)


def test_offsets_that_follow_each_other_are_one_run():
    rows = [("A", 0, 5, 1), ("A", 0, 6, 3), ("A", 1, 0, 2), ("B", 0, 6, 4), ("A", 0, 7, 5)]
    assert told(runs_of(records(*rows))) == [
        ("A", 0, 5, 8, 1, 5, 5),
        ("A", 1, 0, 1, 2, 2, 2),
        ("B", 0, 6, 7, 4, 4, 4),
    ]


def test_a_hole_and_a_place_that_goes_back_end_a_run():
    rows = [("A", 0, 0, 10), ("A", 0, 2, 20), ("A", 0, 3, 15), ("A", 0, 4, 30)]
    assert told(runs_of(records(*rows))) == [
        ("A", 0, 0, 1, 10, 10, 10),
        ("A", 0, 2, 3, 20, 20, 20),
        ("A", 0, 3, 5, 15, 30, 30),
    ]


def test_the_order_of_records_and_of_parts_does_not_count():
    rows = [("A", 0, offset, 10 * offset) for offset in range(9)]
    whole = told(runs_of(records(*rows)))
    assert whole == [("A", 0, 0, 9, 0, 80, 80)]
    parts = [runs_of(records(*rows[first::3])) for first in (2, 0, 1)]
    assert told(joined_runs(parts)) == whole


@pytest.mark.parametrize("second", [("A", 0, 3, 99), ("A", 0, 3, 3)])
def test_one_key_twice_is_told_within_a_part_and_across_parts(second):
    first = [("A", 0, offset, offset) for offset in range(5)]
    assert joined_runs([runs_of(records(*first, second))]) is None
    assert joined_runs([runs_of(records(*first)), runs_of(records(second))]) is None
    assert joined_runs([runs_of(records(*first)), runs_of(records(("A", 1, 3, 3), ("B", 0, 3, 4)))]) is not None


def test_negative_queues_and_none_at_all():
    assert told(runs_of(records(("A", -1, 0, 1), ("B", -1, 1, 2)))) == [
        ("A", -1, 0, 1, 1, 1, 1),
        ("B", -1, 1, 2, 2, 2, 2),
    ]
    assert joined_runs([]).num_rows == joined_runs([runs_of(records())]).num_rows == 0


def test_more_runs_than_may_be_held_are_told_by_nobody(monkeypatch):
    monkeypatch.setattr(queue_runs, "MOST_RUNS_OF_A_LANDING", 10)
    runs = Runs()
    for offset in range(0, 20, 2):
        runs.add(runs_of(records(("A", 0, offset, offset))))
    assert runs.joined().num_rows == 10
    runs.add(runs_of(records(("A", 0, 20, 20))))
    assert runs.joined() is None
    runs.add(runs_of(records(("A", 0, 1, 1))))
    assert runs.joined() is None


def test_runs_that_go_on_are_joined_while_they_come(monkeypatch):
    monkeypatch.setattr(queue_runs, "MOST_RUNS_OF_A_LANDING", 3)
    runs = Runs()
    for offset in range(50):
        runs.add(runs_of(records(("A", 0, offset, offset))))
    assert told(runs.joined()) == [("A", 0, 0, 50, 0, 49, 49)]


def test_runs_of_long_names_are_held_by_their_size(monkeypatch):
    monkeypatch.setattr(queue_runs, "MOST_RUN_BYTES", 1_000)
    runs = Runs()
    runs.add(runs_of(records(("A" * 500, 0, 0, 0))))
    assert runs.joined().num_rows == 1
    runs.add(runs_of(records(("B" * 500, 0, 0, 1))))
    assert runs.joined() is None
