"""Places of a warehouse: a path that means something to a shell, Spark, SQL or a URL; and no directory of this machine.

The last is what HDFS or an object store is to txmq: everything goes through Spark.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from contents import contents, differences
from house import House, wall_clock
from pyspark.sql import SparkSession
from truth import CAPTURES

from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.pipeline.maintain import run_maintain
from txmq_lib.views.declared.verdicts import VERDICTS
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.select import ViewQuery, view_rows

HALF_SKIPPING = {
    *("broker_name", "queue_id", "queue_offset", "commit_log_offset", "prepared_transaction_offset"),
    *("born_timestamp", "store_timestamp", "landed_pass"),
}
ODD_NAME = "it's a [w] {1,2}*? 100% $x"
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
    house.reconcile()  # nothing is committed, and nothing given up
    house.land("end", CAPTURES / "restart" / "ends.jsonl.gz")
    house.reconcile()
    house.audit()


@pytest.mark.long
def test_wherever_a_warehouse_is_its_tables_come_out_the_same(
    spark: SparkSession, mounted: Path, open_house: Callable[..., House], tmp_path: Path
):
    warehouse = Warehouse(spark, "viewfs://lake/data/w")
    assert warehouse.local_path("half_message") is None
    warehouse.create_missing()
    passes(House(warehouse, tmp_path, Settings.load(assignments=list(SETTINGS), warehouse=warehouse.uri)))
    plain, odd = (open_house(*SETTINGS, name=name) for name in ("w", ODD_NAME))
    for house in (plain, odd):
        passes(house)
    assert differences(contents(tmp_path / "w"), contents(tmp_path / ODD_NAME)) == {}
    assert verdicts(odd) == verdicts(plain)
    plan: list[object] = []
    run_maintain(odd.warehouse, odd.settings, wall_clock=wall_clock, tell=plan.append)
    assert plan
    assert verdicts(odd) == verdicts(plain)
    found = contents(mounted / "w")
    assert differences(contents(tmp_path / "w"), found) == {}
    assert all(found[table] for table in ("half_message", "end_outcome", "message", "verdict"))
    # Spark made and wrote one of them, deltalake the other.
    for place in (mounted / "w", tmp_path / "w"):
        assert columns_told(place / "half_message") == HALF_SKIPPING
        assert {"born_timestamp", "pass_number"} <= columns_told(place / "verdict")


def verdicts(house: House) -> Counter[tuple[Any, ...]]:
    """What the view tells, which deltalake and DuckDB read."""
    reader = WarehouseReader(house.warehouse.uri)
    return Counter(view_rows(reader, VERDICTS, ViewQuery(), columns=("transaction_id", "verdict")))


def columns_told(table: Path) -> set[str]:
    """Columns of whose least value the files' statistics tell."""
    columns: set[str] = set()
    for entry in (table / "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in entry.read_text().split("\n") if line]
        for add in (action["add"] for action in actions if "add" in action):
            columns |= json.loads(add["stats"])["minValues"].keys()
    return columns


def test_a_path_without_a_scheme_is_of_sparks_default_file_system(spark: SparkSession, mounted: Path):
    hadoop, name = _hadoop(spark), "fs.defaultFS"
    before = hadoop.get(name)
    hadoop.set(name, "viewfs://lake/")
    try:
        warehouse = Warehouse(spark, "/data/w")
    finally:
        hadoop.set(name, before)
    assert (warehouse.uri, warehouse.local_path("verdict")) == ("viewfs://lake/data/w", None)
