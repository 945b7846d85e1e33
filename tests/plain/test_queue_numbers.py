"""Consumer queues are numbered as they come, and a number leads back to its queue."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from txmq_lib.names import OFFSET_KEY
from txmq_lib.pipeline.rollup import queue_numbers
from txmq_lib.pipeline.rollup.queue_numbers import Names, QueueNumbers, TooManyError

KINDS = [pa.string(), pa.string(), pa.string(), pa.int32()]


def batch(keys, *, is_coded):
    columns = [pa.array(column, kind) for column, kind in zip(zip(*keys, strict=True), KINDS, strict=True)]
    if is_coded:
        columns[:3] = [column.dictionary_encode() for column in columns[:3]]
    return pa.RecordBatch.from_arrays(columns, names=list(OFFSET_KEY))


def test_a_queue_has_one_number_in_all_batches_and_the_number_its_names():
    dice = random.Random(3)
    numbers, number_of = QueueNumbers(), {}
    for turn in range(20):
        keys = [
            (*(f"{name}{dice.randrange(4)}" for name in ("b", "g", "t")), dice.choice((-1, 0, 1, 2**31 - 1, -(2**31))))
            for _ in range(200)
        ]
        found = numbers.of(batch(keys, is_coded=turn % 2))
        for key, number in zip(keys, found.tolist(), strict=True):
            assert number_of.setdefault(key, number) == number
    assert sorted(number_of.values()) == list(range(len(numbers)))
    found = pa.table(numbers.keys(pa.array(number_of.values()).to_numpy())).to_pylist()
    assert [tuple(row.values()) for row in found] == list(number_of)


def test_as_many_names_are_numbered_as_fit_and_no_more(monkeypatch):
    monkeypatch.setattr(queue_numbers, "_NAME_BITS", 2)
    names = Names()
    assert names.of(pa.array(["a", "b", None, "c", "d", "a"])).tolist() == [0, 1, -1, 2, 3, 0]
    with pytest.raises(TooManyError):
        names.of(pa.array(["e"]))
