"""Which queue offsets a landing holds, as runs in Arrow: a few rows for a log, whatever its length.

A run is what rules.runs says of it: consecutive queue offsets whose physical offsets ascend. Where no two runs of a
queue overlap, no two records of the landing have one key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txmq_lib.spark.arrays import Numbers

RUNS_SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("queue_id", pa.int32()),
        ("first_offset", pa.int64()),
        ("end_offset", pa.int64()),
        ("first_commit_log_offset", pa.int64()),
        ("last_commit_log_offset", pa.int64()),
        ("highest_store_timestamp", pa.timestamp("us", "UTC")),
        # Where the queue ended as reading clients read its rows: the furthest, the furthest told with the last row, the
        # nearest; null where none told any.
        ("told_end", pa.int64()),
        ("file_end", pa.int64()),
        ("first_told_end", pa.int64()),
    ]
)
_NEVER: Final = np.iinfo(np.int64).max
# Of one task, and of one landing. A log in which more begin is judged record by record.
MOST_RUNS_OF_A_LANDING: Final = 100_000
MOST_RUN_BYTES: Final = 16 << 20


class Runs:
    """Runs that come bit by bit, few of them held at once."""

    def __init__(self) -> None:
        self._parts: list[pa.Table] | None = []
        self._rows = self._bytes = 0

    def add(self, part: pa.Table) -> None:
        """More runs, in no order."""
        if self._parts is not None:
            self._parts.append(part)
            self._rows, self._bytes = self._rows + part.num_rows, self._bytes + part.nbytes
            if self._rows > MOST_RUNS_OF_A_LANDING or self._bytes > MOST_RUN_BYTES:
                joined = self.joined()
                self._parts = None
                if joined is not None and joined.nbytes <= MOST_RUN_BYTES:
                    self._parts, self._rows, self._bytes = [joined], joined.num_rows, joined.nbytes

    def joined(self) -> pa.Table | None:
        """All of them; null where two of a queue overlap, or where they are too many to tell."""
        return None if self._parts is None else joined_runs(self._parts)


def runs_of(records: pa.RecordBatch, told_ends: pa.Array | None = None) -> pa.Table:
    """The runs of good records (columns of message_batch.ARROW_SCHEMA), which are in no order.

    told_ends  where each one's queue ended as a reading client read it
    """
    offsets = records["queue_offset"].to_numpy()
    places, times = records["commit_log_offset"], records["store_timestamp"]
    ends = pa.nulls(len(offsets), pa.int64()) if told_ends is None else told_ends
    last = pc.if_else(pc.equal(ends, pa.array(offsets + 1)), ends, None)
    columns = [records["topic"], records["queue_id"], offsets, offsets + 1, places, places, times, ends, last, ends]
    each = pa.table(columns, schema=RUNS_SCHEMA)
    joined = _joined(each, _in_order(each, "first_offset"))
    return each if joined is None else joined


def joined_runs(parts: Sequence[pa.Table]) -> pa.Table | None:
    """The fewest runs that say the same, by queue and ascending; null where two overlap, or there are too many."""
    runs = pa.concat_tables(parts) if parts else RUNS_SCHEMA.empty_table()
    joined = _joined(runs, _in_order(runs, "first_offset", "end_offset"))
    return None if joined is None or joined.num_rows > MOST_RUNS_OF_A_LANDING else joined


def _in_order(runs: pa.Table, *columns: str) -> tuple[Numbers, Numbers]:
    """The places of runs queue by queue and in the order of `columns`, and the number of each one's queue."""
    topics = runs["topic"].combine_chunks().dictionary_encode()
    codes = topics.indices.to_numpy().astype(np.int64)
    queues = (codes << 32) + (runs["queue_id"].to_numpy().astype(np.int64) & 0xFFFFFFFF)
    order = np.lexsort((*[runs[name].to_numpy() for name in reversed(columns)], queues))
    return order, queues[order]


def _joined(runs: pa.Table, ordered: tuple[Numbers, Numbers]) -> pa.Table | None:
    order, queues = ordered
    if not len(order):
        return runs
    first, end, first_place, last_place = (runs[name].to_numpy()[order] for name in RUNS_SCHEMA.names[2:6])
    is_same_queue = queues[1:] == queues[:-1]
    if (is_same_queue & (first[1:] < end[:-1])).any():
        return None
    goes_on = is_same_queue & (first[1:] == end[:-1]) & (first_place[1:] > last_place[:-1])
    begins = np.flatnonzero(np.concatenate([[True], ~goes_on]))
    ends = np.append(begins[1:], len(order)) - 1
    heads = runs.take(pa.array(order[begins]))

    def most(name: str, kind: pa.DataType) -> pa.Array:
        numbers = runs[name].cast(pa.int64()).fill_null(-1).to_numpy()[order]
        found = np.maximum.reduceat(numbers, begins)
        return pa.array(found, mask=found < 0).cast(kind)

    nearest = np.minimum.reduceat(runs["first_told_end"].fill_null(_NEVER).to_numpy()[order], begins)
    return pa.table(
        [
            *heads.select(["topic", "queue_id", "first_offset"]).columns,
            end[ends],
            heads["first_commit_log_offset"],
            last_place[ends],
            *[most(name, RUNS_SCHEMA.field(name).type) for name in RUNS_SCHEMA.names[6:9]],
            pa.array(nearest, mask=nearest == _NEVER),
        ],
        schema=RUNS_SCHEMA,
    )
