"""Ops of decided halves, as files of op_message made here of bitmaps of their offsets (R26): nothing is sorted.

The rows are those that txmq_lib/rules/effects.py makes of frames.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.arrow_files import TableFile, WrittenFile, arrow_schema
from txmq_lib.names import OP_TAG, OP_TOPIC, ORIGIN_TXMQ
from txmq_lib.passes.current import Pass
from txmq_lib.passes.frames import MOST_NUMBERS_SENT
from txmq_lib.rules.effects import OPS_OF_A_TASK, QUEUE
from txmq_lib.rules.offset_bitmap import offset_bitmap
from txmq_lib.spark.arrays import Numbers

OPS: Final = "op_message"
BITS: Final = 64


def op_files(current: Pass, named: DataFrame, queue_ends: DataFrame) -> list[WrittenFile] | None:
    """Files with an op for each half of `named`, numbered from `queue_ends`; None where Spark has to make them.

    named  as rules.effects.op_rows takes it
    """
    path = current.warehouse.local_path(OPS)
    if path is None:
        return None
    if not current.is_own and current.has_landed(OPS, OPS):
        return []
    with current.timed(OPS):
        bitmap = offset_bitmap(named.withColumnRenamed("half_queue_offset", "queue_offset"))
        words = bitmap.limit(MOST_NUMBERS_SENT + 1).toArrow()
        if words.num_rows > MOST_NUMBERS_SENT:
            return None
        stretches = list(_stretches(words, _next_offsets(queue_ends)))
        write = partial(_written, path, current.now, current.number)
        with ThreadPoolExecutor(current.warehouse.spark.sparkContext.defaultParallelism) as pool:
            return [file for files in pool.map(write, stretches) for file in files]


@dataclass(frozen=True)
class DecidedHalves:
    """Halves of a queue by words of 64 offsets, ascending, and the offset that the op of the first one gets."""

    broker_name: str
    queue_id: int
    words: Numbers
    masks: Numbers
    start: int


def op_rows(halves: DecidedHalves, schema: pa.Schema, *, now: datetime, pass_number: int) -> pa.RecordBatch:
    """Rows of op_message (`schema`), one for each of `halves`, in the order of their offsets."""
    bits = np.unpackbits(halves.masks.view(np.uint8).reshape(-1, BITS // 8), axis=1, bitorder="little")
    word, bit = np.nonzero(bits)
    made = {
        "broker_name": halves.broker_name,
        "queue_id": halves.queue_id,
        "queue_offset": pa.array(np.arange(halves.start, halves.start + len(word))),
        "position": 0,
        "half_queue_offset": pa.array(halves.words[word] * BITS + bit),
        "commit_log_offset": None,
        "store_timestamp": now,
        "tags": OP_TAG,
        "content_hash": None,
        "origin": ORIGIN_TXMQ,
        "landed_pass": pass_number,
    }
    columns = [
        made[field.name]
        if isinstance(made[field.name], pa.Array)
        else pa.repeat(pa.scalar(made[field.name], field.type), len(word))
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _next_offsets(queue_ends: DataFrame) -> dict[tuple[str, int], int]:
    rows = queue_ends.where(F.col("topic") == OP_TOPIC).select(*QUEUE, "next_offset").collect()
    return {(row["broker_name"], row["queue_id"]): row["next_offset"] for row in rows}


def _stretches(words: pa.Table, next_offsets: dict[tuple[str, int], int]) -> Iterator[DecidedHalves]:
    """All of `words` (broker_name, queue_id, word, mask), cut into so many halves as a file gets."""
    by_place = words.sort_by([("broker_name", "ascending"), ("queue_id", "ascending"), ("word", "ascending")])
    queues = by_place.group_by(["broker_name", "queue_id"], use_threads=False).aggregate([("word", "count")])
    begin = 0
    for queue in queues.to_pylist():
        part = by_place.slice(begin, queue["word_count"])
        begin += queue["word_count"]
        numbers, masks = part["word"].to_numpy(), part["mask"].to_numpy()
        before = np.concatenate(([0], np.cumsum(np.bitwise_count(masks.view(np.uint64)), dtype=np.int64)))
        start = next_offsets.get((queue["broker_name"], queue["queue_id"])) or 0
        cuts = np.searchsorted(before, np.arange(0, before[-1], OPS_OF_A_TASK))
        for low, high in pairwise([*np.unique(cuts), len(numbers)]):
            yield DecidedHalves(
                queue["broker_name"], queue["queue_id"], numbers[low:high], masks[low:high], start + int(before[low])
            )


def _written(path: str, now: datetime, pass_number: int, halves: DecidedHalves) -> list[WrittenFile]:
    spec = table_spec(OPS)
    with TableFile(path, spec) as file:
        file.write(op_rows(halves, arrow_schema(spec), now=now, pass_number=pass_number))
        return file.finish()
