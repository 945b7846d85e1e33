"""What makes two rows one transaction: broker, transaction id, producer group, born time (R56, R66). Pure."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import TRANSACTION_KEY


def join_transaction(left: DataFrame, right: DataFrame, how: str) -> DataFrame:
    """`left` joined with `right` on the transaction key, nulls equal; the key columns come from `left`."""
    renamed = {name: f"_right_{name}" for name in TRANSACTION_KEY}
    # As one text: a column for each key takes Python many calls into the JVM.
    matches = F.expr(" and ".join(f"{ours} <=> {theirs}" for ours, theirs in renamed.items()))
    joined = left.join(right.withColumnsRenamed(renamed), on=matches, how=how)
    return joined.drop(*renamed.values())


def transactions_of(frame: DataFrame) -> DataFrame:
    """The distinct transaction keys of `frame`: a transaction has one row per half copy, op, visible message, ..."""
    return frame.select(*TRANSACTION_KEY).distinct()
