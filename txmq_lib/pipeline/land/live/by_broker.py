"""What is known of each of several brokers, as a column over rows of all of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F


def value_of(values: Mapping[str, str | int | None], type_: str) -> Column:
    """The value of each row's broker; null where it has none."""
    pairs = [F.lit(part) for pair in values.items() if pair[1] is not None for part in pair]
    return F.create_map(*pairs)[F.col("broker_name")].cast(type_) if pairs else F.lit(None).cast(type_)


def is_among(topics: Mapping[str, Collection[str]]) -> Column:
    """Whether the topic of a row is one of these of its broker; never null."""
    found = F.lit(False)
    for name, own in topics.items():
        if own:
            found |= (F.col("broker_name") == name) & F.col("topic").isin(*own)
    return F.coalesce(found, F.lit(False))
