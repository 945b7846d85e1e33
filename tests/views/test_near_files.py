"""Copies of files of far tables: each file asked for once, what is much streamed, none left behind."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake.fs import DeltaStorageHandler
from views.conftest import append

from txmq_lib.errors import InputError
from txmq_lib.files.scratch import scratch
from txmq_lib.views import near_files
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.scan import Scan

VERDICTS = [{"transaction_id": f"T-{number}", "verdict": "COMMITTED"} for number in range(3)]
IDS = Scan("verdict", ("transaction_id",))


@pytest.fixture
def uri(warehouse) -> str:
    """A warehouse with three verdicts, each in a file of its own."""
    uri = warehouse({})
    for row in VERDICTS:
        append(Path(uri), "verdict", [row])
    return uri


@pytest.fixture(autouse=True)
def _all_is_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WarehouseReader, "is_far", property(lambda _: True, lambda *_: None), raising=False)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The files that a store was asked for."""
    paths: list[str] = []
    inner = DeltaStorageHandler.open_input_file

    def opened(handler, path):
        paths.append(path)
        return inner(handler, path)

    monkeypatch.setattr(DeltaStorageHandler, "open_input_file", opened)
    return paths


def ids(reader: WarehouseReader) -> list[str]:
    return sorted(row["transaction_id"] for row in reader.rows(IDS))


def copies() -> list[Path]:
    return [path for path in scratch().glob("view-*/**/*") if path.is_file()]


def test_a_file_is_asked_for_once_however_often_its_table_is_read(uri, asked):
    reader = WarehouseReader(uri)
    assert ids(reader) == ["T-0", "T-1", "T-2"]
    assert [row["verdict"] for row in reader.rows(Scan("verdict", ("verdict",)))] == ["COMMITTED"] * 3
    assert len(asked) == len(set(asked)) == 3


def test_only_files_that_may_hold_what_is_looked_for_are_asked_for(uri, asked):
    reader = WarehouseReader(uri)
    found = reader.rows(Scan("verdict", ("transaction_id",), ({"transaction_id": ["T-1"]},)))
    assert found == [{"transaction_id": "T-1"}]
    assert len(asked) == 1
    ids(reader)
    assert len(asked) == 3


def test_what_is_much_is_streamed_and_leaves_no_copy(uri, asked, monkeypatch):
    monkeypatch.setattr(near_files, "KEPT_BYTES", 100)
    assert ids(WarehouseReader(uri)) == ["T-0", "T-1", "T-2"]
    assert not asked


def test_copies_are_gone_with_the_reader(uri):
    before = len(copies())
    reader = WarehouseReader(uri)
    ids(reader)
    assert len(copies()) == before + 3
    del reader
    gc.collect()
    assert len(copies()) == before


def test_a_file_that_is_gone_is_told_and_nothing_is_thought_empty(uri):
    (first, *_) = Path(uri, "verdict").rglob("*.parquet")
    os.remove(first)
    with pytest.raises(InputError, match="verdict cannot be read"):
        ids(WarehouseReader(uri))


def test_a_scratch_directory_that_duckdb_would_take_for_a_pattern_will_do(uri, tmp_path, monkeypatch):
    place = tmp_path / "a[b]*"
    place.mkdir()
    monkeypatch.setattr(near_files, "scratch", lambda: place)
    assert ids(WarehouseReader(uri)) == ["T-0", "T-1", "T-2"]


def test_a_file_that_lies_elsewhere_is_not_copied(uri, tmp_path, asked):
    (first, *_) = Path(uri, "verdict").rglob("*.parquet")
    elsewhere = tmp_path / first.name
    first.rename(elsewhere)
    (entry,) = (path for path in Path(uri, "verdict", "_delta_log").glob("*.json") if first.name in path.read_text())
    below = str(first.relative_to(Path(uri, "verdict")))
    entry.write_text(entry.read_text().replace(below, str(elsewhere)))
    assert ids(WarehouseReader(uri)) == ["T-0", "T-1", "T-2"]
    assert not asked
