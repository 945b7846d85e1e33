"""Op messages into one row per half they name (R26, R27, R31, R32, R117). Pure."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import (
    OP_BODY_EMPTY,
    OP_BODY_TOO_LARGE,
    OP_HALF_PLACE,
    OP_TAG,
    OP_TOKEN,
    PROPERTY_HALF_PLACE,
    PROPERTY_TAGS,
    ROCKSDB_OP_TOPIC,
)
from txmq_lib.rules.json_lines import fault

KEPT = (
    "broker_name",
    "queue_id",
    "queue_offset",
    "commit_log_offset",
    "store_timestamp",
    "tags",
    "content_hash",
)
TOLD_TOKENS, TOLD_LENGTH = 5, 40
# A broker's maxMessageSize, 4 MiB; its own op bodies end near 4,096 bytes (R27). All tokens of one are held at once.
MOST_BYTES = 4 << 20
# Offsets that differ take seven bytes each, or nearly: a body of more tokens repeats them. Each takes 100 bytes.
MOST_TOKENS = 1 << 20


def op_tokens(ops: DataFrame) -> DataFrame:
    """One row per token of each op body that names a half, in the order written.

    Columns  KEPT, position (place in the body, from 0), half_queue_offset
    Rule     empty pieces are nothing (every token ends in a comma, R26); an op without tag `d` closes nothing (R32);
             nor does one larger than a broker stores, or of more tokens than can differ in it; one of the RocksDB pair
             names a physical offset, in a property (R117): its half_queue_offset is that
    """
    # A body of 4 MB has a million tokens: nothing large may stand beside them.
    pieces = _with_pieces(ops).select(*KEPT, F.posexplode("pieces").alias("position", "piece"))
    named = pieces.withColumn("half_queue_offset", _offset(F.col("piece"))).drop("piece")
    return named.where("half_queue_offset is not null")


def op_faults(ops: DataFrame) -> DataFrame:
    """One row per op of which something cannot be used: all of `ops`, with reason and detail."""
    split = _with_pieces(ops).withColumn(
        "odd", F.filter("pieces", lambda piece: (piece != "") & _offset(piece).isNull())
    )
    shown = F.transform(F.slice("odd", 1, TOLD_TOKENS), lambda piece: F.left(piece, F.lit(TOLD_LENGTH)))
    size = F.octet_length("body")
    of_most = F.lit(f" bytes, and a broker stores {MOST_BYTES} at most")
    too_large = F.concat(F.lit("a body of "), size.cast("string"), of_most)
    too_many = F.concat(_commas().cast("string"), F.lit(f" tokens, and {MOST_TOKENS} at most are read"))
    others = F.size("odd") - TOLD_TOKENS
    rest = F.when(others > 0, F.concat(F.lit(" and "), others.cast("string"), F.lit(" more"))).otherwise("")
    names_none = F.forall("pieces", lambda piece: piece == "")
    found = F.coalesce(
        fault(
            ~F.col("tags").eqNullSafe(OP_TAG),
            "OP_TAG",
            F.concat(F.lit("tag is "), F.coalesce("tags", F.lit("absent")), F.lit(", not d")),
        ),
        fault(size > MOST_BYTES, OP_BODY_TOO_LARGE, too_large),
        fault(_commas() > MOST_TOKENS, OP_BODY_TOO_LARGE, too_many),
        fault(names_none & _is_of_rocksdb(), OP_HALF_PLACE, F.lit(f"no property {PROPERTY_HALF_PLACE} (R117)")),
        fault(names_none, OP_BODY_EMPTY, F.lit("the body names no half")),
        fault(F.size("odd") > 0, OP_TOKEN, F.concat(F.lit("names "), F.concat_ws(", ", shown), rest)),
    )
    why = {"reason": found["reason"], "detail": found["detail"]}
    return split.withColumns(why).drop("odd", "pieces", "tags").where("reason is not null")


def _with_pieces(ops: DataFrame) -> DataFrame:
    """`ops` with `tags`, and `pieces` of the body; none of an op that closes nothing, or is too large."""
    tagged = ops.withColumn("tags", F.col("properties")[PROPERTY_TAGS])
    # As a broker reads it: bytes that are no UTF-8 spoil their own token only.
    is_bounded = (F.octet_length("body") <= MOST_BYTES) & (_commas() <= MOST_TOKENS)
    is_read = F.col("tags").eqNullSafe(OP_TAG) & is_bounded
    text = F.when(is_read, F.make_valid_utf8(F.col("body").cast("string")))
    place = F.when(is_read, F.coalesce(F.col("properties")[PROPERTY_HALF_PLACE], F.lit("")))
    pieces = F.when(_is_of_rocksdb(), F.array(place)).otherwise(F.split(text, ","))
    return tagged.withColumn("pieces", F.when(is_read, pieces))


def _commas() -> Column:
    """How many commas the body has, where that can be too many; else 0."""
    text = F.col("body").cast("string")
    count = F.octet_length(text) - F.octet_length(F.replace(text, F.lit(","), F.lit("")))
    return F.when(F.octet_length("body") > MOST_TOKENS, count).otherwise(0)


def _is_of_rocksdb() -> Column:
    return F.col("topic") == ROCKSDB_OP_TOPIC


def _offset(piece: Column) -> Column:
    return F.when(piece.rlike(r"^[0-9]{1,19}\z"), piece.try_cast("bigint"))
