"""Where records lie that have not landed: in quarantine, damaged, or kept out by another record of their key. Pure."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import HALF_TOPICS, KEY_CONFLICT, OP_TOPICS, OPS_CLOSING_NOTHING, OPS_READ_IN_PART
from txmq_lib.rules.pending import is_committed

REAL_QUEUE = ("broker_name", "real_topic", "real_queue_id")
MOST_PLACES = 10_000  # of one queue; of more the highest


def with_bad_places(figures: DataFrame, quarantine: DataFrame) -> DataFrame:
    """`figures` with what the functions below look at, of the table `quarantine`.

    figures  REAL_QUEUE, half_offsets, and _low and op_place: behind and before which places its message would lie
    """
    return figures.join(F.broadcast(_of_queues(quarantine)), on=list(REAL_QUEUE), how="left").join(
        F.broadcast(_of_brokers(quarantine)), on="broker_name", how="left"
    )


def may_be_bad() -> Column:
    """Whether a record in quarantine may be the message."""
    return _is_among("_bad") | _is(F.exists("_bad_anywhere", _is_between))


def may_be_rival() -> Column:
    """Whether one may be it that was kept out by a record of its key: whoever read its queue has not seen it."""
    return _is_among("_rival")


def has_rival_half() -> Column:
    """Whether another half was kept out by one of its rows: an op of their offset may mean either."""
    return _is(F.arrays_overlap("_rival_halves", "half_offsets")) | _is(
        F.array_min("half_offsets") < F.col("_rival_halves_unknown_to")
    )


def has_unread_op() -> Column:
    """Whether an op behind the half was kept out so, landed without all that it names, or may name a copy of the half
    that was kept out.
    """
    return _is(F.col("_unread_op") > F.col("_low")) | _has_id("_rival_ids")


def has_message_kept_out() -> Column:
    """Whether a committed message of its id was kept out by another record of its place: somebody decided it."""
    return _has_id("_committed_ids")


def may_be_bad_op(last_place: Column) -> Column:
    """Whether a record in quarantine may be an op of it that nobody has read: what ops landed reach to `last_place`."""
    beyond = F.greatest(F.col("_low"), last_place)
    is_unseen = F.col("_bad_op_is_unplaced") | _is(F.col("_bad_op") > beyond)
    return _is(is_unseen) | has_unread_op() | _is(F.exists("_bad_anywhere", lambda place: place > beyond))


def _of_queues(quarantine: DataFrame) -> DataFrame:
    """Of each queue where its records in quarantine lie, all and rivals, and below which places nobody knows."""
    placed = quarantine.where("topic is not null and queue_id >= 0")
    named = placed.withColumnsRenamed({"topic": "real_topic", "queue_id": "real_queue_id"})
    found = named.groupBy(*REAL_QUEUE).agg(
        *_places("_bad", F.lit(True)), *_places("_rival", F.col("reason") == KEY_CONFLICT)
    )
    return found.select(*REAL_QUEUE, *_told("_bad"), *_told("_rival"))


def _of_brokers(quarantine: DataFrame) -> DataFrame:
    """Of each broker where records lie of which nobody knows the queue, bad ops, rivals among halves, messages, ops."""
    is_placed = F.col("topic").isNotNull() & _is(F.col("queue_id") >= 0)
    place, is_rival = F.col("commit_log_offset"), F.col("reason") == KEY_CONFLICT
    is_rival_half = is_rival & F.col("topic").isin(*HALF_TOPICS)
    is_rival_message = is_rival & ~F.col("topic").isin(*HALF_TOPICS, *OP_TOPICS)
    flags = F.when(is_rival_message, F.get_json_object("raw", "$.sys_flag").try_cast("int"))
    is_op = F.col("topic").isin(*OP_TOPICS) & ~F.col("reason").isin(*OPS_CLOSING_NOTHING)
    # It landed, and what it names did not; or another has its offset.
    is_unread = is_op & F.col("reason").isin(KEY_CONFLICT, *OPS_READ_IN_PART)
    found = (
        quarantine.withColumn("sys_flag", flags)
        .groupBy("broker_name")
        .agg(
            _highest(F.collect_set(F.when(~is_placed, place))).alias("_bad_anywhere"),
            F.collect_set(F.when(is_rival_half, F.col("queue_offset"))).alias("_halves"),
            F.collect_set(F.when(is_rival_half, _id())).alias("_rival_ids"),
            F.collect_set(F.when(is_committed(), _id())).alias("_committed_ids"),
            F.max(F.when(is_op, place)).alias("_bad_op"),
            F.max(is_op & place.isNull()).alias("_bad_op_is_unplaced"),
            F.max(F.when(is_unread, place)).alias("_unread_op"),
        )
    )
    return found.select(
        *("broker_name", "_bad_anywhere", "_bad_op", "_bad_op_is_unplaced", "_unread_op"),
        _highest(F.col("_halves")).alias("_rival_halves"),
        _lowest_of_more(F.col("_halves")).alias("_rival_halves_unknown_to"),
        *[F.slice(ids, 1, MOST_PLACES + 1).alias(ids) for ids in ("_rival_ids", "_committed_ids")],
    )


def _has_id(ids: str) -> Column:
    return _is(F.array_contains(ids, _id()) | (F.size(ids) > MOST_PLACES))


def _id() -> Column:
    """Of a transaction what is kept of many in little room; another of the same number is taken for it."""
    return F.xxhash64("transaction_id")


def _places(name: str, is_such: Column) -> tuple[Column, Column]:
    place = F.col("commit_log_offset")
    return (
        F.collect_set(F.when(is_such, place)).alias(f"{name}_places"),
        F.max(is_such & place.isNull()).alias(f"{name}_is_unplaced"),
    )


def _told(name: str) -> tuple[Column, Column]:
    places = F.col(f"{name}_places")
    unknown_to = F.when(F.col(f"{name}_is_unplaced"), F.lit(2**63 - 1)).otherwise(_lowest_of_more(places))
    return _highest(places).alias(f"{name}_places"), unknown_to.alias(f"{name}_unknown_to")


def _lowest_of_more(places: Column) -> Column:
    """The lowest of the highest MOST_PLACES where there are more, of which nobody knows then."""
    return F.when(F.size(places) > MOST_PLACES, F.array_min(_highest(places)))


def _highest(places: Column) -> Column:
    return F.slice(F.sort_array(places, asc=False), 1, MOST_PLACES)


def _is_among(name: str) -> Column:
    return _is(F.col(f"{name}_unknown_to") > F.col("_low")) | _is(F.exists(f"{name}_places", _is_between))


def _is_between(place: Column) -> Column:
    return (place > F.col("_low")) & _is(place < F.col("op_place"))


def _is(condition: Column) -> Column:
    return F.coalesce(condition, F.lit(False))
