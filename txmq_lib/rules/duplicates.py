"""What landed before: the same key with the same content adds nothing, with other content it is a conflict. Pure.

Where all records are new, pipeline/land/records/new_records.py finds that by runs of offsets, without a look at rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

NEW, DUPLICATE, CONFLICT, CONFLICT_WITH_TXMQ = "new", "duplicate", "conflict", "conflict_with_txmq"
CONFLICTS = (CONFLICT, CONFLICT_WITH_TXMQ)
OF_TXMQ = 0  # the hash of a row that txmq wrote itself: such a row carries none


def repeated_keys(batch: DataFrame, key: Sequence[str]) -> DataFrame:
    """Keys that several rows of `batch` have, with hash and position of the first one: found without the bodies."""
    return (
        batch.groupBy(*key)
        .agg(
            F.min_by("content_hash", "position").alias("_first_hash"),
            F.min("position").alias("_first_position"),
            F.count("*").alias("_rows"),
        )
        .where("_rows > 1")
        .drop("_rows")
    )


def judged_by_key(
    batch: DataFrame, existing: DataFrame, key: Sequence[str], few_repeated: DataFrame | None = None
) -> DataFrame:
    """`batch` with `status`: new, duplicate (same key and content already there), or conflict (other content; with
    what txmq wrote itself whatever lands there).

    Within the batch the first row of a key, by `position`, stands.
    few_repeated  what `repeated_keys` gives, where that may be sent to every task: then no body is shuffled for it
    """
    repeated = repeated_keys(batch, key) if few_repeated is None else F.broadcast(few_repeated)
    known_hash = F.coalesce("content_hash", F.lit(OF_TXMQ)).alias("_known_hash")
    # An op message has a row per token, all with its hash.
    known = existing.select(*key, known_hash).dropDuplicates(list(key))
    joined = batch.join(repeated, on=list(key), how="left").join(known, on=list(key), how="left")
    is_repeat = F.coalesce(F.col("position") > F.col("_first_position"), F.lit(False))
    earlier_hash = F.coalesce(F.col("_known_hash"), F.when(is_repeat, F.col("_first_hash")))
    status = (
        F.when(F.col("_known_hash") == OF_TXMQ, F.lit(CONFLICT_WITH_TXMQ))
        .when(earlier_hash.isNull(), F.lit(NEW))
        .when(earlier_hash == F.col("content_hash"), F.lit(DUPLICATE))
        .otherwise(F.lit(CONFLICT))
    )
    return joined.select(*batch.columns, status.alias("status"))


def event_hash(columns: Sequence[str]) -> Column:
    """xxhash64 of what an end, a report or an acknowledgement says, `columns`; which of them are null counts too.

    xxhash64 alone passes over nulls: a text in one optional column and the same text in another would be one content.
    """
    return F.xxhash64(*columns, F.concat(*[F.col(name).isNull().cast("int").cast("string") for name in columns]))


def counted_by_content(batch: DataFrame, existing: DataFrame) -> DataFrame:
    """`batch` with `occurrence` (0 for the first row of a content, ...), less as many of each as are there already.

    Ends and reports have no key of their own, and an equal one may really come twice: landing the same file again
    adds nothing, a file that holds one twice adds both.
    """
    in_order = Window.partitionBy("broker_name", "content_hash").orderBy("position")
    numbered = batch.withColumn("occurrence", F.row_number().over(in_order) - 1)
    known = existing.groupBy("broker_name", "content_hash").agg(F.count("*").alias("_known"))
    joined = numbered.join(known, on=["broker_name", "content_hash"], how="left")
    return joined.where(F.col("occurrence") >= F.coalesce("_known", F.lit(0))).drop("_known")
