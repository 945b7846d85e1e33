"""Data files below a table, by listings alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from txmq_lib.delta.stored_files import StoredFile, stored_files

pytestmark = pytest.mark.spark
WRITTEN_MS = 1_795_257_700_123


def write(path: Path, size: int, modified_ms: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    os.utime(path, ns=(0, modified_ms * 1_000_000))


@pytest.mark.parametrize("odd", ["", "a;b {c} =é%20"], ids=["as a status tells", "asked one by one"])
def test_files_of_all_partitions_with_size_and_time_and_nothing_that_is_hidden(
    spark: SparkSession, tmp_path: Path, odd: str
):
    assert stored_files(spark, str(tmp_path)) == []
    write(tmp_path / f"part-1{odd}.parquet", 10, WRITTEN_MS)
    write(tmp_path / f"day=1{odd}" / "hour=2" / "part-2.parquet", 20, WRITTEN_MS + 1)
    write(tmp_path / "day=2" / "part-3.parquet", 0, WRITTEN_MS + 2)
    for hidden in ("_delta_log/00000000000000000000.json", "_change_data/cdc-1.parquet", ".part-1.parquet.crc"):
        write(tmp_path / hidden, 5, WRITTEN_MS)
    assert sorted(stored_files(spark, str(tmp_path))) == [
        StoredFile(f"part-1{odd}.parquet", 10, WRITTEN_MS),
        StoredFile("part-2.parquet", 20, WRITTEN_MS + 1),
        StoredFile("part-3.parquet", 0, WRITTEN_MS + 2),
    ]
