"""Lines of text files become files of a table, in the task that reads them; what is in doubt is handed back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from txmq_lib.files.line_reader import Stretch, read_lines
from txmq_lib.files.materialized import bytes_in_spark
from txmq_lib.pipeline.land.files.large_lines import made_small
from txmq_lib.pipeline.land.files.message_lines import new_shape, records_of
from txmq_lib.pipeline.land.records.queue_runs import runs_of
from txmq_lib.pipeline.land.records.record_files import Look, Written, written
from txmq_lib.pipeline.land.records.record_rows import Landing, Records


@dataclass(frozen=True)
class LineReading:
    """How lines are read and where their rows go: what every task is sent."""

    landing: Landing
    table_paths: Mapping[str, str]
    max_line_bytes: int
    most_suspect_bytes: int


def write_lines(stretches: Sequence[Stretch], reading: LineReading) -> Written:
    """Parse the lines of some stretches and write those beyond doubt; no more of them once suspects are many."""
    return written(_looks(stretches, reading), reading.table_paths, reading.most_suspect_bytes)


def _looks(stretches: Sequence[Stretch], reading: LineReading) -> Iterator[Look]:
    room, shape = reading.most_suspect_bytes, new_shape()
    for lines in made_small(read_lines(stretches, reading.max_line_bytes)):
        parsed, told_ends, places = records_of(lines, shape)
        records = Records(parsed, reading.landing)
        rows = records.rows()
        is_suspect = np.ones(lines.num_rows, bool)
        is_suspect[places[records.is_plain]] = False
        suspects = lines.filter(pa.array(is_suspect))
        is_plain = pa.array(records.is_plain)
        yield Look(rows, suspects, runs_of(parsed.filter(is_plain), told_ends.filter(is_plain)))
        room -= bytes_in_spark(suspects)
        if room < 0:
            return
