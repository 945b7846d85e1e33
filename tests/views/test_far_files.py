"""Files of far tables, read side by side: what is asked for, and rows as the log says, whoever has written the files and how."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.fs import DeltaStorageHandler
from views.conftest import append, take_for_far

from txmq_lib.errors import InputError
from txmq_lib.views import far_files
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.scan import Scan

SETTLED = Scan("verdict", ("transaction_id", "is_settled"))


@pytest.fixture
def uri(warehouse) -> str:
    """A warehouse with three verdicts, each in a file of its own."""
    uri = warehouse({})
    for number in range(3):
        append(Path(uri), "verdict", [{"transaction_id": f"T-{number}", "is_settled": number == 1, "reason": "seen"}])
    return uri


@pytest.fixture(params=[True, False], ids=["far", "near"])
def far_or_near(request, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        take_for_far(monkeypatch)


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> None:
    take_for_far(monkeypatch)


@pytest.fixture
def opened_paths(far, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that a store was asked for."""
    paths: list[str] = []
    inner = DeltaStorageHandler.open_input_file

    def opened(handler, path):
        paths.append(path)
        return inner(handler, path)

    monkeypatch.setattr(DeltaStorageHandler, "open_input_file", opened)
    return paths


def ids(uri: str, **matched: list[str]) -> list[str]:
    scan = Scan("verdict", tuple({"transaction_id": None, **matched}), (matched,) if matched else ())
    return sorted(row["transaction_id"] for row in WarehouseReader(uri).rows(scan))


def file_of(uri: str, name: str) -> tuple[Path, Path]:
    """The data file with the row of an id, and the entry of the log that adds it."""
    (path,) = DeltaTable(f"{uri}/verdict").file_uris(file_pruning_predicate=f"transaction_id = '{name}'")
    (entry,) = (log for log in Path(uri, "verdict", "_delta_log").glob("*.json") if Path(path).name in log.read_text())
    return Path(path), entry


def moved(uri: str, name: str, there: Path, path: str) -> None:
    """Move the file of an id; the log has it under another path then."""
    file, entry = file_of(uri, name)
    there.parent.mkdir(parents=True, exist_ok=True)
    file.rename(there)
    was = str(file.relative_to(Path(uri, "verdict")))
    assert was in entry.read_text()
    entry.write_text(entry.read_text().replace(was, path))


def test_each_file_is_asked_for_once(uri, opened_paths):
    assert ids(uri) == ["T-0", "T-1", "T-2"]
    assert len(opened_paths) == len(set(opened_paths)) == 3


def test_only_files_that_may_hold_what_is_looked_for_are_asked_for(uri, opened_paths):
    assert ids(uri, transaction_id=["T-1"]) == ["T-1"]
    assert len(opened_paths) == 1


def test_of_a_file_with_a_row_that_is_looked_for_that_row_alone_is_handed_on(uri, far, monkeypatch):
    append(Path(uri), "verdict", [{"transaction_id": f"B-{n}", "reason": None if n else "seen"} for n in range(3)])
    counts: list[int] = []
    inner = far_files.rows_of_files

    def counted(*scan: Any) -> pa.Table:
        rows = inner(*scan)
        counts.append(rows.num_rows)
        return rows

    monkeypatch.setattr(far_files, "rows_of_files", counted)
    assert ids(uri, transaction_id=["B-1", "B-2"]) == ["B-1", "B-2"]
    assert ids(uri, reason=["seen"]) == ["B-0", "T-0", "T-1", "T-2"]
    assert counts == [2, 4]


def test_what_is_much_is_streamed(uri, opened_paths, monkeypatch):
    monkeypatch.setattr(far_files, "KEPT_BYTES", 100)
    assert ids(uri) == ["T-0", "T-1", "T-2"]
    assert not opened_paths


def test_of_a_large_file_only_columns_are_read(uri, far, monkeypatch):
    big = [{"transaction_id": f"B-{n}", "reason": os.urandom(60_000).hex()} for n in range(60)]
    append(Path(uri), "verdict", big)
    read: list[int] = []
    inner = DeltaStorageHandler.open_input_file

    class Counted:
        def __init__(self, file: pa.NativeFile) -> None:
            self._file = file

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

        def read(self, *size: int) -> bytes:
            data: bytes = self._file.read(*size)
            read.append(len(data))
            return data

        read_buffer = read

    monkeypatch.setattr(
        DeltaStorageHandler, "open_input_file", lambda *asked_for: pa.PythonFile(Counted(inner(*asked_for)))
    )
    assert len(ids(uri)) == 63
    assert sum(read) < 200_000
    read.clear()
    WarehouseReader(uri).rows(Scan("verdict", ("reason",)))
    assert sum(read) > 60 * 60_000


def test_partition_values_are_those_of_the_log(uri, far):
    moved(uri, "T-1", Path(uri, "verdict", "Ab", "part.parquet"), "Ab/part.parquet")
    rows = WarehouseReader(uri).rows(SETTLED)
    assert {row["transaction_id"]: row["is_settled"] for row in rows} == {"T-0": False, "T-1": True, "T-2": False}


@pytest.mark.parametrize("where", [{}, {"transaction_id": ["T-0"]}, {"transaction_id": ["T-1"]}])
def test_files_of_one_name_in_two_partitions_are_two(uri, far, where):
    for name, partition in (("T-0", "is_settled=false"), ("T-1", "is_settled=true")):
        moved(uri, name, Path(uri, "verdict", partition, "part.parquet"), f"{partition}/part.parquet")
    assert ids(uri, **where) == where.get("transaction_id", ["T-0", "T-1", "T-2"])


@pytest.mark.parametrize(
    ("name", "path"),
    [("a b.parquet", "a%20b.parquet"), ("a[1].parquet", "a%5B1%5D.parquet"), ("é.parquet", "%C3%A9.parquet")],
)
def test_a_file_whose_name_is_written_otherwise_in_the_log_is_read(uri, far_or_near, name, path):
    moved(uri, "T-1", Path(uri, "verdict", "is_settled=true", name), f"is_settled=true/{path}")
    assert ids(uri, transaction_id=["T-1", "T-2"]) == ["T-1", "T-2"]
    assert ids(uri) == ["T-0", "T-1", "T-2"]


def test_a_file_that_lies_elsewhere_is_streamed(uri, opened_paths, tmp_path):
    moved(uri, "T-1", tmp_path / "elsewhere.parquet", str(tmp_path / "elsewhere.parquet"))
    assert ids(uri) == ["T-0", "T-1", "T-2"]
    assert not opened_paths


def test_of_a_file_of_before_a_column_it_lacks_is_null(uri, far_or_near):
    path = f"{uri}/verdict"
    rows = DeltaTable(path).to_pyarrow_table()
    write_deltalake(path, rows.drop_columns(["reason"]), mode="overwrite", schema_mode="overwrite")
    assert ids(uri, reason=["seen"]) == []
    write_deltalake(path, rows.slice(0, 1), mode="append", schema_mode="merge")
    found = WarehouseReader(uri).rows(Scan("verdict", ("reason",)))
    assert sorted(row["reason"] or "" for row in found) == ["", "", "", "seen"]
    assert len(ids(uri, reason=["seen"])) == 1


@pytest.mark.parametrize("left", [None, 0, 100])
def test_a_file_that_cannot_be_read_is_told_and_nothing_is_thought_empty(uri, far_or_near, left):
    file, _ = file_of(uri, "T-1")
    if left is None:
        file.unlink()
    else:
        os.truncate(file, left)
    with pytest.raises(InputError, match="cannot be read"):
        ids(uri)


@pytest.mark.parametrize("above", ["transaction_id=7", "a[b]"])
@pytest.mark.parametrize("is_linked", [False, True])
def test_a_directory_above_the_warehouse_gives_no_column_its_value_and_is_no_pattern(uri, tmp_path, above, is_linked):
    place = tmp_path / above / "w"
    place.parent.mkdir()
    Path(uri).rename(place)
    if is_linked:
        (tmp_path / "link").symlink_to(place)
    assert ids(str(tmp_path / "link" if is_linked else place)) == ["T-0", "T-1", "T-2"]


def test_columns_that_have_other_names_in_the_files_are_read(uri, far_or_near):
    log = Path(uri, "verdict", "_delta_log")
    for file in map(Path, DeltaTable(log.parent).file_uris()):
        rows = pq.read_table(file, partitioning=None)
        pq.write_table(rows.rename_columns([f"col-{name}" for name in rows.column_names]), file)
    for entry in log.glob("*.json"):
        entry.write_text("\n".join(json.dumps(_mapped(json.loads(line), log.parent)) for line in entry.open()))
    assert ids(uri) == ["T-0", "T-1", "T-2"]


def _mapped(action: dict[str, Any], table: Path) -> dict[str, Any]:
    """An action as Spark writes it where columns are renamed, with the protocol that has no list of features."""
    if "protocol" in action:
        return {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}
    if metadata := action.get("metaData"):
        schema = json.loads(metadata["schemaString"])
        for number, field in enumerate(schema["fields"], start=1):
            stored = field["name"] if field["name"] == "is_settled" else f"col-{field['name']}"
            field["metadata"] = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": stored}
        metadata["schemaString"] = json.dumps(schema)
        metadata["configuration"] = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "99"}
    if add := action.get("add"):
        add.pop("stats", None)
        add["size"] = (table / add["path"]).stat().st_size
    return action


def test_times_of_an_old_type_of_spark_may_be_of_any_year(uri, far_or_near):
    moment = datetime(9999, 12, 31, 12, tzinfo=UTC)
    file, entry = file_of(uri, "T-1")
    rows = pq.read_table(file, partitioning=None)
    place = rows.schema.get_field_index("last_timestamp")
    rows = rows.set_column(place, rows.schema.field(place), pa.array([moment], rows.schema.field(place).type))
    was = file.stat().st_size
    pq.write_table(rows, file, use_deprecated_int96_timestamps=True)
    entry.write_text(entry.read_text().replace(f'"size":{was}', f'"size":{file.stat().st_size}'))
    found = WarehouseReader(uri).rows(Scan("verdict", ("transaction_id", "last_timestamp")))
    assert next(row for row in found if row["transaction_id"] == "T-1")["last_timestamp"].startswith("9999-12-31T12:00")


VERDICTS = (
    {"broker_name": "a", "transaction_id": "T-1", "check_times": 1, "is_settled": True},
    {"broker_name": "b", "transaction_id": "T-9", "check_times": 9, "reason": None, "is_settled": True},
    {"broker_name": "b", "transaction_id": "T-2", "check_times": 2, "reason": "seen", "is_settled": True},
    {"broker_name": "a", "transaction_id": "T-8", "check_times": 8, "is_settled": False},
)


@pytest.fixture
def columns_read(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The columns of each reading of a file."""
    read: list[list[str]] = []
    inner = pq.ParquetFile.read

    def reading(file, columns, **named):
        read.append(list(columns))
        return inner(file, columns=columns, **named)

    monkeypatch.setattr(pq.ParquetFile, "read", reading)
    return read


def test_of_a_file_that_has_no_row_of_what_is_looked_for_only_the_keys_are_read(warehouse, far, columns_read):
    uri = warehouse({"verdict": VERDICTS[:2]})
    append(Path(uri), "verdict", VERDICTS[2:3])
    append(Path(uri), "verdict", [{**VERDICTS[2], "broker_name": "a"}, {**VERDICTS[1], "transaction_id": "T-0"}])
    where = {"transaction_id": ["T-2"], "broker_name": ["b"]}
    scan = Scan("verdict", ("transaction_id", "reason", "broker_name"), (where,))
    assert WarehouseReader(uri).rows(scan) == [{"transaction_id": "T-2", "reason": "seen", "broker_name": "b"}]
    assert sorted(columns_read, key=len) == [["broker_name", "transaction_id"]] * 3 + [[*scan.columns]]


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ([{"transaction_id": ["T-1", "T-8"]}], ["T-1", "T-8"]),
        ([{"transaction_id": ["T-1"], "broker_name": ["b"]}], []),
        ([{"transaction_id": ["T-1"]}, {"broker_name": ["b"], "check_times": [2]}], ["T-1", "T-2"]),
        ([{"reason": ["seen"]}], ["T-2"]),
        ([{"is_settled": ["true"]}], ["T-1", "T-2", "T-9"]),
        ([{"is_settled": ["true"]}, {"check_times": [8]}], ["T-1", "T-2", "T-8", "T-9"]),
        ([{"is_settled": ["true"], "check_times": [8, 9]}], ["T-9"]),
        ([{"check_times": ["9"]}], ["T-9"]),
    ],
    ids=str,
)
@pytest.mark.parametrize("is_each_alone", [True, False])
def test_rows_that_are_looked_for_are_found_by_whatever_columns(warehouse, far_or_near, where, found, is_each_alone):
    uri = warehouse({})
    for rows in [[row] for row in VERDICTS] if is_each_alone else [VERDICTS]:
        append(Path(uri), "verdict", rows)
    columns = dict.fromkeys(["transaction_id", *(name for match in where for name in match)])
    rows = WarehouseReader(uri).rows(Scan("verdict", tuple(columns), tuple(where)))
    assert sorted(row["transaction_id"] for row in rows) == found
