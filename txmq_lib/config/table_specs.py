"""Table specs from `schemas/*.yaml`, the only place where a column is typed. Needs no session and no clock."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from txmq_lib.config.resources import schemas_dir

WRITES = ("append", "overwrite", "upsert")
GROWING = ("long", "timestamp")
# Written by commands at their end, in no pass: nothing of it is planned, pinned or taken back.
RUN_TABLE = "run"
# In C where the package has that: every command reads these.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# A type name of Spark, or a nested type as Spark writes it in JSON.
SparkType = str | dict[str, Any]


def _relaxed(type_: SparkType) -> SparkType:
    """A nested type with every nested null allowed: Delta refuses NOT NULL inside arrays and maps."""
    if not isinstance(type_, dict):
        return type_
    match type_["type"]:
        case "array":
            return {**type_, "containsNull": True, "elementType": _relaxed(type_["elementType"])}
        case "map":
            return {**type_, "valueContainsNull": True, "valueType": _relaxed(type_["valueType"])}
        case _:
            fields = [{**field, "nullable": True, "type": _relaxed(field["type"])} for field in type_["fields"]]
            return {**type_, "fields": fields}


def _bare(type_: SparkType) -> SparkType:
    """A type without what is said of nulls and without comments: what two tables must agree on."""
    if isinstance(type_, str):
        return type_
    kept = {name: _bare(inner) for name, inner in type_.items() if name in ("elementType", "keyType", "valueType")}
    fields = [{"name": each["name"], "type": _bare(each["type"])} for each in type_.get("fields", ())]
    return {"type": type_["type"], **kept, **({"fields": fields} if fields else {})}


@dataclass(frozen=True)
class Differences:
    """Columns of a stored table that are not as its spec has them, by name; `required` are missing ones never null."""

    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    mistyped: tuple[str, ...] = ()
    required: tuple[str, ...] = ()

    @property
    def can_be_added(self) -> bool:
        """Whether adding what is missing, as null, makes the table as it should be."""
        return not (self.unexpected or self.mistyped or self.required)

    def __str__(self) -> str:
        parts = {"missing": self.missing, "unexpected": self.unexpected, "mistyped": self.mistyped}
        return "; ".join(f"{word} {', '.join(names)}" for word, names in parts.items() if names)


@dataclass(frozen=True)
class Field:
    """One column: Spark JSON type name or nested type, nullability, and what it holds."""

    name: str
    type: SparkType
    nullable: bool
    comment: str

    def to_json(self) -> dict[str, Any]:
        """The field as Spark's `StructType.fromJson` takes it; Delta enforces null rules at the top level only."""
        return {
            "name": self.name,
            "type": _relaxed(self.type),
            "nullable": self.nullable,
            "metadata": {"comment": self.comment},
        }


@dataclass(frozen=True)
class TableSpec:
    """One table: its columns in order, its key, who writes it and how (passes/writer.py refuses other ways)."""

    table: str
    doc: str
    owner: str
    key: tuple[str, ...]
    writes: tuple[str, ...]
    partition_by: tuple[str, ...]
    fields: tuple[Field, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names in table order."""
        return tuple(field.name for field in self.fields)

    @property
    def has_feed(self) -> bool:
        """Whether jobs follow what lands: rows are appended, so Delta's change feed costs nothing."""
        return "append" in self.writes

    @property
    def is_written_anew(self) -> bool:
        """Whether each write replaces all rows there are."""
        return self.writes == ("overwrite",)

    @property
    def has_bodies(self) -> bool:
        """Whether a row may be megabytes long."""
        return any(field.type == "binary" for field in self.fields)

    @property
    def skipping_columns(self) -> tuple[str, ...]:
        """Columns by whose least and greatest value files are passed over: the key, places, times and pass numbers.

        Delta tells of the first 32, for a tenth of the cost of a write; texts and hashes are spread over all files.
        """
        grown = (field.name for field in self.fields if field.type in GROWING)
        columns = {*self.key, *grown} - {*self.partition_by, "content_hash"}
        return tuple(name for name in self.columns if name in columns)

    def differences(self, stored: str) -> Differences:
        """How the columns of a stored schema, as Delta's log tells it in JSON, differ; all empty where they do not."""
        found = {each["name"]: _bare(each["type"]) for each in json.loads(stored)["fields"]}
        stated = {field.name: _bare(field.to_json()["type"]) for field in self.fields}
        return Differences(
            missing=tuple(name for name in stated if name not in found),
            required=tuple(field.name for field in self.fields if field.name not in found and not field.nullable),
            unexpected=tuple(name for name in found if name not in stated),
            mistyped=tuple(name for name in stated if name in found and found[name] != stated[name]),
        )

    def to_json(self) -> dict[str, Any]:
        """The schema as Spark's `StructType.fromJson` takes it."""
        return {"type": "struct", "fields": [field.to_json() for field in self.fields]}


def _load(path: Path) -> TableSpec:
    text = path.read_text(encoding="utf-8")
    doc = text.splitlines()[0].removeprefix("# ")
    raw = yaml.load(text, Loader=_LOADER)
    if not raw["writes"] or {*raw["writes"]} - {*WRITES} or raw["table"] != path.stem:
        raise ValueError(f"{path.name}: writes must be some of {WRITES} and table the file's name")
    fields = tuple(Field(f["name"], f["type"], f["nullable"], f["comment"]) for f in raw["fields"])
    spec = TableSpec(
        table=raw["table"],
        doc=doc,
        owner=raw["owner"],
        key=tuple(raw["key"]),
        writes=tuple(raw["writes"]),
        partition_by=tuple(raw["partition_by"]),
        fields=fields,
    )
    strangers = {*spec.key, *spec.partition_by} - {*spec.columns}
    if strangers:
        raise ValueError(f"{path.name}: key or partition columns {sorted(strangers)} are no columns")
    return spec


@cache
def table_specs() -> dict[str, TableSpec]:
    """The spec of every table that passes know, by name, in alphabetical order; RUN_TABLE is none of them."""
    names = sorted(path.stem for path in schemas_dir().glob("*.yaml"))
    return {name: table_spec(name) for name in names if name != RUN_TABLE}


@cache
def table_spec(table: str) -> TableSpec:
    """One table's spec, without reading the others; KeyError where `schemas/` has no such file."""
    path = schemas_dir() / f"{table}.yaml"
    if not path.is_file():
        raise KeyError(table)
    return _load(path)
