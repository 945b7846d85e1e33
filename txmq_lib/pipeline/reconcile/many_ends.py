"""Ends of a large pass: most are judged in Arrow (judging.py), the rest by Spark; one commit has both."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.arrow_files import TableFile, WrittenFile, stored_schema
from txmq_lib.delta.conform import conform, struct_type
from txmq_lib.passes.current import Pass
from txmq_lib.passes.frames import MOST_KEYS_SENT, MOST_NUMBERS_SENT
from txmq_lib.pipeline.reconcile import inputs
from txmq_lib.pipeline.reconcile.in_arrow import judging
from txmq_lib.pipeline.reconcile.in_arrow.judging import ENDS, NOT_WAITING, OUTCOMES
from txmq_lib.pipeline.reconcile.in_arrow.named_halves import COMMIT_LOG_OFFSET
from txmq_lib.pipeline.reconcile.inputs import Ends
from txmq_lib.rules.end import END_COLUMNS, HALF_PLACE
from txmq_lib.spark.arrays import Numbers
from txmq_lib.spark.glob_escape import pattern_of

ROWS_AT_ONCE: Final = 1 << 14


class InArrow(NamedTuple):
    """Files of end_outcome with the rows of most ends, named by no commit yet; and the ends that Spark is to judge."""

    files: list[WrittenFile]
    for_spark: Ends | None


def judged_into_files(current: Pass, ends: Ends) -> InArrow | None:
    """Most of `ends`, judged from file to file; None where Spark has to judge all of them."""
    is_written = not current.is_own and current.has_landed(OUTCOMES, OUTCOMES)  # by another process
    if current.is_dry or is_written or current.warehouse.local_path(OUTCOMES) is None:
        return None
    with current.timed("judge"):
        waits = inputs.has_waiting_ends(current)
        not_plain = _not_plain(current, ends, waits=waits)
        # Whichever broker's: one more end that Spark judges costs little.
        refused = _values(ends.quarantined_places.select(COMMIT_LOG_OFFSET), COMMIT_LOG_OFFSET, most=MOST_KEYS_SENT)
        if not_plain is None or refused is None:
            return None
        found = judging.judged_by_files(current, not_plain=not_plain, refused=refused)
        if found is None:
            return None
        return InArrow(found.files, _left(current, found.directory_left, waits=waits))


def files_of(current: Pass, outcomes: DataFrame) -> list[WrittenFile]:
    """Files of end_outcome with `outcomes`, judged now: by way of this machine's disk, as they may be many."""
    spec, path = table_spec(OUTCOMES), str(current.warehouse.local_path(OUTCOMES))
    directory, schema = current.directory("outcomes-"), stored_schema(spec)
    with current.timed(OUTCOMES):
        conform(outcomes, spec).drop(*spec.partition_by).write.parquet(directory, mode="append")
        with TableFile(path, spec, NOT_WAITING) as file:
            for part in sorted(Path(directory).glob("*.parquet")):
                for batch in pq.ParquetFile(part).iter_batches(ROWS_AT_ONCE, columns=schema.names):
                    file.write(batch.cast(schema))
            return file.finish()


def _not_plain(current: Pass, ends: Ends, *, waits: bool) -> Numbers | None:
    """Hashes of transactions that were decided before, and of those for which an earlier end waits."""
    frames = [inputs.prior_decisions(current, ends.halves, ends.halves)]
    if waits:
        waiting = current.read_part(OUTCOMES, "is_held", value=True).select(*HALF_PLACE)
        halves = inputs.halves_named_by(current, inputs.waiting_before(current), whole_if_new=False)
        frames.append(halves.join(waiting, list(HALF_PLACE)))
    hashes = reduce(DataFrame.unionByName, [frame.select(F.xxhash64("transaction_id").alias("h")) for frame in frames])
    return _values(hashes, "h", most=MOST_NUMBERS_SENT)


def _values(frame: DataFrame, column: str, *, most: int) -> Numbers | None:
    """The values of a column, ascending, each once; None where they are more than `most`."""
    values = frame.distinct().limit(most + 1).toArrow()[column].to_numpy()
    return np.sort(values) if len(values) <= most else None


def _left(current: Pass, directory: str | None, *, waits: bool) -> Ends | None:
    """The ends that are left, and those that have waited, with what they name."""
    if directory is None and not waits:
        return None
    rows = inputs.waiting_before(current)
    if directory is not None:
        schema = StructType([field for field in struct_type(table_spec(ENDS)) if field.name in END_COLUMNS])
        left = current.warehouse.spark.read.schema(schema).parquet(pattern_of(directory)).select(*END_COLUMNS)
        rows = rows.unionByName(left.withColumn("was_held", F.lit(False)))
    refused = current.sent_if_few(inputs.quarantined_places(current, rows))
    return Ends(rows, inputs.halves_named_by(current, rows, whole_if_new=False), refused)
