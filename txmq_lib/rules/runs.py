"""Stretches of a queue, or of a whole log, that have landed without a hole (landing_frontier.runs), in frames. Pure.

A run is offsets [first_offset, end_offset), the physical offsets of the first and the last of them, and read_to: what
lies in the queue from end_offset on was stored behind that physical offset (null: nobody knows). An empty run says so
much of one place of the queue only. Runs of a whole log are physical offsets themselves.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from txmq_lib.rules.run_lists import MOST_RUNS, Run

QUEUE = ("broker_name", "topic", "queue_id")
RUN_FIELDS = Run._fields
RUN_TYPE = f"struct<{','.join(f'{name}:bigint' for name in RUN_FIELDS)}>"


def no_runs() -> Column:
    """An empty array of runs."""
    return F.array().cast(f"array<{RUN_TYPE}>")


def run(
    first: Column, end: Column, first_place: Column | None, last_place: Column | None, read_to: Column | None = None
) -> Column:
    """One run; a part that nobody knows is None."""
    parts = [F.lit(None) if part is None else part for part in (first, end, first_place, last_place, read_to)]
    return F.struct(*[part.cast("bigint").alias(name) for part, name in zip(parts, RUN_FIELDS, strict=True)])


def landed_runs(rows: DataFrame) -> DataFrame:
    """Per queue of `rows` (QUEUE, queue_offset, commit_log_offset) its runs, ascending; rows without a place make none.

    Offsets are consecutive within a run, and places ascend with them: what does not was not written by one broker in
    one life.
    """
    in_order = Window.partitionBy(*QUEUE).orderBy("queue_offset", "commit_log_offset")
    before = {name: F.lag(name).over(in_order) for name in ("queue_offset", "commit_log_offset")}
    is_next = (F.col("queue_offset") == F.col("_offset") + 1) & (F.col("commit_log_offset") > F.col("_place"))
    is_again = (F.col("queue_offset") == F.col("_offset")) & (F.col("commit_log_offset") == F.col("_place"))
    begins = ~F.coalesce(is_next | is_again, F.lit(False))
    placed = rows.where("commit_log_offset is not null").select(*QUEUE, "queue_offset", "commit_log_offset")
    followed = placed.withColumns({"_offset": before["queue_offset"], "_place": before["commit_log_offset"]})
    numbered = followed.withColumn("_run", F.sum(begins.cast("bigint")).over(in_order))
    offset, place = F.col("queue_offset"), F.col("commit_log_offset")
    each = numbered.groupBy(*QUEUE, "_run").agg(
        run(F.min(offset), F.max(offset) + 1, F.min(place), F.max(place)).alias("run")
    )
    newest = Window.partitionBy(*QUEUE).orderBy(F.col("_run").desc())
    kept = each.withColumn("_turn", F.row_number().over(newest)).where(F.col("_turn") <= MOST_RUNS)
    return kept.groupBy(*QUEUE).agg(F.array_sort(F.collect_list("run")).alias("runs"))


def told_to(runs: Column, read_to: Column, is_untold: Column) -> Column:
    """`runs` of a queue where all queues have been read to their ends, and those ends lie behind `read_to`.

    It is the newest end that a live broker told of this queue. Where it tells of it no more (`is_untold`), a reading of
    all queues says nothing of this one: it may have messages that nobody may read.
    """
    last_told = F.array_max(F.transform(F.filter(runs, lambda one: one["read_to"].isNotNull()), _end_of))
    is_one_of_all = ~F.coalesce(is_untold, F.lit(False))

    def later(one: Column) -> Column:
        is_told = F.coalesce(one["end_offset"] == last_told, F.lit(False)) & one["read_to"].isNotNull() & is_one_of_all
        joined_to = F.when(is_told, F.greatest(one["read_to"], read_to)).otherwise(one["read_to"])
        return run(one["first_offset"], one["end_offset"], one["first_commit_log_offset"],
                   one["last_commit_log_offset"], joined_to)  # fmt: skip

    return F.transform(runs, later)


def without_misread(runs: Column) -> Column:
    """`runs` (ascending) with those places null that contradict the run before or behind; in no order.

    Places ascend with offsets. Where they do not one of the two was misread, and nobody knows which.
    """
    placed = F.filter(runs, lambda one: one["first_commit_log_offset"].isNotNull())
    unplaced = F.filter(runs, lambda one: one["first_commit_log_offset"].isNull())

    def lies_behind(before: Column, first: Column, last: Column) -> Column:
        # Where an empty run ends the next record may lie.
        return (last > first) | ((last == first) & (before["first_offset"] < before["end_offset"]))

    def checked(one: Column, place: Column) -> Column:
        first, last = one["first_commit_log_offset"], one["last_commit_log_offset"]
        before, behind = F.get(placed, place - 1), F.get(placed, place + 1)
        is_first_misread = F.coalesce(lies_behind(before, first, before["last_commit_log_offset"]), F.lit(False))
        is_last_misread = F.coalesce(lies_behind(one, behind["first_commit_log_offset"], last), F.lit(False))
        return run(one["first_offset"], one["end_offset"], F.when(~is_first_misread, first),
                   F.when(~is_last_misread, last), one["read_to"])  # fmt: skip

    return F.concat(F.transform(placed, checked), unplaced)


def has_misread(runs: Column) -> Column:
    """Whether one of the places of `runs` contradicts another."""

    def known(runs: Column) -> Column:
        places = F.flatten(
            F.transform(runs, lambda one: F.array(one["first_commit_log_offset"], one["last_commit_log_offset"]))
        )
        return F.size(F.filter(places, F.isnotnull))

    return known(without_misread(runs)) < known(runs)


def _end_of(one: Column) -> Column:
    return one["end_offset"]


def holes_between(runs: Column) -> Column:
    """What is missing before and between `runs` (ascending) as structs: offsets [from_offset, to_offset).

    Also the physical offsets `behind` and `before` which they lie; -1 is before all. Of a whole log these are null.
    Where a queue was read to its end, what is missing there came later.
    """
    placed = F.filter(runs, lambda one: one["first_commit_log_offset"].isNotNull() | one["read_to"].isNull())
    read_empty = F.filter(runs, lambda one: one["end_offset"] == 0)  # the queue, when nothing had come to it yet
    behind_nothing = F.coalesce(F.get(read_empty, 0)["read_to"], F.lit(-1))

    def hole_before(one: Column, place: Column) -> Column:
        before = F.get(placed, place - 1)
        is_first = place == 0
        last_place = F.coalesce(before["last_commit_log_offset"], before["first_commit_log_offset"])
        behind = F.greatest(last_place, before["read_to"])
        return F.struct(
            F.when(is_first, F.lit(0)).otherwise(before["end_offset"]).cast("bigint").alias("from_offset"),
            one["first_offset"].alias("to_offset"),
            F.when(is_first, behind_nothing).otherwise(behind).cast("bigint").alias("behind"),
            one["first_commit_log_offset"].alias("before"),
        )

    return F.filter(F.transform(placed, hole_before), lambda hole: hole["from_offset"] < hole["to_offset"])
