"""Executors in another JVM, where VACUUM lists a table: they have the classes that only the driver compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import minio
import pytest
from pyarrow.fs import FileSelector

from txmq_lib.files.object_stores import LOG_STORE, LOG_STORE_KEY, spark_settings
from txmq_lib.spark.jars import spark_home

pytestmark = pytest.mark.jobs

# In a session of one's own, of which txmq knows nothing before it is given it.
REMOVING = """
import sys
from pyspark.sql import SparkSession
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.passes.retention import remove_expired
from txmq_lib.spark.log_store import FILE_LOG_STORE, FILE_LOG_STORE_KEY, adopt_session, share_log_stores

spark = SparkSession.builder.config(FILE_LOG_STORE_KEY, FILE_LOG_STORE).getOrCreate()
warehouse = Warehouse(spark, sys.argv[1])
adopt_session(spark, warehouse.uri)
path = warehouse.path("numbers")
for _ in range(2):
    frame = spark.range(3).coalesce(1).write.format("delta").mode("overwrite")
    frame.option("delta.deletedFileRetentionDuration", "interval 0 seconds").save(path)
remove_expired(warehouse, "numbers")
share_log_stores(spark)
jars = spark.sparkContext._jsc.sc().listJars().mkString(" ").split()
print(spark.read.format("delta").load(path).count(), len(jars))  # one a class, though asked for twice
"""
DEFAULTS = {
    "spark.master": "local-cluster[1,1,1024]",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
}


def removed(place: Path, uri: str, stated: dict[str, str]) -> subprocess.CompletedProcess[str]:
    (place / "conf").mkdir()
    defaults = "".join(f"{key} {value}\n" for key, value in {**DEFAULTS, **stated}.items())
    (place / "conf" / "spark-defaults.conf").write_text(defaults, encoding="utf-8")
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "SPARK_CONF_DIR": str(place / "conf"),
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    return subprocess.run(
        [sys.executable, "-c", REMOVING, uri],
        env=environ, cwd=place, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


def test_tasks_of_vacuum_list_a_table_on_a_file_system(tmp_path: Path):
    # Stated for those whose warehouse is on S3: Spark has no connector here, and none is needed.
    done = removed(tmp_path, str(tmp_path / "w"), {LOG_STORE_KEY: LOG_STORE})
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["3 1"]), done.stderr[-3000:]
    assert len(list((tmp_path / "w" / "numbers").glob("*.parquet"))) == 1


@pytest.mark.real
def test_tasks_of_vacuum_list_a_table_on_s3(tmp_path: Path):
    uri, classes = f"s3a://{minio.BUCKET}/removing", ":".join(map(str, minio.jars()))
    with minio.behind_proxy(tmp_path / "minio") as proxy:
        found = dict.fromkeys(("spark.driver.extraClassPath", "spark.executor.extraClassPath"), classes)
        done = removed(tmp_path, uri, spark_settings(uri) | found)
        files = minio.file_system(proxy.port).get_file_info(FileSelector(f"{minio.BUCKET}/removing/numbers"))
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["3 2"]), done.stderr[-3000:]
    assert len([each for each in files if each.path.endswith(".parquet")]) == 1
