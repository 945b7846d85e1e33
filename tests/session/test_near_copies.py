"""Small data files of a far warehouse are copied once; whatever cannot be copied is read where it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from txmq_lib.delta import near_copies
from txmq_lib.delta.log_actions import DataFile
from txmq_lib.delta.near_copies import NearCopies


def data_file(name: str, size: int) -> DataFile:
    return DataFile(name, size, rows=1, partition={}, is_plain=True)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    place = tmp_path / "table"
    (place / "is_late=true").mkdir(parents=True)
    (place / "one.parquet").write_bytes(b"one")
    (place / "is_late=true" / "two 2.parquet").write_bytes(b"second")
    return place


FILES = (data_file("one.parquet", 3), data_file("is_late=true/two%202.parquet", 6))


def test_files_lie_below_the_copy_as_below_the_table_and_are_asked_for_once(spark: SparkSession, table: Path):
    copies = NearCopies(spark)
    near = copies.near(f"file://{table}", FILES)
    assert near is not None
    assert Path(near, "one.parquet").read_bytes() == b"one"
    assert Path(near, "is_late=true", "two 2.parquet").read_bytes() == b"second"
    (table / "one.parquet").unlink()
    assert copies.near(f"file://{table}", FILES) == near
    assert sorted(path.name for path in Path(near).rglob("*") if path.is_file()) == ["one.parquet", "two 2.parquet"]


def test_what_is_large_or_cannot_be_copied_is_read_where_it_is(spark: SparkSession, table: Path):
    copies = NearCopies(spark)
    for files in (
        [data_file("one.parquet", near_copies.MOST_AT_ONCE), FILES[1]],
        [data_file("missing.parquet", 3)],
        [data_file("one.parquet", 4)],
    ):
        assert copies.near(f"file://{table}", files) is None


def test_copies_that_are_too_many_go_when_nobody_has_read_them_for_long(
    spark: SparkSession, table: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(near_copies, "MOST_KEPT", 8)
    copies = NearCopies(spark)
    near = copies.near(f"file://{table}", FILES[1:])
    assert near is not None
    assert copies.near(f"file://{table}", FILES[:1]) is None  # a pass may read the other one still
    monkeypatch.setattr(near_copies, "KEPT_S", 0.0)
    assert copies.near(f"file://{table}", FILES[:1]) == near
    assert [path.name for path in Path(near).rglob("*") if path.is_file()] == ["one.parquet"]
