"""Columns as SQL text: how a value of each type leaves DuckDB. Knows no table."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeAlias

# A type as the YAML of a table has it: Spark's JSON name, or a nested type.
SparkType: TypeAlias = str | dict[str, Any]

# DuckDB's own cast of bytes to text escapes what is not printable ASCII, so it serves where bytes are no UTF-8.
BODY_SQL = {
    "base64": "base64({body})",
    "hex": "lower(hex({body}))",
    "text": "coalesce(try(decode({body})), CAST({body} AS VARCHAR))",
}

# Milliseconds, cut and not rounded; ends in Z because every time of a table is UTC.
TIME_FORMAT = "%Y-%m-%dT%H:%M:%S.%gZ"


DUCKDB_TYPES = {
    "string": "VARCHAR",
    "integer": "INTEGER",
    "long": "BIGINT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "binary": "BLOB",
    "timestamp": "TIMESTAMPTZ",
}


class BodyForm(StrEnum):
    """How bytes leave: base64 and hex always can; text is UTF-8, and \\xNN for each byte that is none."""

    base64 = "base64"
    hex = "hex"
    text = "text"


BASE64 = BodyForm.base64


def quoted(name: str) -> str:
    """A column name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def output(expression: str, type_: SparkType, bodies: BodyForm = BASE64) -> str:
    """`expression` of a type as a value JSON can hold: times as ISO 8601 UTC in milliseconds, binary as `bodies`."""
    if type_ == "timestamp":
        return f"strftime(CAST({expression} AS TIMESTAMP), '{TIME_FORMAT}')"
    if type_ == "binary":
        return BODY_SQL[bodies].format(body=expression)
    if isinstance(type_, str) or not _needs_converting(type_):
        return expression
    if type_["type"] == "array":
        return f"list_transform({expression}, lambda item: {output('item', type_['elementType'])})"
    members = ", ".join(_member(expression, field["name"], field["type"]) for field in type_["fields"])
    return f"CASE WHEN {expression} IS NOT NULL THEN struct_pack({members}) END"


def utc(expression: str) -> str:
    """A time without its zone: DuckDB hands times with one over by way of another library."""
    return f"CAST({expression} AS TIMESTAMP)"


def in_utc(moment: datetime | None) -> Any:  # noqa: ANN401 - None only for None
    """What `utc` selected, with its zone again; None stays None."""
    return None if moment is None else moment.replace(tzinfo=UTC)


def duckdb_type(type_: SparkType) -> str:
    """A type as DuckDB writes it."""
    if isinstance(type_, str):
        return DUCKDB_TYPES[type_]
    match type_["type"]:
        case "array":
            return f"{duckdb_type(type_['elementType'])}[]"
        case "map":
            return f"MAP({duckdb_type(type_['keyType'])}, {duckdb_type(type_['valueType'])})"
        case _:
            members = ", ".join(f"{quoted(each['name'])} {duckdb_type(each['type'])}" for each in type_["fields"])
            return f"STRUCT({members})"


def _member(expression: str, name: str, type_: SparkType) -> str:
    return f"{quoted(name)} := {output(f'{expression}.{quoted(name)}', type_)}"


def _needs_converting(type_: SparkType) -> bool:
    if isinstance(type_, str):
        return type_ in ("timestamp", "binary")
    inner = [type_["elementType"]] if type_["type"] == "array" else [each["type"] for each in type_.get("fields", ())]
    return any(_needs_converting(each) for each in inner)
