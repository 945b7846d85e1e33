"""Reports of a large roll-up read where they lie: queues of one client are folded here, others by Spark.

Files are read a batch at a time: to fold plain queues (plain_queues.py), then once more for those with sets
(reset_queues.py), and to lay down the reports that are left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from operator import itemgetter
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from txmq_lib.delta.row_groups import RowGroups, stretches
from txmq_lib.names import OFFSET_KEY
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.rollup.queue_numbers import TooManyError
from txmq_lib.pipeline.rollup.queues import COLUMNS, Queues
from txmq_lib.rules.offset_kinds import FOLDED_DDL
from txmq_lib.spark.glob_escape import pattern_of

REPORTS, OFFSETS = "consumer_offset_commit", "consumer_offset"
TEXTS: Final = (*OFFSET_KEY[:3], "client_id", "origin")
BATCH_ROWS: Final = 1 << 20
ROWS_IN_A_GROUP: Final = 1 << 17


class Folded(NamedTuple):
    """A row per queue that is folded (FOLDED_DDL); the reports (COLUMNS) of all others, None where there are none."""

    rows: DataFrame
    others: DataFrame | None


def folded_by_files(current: Pass, state: DataFrame) -> Folded | None:
    """All new reports, most of them folded onto `state`. None where Spark has to, or does it sooner."""
    groups = _groups_in_order(current.new_files(REPORTS))
    if not groups:
        return None
    queues = Queues()
    try:
        queues.know(state)
        rows = sum(queues.fold(batch) for batch in _batches(current, groups))
    except TooManyError:
        return None
    resets, left = queues.count()
    if left > rows / 2:
        return None
    folded, others = current.directory("queues-"), current.directory("reports-")
    pq.write_table(queues.plain_rows(), f"{folded}/plain.parquet", row_group_size=ROWS_IN_A_GROUP)
    if resets or left:
        _lay_down(f"{others}/others.parquet", (queues.parted(batch) for batch in _batches(current, groups)))
    if resets:
        pq.write_table(queues.reset_rows(), f"{folded}/resets.parquet", row_group_size=ROWS_IN_A_GROUP)
    spark, schema = current.warehouse.spark, current.read(REPORTS).select(*COLUMNS).schema
    return Folded(
        spark.read.schema(FOLDED_DDL).parquet(pattern_of(folded)),
        spark.read.schema(schema).parquet(pattern_of(others)) if left else None,
    )


def _groups_in_order(files: Sequence[str] | None) -> list[RowGroups] | None:
    """Row groups of the files as they landed, so that the reports of most queues come in order."""
    found: list[tuple[tuple[int, int, int], RowGroups]] = []
    for file in files if files is not None else ():
        by_pass, by_place = stretches(file, "landed_pass", COLUMNS), stretches(file, "landing_order", COLUMNS)
        if by_pass is None or by_place is None:
            return None
        found += [
            ((passes.least, passes.greatest, places.least), passes.group)
            for passes, places in zip(by_pass, by_place, strict=True)
        ]
    return [group for _, group in sorted(found, key=itemgetter(0))]


def _batches(current: Pass, groups: Sequence[RowGroups]) -> Iterator[pa.RecordBatch]:
    """Their rows; a batch is read while the one before is worked on. A service may leave off between them."""
    rows = chain.from_iterable(group.batches(COLUMNS, most_rows=BATCH_ROWS, coded=TEXTS) for group in groups)
    with ThreadPoolExecutor(1, thread_name_prefix="reports") as pool:
        following = pool.submit(next, rows, None)
        while (batch := following.result()) is not None:
            following = pool.submit(next, rows, None)
            yield batch
            current.warehouse.on_part(OFFSETS, OFFSETS)
    # Arrow keeps what it was given; the JVM beside may need it.
    pa.default_memory_pool().release_unused()


def _lay_down(path: str, batches: Iterable[pa.RecordBatch]) -> None:
    writer = None
    try:
        for batch in batches:
            writer = writer or pq.ParquetWriter(path, batch.schema)
            if batch.num_rows:
                writer.write_batch(batch, row_group_size=ROWS_IN_A_GROUP)
    finally:
        if writer is not None:
            writer.close()
