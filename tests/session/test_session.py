"""The session: in UTC, with Delta, tuned for one machine, quiet, and overruled only where that is safe."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from txmq_lib.config.settings import Settings
from txmq_lib.spark.jvm_start import collector
from txmq_lib.spark.session import build_session
from txmq_lib.spark.tuning import partitions_for

pytestmark = pytest.mark.spark

FIRST_SESSION = """
import json, os, sys
from txmq_lib.spark.session import build_session
from txmq_lib.config.settings import Settings

spark = build_session("first", Settings.load(assignments=sys.argv[1:]))
keys = ("spark.master", "spark.driver.memory", "spark.ui.enabled", "spark.sql.session.timeZone",
        "spark.sql.shuffle.partitions", "spark.databricks.delta.snapshotPartitions", "spark.jars.packages")
print(json.dumps({key: spark.conf.get(key, None) for key in keys}))
spark.range(3).write.format("delta").save("table")
spark.sql(f"SHOW TBLPROPERTIES delta.`{os.getcwd()}/table`").collect()
"""


def python_of_its_own(place: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A program that starts a JVM of its own, run to its end."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=place,
        env={**env, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_times_are_utc_and_stored_in_microseconds(spark):
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.parquet.outputTimestampType") == "TIMESTAMP_MICROS"


def test_given_spark_settings_stay_and_the_rest_is_tuned_for_one_machine(spark):
    assert spark.conf.get("spark.sql.shuffle.partitions") == "1"  # as tests/conftest.py gives it
    assert spark.conf.get("spark.databricks.delta.snapshotPartitions") == "1"
    assert spark.conf.get("spark.sql.sources.parallelPartitionDiscovery.parallelism") == "2"


def test_building_again_gives_the_running_session(spark):
    assert build_session("again", Settings.load()).sparkContext is spark.sparkContext
    assert spark.conf.get("spark.sql.shuffle.partitions") == "1"


def test_workers_run_this_python(spark):
    assert spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect() == [sys.executable]


@pytest.mark.parametrize(
    ("options", "environ", "chosen"),
    [
        ("", {}, "-XX:+UseParallelGC"),
        ("-Xss4m -XX:+UseStringDeduplication", {"PATH": "-XX:+UseZGC"}, "-XX:+UseParallelGC"),
        ("-XX:+UseG1GC -Xss4m", {}, ""),
        ("", {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}, ""),
        ("", {"JAVA_TOOL_OPTIONS": "-XX:+UseZGC"}, ""),
        ("", {"_JAVA_OPTIONS": "-XX:+UseShenandoahGC"}, ""),
    ],
)
def test_a_collector_is_chosen_where_nobody_chose_one(options, environ, chosen):
    assert collector(options, environ) == chosen


LATE = """
import sys, time
from txmq_lib.spark.session import build_session
from txmq_lib.config.settings import Settings

spark = build_session("late", Settings.load(assignments=sys.argv[1:]))
time.sleep(7)
print(spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size(), spark.range(7).count())
"""


@pytest.mark.long
def test_an_executor_that_is_late_since_the_machine_slept_is_not_given_up(tmp_path):
    # The first heartbeat comes after one to two intervals; Spark has two minutes for the next, which takes no test.
    impatient = {
        "spark.executor.heartbeatInterval": "4900ms",
        "spark.network.timeout": "5s",
        "spark.network.timeoutInterval": "50ms",
        "spark.storage.blockManagerTimeoutIntervalMs": "50ms",
    }
    done = python_of_its_own(tmp_path, LATE, *[f"spark.{key}={value}" for key, value in impatient.items()])
    assert (done.returncode, done.stdout, "Removing executor" in done.stderr) == (0, "1 7\n", False), done.stderr


def test_the_more_there_is_the_more_parts_it_is_shuffled_into():
    assert [partitions_for(size, cores=2) for size in (0, 96 << 20, (96 << 20) + 1, 3 << 30)] == [2, 2, 3, 64]
    assert partitions_for(None, cores=2) == 200
    assert partitions_for(0, cores=8) == 8
    assert partitions_for(1 << 50, cores=2) == 2000


def test_a_table_that_lost_rows_is_still_readable_without_spark(spark, warehouse_dir):
    path = str(warehouse_dir / "numbers")
    spark.range(10).coalesce(1).write.format("delta").save(path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id < 4")
    assert sorted(DeltaTable(path).to_pyarrow_table().column("id").to_pylist()) == [4, 5, 6, 7, 8, 9]


def test_a_session_that_starts_its_own_jvm_is_quiet_local_and_leaves_nothing_behind(tmp_path):
    own = ["spark.spark.sql.shuffle.partitions=3", "spark.spark.sql.session.timeZone=Europe/Berlin"]
    done = python_of_its_own(tmp_path, FIRST_SESSION, *own)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {
        "spark.master": "local[*]",
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "3",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.jars.packages": None,
    }
    assert [path.name for path in tmp_path.iterdir()] == ["table"]
