"""Ops made of bitmaps: one for each half, numbered densely in the order of their offsets, however they are cut."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from moment import NOW

from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.arrow_files import arrow_schema
from txmq_lib.pipeline.reconcile.in_arrow import op_files

SCHEMA = arrow_schema(table_spec("op_message"))


def bitmap(halves: dict[tuple[str, int], set[int]]) -> pa.Table:
    words: dict[tuple[str, int, int], int] = {}
    for (broker, queue), offsets in halves.items():
        for offset in offsets:
            place = (broker, queue, offset // 64)
            words[place] = words.get(place, 0) | 1 << offset % 64
    rows = [
        {"broker_name": b, "queue_id": q, "word": w, "mask": m - 2**64 * (m >> 63)} for (b, q, w), m in words.items()
    ]
    random.Random(1).shuffle(rows)
    types = [("broker_name", pa.string()), ("queue_id", pa.int32()), ("word", pa.int64()), ("mask", pa.int64())]
    return pa.Table.from_pylist(rows, pa.schema(types))


@pytest.mark.parametrize("in_a_file", [1, 100, 10**6])
def test_each_half_gets_one_op(monkeypatch, in_a_file):
    monkeypatch.setattr(op_files, "OPS_OF_A_TASK", in_a_file)
    dice = random.Random(2)
    halves = {
        ("b", 0): {*range(300), 63, 64, 10**6 + 63, 2**40},
        ("b", -2): {dice.randrange(10**7) for _ in range(200)},
        ("c", 0): {5},
    }
    ends = {("b", 0): 1_000, ("c", 0): 3}
    found: dict[tuple[str, int], list[tuple[int, int]]] = {}
    stretches = list(op_files._stretches(bitmap(halves), ends))
    for stretch in stretches:
        rows = op_files.op_rows(stretch, SCHEMA, now=NOW, pass_number=4).to_pylist()
        for row in rows:
            found.setdefault((row["broker_name"], row["queue_id"]), []).append(
                (row["queue_offset"], row["half_queue_offset"])
            )
    assert found == {
        queue: [(ends.get(queue, 0) + turn, offset) for turn, offset in enumerate(sorted(offsets))]
        for queue, offsets in halves.items()
    }
    assert len(stretches) == {1: len(stretches), 100: 7, 10**6: 3}[in_a_file]


def test_an_op_says_what_the_rule_says():
    (stretch,) = op_files._stretches(bitmap({("b", 0): {7}}), {})
    (row,) = op_files.op_rows(stretch, SCHEMA, now=NOW, pass_number=4).to_pylist()
    assert row == {
        "broker_name": "b", "queue_id": 0, "queue_offset": 0, "position": 0, "half_queue_offset": 7,
        "commit_log_offset": None, "store_timestamp": NOW, "tags": "d", "content_hash": None, "origin": "txmq",
        "landed_pass": 4,
    }  # fmt: skip


def test_nothing_named_is_no_op():
    assert list(op_files._stretches(bitmap({}), {})) == []
