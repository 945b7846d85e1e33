"""Frames meet table specs here: columns checked, ordered and cast. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from txmq_lib.config.table_specs import Differences, TableSpec, table_spec
from txmq_lib.errors import SchemaError
from txmq_lib.spark.local_frame import arrow_rows


def struct_type(spec: TableSpec) -> StructType:
    """The table's schema as Spark knows it."""
    return StructType.fromJson(spec.to_json())


def rows_at_hand(table: str, rows: Iterable[Mapping[str, Any] | Sequence[Any]]) -> pa.Table:
    """`rows` (mappings, or values in column order) with the columns of a table."""
    return arrow_rows(rows, struct_type(table_spec(table)))


def in_order(frame: DataFrame, schema: StructType) -> DataFrame:
    """`frame` with the columns of `wanted`, in order and type, by one call into the JVM; what is nullable stays so."""
    return frame.to(StructType([StructField(field.name, field.dataType) for field in schema]))


def conform(frame: DataFrame, spec: TableSpec) -> DataFrame:
    """`frame` with exactly the table's columns, in order and type; SchemaError names every column that is wrong."""
    target, types = struct_type(spec), {field.name: field.dataType for field in frame.schema}
    missing = tuple(name for name in target.names if name not in types)
    unexpected = tuple(name for name in types if name not in set(target.names))
    mistyped = tuple(
        f"{field.name}: {types[field.name].simpleString()} is no {field.dataType.simpleString()}"
        for field in target
        if field.name in types and not _fits(types[field.name].simpleString(), field.dataType.simpleString())
    )
    if missing or unexpected or mistyped:
        differences = Differences(missing, unexpected, mistyped)
        raise SchemaError(f"rows for {spec.table}: {differences}; compare with schemas/{spec.table}.yaml")
    return in_order(frame, target)


def _fits(stored: str, spec: str) -> bool:
    # Widening is harmless, anything else is a mistake of the rule that made the frame.
    return (
        stored == spec or stored == "void" or (stored, spec) in {("int", "bigint"), ("int", "int"), ("float", "double")}
    )
