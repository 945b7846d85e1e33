"""The history that benchmarks are measured beside fits today's tables: only a full run of hours would tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bench.data import Stream
from tests.bench.past import audited, reconciled
from txmq_lib.config.table_specs import table_spec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_rows_of_the_past_have_the_columns_of_their_tables(spark: SparkSession):
    stream, count = Stream(), 100
    past = {**reconciled(spark, stream, 0, count), "verdict": audited(spark, stream, 0, count)}
    for table, rows in past.items():
        assert rows.columns == list(table_spec(table).columns), table
    assert past["verdict"].count() == past["end_outcome"].count() > 0
