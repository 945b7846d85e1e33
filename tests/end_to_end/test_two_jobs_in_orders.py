"""Two jobs at once in some orders of their writes; `make faults FAULTS="--only orders"` drives every pair through all."""

from __future__ import annotations

from pathlib import Path

import pytest
from orders import Orders
from pyspark.sql import SparkSession


@pytest.mark.long
@pytest.mark.parametrize(
    ("first", "second"), [("land", "land"), ("land", "reconcile"), ("land", "take-back"), ("take-back", "rollup")]
)
def test_two_jobs_end_as_one_after_the_other_in_whatever_order_they_write(
    spark: SparkSession, tmp_path: Path, first, second
):
    seen = Orders(tmp_path, spark).pair(first, second, most=4)
    assert (seen.orders, seen.differing) == (4, 0), seen.notes
