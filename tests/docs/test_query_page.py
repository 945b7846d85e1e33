"""The statements of the page "Query the tables": lag as a view equals what `txmq offsets` says, and all of it runs.

DuckDB's Delta extension is fetched from a network, so its scan is made here by what reads for the views.
"""

from __future__ import annotations

import json
import re
import shutil

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pages import PAGES
from pyspark.sql import SparkSession
from views.conftest import empty_tables, txmq, txmq_as_it_is, warehouse  # noqa: F401 - fixtures

PAGE = (PAGES / "query.md").read_text(encoding="utf-8")
PLACE = "/data/warehouse"
QUEUE = {"broker_name": "a", "topic": "T"}
ROWS = {
    "consumer_offset": [
        {**QUEUE, "queue_id": queue, "consumer_group": "CG", "next_offset": offset}
        for queue, offset in enumerate((4, 99, 1, 7))
    ],
    "landing_frontier": [
        {**QUEUE, "queue_id": queue, "next_offset": 10, "lowest_kept_offset": 2} for queue in range(3)
    ],
    "verdict": [{"transaction_id": "1", "verdict": "PENDING", "producer_group": "G"}],
}


def statements(heading: str) -> list[str]:
    block = re.search(rf"^## {heading}\n.*?```sql\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)[1]
    return [each.strip() for each in block.split(";") if each.strip()]


def expected(run, uri: str) -> dict[int, tuple]:
    _, out, _ = run("--warehouse", uri, "offsets", "--format", "json")
    rows = [json.loads(line) for line in out.splitlines()]
    return {row["queue_id"]: (row["lag"], row["state"]) for row in rows if row["lag_state"] != "never_committed"}


def test_lag_by_duckdb_is_that_of_the_view(warehouse, txmq):  # noqa: F811
    uri = warehouse(ROWS)
    with duckdb.connect() as connection:
        for name in re.findall(r"delta_scan\('/data/warehouse/(\w+)'\)", " ".join(statements("DuckDB"))):
            connection.register(name, pa.table(DeltaTable(f"{uri}/{name}").to_pyarrow_table()))
        view, figures = statements("Lag as a view")
        connection.execute(view)
        found = connection.execute("SELECT queue_id, lag, state FROM consumer_lag").fetchall()
        assert {queue: (lag, state) for queue, lag, state in found} == expected(txmq, uri)
        assert expected(txmq, uri) == {0: (6, "ok"), 1: (0, "beyond_end"), 2: (9, "below_oldest"), 3: (None, "unknown")}
        first = connection.sql(figures).to_arrow_table().to_pylist()[0]
        assert (first["consumer_group"], first["lag"]) == ("CG", 15)
        connection.register("run", pa.table(DeltaTable(f"{uri}/run").to_pyarrow_table()))
        (failed,) = statements("What ran")
        assert connection.sql(re.sub(r"delta_scan\('[^']*'\)", "run", failed)).to_arrow_table().num_rows == 0


@pytest.mark.spark
def test_lag_by_spark_is_that_of_the_view(spark: SparkSession, warehouse, txmq):  # noqa: F811
    uri = warehouse(ROWS)
    for statement in statements("Spark SQL"):
        spark.sql(statement.replace("CREATE TEMPORARY", "CREATE OR REPLACE TEMPORARY").replace(PLACE, uri))
    view, figures = statements("Lag as a view")
    spark.sql(view.replace("CREATE TEMPORARY", "CREATE OR REPLACE TEMPORARY"))
    found = spark.sql("SELECT queue_id, lag, state FROM consumer_lag").collect()
    assert {row[0]: (row[1], row[2]) for row in found} == expected(txmq, uri)
    assert spark.sql(figures).first()[:2] == ("CG", 15)


def test_polars_reads_a_table(warehouse, tmp_path, monkeypatch):  # noqa: F811
    pytest.importorskip("polars")
    uri = warehouse(ROWS)
    shutil.copytree(uri, tmp_path / "w")
    block = re.search(r"^## Polars\n.*?```python\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)[1]
    names: dict = {}
    exec(block.replace(PLACE, str(tmp_path / "w")), names)
    assert names["stuck"].rows() == [("G", 1)]
