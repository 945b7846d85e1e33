"""The lines of landing files, as rows: read by this process where they are few, else by Spark's tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.files.line_reader import PLACE_BITS
from txmq_lib.names import FILE_UNREADABLE
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.land.files.listing import LandingFile
from txmq_lib.pipeline.land.files.reading import json_lines, materialized_lines

UNREAD = "unread"  # a count of the pass


class Lines(NamedTuple):
    """Rows of json_lines, and the same as they were read here where they were."""

    rows: DataFrame
    materialized: pa.Table | None


def lines(current: Pass, files: Sequence[LandingFile]) -> Lines:
    """The lines of `files`. A pass whose files unpack into much is small no longer."""
    max_body_bytes = current.settings.land.max_body_bytes
    materialized = current.read_here(lambda: materialized_lines(files, max_body_bytes))
    return Lines(json_lines(current.warehouse.spark, files, max_body_bytes, materialized), materialized)


def unread(current: Pass, files: Sequence[LandingFile], lines_read: Lines, judged: DataFrame) -> list[LandingFile]:
    """The files that could not be opened or read to their ends, counted: nobody may think that they have landed.

    judged  the rows of `lines_read` once they are at hand; a file whose content is at fault has been read
    """
    if lines_read.materialized is not None:
        is_unread = pc.equal(lines_read.materialized["reason"], FILE_UNREADABLE)
        positions = lines_read.materialized.filter(is_unread)["position"].to_pylist()
    else:
        rows = judged.where(F.col("reason") == FILE_UNREADABLE).select("position").collect()
        positions = [row["position"] for row in rows]
    if positions:
        current.counts[UNREAD] = len(positions)
    return [files[position >> PLACE_BITS] for position in sorted(positions)]
