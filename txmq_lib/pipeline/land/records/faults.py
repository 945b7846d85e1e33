"""What quarantine keeps of a bad record, and of one whose key another record has."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import KEY_CONFLICT, PROPERTY_UNIQ_KEY
from txmq_lib.rules.duplicates import CONFLICT
from txmq_lib.rules.half import property_of, stored_queue_id
from txmq_lib.rules.landing_contract import MESSAGE_COLUMNS

SAID = ("topic", "queue_id", "queue_offset", "commit_log_offset")
PLACES = {"queue_offset": "queue offset", "commit_log_offset": "physical offset"}


def fault_columns() -> list[Column]:
    """What quarantine keeps of a bad record: why, what, where from, and what its header says."""
    named = [F.col(name) for name in ("reason", "detail", "raw", "source", *SAID)]
    return [*named, property_of(PROPERTY_UNIQ_KEY).alias("transaction_id")]


def conflict_rows(judged: DataFrame, *, at: str = "queue_offset") -> DataFrame:
    """Rows for quarantine of those of `judged` whose key another record has, with other content.

    at  the column of the key that tells the place
    """
    rivals = judged.where(F.col("status") == CONFLICT).withColumn("queue_id", stored_queue_id())
    return rivals.select(
        F.lit(KEY_CONFLICT).alias("reason"),
        F.concat(F.lit(f"other content landed before at {PLACES[at]} "), F.col(at)).alias("detail"),
        as_json().alias("raw"),
        *fault_columns()[3:],
    )


def as_json() -> Column:
    """The whole record as a landing file would have it."""
    return F.to_json(F.struct(*MESSAGE_COLUMNS))
