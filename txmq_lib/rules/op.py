"""Op messages into one row per named half offset (R26, R27, R31, R32). Pure."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import OP_TAG, PROPERTY_TAGS
from txmq_lib.rules.contract import fault

KEPT = (
    "broker_name",
    "queue_id",
    "queue_offset",
    "commit_log_offset",
    "store_timestamp",
    "tags",
    "content_hash",
    "raw",
    "source",
)


def op_tokens(ops: DataFrame) -> DataFrame:
    """One row per token of each op body, in the order written, with `reason` where it names no half.

    Columns  KEPT, position (place in the body, from 0), half_queue_offset, reason, detail
    Rule     empty pieces are nothing (every token ends in a comma, R26); an op without tag `d` closes nothing (R32)
    """
    tagged = ops.drop("position").withColumn("tags", F.col("properties")[PROPERTY_TAGS])
    # As a broker reads it: bytes that are no UTF-8 spoil their own token only.
    text = F.when(F.col("tags").eqNullSafe(OP_TAG), F.make_valid_utf8(F.col("body").cast("string")))
    names_any = F.length(F.replace(text, F.lit(","), F.lit(""))) > 0
    pieces = F.when(names_any, F.split(text, ",")).otherwise(F.array(F.lit(None).cast("string")))
    exploded = tagged.select("*", F.posexplode(pieces).alias("position", "piece"))
    offset = F.when(F.col("piece").rlike(r"^[0-9]{1,19}\z"), F.col("piece").try_cast("bigint"))
    is_tagged = F.col("tags").eqNullSafe(OP_TAG)
    found = F.coalesce(
        fault(~is_tagged, "OP_TAG", F.concat(F.lit("tag is "), F.coalesce("tags", F.lit("absent")), F.lit(", not d"))),
        fault(F.col("piece").isNull(), "OP_BODY_EMPTY", F.lit("the body names no half")),
        fault(offset.isNull(), "OP_TOKEN", F.concat(F.lit("names "), F.col("piece"))),
    )
    return exploded.where("piece is null or piece <> ''").select(
        *KEPT,
        "position",
        offset.alias("half_queue_offset"),
        found["reason"].alias("reason"),
        found["detail"].alias("detail"),
    )
