"""Rows at hand as a frame that Spark knows whole: no job, no Python worker, and empty ones are planned away."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

_AT_HAND: Final[WeakKeyDictionary[DataFrame, pa.Table]] = WeakKeyDictionary()


def local_frame(
    spark: SparkSession, rows: Iterable[Mapping[str, Any] | Sequence[Any]], schema: StructType | str
) -> DataFrame:
    """`rows` (mappings, or values in column order) as a frame of `schema` (a type or DDL).

    Through Arrow, so that it becomes a local relation; a list of rows would become a job of Python workers.
    """
    type_ = cast("StructType", StructType.fromDDL(schema)) if isinstance(schema, str) else schema
    table: Any = arrow_rows(rows, type_)
    return spark.createDataFrame(table, type_)


def arrow_rows(rows: Iterable[Mapping[str, Any] | Sequence[Any]], schema: StructType) -> pa.Table:
    """`rows` (mappings, or values in column order) as an Arrow table of `schema`."""
    values = [row if isinstance(row, Mapping) else dict(zip(schema.names, row, strict=True)) for row in rows]
    return pa.Table.from_pylist([_plain(row) for row in values], schema=to_arrow_schema(schema))


def materialized(frame: DataFrame) -> DataFrame:
    """A small frame computed now, as a local relation whose rows `at_hand` gives."""
    table = frame.toArrow()
    local = frame.sparkSession.createDataFrame(table, frame.schema)
    _AT_HAND[local] = table
    return local


def at_hand(frame: DataFrame) -> pa.Table | None:
    """The rows of a frame that `materialized` made, without a look into the JVM; None of others."""
    return _AT_HAND.get(frame)


def in_arrow(frame: DataFrame) -> pa.Table:
    """The rows of a frame: at hand, or computed now."""
    table = at_hand(frame)
    return frame.toArrow() if table is None else table


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _arrow_value(value) for name, value in row.items()}


def _arrow_value(value: object) -> object:
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.astimezone(UTC)  # Spark hands times over in the local zone and without it
    return value
