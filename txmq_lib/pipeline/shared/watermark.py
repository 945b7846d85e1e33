"""How far each source has landed: the rows of landing_frontier, moved forward and never back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.arrow_files import arrow_schema
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.shared.known_runs import rows_without_runs, with_found_runs
from txmq_lib.rules.frontier import WHOLE_QUEUE_ID
from txmq_lib.rules.reach import Change, QueueKey, Reach, advanced
from txmq_lib.rules.run_lists import Run
from txmq_lib.rules.runs import QUEUE
from txmq_lib.spark.local_frame import in_arrow, materialized

TABLE = "landing_frontier"
MOVES_ON = f"s.next_offset >= t.next_offset or s.queue_id = {WHOLE_QUEUE_ID}"


class Frontier:
    """landing_frontier as the plan of a pass saw it, read once."""

    def __init__(self, current: Pass) -> None:
        self._current = current

    def rows(self, is_wanted: Callable[[QueueKey], bool]) -> list[Reach]:
        """The rows of the queues that are wanted, each with its runs."""
        with self._current.timed("frontier"):
            return self._rows(is_wanted)

    def move(self, reports: Sequence[Reach]) -> None:
        """Move it by reports, one for each queue."""
        current = self._current
        with current.timed("frontier"):
            queues = {report.key for report in reports}
            known = self._rows(lambda key: key in queues or key[2] == WHOLE_QUEUE_ID)
            changed = as_rows(current, advanced(known, reports))
        # Another job may have moved the row since the plan was made: never back.
        current.upsert(TABLE, changed, step="frontier", only_if=MOVES_ON)

    def _rows(self, is_wanted: Callable[[QueueKey], bool]) -> list[Reach]:
        places = pa.array([place for place, key in enumerate(self._keys) if is_wanted(key)], pa.int64())
        return reaches(self._table.take(places))

    @cached_property
    def _keys(self) -> list[QueueKey]:
        return list(zip(*[self._table[name].to_pylist() for name in QUEUE], strict=True))

    @cached_property
    def _table(self) -> pa.Table:
        current = self._current
        table = in_arrow(current.read_once(TABLE))
        is_old = pc.and_(pc.not_equal(table["queue_id"], WHOLE_QUEUE_ID), table["runs"].is_null())
        old = rows_without_runs(current) if pc.any(is_old).as_py() else None
        if old is None:
            return table
        old = materialized(old)
        current.upsert(TABLE, old, step="runs", only_if="t.runs is null", count=in_arrow(old).num_rows)
        return with_found_runs(current, old).toArrow()


def reaches(rows: pa.Table | DataFrame) -> list[Reach]:
    """Rows of landing_frontier, or reports of them, one by one; columns that are missing tell nothing."""
    table = rows if isinstance(rows, pa.Table) else in_arrow(rows)
    names = [name for name in table.column_names if name in Reach._fields]
    columns = [_plain(name, table[name]) for name in names]
    return [Reach(**dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True)]


def as_rows(current: Pass, rows: Iterable[Reach]) -> pa.Table:
    """Rows of landing_frontier that this pass writes."""
    columns = dict(zip(Reach._fields, zip(*rows, strict=True), strict=False)) or dict.fromkeys(Reach._fields, ())
    columns["pass_number"] = (current.number,) * len(columns["topic"])
    schema = arrow_schema(table_spec(TABLE))
    return pa.table([_column(columns[field.name], field.type) for field in schema], schema)


def _plain(name: str, column: pa.ChunkedArray) -> list[Any]:
    """The values of a column: times as numbers, runs and changes as tuples."""
    if pa.types.is_timestamp(column.type):
        return list(column.cast(pa.int64()).to_pylist())
    if (of := {"runs": Run, "changes": Change}.get(name)) is None:
        return list(column.to_pylist())
    return [None if each is None else tuple(of(**one) for one in each) for each in column.to_pylist()]


def _column(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    return pa.array(values, pa.int64()).cast(type_) if pa.types.is_timestamp(type_) else pa.array(values, type_)
