"""How far each queue has been landed (table landing_frontier). Pure."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txmq_lib.rules.runs import MOST_RUNS, QUEUE, joined_runs, landed_runs, no_runs, told_to

# Rows about no single queue: a whole commit log, or all queues of a topic.
WHOLE_LOG_TOPIC, WHOLE_QUEUE_ID = "*", -1
# All queues of a live broker, which shows no commit log: the store time up to which all of them were read.
ALL_QUEUES_TOPIC = "**"


# When a queue may have begun anew, its topic deleted or its broker made anew: behind which physical offset it was not
# read any more, and before which it had begun. What it held in between nobody has read.
CHANGE_TYPE = "struct<behind:bigint,before:bigint>"
MOST_CHANGES = 100  # of one queue; of more the first two are one


def reached(rows: DataFrame) -> DataFrame:
    """Per queue of `rows`: the offset after its highest, its highest store time, its runs, and the ends that were told.

    rows  QUEUE, queue_offset, store_timestamp, and where they landed from a broker commit_log_offset and told_end: the
          end of the queue that a reading client told with the row (null: none did)
    """
    highest = F.max("queue_offset")
    per_queue = rows.groupBy(*QUEUE)
    end = F.coalesce(F.try_add(highest, F.lit(1)), highest)
    reached_to = [end.alias("next_offset"), F.max("store_timestamp").alias("highest_store_timestamp")]
    if "commit_log_offset" not in rows.columns:
        return per_queue.agg(*reached_to).withColumns(
            {
                "runs": no_runs(),
                "told_end": F.col("next_offset"),
                "file_end": F.lit(None).cast("bigint"),
                "first_told_end": F.lit(None).cast("bigint"),
            }
        )
    is_last = F.col("told_end") == F.col("queue_offset") + 1
    queues = per_queue.agg(
        *reached_to,
        F.greatest(F.max("told_end"), end).alias("told_end"),
        F.max(F.when(is_last, F.col("told_end"))).alias("file_end"),
        F.min("told_end").alias("first_told_end"),
    )
    joined = queues.join(landed_runs(rows), on=list(QUEUE), how="left")
    return joined.withColumn("runs", F.coalesce("runs", no_runs()))


def reached_by(runs: DataFrame) -> DataFrame:
    """The same as `reached` of rows, from their runs.

    runs  QUEUE, run (rules.runs), and of the rows of each the highest store time, told_end and file_end, the lowest
          first_told_end
    """
    each = runs.withColumns({"next_offset": F.col("run.end_offset"), "runs": F.array("run")}).drop("run")
    return reached_together(each)


def reached_together(reached: DataFrame) -> DataFrame:
    """Rows of `reached` for parts of what was read, which share no row, as those of the whole."""
    end = F.max("next_offset")
    runs = F.array_sort(F.flatten(F.collect_list("runs")))
    # Joining is dear where there are many, and keeps no more than these.
    newest = F.slice(runs, F.greatest(F.size(runs) - MOST_RUNS + 1, F.lit(1)), MOST_RUNS)
    return reached.groupBy(*QUEUE).agg(
        end.alias("next_offset"),
        F.max("highest_store_timestamp").alias("highest_store_timestamp"),
        F.greatest(F.max("told_end"), end).alias("told_end"),
        F.max("file_end").alias("file_end"),
        F.min("first_told_end").alias("first_told_end"),
        joined_runs(newest).alias("runs"),
    )


def read_to() -> Column:
    """Of a row about all queues of a broker, or of a topic: up to which physical offset they were read to the end."""
    return F.array_max("runs.read_to")


def _whole_reads(frontier: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Up to which physical offset all queues of a broker were read to their ends, and those of some of its topics.

    Columns  broker_name, _all_read_to; broker_name, topic, _topic_read_to
    """
    whole = frontier.where((F.col("queue_id") == WHOLE_QUEUE_ID) & read_to().isNotNull())
    is_all = F.col("topic") == ALL_QUEUES_TOPIC
    return (
        whole.where(is_all).select("broker_name", read_to().alias("_all_read_to")),
        whole.where(~is_all).select("broker_name", "topic", read_to().alias("_topic_read_to")),
    )


def advanced(known: DataFrame, reports: DataFrame, *, pass_number: int) -> DataFrame:
    """Rows of `landing_frontier` that change when `reports` (its columns, one row per queue) come in.

    next_offset, told ends, the lowest offset kept and store time only move forward; runs are joined; what the source
    says of itself is taken as reported. So is where a whole log ends: another log may stand in its place. Of a queue
    that has begun anew `changes` has one, without where it was read to. Of a broker that has, former_timestamp says so
    in each row, and what was read before proves nothing any more.
    """
    before = known.select(*QUEUE, *[F.col(name).alias(f"_{name}") for name in known.columns if name not in QUEUE])
    of_broker, of_topic = _whole_reads(known)
    joined = (
        reports.join(before, on=list(QUEUE), how="left")
        .join(of_broker, on="broker_name", how="left")
        .join(of_topic, on=["broker_name", "topic"], how="left")
    )
    merged = joined.withColumn("_runs_before", _runs_known_before()).select(
        *QUEUE,
        F.when(F.col("queue_id") == WHOLE_QUEUE_ID, F.col("next_offset"))
        .otherwise(F.greatest("next_offset", "_next_offset"))
        .alias("next_offset"),
        F.greatest("highest_store_timestamp", "_highest_store_timestamp").alias("highest_store_timestamp"),
        _lowest_kept().alias("lowest_kept_offset"),
        F.greatest("lost_before_timestamp", "_lost_before_timestamp").alias("lost_before_timestamp"),
        (F.col("is_end_known") | F.coalesce("_is_end_known", F.lit(False))).alias("is_end_known"),
        F.coalesce("source_identity", "_source_identity").alias("source_identity"),
        F.lit(pass_number).cast("bigint").alias("pass_number"),
        joined_runs(F.concat(_kept_runs(), "runs")).alias("runs"),
        F.greatest("told_end", "_told_end").alias("told_end"),
        F.greatest("file_end", "_file_end").alias("file_end"),
        F.least("first_told_end", _first_told_before()).alias("first_told_end"),
        F.coalesce("is_untold", "_is_untold").alias("is_untold"),
        _changes().alias("changes"),
        F.greatest("former_timestamp", "_former_timestamp").alias("former_timestamp"),
        *[F.col(f"_{name}") for name in known.columns if name not in QUEUE],
    )
    is_same = F.lit(True)
    for name in [each for each in known.columns if each not in (*QUEUE, "pass_number")]:
        is_same = is_same & F.col(name).eqNullSafe(F.col(f"_{name}"))
    return merged.where(~is_same).select(*known.columns)


def _first_told_before() -> Column:
    """The lowest end told before. A row of an older version has none: the lowest that is known to have been told."""
    is_beyond = F.col("_told_end") > F.col("_next_offset")
    return F.coalesce("_first_told_end", "_file_end", F.when(is_beyond & ~F.col("_is_end_known"), F.col("_told_end")))


def _lowest_kept() -> Column:
    """Retention only moves it on: an older copy of a store takes nothing back, what began anew does."""
    has_begun_anew = F.col("former_timestamp").isNotNull() | (F.coalesce(F.size("changes"), F.lit(0)) > 0)
    # Of a log it is where the last copy of it begins.
    is_reported = has_begun_anew | (F.col("queue_id") == WHOLE_QUEUE_ID)
    on = F.greatest("lowest_kept_offset", "_lowest_kept_offset")
    return F.when(is_reported, F.coalesce("lowest_kept_offset", "_lowest_kept_offset")).otherwise(on)


def _changes() -> Column:
    """When the queue has begun anew: what was known, and what is reported now."""
    ends = F.flatten(F.transform("_runs_before", lambda one: F.array(one["last_commit_log_offset"], one["read_to"])))
    read_to = F.coalesce(F.array_max(ends), F.lit(-1)).cast("bigint")

    def change(reported: Column) -> Column:
        # A broker made anew counts its places from 0 again: what was read lies below and says nothing of them.
        is_other_log = F.coalesce(reported["before"] <= read_to, F.lit(False))
        before = F.when(is_other_log, read_to + 1).otherwise(reported["before"])
        return F.struct(F.when(is_other_log, F.lit(-1)).otherwise(read_to).alias("behind"), before.alias("before"))

    changes = F.concat(F.coalesce("_changes", F.array().cast(f"array<{CHANGE_TYPE}>")), F.transform("changes", change))
    first, second = F.get(changes, 0), F.get(changes, 1)
    is_known = first["before"].isNotNull() & second["before"].isNotNull()
    before = F.when(is_known, F.greatest(first["before"], second["before"]))
    both = F.struct(F.least(first["behind"], second["behind"]).alias("behind"), before.alias("before"))
    kept = F.when(F.size(changes) <= MOST_CHANGES, changes).otherwise(
        F.concat(F.array(both), F.slice(changes, 3, MOST_CHANGES))
    )
    return F.when(F.size("changes") > 0, kept).otherwise(F.col("_changes"))


def _runs_known_before() -> Column:
    """The runs known before, with what the last reading of all queues said of this one, before this one goes on."""
    # Of a row of an older version nobody said whether that reading was told of it.
    has_begun_anew = F.when(F.size("changes") > 0, F.lit(True))
    is_untold = F.coalesce("_is_untold", has_begun_anew, F.col("is_untold"), F.lit(True))
    queue = told_to(F.coalesce("_runs", no_runs()), F.greatest("_all_read_to", "_topic_read_to"), is_untold)
    is_queue = F.col("queue_id") != WHOLE_QUEUE_ID
    return F.when(is_queue, queue).otherwise(F.coalesce("_runs", no_runs()))


def _kept_runs() -> Column:
    """Of a broker that is found to have been made anew what was read before says nothing, of whichever queue."""
    return F.when(F.col("former_timestamp").isNull(), F.col("_runs_before")).otherwise(no_runs())


def of_another_life(known: DataFrame, reports: DataFrame, *, now: datetime) -> DataFrame:
    """`reports` of a broker that was made anew under its old name, and of all else that is known of it (rows of
    landing_frontier): what was read of its former life proves nothing of this one, nor the other way round.

    now  no record of the former life was stored later, whatever a damaged one says
    """
    others = known.join(reports.select(*QUEUE), on=list(QUEUE), how="left_anti")
    proving_nothing = {"runs": no_runs(), "changes": F.lit(None).cast(f"array<{CHANGE_TYPE}>")}
    every = reports.unionByName(others.withColumns(proving_nothing).select(*reports.columns))
    newest = F.coalesce(F.max("highest_store_timestamp"), F.timestamp_seconds(F.lit(0)))
    former = known.agg(F.least(newest, F.lit(now)).alias("former_timestamp"))
    return every.drop("former_timestamp").crossJoin(F.broadcast(former)).select(*reports.columns)


def file_reports(rows: DataFrame) -> DataFrame:
    """Frontier reports of landed files, which do not know where their source ends."""
    return as_file_reports(reached(rows))


def as_file_reports(of_queues: DataFrame) -> DataFrame:
    """The same from `reached` of their rows."""
    return of_queues.withColumns(
        {
            "lowest_kept_offset": F.lit(None).cast("bigint"),
            "lost_before_timestamp": F.lit(None).cast("timestamp"),
            "is_end_known": F.lit(False),
            "source_identity": F.lit(None).cast("string"),
            "is_untold": F.lit(None).cast("boolean"),
            "changes": F.lit(None).cast(f"array<{CHANGE_TYPE}>"),
            "former_timestamp": F.lit(None).cast("timestamp"),
        }
    )
