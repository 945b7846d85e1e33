"""By what a rollback is proved, or what is missing: where a committed message of a transaction could lie unseen. Pure.

An op names a copy of the transaction and nothing of it is visible. The committed message, if there was one, lies in
the real queue, behind the original half and before the last op (R23): between two physical offsets, since clocks step.
Every proof says that all of that has been read. More evidence takes none away, but for the end that a file told: when
it was told nobody knows, so it proves something only while all that landed of the broker can be of one reading.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import (
    HALF_TOPICS,
    OP_TOPICS,
    REASON_ELSEWHERE,
    REASON_FILE_END,
    REASON_FROM_BEGINNING,
    REASON_GAP,
    REASON_LEFT_OUT,
    REASON_LIVE_READ,
    REASON_LOG_READ,
    REASON_LOST,
    REASON_NO_REAL_TOPIC,
    REASON_QUARANTINED,
    REASON_READ_PAST_OP,
    REASON_UNREAD,
    REASON_UNTOLD,
)
from txmq_lib.rules import undecided
from txmq_lib.rules.bad_places import (
    REAL_QUEUE,
    has_rival_half,
    has_unread_op,
    may_be_bad,
    may_be_rival,
    with_bad_places,
)
from txmq_lib.rules.frontier import ALL_QUEUES_TOPIC, WHOLE_LOG_TOPIC, WHOLE_QUEUE_ID, read_to
from txmq_lib.rules.runs import has_misread, holes_between, no_runs, told_to, without_misread

PATTERNS = r"^\[(.*)\]$"  # how landing_frontier names a log of which some topics are read


def with_proof(figures: DataFrame, frontier: DataFrame, quarantine: DataFrame) -> DataFrame:
    """`figures` with `_proof`, by what it is proved that no committed message is unseen (null: it is not), `_missing`,
    what is missing for that; `_is_op_read`: an op behind the visible message would have been seen; `_is_read`: an op
    of an undecided one would; and `_ops_read_at`: up to which store time it would.

    figures     transaction_figures; frontier, quarantine  the tables
    """
    placed = (
        figures.join(F.broadcast(_queues(frontier)), on=list(REAL_QUEUE), how="left")
        .join(F.broadcast(undecided.transaction_queues(frontier)), on=list(undecided.KEY), how="left")
        .join(F.broadcast(_topics(frontier)), on=["broker_name", "real_topic"], how="left")
        .join(F.broadcast(_brokers(frontier)), on="broker_name", how="left")
    )
    whole_read_to = F.greatest("_all_read_to", "_topic_read_to")
    runs = told_to(F.coalesce("_runs", no_runs()), whole_read_to, F.col("_is_untold"))
    named = placed.withColumns(
        {
            "_low": F.coalesce("original_place", F.lit(-1)),
            "_queue_runs": F.when(F.col("real_queue_id").isNotNull(), runs).otherwise(no_runs()),
            "_taking_logs": F.filter("_logs", lambda log: _takes(log["topic"])),
        }
    )
    judged = with_bad_places(named, quarantine)
    return judged.withColumns(
        {
            "_proof": _proof(),
            "_missing": _missing(whole_read_to),
            "_is_op_read": _is_op_read() & ~_is_of_former_life(),
            "_is_read": undecided.is_read() & ~_is_of_former_life(),
            "_ops_read_at": undecided.ops_read_at(),
        }
    )


def misread_queues(frontier: DataFrame) -> DataFrame:
    """The queues (REAL_QUEUE) of which a place was misread: what the newest one proved may be proved no more."""
    is_queue = F.col("queue_id") != WHOLE_QUEUE_ID
    misread = frontier.where(is_queue & has_misread(F.coalesce("runs", no_runs())))
    return misread.selectExpr("broker_name", "topic as real_topic", "queue_id as real_queue_id")


def _proof() -> Column:
    op = F.col("op_place")

    # What a queue held before it began anew, and nobody read, is in the log alone.
    has_lived_on = ~_some("_changes", _overlaps)

    def is_past(run: Column) -> Column:
        return has_lived_on & _has_rows(run) & _is(run["last_commit_log_offset"] > op)

    def is_live(run: Column) -> Column:
        return has_lived_on & _is(run["read_to"] >= op)

    # When an end was told no row says. Behind the op it was where it came with a message of behind the op, or the like.
    is_end_of_op = F.col("_is_one_reading") & _is(F.col("_ops.is_end_told")) & _is(F.col("_last_told_place") > op)

    def is_end(run: Column) -> Column:
        return has_lived_on & _has_rows(run) & _is(run["end_offset"] == F.col("_sure_end")) & is_end_of_op

    def is_from_beginning(run: Column) -> Column:
        return (run["first_offset"] == 0) & (is_past(run) | is_live(run) | is_end(run))

    proved = (
        F.when(_some("_queue_runs", lambda run: _was_there(run) & is_past(run)), REASON_READ_PAST_OP)
        .when(_some("_taking_logs", lambda log: _some(log["runs"], _is_read_whole)), REASON_LOG_READ)
        .when(_some("_queue_runs", lambda run: _was_there(run) & is_live(run)), REASON_LIVE_READ)
        .when(_some("_queue_runs", lambda run: _was_there(run) & is_end(run)), REASON_FILE_END)
        # The topic may have been deleted and made anew, if it begins behind the half.
        .when(_some("_queue_runs", is_from_beginning), REASON_FROM_BEGINNING)
    )
    is_doubtful = (F.col("elsewhere_count") > 0) | may_be_rival() | has_rival_half()
    # An op lies behind its half (R23): else the place of one of them was misread.
    return F.when((op > F.col("_low")) & ~is_doubtful & ~_is_of_former_life(), proved)


def _is_of_former_life() -> Column:
    """Whether the half, or an op that names its place, is from before its broker was made anew.

    What is read now counts its places from 0 again; and an op of then may name a half of then that never landed.
    """
    return _is(F.least("half_store_timestamp", F.array_min("op_timestamps")) <= F.col("_former_at"))


def ops_of_former_life() -> Column:
    """How many ops that name the place of the half are older than it, from before its broker was made anew."""

    def is_older(op_at: Column) -> Column:
        return (op_at <= F.col("_former_at")) & (op_at < F.col("first_half_timestamp"))

    return F.size(F.filter("op_timestamps", is_older))


def _begins_before(run: Column) -> Column:
    """What lies in the queue before the run lies before the half."""
    return (run["first_offset"] == 0) | _was_there(run)


def _was_there(run: Column) -> Column:
    """Whether the run holds a message from before the half: its queue has lived since."""
    return _is(run["first_commit_log_offset"] < F.col("_low"))


def _has_rows(run: Column) -> Column:
    return run["first_offset"] < run["end_offset"]


def _some(array: Column | str, fits: Callable[[Column], Column]) -> Column:
    """Whether one of an array fits; none does where there is none."""
    return _is(F.exists(array, fits))


def _is(condition: Column) -> Column:
    return F.coalesce(condition, F.lit(False))


def _is_read_whole(stretch: Column) -> Column:
    """Whether the log was read from the half to the op, and the queue shows no record of it that was misread."""
    first, end = stretch["first_offset"], stretch["end_offset"]
    covers = (first <= F.greatest(F.col("_low"), F.lit(0))) & (end > F.col("op_place"))

    def is_misread(hole: Column) -> Column:
        is_within = (first <= F.greatest(hole["behind"], F.lit(0))) & _is(hole["before"] <= end)
        return is_within & _overlaps(hole)

    return covers & ~_some("_holes", is_misread)


def _overlaps(hole: Column) -> Column:
    """Whether what is missing may lie between the half and the op."""
    return _may_lie_before(hole, F.col("op_place"))


def _may_lie_before(hole: Column, end: Column) -> Column:
    """Whether what is missing may lie between the half and that physical offset."""
    return _is(hole["behind"] < end) & F.coalesce(hole["before"] > F.col("_low"), F.lit(True))


def _missing(whole_read_to: Column) -> Column:
    """The first reason that fits, in the order of names.UNKNOWN_REASONS."""
    is_taken = F.coalesce("_is_topic_landed", _some("_taking_logs", lambda _: F.lit(True))) | whole_read_to.isNotNull()

    def is_gone(hole: Column) -> Column:
        return _overlaps(hole) & _is(hole["from_offset"] < F.col("_lowest_kept"))

    is_gone_of_queue = _some("_holes", is_gone) | is_gone(F.col("_tail"))
    is_gone_of_log = _some("_taking_logs", lambda log: _some(holes_between(log["runs"]), _is_lost_of(log)))
    return (
        F.when(F.col("elsewhere_count") > 0, REASON_ELSEWHERE)
        .when(F.col("real_topic").isNull() | F.col("real_queue_id").isNull(), REASON_NO_REAL_TOPIC)
        .when(~is_taken, REASON_LEFT_OUT)
        .when(may_be_bad() | has_rival_half(), REASON_QUARANTINED)
        .when(_is(F.col("_is_untold")) | _some("_changes", _overlaps) | _is_of_former_life(), REASON_UNTOLD)
        .when(is_gone_of_queue | is_gone_of_log, REASON_LOST)
        .when(_some("_holes", _overlaps), REASON_GAP)
        .otherwise(REASON_UNREAD)
    )


def _is_lost_of(log: Column) -> Callable[[Column], Column]:
    def is_lost(hole: Column) -> Column:
        is_gone = _is(hole["from_offset"] < log["lowest_kept_offset"])
        return is_gone & (hole["to_offset"] > F.col("_low")) & _is(hole["from_offset"] < F.col("op_place"))

    return is_lost


def _is_op_read() -> Column:
    """Whether the op queue was read without a hole from the half to behind the visible message."""
    message = F.col("visible_place")
    is_read = _some(
        "_ops.runs",
        lambda run: _begins_before(run) & _has_rows(run) & _is(run["last_commit_log_offset"] > message),
    )
    # An op may name a copy of the half that is missing.
    is_half_missing = _some("_halves.holes", lambda hole: _may_lie_before(hole, message))
    return is_read & ~is_half_missing & ~has_unread_op()


def _takes(patterns: Column) -> Column:
    """Whether a log of which these topics are read (as landing_frontier names it) has the real topic among them."""
    listed = F.split(F.regexp_extract(patterns, PATTERNS, 1), ", ")

    def fits(pattern: Column) -> Column:
        # Literal but for * and ?, as land.topics has them.
        inner = F.replace(F.replace(pattern, F.lit("*"), F.lit(r"\E.*\Q")), F.lit("?"), F.lit(r"\E.\Q"))
        return F.rlike(F.col("real_topic"), F.concat(F.lit(r"^\Q"), inner, F.lit(r"\E\z")))

    return (patterns == WHOLE_LOG_TOPIC) | _some(listed, fits)


def _queues(frontier: DataFrame) -> DataFrame:
    """Of each queue what its frontier row says: runs, what is missing between them and behind them."""
    runs = F.coalesce("runs", no_runs())
    last = F.get(runs, F.size(runs) - 1)
    is_cut = last.isNotNull() & (F.col("told_end") > last["end_offset"])
    tail = F.struct(
        last["end_offset"].alias("from_offset"),
        F.col("told_end").alias("to_offset"),
        last["last_commit_log_offset"].alias("behind"),
        F.lit(None).cast("bigint").alias("before"),
    )
    return frontier.where(F.col("queue_id") != WHOLE_QUEUE_ID).select(
        "broker_name",
        F.col("topic").alias("real_topic"),
        F.col("queue_id").alias("real_queue_id"),
        without_misread(runs).alias("_runs"),
        holes_between(runs).alias("_holes"),
        F.when(is_cut, tail).alias("_tail"),
        # An older version kept no first end: what else was told nobody knows.
        F.when(F.col("first_told_end").isNotNull(), F.col("file_end")).alias("_sure_end"),
        F.col("lowest_kept_offset").alias("_lowest_kept"),
        F.col("is_untold").alias("_is_untold"),
        F.col("changes").alias("_changes"),
    )


def _topics(frontier: DataFrame) -> DataFrame:
    """Of each topic whether a queue of it has landed, and up to which physical offset all of them were read."""
    is_whole = F.col("queue_id") == WHOLE_QUEUE_ID
    return frontier.groupBy("broker_name", F.col("topic").alias("real_topic")).agg(
        F.max(F.when(~is_whole, F.lit(True))).alias("_is_topic_landed"),
        F.max(F.when(is_whole, read_to())).alias("_topic_read_to"),
    )


def _brokers(frontier: DataFrame) -> DataFrame:
    """What is known of each broker as a whole.

    _all_read_to, _all_read_at  up to which physical offset and store time all queues were read to their ends
    _logs                       whole logs, each of some topics
    _is_one_reading             whether all that files told of it can be of one reading: a queue that was told to end in
                                two places, or that goes on behind the one told, was read twice, or while it grew
    _last_told_place, _told_at  the last place, and the newest store time, that such a reading saw; the place is that of
                                a real message or a given-up one: ops say nothing of when real topics were read
    _former_at                  the newest store time of the life before it was made anew
    _highest_timestamp          the newest store time of all
    """
    topic, is_whole = F.col("topic"), F.col("queue_id") == WHOLE_QUEUE_ID
    is_all = is_whole & (topic == ALL_QUEUES_TOPIC)
    is_log = is_whole & ((topic == WHOLE_LOG_TOPIC) | topic.rlike(PATTERNS))
    log = F.struct(
        "topic", F.coalesce("runs", no_runs()).alias("runs"), "lowest_kept_offset", "highest_store_timestamp"
    )
    is_told = ~is_whole & F.col("first_told_end").isNotNull()
    is_real = ~topic.isin(*HALF_TOPICS, *OP_TOPICS)
    places = F.array_max(F.transform("runs", lambda run: run["last_commit_log_offset"]))
    return frontier.groupBy("broker_name").agg(
        F.max(F.when(is_all, read_to())).alias("_all_read_to"),
        F.max(F.when(is_all, F.col("highest_store_timestamp"))).alias("_all_read_at"),
        F.collect_list(F.when(is_log, log)).alias("_logs"),
        F.every(F.when(is_told, F.col("first_told_end") == F.col("told_end"))).alias("_is_one_reading"),
        F.max(F.when(is_told & is_real, places)).alias("_last_told_place"),
        F.max(F.when(is_told, F.col("highest_store_timestamp"))).alias("_told_at"),
        F.max("former_timestamp").alias("_former_at"),
        F.max("highest_store_timestamp").alias("_highest_timestamp"),
    )
