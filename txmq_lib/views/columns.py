"""Columns as SQL text: how a value of each type leaves DuckDB. Knows no table."""

from __future__ import annotations

from typing import Any, TypeAlias

# A type as the YAML of a table has it: Spark's JSON name, or a nested type.
SparkType: TypeAlias = str | dict[str, Any]

# Milliseconds, cut and not rounded; ends in Z because every time of a table is UTC.
TIME_FORMAT = "%Y-%m-%dT%H:%M:%S.%gZ"


def quoted(name: str) -> str:
    """A column name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def output(expression: str, type_: SparkType) -> str:
    """`expression` of a type as a value JSON can hold: times as ISO 8601 UTC in milliseconds, binary as base64."""
    if type_ == "timestamp":
        return f"strftime(CAST({expression} AS TIMESTAMP), '{TIME_FORMAT}')"
    if type_ == "binary":
        return f"base64({expression})"
    if isinstance(type_, str) or not _needs_converting(type_):
        return expression
    if type_["type"] == "array":
        return f"list_transform({expression}, lambda item: {output('item', type_['elementType'])})"
    members = ", ".join(_member(expression, field["name"], field["type"]) for field in type_["fields"])
    return f"CASE WHEN {expression} IS NOT NULL THEN struct_pack({members}) END"


def _member(expression: str, name: str, type_: SparkType) -> str:
    return f"{quoted(name)} := {output(f'{expression}.{quoted(name)}', type_)}"


def _needs_converting(type_: SparkType) -> bool:
    if isinstance(type_, str):
        return type_ in ("timestamp", "binary")
    inner = [type_["elementType"]] if type_["type"] == "array" else [each["type"] for each in type_.get("fields", ())]
    return any(_needs_converting(each) for each in inner)
