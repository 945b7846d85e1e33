"""Stretches of a queue, or of a whole log, that have landed without a hole (landing_frontier.runs). Pure.

A run is offsets [first_offset, end_offset), the physical offsets of the first and the last of them, and read_to: what
lies in the queue from end_offset on was stored behind that physical offset (null: nobody knows). An empty run says so
much of one place of the queue only. Runs of a whole log are physical offsets themselves.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

QUEUE = ("broker_name", "topic", "queue_id")
RUN_FIELDS = ("first_offset", "end_offset", "first_commit_log_offset", "last_commit_log_offset", "read_to")
RUN_TYPE = f"struct<{','.join(f'{name}:bigint' for name in RUN_FIELDS)}>"
MOST_RUNS = 1_000  # of one queue; of more the oldest are let go of, and prove nothing any more


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


def joined_runs(runs: Column) -> Column:
    """An array of runs in any order as the fewest that say the same, ascending, the newest MOST_RUNS."""

    def added(done: Column, one: Column) -> Column:
        last = F.get(done, F.size(done) - 1)
        before = F.slice(done, 1, F.greatest(F.size(done) - 1, F.lit(0)))
        return (
            F.when(F.size(done) == 0, F.array(one))
            .when(_is_nothing_before(last, one), F.concat(before, F.array(one)))
            .when(_meet(last, one), F.concat(before, F.array(_both(last, one))))
            .otherwise(F.concat(done, F.array(one)))
        )

    joined = F.aggregate(F.array_sort(runs), no_runs(), added)
    return F.slice(joined, F.greatest(F.size(joined) - MOST_RUNS + 1, F.lit(1)), MOST_RUNS)


def _is_nothing_before(last: Column, one: Column) -> Column:
    """Whether `last` says what lies from the queue's beginning on, and `one` begins there: it knows better."""
    return (last["end_offset"] == 0) & (one["first_offset"] == 0) & (one["end_offset"] > 0)


def _meet(last: Column, one: Column) -> Column:
    overlap = one["first_offset"] < last["end_offset"]
    is_empty = one["first_offset"] == one["end_offset"]
    is_same_place = is_empty & (one["first_offset"] == last["first_offset"])
    ascends = F.coalesce(last["last_commit_log_offset"] < one["first_commit_log_offset"], F.lit(True))
    # An empty run keeps what it says of its place until what lies before it has landed.
    has_rows = (last["first_offset"] < last["end_offset"]) | is_empty
    return overlap | is_same_place | ((one["first_offset"] == last["end_offset"]) & has_rows & ascends)


def _both(last: Column, one: Column) -> Column:
    is_longer = one["end_offset"] > last["end_offset"]
    is_as_long = one["end_offset"] == last["end_offset"]
    has_rows = one["first_offset"] < one["end_offset"]
    end_place = F.when(is_longer & has_rows, one["last_commit_log_offset"])
    last_place = F.coalesce(end_place, last["last_commit_log_offset"])  # of places that ascend a lower one is safe
    furthest = F.greatest(last["read_to"], one["read_to"])
    read_to = F.when(is_as_long, furthest).when(is_longer, one["read_to"]).otherwise(last["read_to"])
    end = F.greatest(last["end_offset"], one["end_offset"])
    return run(last["first_offset"], end, last["first_commit_log_offset"], last_place, read_to)


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


def within_log(runs: Column, log_end: Column | int) -> Column:
    """`runs` without those places that do not lie before the end of the broker's log: they were misread.

    Of the last one of a run is known then that it lies no lower than the first.
    """

    def checked(one: Column) -> Column:
        first, last = one["first_commit_log_offset"], one["last_commit_log_offset"]
        sure_first = F.when(first < log_end, first)
        return run(one["first_offset"], one["end_offset"], sure_first,
                   F.when(last < log_end, last).otherwise(sure_first), one["read_to"])  # fmt: skip

    return F.transform(runs, checked)


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
