"""Where the queue offsets of a landing lie, broker by broker: which rows of a table may have one of its keys."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F


def within_spans(spans: Mapping[str, tuple[int, int]]) -> Column:
    """Whether a row is of one of these brokers, and its queue offset between the first and the last of that broker's.

    One span for all would hold the whole past of a broker where another one is new.
    """
    found = [
        (F.col("broker_name") == name) & F.col("queue_offset").between(low, high) for name, (low, high) in spans.items()
    ]
    while len(found) > 1:  # in pairs: a chain of a thousand is too deep for Spark
        found = [one | two for one, two in zip(found[::2], found[1::2], strict=False)] + found[len(found) & ~1 :]
    return found[0] if found else F.lit(False)
