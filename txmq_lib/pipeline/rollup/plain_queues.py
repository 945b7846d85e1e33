"""Plain consumer queues folded as numbers: their reports come in order, are of one client, and none is a set. Pure.

What is left of such a queue is what txmq_lib/rules/offsets.py finds in it; tests hold both together.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from txmq_lib.spark.arrays import Numbers

# Clients are numbers from 0 on.
NOBODY, UNSEEN = -1, -2
_LEAST: Final = np.iinfo(np.int64).min


class Reports(NamedTuple):
    """Reports as columns: the number of the queue, the position in event order (ts in epoch µs), and what is reported.

    client  the number of the client, NOBODY where none is named
    """

    queue: Numbers
    ts: Numbers
    landed_pass: Numbers
    landing_order: Numbers
    next_offset: Numbers
    is_set: Numbers
    client: Numbers

    @property
    def positions(self) -> tuple[Numbers, Numbers, Numbers]:
        """Where each is in event order (names.EVENT_ORDER)."""
        return self.ts, self.landed_pass, self.landing_order


class PlainQueues:
    """Where each queue stands, by its number; filled with one batch of reports after the other.

    is_other       not plain: has_clients, or a set, or reports that came out of event order
    has_clients    several clients, or a client and nobody
    next_offset    the greatest reported so far (R84)
    moved_ts       when it was first reported; moved_client by whom
    last           ts, landed_pass and landing_order of the newest report
    client         who reports
    report_count, ignored_count   reports of this run; of them, those that moved nothing
    """

    def __init__(self, most: int) -> None:
        # Pages that are never touched are never taken.
        self.is_other, self.has_clients = np.zeros(most, bool), np.zeros(most, bool)
        self.next_offset = np.full(most, _LEAST)
        self.moved_ts = np.zeros(most, np.int64)
        self.moved_client = np.full(most, NOBODY)
        self.last = tuple(np.full(most, _LEAST) for _ in range(3))
        self.client = np.full(most, UNSEEN)
        self.report_count = np.zeros(most, np.int64)
        self.ignored_count = np.zeros(most, np.int64)

    def add(self, reports: Reports) -> None:
        """Fold one batch: of a plain queue each batch is ordered after the one before."""
        if not len(reports.queue):
            return
        reports = _in_event_order(reports)
        begins = np.flatnonzero(np.r_[True, reports.queue[1:] != reports.queue[:-1]])
        lasts = np.r_[begins[1:], len(reports.queue)] - 1
        queues = reports.queue[begins]
        self._judge(reports, queues, begins)
        for known, positions in zip(self.last, reports.positions, strict=True):
            known[queues] = positions[lasts]
        sizes = lasts - begins + 1
        held = _held_before(reports.next_offset, begins, sizes, self.next_offset[queues])
        has_moved = reports.next_offset > held
        last_move = np.maximum.reduceat(np.where(has_moved, np.arange(len(has_moved)), -1), begins)
        moved, at = queues[last_move >= 0], last_move[last_move >= 0]
        self.next_offset[moved] = reports.next_offset[at]
        self.moved_ts[moved] = reports.ts[at]
        self.moved_client[moved] = reports.client[at]
        self.report_count[queues] += sizes
        self.ignored_count[queues] += np.add.reduceat(~has_moved, begins, dtype=np.int64)

    def _judge(self, reports: Reports, queues: Numbers, begins: Numbers) -> None:
        """Note which of `queues`, whose reports begin at `begins`, are not plain."""
        first = [positions[begins] for positions in reports.positions]
        is_late = ~_is_after(first, [known[queues] for known in self.last])
        least, greatest = (pick.reduceat(reports.client, begins) for pick in (np.minimum, np.maximum))
        known = self.client[queues]
        has_clients = (least != greatest) | ((known != UNSEEN) & (known != greatest))
        has_sets = np.logical_or.reduceat(reports.is_set, begins)
        self.has_clients[queues] |= has_clients
        self.is_other[queues] |= is_late | has_clients | has_sets
        self.client[queues] = greatest


def _in_event_order(reports: Reports) -> Reports:
    """`reports` by queue, each queue's in event order, reports of one position by what they say."""
    # Rows mostly come in order: sorting a number that ends in the row's is the cheapest that keeps it.
    rows = (reports.queue.astype(np.int64) << 32) | np.arange(len(reports.queue))
    rows.sort()
    rows &= (1 << 32) - 1
    ordered = Reports(*(column[rows] for column in reports))
    by = [*ordered.positions, ordered.next_offset]
    is_back = _is_after([column[:-1] for column in by], [column[1:] for column in by])
    if not (is_back & (ordered.queue[1:] == ordered.queue[:-1])).any():
        return ordered
    rows = np.lexsort((*by[::-1], ordered.queue))
    return Reports(*(column[rows] for column in ordered))


def _is_after(positions: list[Numbers], others: list[Numbers]) -> Numbers:
    """Where a position comes after the other: by the first column that differs."""
    is_after = np.zeros(len(positions[0]), bool)
    for position, other in zip(reversed(positions), reversed(others), strict=True):
        is_after = (position > other) | ((position == other) & is_after)
    return is_after


def _held_before(offsets: Numbers, begins: Numbers, sizes: Numbers, known: Numbers) -> Numbers:
    """The greatest of `known` (one a stretch) and of what comes before each of `offsets` in its stretch."""
    stretch = np.repeat(np.arange(len(begins)), sizes)
    before = np.r_[_LEAST, running_greatest(offsets, stretch)[:-1]]
    before[begins] = _LEAST
    return np.maximum(before, known[stretch])


def running_greatest(values: Numbers, stretch: Numbers) -> Numbers:
    """The greatest of `values` so far in each stretch; stretches are numbered in order."""
    levels, ranks = np.unique(values, return_inverse=True)
    # A later stretch has greater numbers throughout, so one running greatest does for all.
    return np.asarray(levels[np.maximum.accumulate(stretch * len(levels) + ranks) - stretch * len(levels)])
