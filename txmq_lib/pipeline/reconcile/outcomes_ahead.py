"""Outcomes of many ends: written before their turn, and read from their table by all that follows.

This is the one write of a reconcile pass that comes before everything is decided. Ends joined with halves and decisions
cost more memory than disk. Where an invariant does not hold later, `writes` withdraws these rows.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.delta.arrow_files import WrittenFile
from txmq_lib.names import END_KEY
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.reconcile.inputs import has_waiting_ends
from txmq_lib.pipeline.reconcile.many_ends import files_of


class Outcomes(NamedTuple):
    """Rows of end_outcome with `was_held`; `files`, and `waiting` (ends), as Decided (tally.py) has them."""

    rows: DataFrame
    files: list[str] | None = None
    waiting: DataFrame | None = None


def files_committed_ahead(current: Pass, files: list[WrittenFile], others: DataFrame | None) -> Outcomes:
    """Outcomes, most of them in `files` that no commit names yet; `others` as in `written_ahead_if_many`."""
    waiting = None
    if others is not None:
        files = files + files_of(current, others.where("not is_held").drop("was_held"))
        waiting = others.where("is_held")
    current.append_files("end_outcome", files, step="end_outcome", is_ahead=True)
    written = _with_was_held(current, current.written_rows("end_outcome", "end_outcome"))
    paths = None if has_waiting_ends(current) else current.written_files("end_outcome", "end_outcome")
    return Outcomes(written if waiting is None else written.unionByName(waiting), paths, waiting)


def written_ahead_if_many(current: Pass, ends: DataFrame, outcomes: DataFrame) -> Outcomes:
    """`outcomes` (rows of end_outcome with `was_held`) of all `ends`, computed once; where many, as written."""
    judged = outcomes.where("not is_held").drop("was_held")
    # New ends give outcomes: whether there are any is known without computing them.
    even_if_empty = current.has_new_rows("end_transaction")
    written = current.append_ahead("end_outcome", judged, step="end_outcome", even_if_empty=even_if_empty)
    if written is None:
        with current.timed("judge"):
            return Outcomes(current.cached(outcomes))
    written = _with_was_held(current, written)
    if _digest_of_ends(written) == _digest_of_ends(ends):
        return Outcomes(written)  # none of them is held
    return Outcomes(written.unionByName(current.cached(outcomes.where("is_held"))))  # those that are held are few


def _with_was_held(current: Pass, written: DataFrame) -> DataFrame:
    if not has_waiting_ends(current):
        return written.withColumn("was_held", F.lit(False))
    before = current.read_part("end_outcome", "is_held", value=True).select(*END_KEY, F.lit(True).alias("was_held"))
    joined = written.join(current.sent_if_few(before), on=list(END_KEY), how="left")
    return joined.withColumn("was_held", F.coalesce("was_held", F.lit(False)))


def _digest_of_ends(rows: DataFrame) -> tuple[int, int]:
    """Equal for the same ends, each there once."""
    row = rows.agg(F.count("*").alias("rows"), F.bit_xor(F.xxhash64(*END_KEY)).alias("hash")).collect()[0]
    return row["rows"], row["hash"]
