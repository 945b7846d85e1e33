"""Consumer queues with sets, or whose reports came in no order, folded as numbers from all their reports at once. Pure.

They are of one client and new: nothing was rolled up of them before. What is left of such a queue is what
txmq_lib/rules/offsets.py finds in it (rewinds, jumps, late reports: R84, R102); tests hold both together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from txmq_lib.pipeline.rollup.plain_queues import Reports, running_greatest
from txmq_lib.rules.offsets import LISTED
from txmq_lib.spark.arrays import Numbers


class Moves(NamedTuple):
    """The newest rewinds or jumps of each queue, oldest first: where each queue's begin, and their columns."""

    offsets: Numbers
    ts: Numbers
    from_offset: Numbers
    to_offset: Numbers
    client: Numbers


class Resets(NamedTuple):
    """Columns of consumer_offset, a row per queue. `last` is the row of each queue's newest report in `reports`.

    reports      all of them, by queue in event order
    moved        the row of the report that last moved the queue
    last_set     the row of its newest set; -1 where it has none
    is_rewound   whether that last move was a rewind, from `rewound_from`
    """

    reports: Reports
    last: Numbers
    moved: Numbers
    last_set: Numbers
    is_rewound: Numbers
    rewound_from: Numbers
    next_offset: Numbers
    report_count: Numbers
    ignored_count: Numbers
    late_count: Numbers
    rewind_count: Numbers
    rewinds: Moves
    jump_count: Numbers
    jumps: Moves


def folded_resets(reports: Reports) -> Resets:
    """What is left of the queues of `reports`, of which there is at least one."""
    reports = _in_total_order(reports)
    rows = np.arange(len(reports.queue))
    is_first = np.r_[True, reports.queue[1:] != reports.queue[:-1]]
    begins = np.flatnonzero(is_first)
    lasts = np.r_[begins[1:], len(rows)] - 1
    # What counts is the greatest since the newest set.
    value = running_greatest(reports.next_offset, np.cumsum(is_first | reports.is_set) - 1)
    held = np.r_[value[:1], value[:-1]]
    has_moved = is_first | (value != held)
    is_rewind = reports.is_set & ~is_first & (value < held)
    move_so_far = np.maximum.accumulate(np.where(has_moved, rows, -1))
    move_before = np.r_[0, move_so_far[:-1]]
    is_open = ~is_first & is_rewind[move_before]
    is_jump = ~reports.is_set & has_moved & is_open & (reports.next_offset >= held[move_before])
    is_late = _are_late(reports, np.cumsum(is_first) - 1, lasts)
    moved = move_so_far[lasts]
    last_set = np.maximum.reduceat(np.where(reports.is_set, rows, -1), begins)

    def count(which: Numbers) -> Numbers:
        return np.asarray(np.add.reduceat(which, begins, dtype=np.int64))

    return Resets(
        reports=reports,
        last=lasts,
        moved=moved,
        last_set=last_set,
        is_rewound=is_rewind[moved],
        rewound_from=held[moved],
        next_offset=value[lasts],
        report_count=lasts - begins + 1,
        ignored_count=count(~has_moved | is_late),
        late_count=count(is_late),
        rewind_count=count(is_rewind),
        rewinds=_newest(reports, held, is_rewind, count(is_rewind)),
        jump_count=count(is_jump),
        jumps=_newest(reports, held, is_jump, count(is_jump)),
    )


def _in_total_order(reports: Reports) -> Reports:
    """As rules.offset_kinds.TOTAL_ORDER has it, each queue's reports together: a set first of those of one position."""
    by = (reports.next_offset, ~reports.is_set, reports.landing_order, reports.landed_pass, reports.ts, reports.queue)
    rows = np.lexsort(by)
    return Reports(*(column[rows] for column in reports))


def _are_late(reports: Reports, stretch: Numbers, lasts: Numbers) -> Numbers:
    """Which reports landed after a set that is ordered after them."""
    landing = _ranks(reports.landed_pass, reports.landing_order)
    never = len(landing)
    of_set = stretch * (never + 1) + np.where(reports.is_set, landing, never)
    # Looking back from the end, an earlier stretch has smaller numbers throughout.
    earliest = np.minimum.accumulate(of_set[::-1])[::-1] - stretch * (never + 1)
    after = np.r_[earliest[1:], never]
    after[lasts] = never
    return np.asarray(after < landing)


def _ranks(*columns: Numbers) -> Numbers:
    """The rank of each row among all, by the first column that differs; equal rows have one."""
    rows = np.lexsort(columns[::-1])
    differs = [column[rows][1:] != column[rows][:-1] for column in columns]
    ranks = np.empty(len(rows), np.int64)
    ranks[rows] = np.r_[0, np.cumsum(np.logical_or.reduce(differs))]
    return ranks


def _newest(reports: Reports, held: Numbers, which: Numbers, counts: Numbers) -> Moves:
    rows = np.flatnonzero(which)
    ends = np.cumsum(counts)
    rows = rows[np.repeat(ends, counts) - np.arange(len(rows)) <= LISTED]
    offsets = np.r_[0, np.cumsum(np.minimum(counts, LISTED))]
    return Moves(offsets, reports.ts[rows], held[rows], reports.next_offset[rows], reports.client[rows])
