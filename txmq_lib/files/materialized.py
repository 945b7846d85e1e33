"""What a few rows of input are, read by this process: no job, no Python worker, and no more memory than said."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

MATERIALIZED_BYTES: Final = 64 << 20
# What a name and its value take in rows of Spark beside their text.
PROPERTY_BYTES: Final = 64


def at_most(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, most_bytes: int = MATERIALIZED_BYTES
) -> pa.Table | None:
    """All batches as one table; null where they hold more than `most_bytes`: a few kB may unpack into GiBs."""
    kept: list[pa.RecordBatch] = []
    room = most_bytes
    for batch in batches:
        room -= bytes_in_spark(batch)
        if room < 0:
            return None
        kept.append(batch)
    # A table of no batches has columns without chunks, and Spark takes those for none at all.
    return pa.Table.from_batches(kept, schema) if kept else schema.empty_table()


def bytes_in_spark(rows: pa.RecordBatch) -> int:
    """What decoded records, or lines of them (`value`), hold as rows of Spark: where names are many, they take most."""
    names = 0
    if "properties" in rows.schema.names:
        ends = rows["properties"].offsets
        names = int(ends[-1].as_py() - ends[0].as_py())
    elif "value" in rows.schema.names:
        names = int(pc.sum(pc.count_substring(rows["value"], ":")).as_py() or 0)
    return int(rows.nbytes) + PROPERTY_BYTES * names
