"""Sets of queue offsets as 64-bit words: offsets are dense, so that a shuffle of words is 64 times smaller. Pure."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

QUEUE = ("broker_name", "queue_id")
_WORD = "shiftright(queue_offset, 6)"
_BIT = "cast(queue_offset & 63 as int)"


def offset_bitmap(places: DataFrame) -> DataFrame:
    """The offsets of `places` (QUEUE and queue_offset, repeated or not), 64 to a row: QUEUE, word, mask."""
    bits = places.select(*QUEUE, F.expr(_WORD).alias("word"), F.expr(f"shiftleft(1L, {_BIT})").alias("bit"))
    return bits.groupBy(*QUEUE, "word").agg(F.bit_or("bit").alias("mask"))


def with_membership(rows: DataFrame, bitmap: DataFrame, name: str) -> DataFrame:
    """`rows` (QUEUE, queue_offset, ...) with a column `name`: whether `bitmap` hold the row's offset.

    bitmap  sent whole to every task: as many as the driver can hold
    """
    on = [*QUEUE, "word"]
    looked_up = rows.withColumn("word", F.expr(_WORD)).join(F.broadcast(bitmap), on=on, how="left")
    is_in = F.coalesce(F.expr(f"getbit(mask, {_BIT})") == 1, F.lit(False))
    return looked_up.withColumn(name, is_in).drop("word", "mask")


def ranked_offsets(bitmap: DataFrame, *, parts: int = 1) -> DataFrame:
    """One row per offset of `bitmap`: QUEUE, queue_offset, and its rank in the queue, dense from 0.

    parts  by how many tasks: words are so small that Spark would leave all that comes of a queue's to one
    """
    in_order = Window.partitionBy(*QUEUE).orderBy("word").rowsBetween(Window.unboundedPreceding, -1)
    before = F.coalesce(F.sum(F.bit_count("mask")).over(in_order), F.lit(0)).alias("before")
    counted = bitmap.select("*", before)
    if parts > 1:
        place = (*QUEUE, "word")
        counted = counted.repartitionByRange(parts, *place).sortWithinPartitions(*place)
    # Two selects: within one, Spark would explode first.
    each = counted.select("*", F.explode(F.expr("sequence(0, 63)")).alias("bit"))
    lower = F.bit_count(F.expr("mask & ~shiftleft(-1L, bit)"))
    return each.where("getbit(mask, bit) = 1").select(
        *QUEUE, (F.shiftleft("word", 6) + F.col("bit")).alias("queue_offset"), (F.col("before") + lower).alias("rank")
    )
