"""Small Delta tables written without a JVM: whole valid rows, of which a test types only what it is about."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema, write_deltalake

from txmq_lib.config.table_specs import RUN_TABLE, TableSpec, table_spec, table_specs
from txmq_lib.views.reader import WarehouseReader

PLAIN_DEFAULTS: dict[str, Any] = {
    "string": "",
    "integer": 0,
    "long": 0,
    "double": 0.0,
    "boolean": False,
    "binary": b"",
    "timestamp": datetime(2026, 11, 21, tzinfo=UTC),
}

Rows = Mapping[str, Sequence[Mapping[str, Any]]]


@pytest.fixture(scope="session")
def empty_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every table of `schemas/` without a row, to be copied."""
    directory = tmp_path_factory.mktemp("empty_tables")
    for name in (*table_specs(), RUN_TABLE):
        spec = table_spec(name)
        DeltaTable.create(directory / name, _schema(spec), partition_by=list(spec.partition_by))
    return directory


@pytest.fixture
def warehouse(tmp_path: Path, empty_tables: Path) -> Callable[[Rows], str]:
    """Writes a new warehouse: every table with the rows given (times as ISO 8601 text); the URI."""
    written = count()

    def write(rows: Rows) -> str:
        directory = tmp_path / f"warehouse-{next(written)}"
        shutil.copytree(empty_tables, directory)
        for name, table_rows in rows.items():
            append(directory, name, table_rows)
        return str(directory)

    return write


def take_for_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let readers take every warehouse for one on an object store."""
    monkeypatch.setattr(WarehouseReader, "is_far", property(lambda _: True, lambda *_: None), raising=False)


def append(directory: Path, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Adds rows to a table, as a file of their own."""
    spec = table_spec(name)
    table = pa.Table.from_pylist([_whole(spec, row) for row in rows], pa.schema(_schema(spec).to_arrow()))
    write_deltalake(directory / name, table, mode="append")


def with_column_added(directory: Path, name: str, column: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """A table anew as `ALTER TABLE ... ADD COLUMN` leaves it: its rows lie in files without the column."""
    spec = table_spec(name)
    fields = {field.name: field for field in _schema(spec).fields}
    added = fields.pop(column)
    old = Schema(list(fields.values()))
    shutil.rmtree(directory / name)
    DeltaTable.create(directory / name, old, partition_by=list(spec.partition_by))
    whole = [{name: value for name, value in _whole(spec, row).items() if name in fields} for row in rows]
    write_deltalake(directory / name, pa.Table.from_pylist(whole, pa.schema(old.to_arrow())), mode="append")
    DeltaTable(directory / name).alter.add_columns(added)


@pytest.fixture
def txmq(txmq_as_it_is: Callable[..., tuple[int, str, str]]) -> Callable[..., tuple[int, str, str]]:
    """The same, with commands in hints as they are without the `--warehouse` that was given."""

    def run(*arguments: str) -> tuple[int, str, str]:
        status, out, err = txmq_as_it_is(*arguments)
        at = arguments.index("--warehouse") + 1 if "--warehouse" in arguments else None
        hint = None if at is None else f"txmq {shlex.join(arguments[at - 1 : at + 1])} "
        plain = [
            text if hint is None or text.startswith("error ") else text.replace(hint, "txmq ") for text in (out, err)
        ]
        return status, plain[0], plain[1]

    return run


@pytest.fixture
def txmq_as_it_is(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs one command in this process; its exit status, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        from txmq_lib.cli import main

        status = main(arguments)
        output = capsys.readouterr()
        return status, output.out, output.err

    return run


def _schema(spec: TableSpec) -> Schema:
    return Schema.from_json(json.dumps(spec.to_json()))


def _whole(spec: TableSpec, row: Mapping[str, Any]) -> dict[str, Any]:
    strangers = set(row) - set(spec.columns)
    assert not strangers, f"{spec.table} has no column {sorted(strangers)}"
    times = {field.name for field in spec.fields if field.type == "timestamp"}
    values = {name: datetime.fromisoformat(value) if name in times and value else value for name, value in row.items()}
    return {f.name: values.get(f.name, None if f.nullable else _default(f.type)) for f in spec.fields}


def _default(type_: str | dict[str, Any]) -> Any:
    return PLAIN_DEFAULTS[type_] if isinstance(type_, str) else []
