"""A warehouse on a real HDFS: passes give what they give on this disk, views read it, and one of two writers is refused."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hdfs import Hdfs, hdfs
from house import House, wall_clock
from pyspark.sql import SparkSession
from truth import CAPTURES

from txmq_lib.config.settings import Settings
from txmq_lib.config.table_specs import table_specs
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.pipeline.maintain import run_maintain
from txmq_lib.spark.log_store import put_new
from txmq_lib.views.declared.verdicts import VERDICTS
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.select import ViewQuery, view_rows

pytestmark = pytest.mark.real

SETTINGS = ("transaction_timeout=2", "transaction_check_interval=3", "transaction_check_max=0")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    with hdfs(tmp_path_factory.mktemp("hdfs")) as servers:
        yield servers


def passes(house: House) -> dict[str, int]:
    """How many rows each table has, after passes of every job."""
    house.land("half", CAPTURES / "restart" / "half.jsonl.gz")
    house.reconcile()
    house.land("end", CAPTURES / "restart" / "ends.jsonl.gz")
    house.land("op", CAPTURES / "restart" / "op.jsonl.gz")
    house.reconcile()
    house.rollup()
    house.audit()
    run_maintain(house.warehouse, house.settings, wall_clock=wall_clock, tell=lambda _: None)
    return {table: len(house.rows(table)) for table in table_specs()}


def verdicts(house: House) -> Counter[tuple[Any, ...]]:
    """What the view tells, which deltalake and DuckDB read."""
    reader = WarehouseReader(house.warehouse.uri)
    return Counter(view_rows(reader, VERDICTS, ViewQuery(), columns=("transaction_id", "verdict")))


def test_passes_and_views_give_what_they_give_on_this_disk(
    spark: SparkSession, lake: Hdfs, open_house: Callable[..., House], tmp_path
):
    warehouse = Warehouse(spark, f"{lake.uri}/w")
    warehouse.create_missing()
    there = House(warehouse, tmp_path, Settings.load(assignments=list(SETTINGS), warehouse=warehouse.uri))
    here = open_house(*SETTINGS)
    assert passes(there) == passes(here)
    assert verdicts(there) == verdicts(here) != Counter()


def test_of_two_entries_of_one_number_one_is_refused(spark, lake):
    spark.range(1).write.format("delta").save(f"{lake.uri}/table")
    place = f"{lake.uri}/table/_delta_log/00000000000000000001.json"
    assert put_new(spark, place, ["first"])
    assert not put_new(spark, place, ["second"])


def said(uri: str, command: str) -> tuple[int, list[str]]:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "txmq"), "--warehouse", uri, *command.split()],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr.splitlines()


def test_a_namenode_that_is_down_is_one_line(tmp_path):
    (tmp_path / "down").mkdir()
    down = Hdfs(tmp_path / "down")
    for command in ("run", "status", "trace X"):
        status, lines = said(f"{down.uri}/w", command)
        assert (status, len(lines)) == (3, 1), lines
        assert lines[0].startswith("error WAREHOUSE_UNREACHED")
