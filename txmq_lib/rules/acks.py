"""What consumers did with their queues: the offset each may safely report, and what would come again. Pure.

A client holds a queue from `allocated` until `dropped`; each holding begins with an empty process queue. Events of one
client and queue are ordered by (ts, landed_pass, landing_order). Offsets are taken in ascending order within one
holding, so the offset safe after the last acknowledgement is the highest of all that were safe before. What a reset
does to it: rules/offsets.py.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from txmq_lib.names import ACK_ACKED, ACK_ALLOCATED, ACK_DROPPED, ACK_TAKEN, EVENT_ORDER, OFFSET_KEY, ORIGIN_ACK

HOLDER = (*OFFSET_KEY, "client_id")
HOLDING = (*HOLDER, "holding")


def acked_reports(acks: DataFrame) -> DataFrame:
    """The report that each holding's last effective acknowledgement makes: rows of consumer_offset_commit.

    Key      HOLDER and holding (the n-th of that client); `acks` must hold every event of the clients in it.
    Rule     R107: an acknowledgement with something in the process queue reports the smallest offset taken and not
             acknowledged, else the highest taken + 1. With an empty one, after `dropped`, or by a client that does
             not hold the queue it reports nothing. What is taken later does not count for it.
    """
    last_events = (
        _offset_events(acks)
        .where(F.col("event_number") <= F.col("last_effective"))
        .groupBy(*HOLDING, "offset")
        .agg(
            F.max_by("event", "event_number").alias("event"),
            F.max(F.when(F.col("event") == ACK_TAKEN, F.col("offset"))).alias("taken"),
            F.max(F.when(F.col("event_number") == F.col("last_effective"), F.struct(*EVENT_ORDER))).alias("at"),
        )
    )
    smallest_left = F.min(F.when(F.col("event") == ACK_TAKEN, F.col("offset")))
    return (
        last_events.groupBy(*HOLDING)
        .agg(
            F.coalesce(smallest_left, F.try_add(F.max("taken"), F.lit(1))).alias("next_offset"), F.max("at").alias("at")
        )
        .where(F.col("next_offset").isNotNull())
        .select(*HOLDER, "at.*", "next_offset", F.lit(True).alias("is_increase_only"))
        .withColumn("content_hash", F.xxhash64(F.lit(ORIGIN_ACK), *HOLDER, *EVENT_ORDER, "next_offset"))
        .withColumn("occurrence", F.lit(0))
        .withColumn("origin", F.lit(ORIGIN_ACK))
    )


def redelivery_counts(acks: DataFrame, offsets: DataFrame) -> DataFrame:
    """OFFSET_KEY, redelivery_count: the messages that come again if the queue's holder dies now (R107).

    These are the offsets its holder took since `allocated`, at or above next_offset: in flight, or acknowledged above a
    gap. The holder is who was allocated last and has not dropped the queue; 0 without one. No row for a queue where
    nothing was ever taken or acknowledged. `offsets` has OFFSET_KEY and next_offset.
    """
    held = _holdings(acks.join(offsets.select(*OFFSET_KEY, "next_offset"), list(OFFSET_KEY)))
    by_client, by_queue = Window.partitionBy(*HOLDER), Window.partitionBy(*OFFSET_KEY)
    open_holding = F.max_by(F.when(F.col("is_held"), F.col("holding")), "event_number").over(by_client)
    allocated = F.when(F.col("is_open") & (F.col("event") == ACK_ALLOCATED), F.struct(*EVENT_ORDER, "client_id"))
    is_holders = F.col("is_open") & (F.col("client_id") == F.max(allocated).over(by_queue)["client_id"])
    taken = F.when(F.col("is_holders") & (F.col("event") == ACK_TAKEN), F.col("offsets"))
    return (
        held.withColumn("is_open", F.coalesce(F.col("holding") == open_holding, F.lit(False)))
        .withColumn("is_holders", F.coalesce(is_holders, F.lit(False)))
        .withColumn("is_used", F.col("event").isin(ACK_TAKEN, ACK_ACKED))
        .select(*OFFSET_KEY, "is_used", "next_offset", F.explode_outer(taken).alias("offset"))
        .groupBy(*OFFSET_KEY)
        .agg(
            F.count_distinct(F.when(F.col("offset") >= F.col("next_offset"), F.col("offset"))).alias(
                "redelivery_count"
            ),
            F.max("is_used").alias("is_used"),
        )
        .where("is_used")
        .drop("is_used")
    )


def _holdings(acks: DataFrame) -> DataFrame:
    in_order = Window.partitionBy(*HOLDER).orderBy(*EVENT_ORDER)
    change = F.when(F.col("event").isin(ACK_ALLOCATED, ACK_DROPPED), F.col("event"))
    return (
        acks.withColumn("event_number", F.row_number().over(in_order))
        .withColumn("holding", F.count(F.when(F.col("event") == ACK_ALLOCATED, 1)).over(in_order))
        .withColumn(
            "is_held", F.coalesce(F.last(change, ignorenulls=True).over(in_order) == ACK_ALLOCATED, F.lit(False))
        )
    )


def _offset_events(acks: DataFrame) -> DataFrame:
    # One row per offset of an event; an acknowledgement of nothing keeps one row, for it reports too.
    events = (
        _holdings(acks)
        .where(F.col("is_held") & F.col("event").isin(ACK_TAKEN, ACK_ACKED))
        .withColumn("offset", F.explode_outer(F.array_distinct("offsets")))
    )
    of_offset = Window.partitionBy(*HOLDING, "offset").orderBy("event_number")
    earlier_events = Window.partitionBy(*HOLDING).orderBy("event_number").rangeBetween(Window.unboundedPreceding, -1)
    was_waiting = F.coalesce(F.lag("event").over(of_offset) == ACK_TAKEN, F.lit(False))
    waiting = F.sum("change").over(earlier_events)
    is_effective = (F.col("event") == ACK_ACKED) & (F.col("waiting") > 0)
    return (
        events.withColumn("was_waiting", was_waiting & F.col("offset").isNotNull())
        .withColumn("change", _change())
        .withColumn("waiting", F.coalesce(waiting, F.lit(0)))
        .withColumn(
            "last_effective", F.max(F.when(is_effective, F.col("event_number"))).over(Window.partitionBy(*HOLDING))
        )
    )


def _change() -> Column:
    is_waiting, has_offset = F.col("was_waiting"), F.col("offset").isNotNull()
    return (
        F.when(has_offset & (F.col("event") == ACK_TAKEN) & ~is_waiting, 1)
        .when((F.col("event") == ACK_ACKED) & is_waiting, -1)
        .otherwise(0)
    )
