"""What a few rows of input are, read by this process: no job, no Python worker, and no more memory than said."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

MATERIALIZED_BYTES: Final = 64 << 20


def at_most(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, most_bytes: int = MATERIALIZED_BYTES
) -> pa.Table | None:
    """All batches as one table; null where they hold more than `most_bytes`: a few kB may unpack into GiBs."""
    kept: list[pa.RecordBatch] = []
    room = most_bytes
    for batch in batches:
        room -= batch.nbytes
        if room < 0:
            return None
        kept.append(batch)
    # A table of no batches has columns without chunks, and Spark takes those for none at all.
    return pa.Table.from_batches(kept, schema) if kept else schema.empty_table()
