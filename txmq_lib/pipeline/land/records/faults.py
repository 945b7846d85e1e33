"""What quarantine keeps of a bad record, and of one whose key another record has."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import KEY_CONFLICT, MET_TXMQ, PROPERTY_UNIQ_KEY
from txmq_lib.rules.duplicates import CONFLICT_WITH_TXMQ, CONFLICTS
from txmq_lib.rules.half import property_of, stored_queue_id
from txmq_lib.rules.landing_contract import MESSAGE_COLUMNS

SAID = ("broker_name", "topic", "queue_id", "queue_offset", "commit_log_offset")
PLACES = {"queue_offset": "queue offset", "commit_log_offset": "physical offset"}


def fault_columns() -> list[Column]:
    """What quarantine keeps of a bad record: why, what, where from, whose, and what its header says."""
    named = [F.col(name) for name in ("reason", "detail", "raw", "source", *SAID)]
    return [*named, property_of(PROPERTY_UNIQ_KEY).alias("transaction_id")]


def conflict_rows(judged: DataFrame, *, at: str = "queue_offset") -> DataFrame:
    """Rows for quarantine of those of `judged` whose key another record has, with other content.

    at  the column of the key that tells the place
    """
    rivals = judged.where(F.col("status").isin(*CONFLICTS)).withColumn("queue_id", stored_queue_id())
    is_of_txmq = F.col("status") == CONFLICT_WITH_TXMQ
    what = F.when(is_of_txmq, F.lit(MET_TXMQ)).otherwise(F.lit("other content landed"))
    return rivals.select(
        F.lit(KEY_CONFLICT).alias("reason"),
        F.concat(what, F.lit(f" before at {PLACES[at]} "), F.col(at)).alias("detail"),
        as_json().alias("raw"),
        *fault_columns()[3:],
    )


def as_json() -> Column:
    """The whole record as a landing file would have it."""
    return F.to_json(F.struct(*MESSAGE_COLUMNS))
