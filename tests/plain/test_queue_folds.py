"""Consumer queues folded as numbers leave what the model says, report by report, at once or batch by batch."""

from __future__ import annotations

import random

import numpy as np
from offset_histories import random_history
from offset_model import Report, model

from txmq_lib.pipeline.rollup.plain_queues import NOBODY, PlainQueues, Reports
from txmq_lib.pipeline.rollup.reset_queues import LISTED, folded_resets

CLIENTS = {None: NOBODY, "A": 0, "B": 1}


def columns_of(histories: dict[int, list[Report]]) -> Reports:
    rows = [
        (queue, event.second, event.batch, event.place, event.offset, not event.is_increase_only, CLIENTS[event.client])
        for queue, history in histories.items()
        for event in history
    ]
    kinds = (*[np.int64] * 5, bool, np.int64)
    return Reports(*(np.array(column, kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)))


def listed(moves, number):
    within = slice(moves.offsets[number], moves.offsets[number + 1])
    return list(zip(moves.ts[within], moves.from_offset[within], moves.to_offset[within], strict=True))


def test_queues_with_sets_late_reports_and_jumps_end_as_in_the_model():
    dice = random.Random(102)
    histories = {number: random_history(dice) for number in range(20_000)}
    # So many rewinds that not all are listed.
    histories[20_000] = [Report(second, second % 2, False, None, 0, second) for second in range(3 * LISTED)]
    reports = columns_of(histories)
    shuffled = np.random.default_rng(7).permutation(len(reports.queue))
    found = folded_resets(Reports(*(column[shuffled] for column in reports)))
    assert list(found.reports.queue[found.last]) == list(histories)
    for number, history in histories.items():
        expected = model(history)
        assert found.next_offset[number] == expected.next_offset
        assert found.report_count[number] == len(history)
        assert (found.ignored_count[number], found.late_count[number]) == (expected.ignored, expected.late)
        assert (found.rewind_count[number], found.jump_count[number]) == (len(expected.rewinds), len(expected.jumps))
        assert listed(found.rewinds, number) == expected.rewinds[-LISTED:]
        assert listed(found.jumps, number) == expected.jumps[-LISTED:]


def test_a_set_comes_before_other_reports_of_its_place():
    found = folded_resets(columns_of({0: [Report(1, 3, True, None, 0, 0), Report(1, 5, False, None, 0, 0)]}))
    assert (found.next_offset[0], found.ignored_count[0]) == (5, 1)


def test_plain_queues_end_as_in_the_model_batch_by_batch_and_others_are_told():
    dice = random.Random(84)
    histories = {number: random_history(dice) for number in range(20_000)}
    queues = PlainQueues(len(histories))
    for batch in range(3):
        of_batch = {queue: [event for event in history if event.batch == batch] for queue, history in histories.items()}
        reports = columns_of(of_batch)
        shuffled = np.random.default_rng(batch).permutation(len(reports.queue))
        queues.add(Reports(*(column[shuffled] for column in reports)))
    plain = 0
    for number, history in histories.items():
        places = [(event.second, event.batch, event.place) for event in history]
        has_sets = not all(event.is_increase_only for event in history)
        has_clients = len({event.client for event in history}) > 1
        by_batch = sorted(history, key=lambda event: event.batch)
        batches = [[event for event in by_batch if event.batch == batch] for batch in range(3)]
        lasts = [max(place) for place in ([(e.second, e.batch, e.place) for e in each] for each in batches) if place]
        firsts = [min(place) for place in ([(e.second, e.batch, e.place) for e in each] for each in batches) if place]
        is_back = any(first <= last for first, last in zip(firsts[1:], lasts, strict=False))
        assert queues.is_other[number] == (has_sets or has_clients or is_back)
        assert queues.has_clients[number] == has_clients
        if queues.is_other[number]:
            continue
        expected = model(history)
        plain += 1
        assert queues.next_offset[number] == expected.next_offset
        assert (queues.report_count[number], queues.ignored_count[number]) == (len(history), expected.ignored)
        assert tuple(last[number] for last in queues.last) == max(places)
        first = min(event.second for event in history if event.offset == expected.next_offset)
        assert queues.moved_ts[number] == first
    assert plain > 3_000
