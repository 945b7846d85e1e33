"""What makes two rows one transaction: broker, transaction id, producer group, born time (R56, R66). Pure."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import TRANSACTION_KEY


def join_transaction(left: DataFrame, right: DataFrame, how: str) -> DataFrame:
    """`left` joined with `right` on the transaction key, nulls equal; the key columns come from `left`."""
    renamed = right.select(
        [F.col(name).alias(f"_right_{name}") if name in TRANSACTION_KEY else F.col(name) for name in right.columns]
    )
    matches: list[Column] = [F.col(name).eqNullSafe(F.col(f"_right_{name}")) for name in TRANSACTION_KEY]
    joined = left.join(renamed, on=reduce(lambda a, b: a & b, matches), how=how)
    return joined.drop(*[f"_right_{name}" for name in TRANSACTION_KEY])


def transactions_of(frame: DataFrame) -> DataFrame:
    """The distinct transaction keys of `frame`: a transaction has one row per half copy, op, visible message, ..."""
    return frame.select(*TRANSACTION_KEY).distinct()
