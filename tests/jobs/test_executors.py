"""Executors in another JVM, where VACUUM lists a table: they have the classes that only the driver compiled."""

from __future__ import annotations

import json
import os
import re
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
import json, sys
from pathlib import Path
from pyspark.sql import SparkSession
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import EnvironmentFault
from txmq_lib.passes.retention import remove_expired
from txmq_lib.spark.log_store import FILE_LOG_STORE, FILE_LOG_STORE_KEY, adopt_session, share_log_stores

uri, scratch = sys.argv[1:]
spark = SparkSession.builder.config(FILE_LOG_STORE_KEY, FILE_LOG_STORE).getOrCreate()
context = spark.sparkContext
warehouse = Warehouse(spark, uri)
adopt_session(spark, uri)
path = warehouse.path("numbers")
for _ in range(2):
    frame = spark.range(3).coalesce(1).write.format("delta").mode("overwrite")
    frame.option("delta.deletedFileRetentionDuration", "interval 0 seconds").save(path)

jar, = Path(scratch).glob("txmq-classes*/" + FILE_LOG_STORE + ".jar")
elsewhere = jar.rename(jar.with_suffix(".gone"))
try:
    remove_expired(warehouse, "numbers")
    refusal = ""
except EnvironmentFault as error:
    refusal = str(error)
elsewhere.rename(jar)

context.setJobGroup("removing", "")
remove_expired(warehouse, "numbers")
tracker = context.statusTracker()
stages = [stage for job in tracker.getJobIdsForGroup("removing") for stage in tracker.getJobInfo(job).stageIds]
share_log_stores(spark)
print(json.dumps({
    "rows": spark.read.format("delta").load(path).count(),
    "refused": refusal.partition(" file:")[0],
    "tasks": max(found.numTasks for found in map(tracker.getStageInfo, stages) if found),
    "jars": len(context._jsc.sc().listJars().mkString(" ").split()),
}))
isolated = spark.newSession()
isolated.conf.set("spark.sql.artifact.isolation.enabled", "true")
try:
    remove_expired(Warehouse(isolated, uri), "numbers")
except EnvironmentFault as error:
    print(json.dumps(str(error)))
spark.stop()
"""
REFUSED = "Spark cannot give executors"
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


def removed(place: Path, uri: str, stated: dict[str, str]) -> dict[str, object]:
    # Spark's worker writes into the directory of Spark.
    for name in ("conf", "scratch", "spark"):
        (place / name).mkdir()
    for part in spark_home().iterdir():
        if part.name != "work":
            (place / "spark" / part.name).symlink_to(part)
    options = {"spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={place / 'scratch'}"}
    defaults = "".join(f"{key} {value}\n" for key, value in {**DEFAULTS, **options, **stated}.items())
    (place / "conf" / "spark-defaults.conf").write_text(defaults, encoding="utf-8")
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "SPARK_CONF_DIR": str(place / "conf"),
        "SPARK_HOME": str(place / "spark"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, "-c", REMOVING, uri, place / "scratch"],
        env=environ, cwd=place, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    # What a worker says of its end would hide all else.
    assert done.returncode == 0, [line for line in done.stderr.splitlines() if re.search("Error|Exception", line)][:12]
    lines = done.stdout.splitlines()
    assert "spark.sql.artifact.isolation.enabled=false" in lines[-1]
    found: dict[str, object] = json.loads(lines[-2])
    return found


def test_tasks_of_vacuum_list_a_table_on_a_file_system(tmp_path: Path):
    # Stated for those whose warehouse is on S3: Spark has no connector here, and none is needed.
    found = removed(tmp_path, str(tmp_path / "w"), {LOG_STORE_KEY: LOG_STORE})
    assert found == {"rows": 3, "refused": REFUSED, "tasks": 2, "jars": 1}
    assert len(list((tmp_path / "w" / "numbers").glob("*.parquet"))) == 1


@pytest.mark.real
def test_tasks_of_vacuum_list_a_table_on_s3(tmp_path: Path):
    uri, classes = f"s3a://{minio.BUCKET}/removing", ":".join(map(str, minio.jars()))
    with minio.behind_proxy(tmp_path / "minio") as proxy:
        on_class_path = dict.fromkeys(("spark.driver.extraClassPath", "spark.executor.extraClassPath"), classes)
        seen = removed(tmp_path, uri, spark_settings(uri) | on_class_path)
        files = minio.file_system(proxy.port).get_file_info(FileSelector(f"{minio.BUCKET}/removing/numbers"))
    assert seen == {"rows": 3, "refused": REFUSED, "tasks": 2, "jars": 2}
    assert len([each for each in files if each.path.endswith(".parquet")]) == 1
