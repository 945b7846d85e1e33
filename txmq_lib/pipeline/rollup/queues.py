"""All consumer queues of a large roll-up: their numbers, where they stand, and the rows that they leave."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import EVENT_ORDER, OFFSET_KEY
from txmq_lib.pipeline.rollup.plain_queues import UNSEEN, PlainQueues, Reports
from txmq_lib.pipeline.rollup.queue_numbers import MOST_QUEUES, Names, QueueNumbers
from txmq_lib.pipeline.rollup.reset_queues import Moves, folded_resets
from txmq_lib.rules.offsets import LAST_REPORT
from txmq_lib.spark.arrays import Numbers

COLUMNS: Final = (*OFFSET_KEY, *EVENT_ORDER, "next_offset", "is_increase_only", "client_id", "origin")
# Reports of queues with sets, which are held together: some 0.2 KiB each.
MOST_RESET_ROWS: Final = 2_000_000
_TIME: Final = pa.timestamp("us", "UTC")


class Queues:
    """Filled by `know`, then by `fold` with all reports, then by `parted` with them again."""

    def __init__(self) -> None:
        self._numbers, self._clients = QueueNumbers(), Names()
        self._plain = PlainQueues(MOST_QUEUES)
        self._is_known, self._is_reset = np.zeros(MOST_QUEUES, bool), np.zeros(MOST_QUEUES, bool)
        self._resets: list[Reports] = []

    def know(self, state: DataFrame) -> None:
        """Go on from these rows of consumer_offset. TooManyError where they are more than MOST_QUEUES."""
        clients = F.array_distinct("recent_reports.client_id")
        # Elsewhere a report may still jump, be in conflict, or ask for the whole history.
        # A null has the size -1 where ANSI is off.
        has_clients = F.col("recent_reports").isNull() | (F.size(clients) > 1)
        is_other = F.col("rewound_from_offset").isNotNull() | has_clients
        seeds = state.select(
            *(*OFFSET_KEY, "next_offset", "updated_timestamp", "client_id", *LAST_REPORT),
            is_other.alias("is_other"),
            F.try_element_at(clients, F.lit(1)).alias("reporter"),
        )
        for rows in seeds.limit(MOST_QUEUES + 1).toArrow().to_batches():
            queues, plain, reporter = self._numbers.of(rows), self._plain, self._clients.of(rows["reporter"])
            self._is_known[queues] = True
            plain.is_other[queues] = rows["is_other"].to_numpy(zero_copy_only=False)
            plain.next_offset[queues] = rows["next_offset"].to_numpy()
            plain.moved_ts[queues] = _epoch_us(rows["updated_timestamp"])
            plain.moved_client[queues] = self._clients.of(rows["client_id"])
            plain.client[queues] = np.where(reporter < 0, UNSEEN, reporter)
            for known, name in zip(plain.last, LAST_REPORT, strict=True):
                known[queues] = _epoch_us(rows[name]) if name.endswith("timestamp") else rows[name].to_numpy()

    def fold(self, rows: pa.RecordBatch) -> int:
        """How many rows these reports are."""
        self._plain.add(self._reports(rows))
        return int(rows.num_rows)

    def count(self) -> tuple[int, int]:
        """How many reports, once all are folded, are for `parted` to keep, and how many are Spark's."""
        plain = self._plain
        is_reset = plain.is_other & ~plain.has_clients & ~self._is_known
        resets = int(plain.report_count[is_reset].sum())
        if resets <= MOST_RESET_ROWS:
            self._is_reset = is_reset
        else:
            resets = 0
        return resets, int(plain.report_count[plain.is_other].sum()) - resets

    def parted(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Those of `rows` that are Spark's; those of queues with sets are kept here."""
        queue = self._numbers.of(rows)
        if (is_reset := self._is_reset[queue]).any():
            self._resets.append(self._reports(rows.filter(pa.array(is_reset))))
        left = rows.filter(pa.array(self._plain.is_other[queue] & ~is_reset))
        return pa.RecordBatch.from_arrays([_plainly(left[name]) for name in COLUMNS], names=list(COLUMNS))

    def plain_rows(self) -> pa.Table:
        """The plain queues that have new reports (rules.offset_kinds.FOLDED_DDL)."""
        plain = self._plain
        found = np.flatnonzero(~plain.is_other & (plain.report_count > 0))
        last = [positions[found] for positions in plain.last]
        return pa.table(
            {
                **self._numbers.keys(found),
                "next_offset": plain.next_offset[found],
                "updated_timestamp": _times(plain.moved_ts[found]),
                "last_report": pa.StructArray.from_arrays([_times(last[0]), *last[1:]], names=list(EVENT_ORDER)),
                "client_id": self._clients.texts(plain.moved_client[found]),
                "report_count": plain.report_count[found],
                "ignored_count": plain.ignored_count[found],
                "only_client": self._clients.texts(plain.client[found]),
            }
        )

    def reset_rows(self) -> pa.Table:
        """The queues with sets whose reports were kept, likewise."""
        found = folded_resets(Reports(*(np.concatenate(columns) for columns in zip(*self._resets, strict=True))))
        self._resets.clear()
        reports, client = found.reports, self._clients.texts(found.reports.client[found.last])
        last = [positions[found.last] for positions in reports.positions]
        return pa.table(
            {
                **self._numbers.keys(reports.queue[found.last]),
                "next_offset": found.next_offset,
                "updated_timestamp": _times(reports.ts[found.moved]),
                "last_report": pa.StructArray.from_arrays([_times(last[0]), *last[1:]], names=list(EVENT_ORDER)),
                "client_id": client,
                "report_count": found.report_count,
                "ignored_count": found.ignored_count,
                "only_client": client,
                "reset_timestamp": _times(reports.ts[found.last_set], found.last_set < 0),
                "late_count": found.late_count,
                "rewind_count": found.rewind_count,
                "rewinds": self._moves(found.rewinds),
                "rewound_from_offset": pa.array(found.rewound_from, mask=~found.is_rewound),
                "jump_count": found.jump_count,
                "jumps": self._moves(found.jumps),
            }
        )

    def _reports(self, rows: pa.RecordBatch) -> Reports:
        return Reports(
            queue=self._numbers.of(rows),
            ts=_epoch_us(rows["ts"]),
            landed_pass=rows["landed_pass"].to_numpy(),
            landing_order=rows["landing_order"].to_numpy(),
            next_offset=rows["next_offset"].to_numpy(),
            is_set=~rows["is_increase_only"].to_numpy(zero_copy_only=False),
            client=self._clients.of(rows["client_id"]),
        )

    def _moves(self, moves: Moves) -> pa.ListArray:
        columns = {
            "ts": _times(moves.ts),
            "from_offset": pa.array(moves.from_offset),
            "to_offset": pa.array(moves.to_offset),
            "client_id": self._clients.texts(moves.client),
        }
        each = pa.StructArray.from_arrays(list(columns.values()), names=list(columns))
        return pa.ListArray.from_arrays(pa.array(moves.offsets, pa.int32()), each)


def _epoch_us(times: pa.Array) -> Numbers:
    return np.asarray(times.cast(_TIME).cast(pa.int64()).to_numpy())


def _times(epoch_us: Numbers, is_null: Numbers | None = None) -> pa.Array:
    return pa.array(epoch_us, _TIME, mask=is_null)


def _plainly(column: pa.Array) -> pa.Array:
    """Of one type, whichever writer's file it comes from."""
    if pa.types.is_dictionary(column.type):
        return pc.cast(column, pa.string())
    return column.cast(_TIME) if pa.types.is_timestamp(column.type) else column
