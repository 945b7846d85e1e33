"""A warehouse that is no directory of this machine to txmq: everything goes through Spark, as on HDFS or an object store."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from contents import contents, differences
from house import House
from pyspark.sql import SparkSession
from truth import CAPTURES

from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse

HALF_SKIPPING = {
    *("broker_name", "queue_id", "queue_offset", "commit_log_offset", "prepared_transaction_offset"),
    *("born_timestamp", "store_timestamp", "landed_pass"),
}
SETTINGS = ("transaction_timeout=2", "transaction_check_interval=3", "transaction_check_max=0")


@pytest.fixture
def mounted(spark: SparkSession, tmp_path: Path) -> Path:
    """The directory that is mounted as viewfs://lake/data, a scheme that Hadoop has."""
    place = tmp_path / "mounted"
    place.mkdir()
    _hadoop(spark).set("fs.viewfs.mounttable.lake.link./data", place.as_uri())
    return place


def _hadoop(spark: SparkSession) -> Any:
    return spark.sparkContext._jsc.hadoopConfiguration()


def passes(house: House) -> None:
    house.land("half", CAPTURES / "restart" / "half.jsonl.gz")
    house.land("end", CAPTURES / "restart" / "ends.jsonl.gz")
    house.reconcile()
    house.audit()


def test_a_warehouse_of_another_scheme_holds_what_one_on_this_disk_does(
    spark: SparkSession, mounted: Path, open_house: Callable[..., House], tmp_path: Path
):
    warehouse = Warehouse(spark, "viewfs://lake/data/w")
    assert warehouse.local_path("half_message") is None
    warehouse.create_missing()
    passes(House(warehouse, tmp_path, Settings.load(assignments=list(SETTINGS), warehouse=warehouse.uri)))
    passes(open_house(*SETTINGS))
    found = contents(mounted / "w")
    assert differences(contents(tmp_path / "w"), found) == {}
    assert all(found[table] for table in ("half_message", "end_outcome", "message", "verdict"))
    # Spark made and wrote one of them, deltalake the other.
    for place in (mounted / "w", tmp_path / "w"):
        assert columns_told(place / "half_message") == HALF_SKIPPING
        assert {"born_timestamp", "pass_number"} <= columns_told(place / "verdict")


def columns_told(table: Path) -> set[str]:
    """Columns of whose least value the files' statistics tell."""
    told: set[str] = set()
    for entry in (table / "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in entry.read_text().split("\n") if line]
        for add in (action["add"] for action in actions if "add" in action):
            told |= json.loads(add["stats"])["minValues"].keys()
    return told


def test_a_path_without_a_scheme_is_of_sparks_default_file_system(spark: SparkSession, mounted: Path):
    hadoop, name = _hadoop(spark), "fs.defaultFS"
    before = hadoop.get(name)
    hadoop.set(name, "viewfs://lake/")
    try:
        warehouse = Warehouse(spark, "/data/w")
    finally:
        hadoop.set(name, before)
    assert (warehouse.uri, warehouse.local_path("verdict")) == ("viewfs://lake/data/w", None)
