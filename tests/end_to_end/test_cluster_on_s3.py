"""Clusters whose warehouse is on a real S3 server: that of the fault matrix, and one on which `txmq serve` works."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import cluster
import minio
import pytest
import truth
from captured import unpack_store
from deltalake import DeltaTable
from serving import TXMQ, health, serving, until
from spark_cluster import spark_cluster
from truth import VERDICT_COUNTS

from txmq_lib.spark.jars import spark_home

pytestmark = [pytest.mark.real, pytest.mark.long]

LONGEST_S = 600.0


def test_every_job_bears_a_worker_that_goes_down_reconcile_its_driver_and_the_others_another_driver(tmp_path: Path):
    downs = cluster.run(tmp_path / "faults")
    assert downs.is_sound, downs.notes
    assert {down.partition(": ")[0] for down in downs.jobs} == {"worker", "driver", "two drivers"}


REMOVING = """
import sys
from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.passes.retention import remove_expired
from txmq_lib.spark.session import build_session

uri, *assignments = sys.argv[1:]
warehouse = Warehouse(build_session("removing", Settings.load(assignments=assignments, warehouse=uri)), uri)
path = warehouse.path("numbers")
for _ in range(2):
    warehouse.spark.range(3).coalesce(1).write.format("delta").mode("overwrite").save(path)
remove_expired(warehouse, "numbers")
print(warehouse.spark.read.format("delta").load(path).count())
"""


def test_executors_have_the_classes_by_which_tasks_list_what_is_to_be_removed(tmp_path: Path):
    """On S3 and on a file system: they come from the driver, on no node is one of txmq's own."""
    (tmp_path / "nodes").mkdir()
    (tmp_path / "minio").mkdir()
    with minio.behind_proxy(tmp_path / "minio") as proxy:
        nodes = {**minio.environ(proxy.url), "SPARK_LOCAL_IP": "127.0.0.1"}
        with spark_cluster(spark_home(), tmp_path / "nodes", nodes) as two_workers:
            classes = ":".join(map(str, minio.jars()))
            stated = {
                "spark.master": two_workers.master,
                "spark.driver.memory": "1g",
                "spark.driver.extraClassPath": classes,
                "spark.executor.extraClassPath": classes,
                "spark.default.parallelism": 1,
                "spark.sql.shuffle.partitions": 1,
                "spark.databricks.delta.snapshotPartitions": 1,
            }
            for uri in (str(tmp_path / "here"), f"s3a://{minio.BUCKET}/removing"):
                done = subprocess.run(
                    [sys.executable, "-c", REMOVING, uri, *[f"spark.{key}={value}" for key, value in stated.items()]],
                    env={**os.environ, **nodes, "PYTHONPATH": os.pathsep.join(sys.path)},
                    capture_output=True, text=True, check=False, timeout=LONGEST_S,
                )  # fmt: skip
                assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["3"]), done.stderr[-3000:]


def far_rows(uri: str, table: str) -> list[dict]:
    """All rows of a table; none where it does not exist yet."""
    path = f"{uri}/{table}"
    return DeltaTable(path).to_pyarrow_table().to_pylist() if DeltaTable.is_deltatable(path) else []


def test_serve_on_a_cluster_lands_once_what_comes_beside_another_driver_though_workers_go_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    uri, store, halves = f"s3://{minio.BUCKET}/served", unpack_store("basic", tmp_path), tmp_path / "half"
    for name in ("half", "nodes", "minio"):
        (tmp_path / name).mkdir(exist_ok=True)

    def written(number: int) -> None:
        lines = [json.dumps(row) + "\n" for row in truth.rows("basic", "half")[20 * number : 20 * number + 20]]
        half_way = tmp_path / f"{number}.tmp"
        half_way.write_text("".join(lines), encoding="utf-8")
        half_way.rename(halves / f"{number}.jsonl")

    def landed() -> list[tuple[int, int]]:
        rows = [row for row in far_rows(uri, "half_message") if row["broker_name"] == "in-house"]
        return [(row["queue_id"], row["queue_offset"]) for row in rows]

    def judged() -> Counter[str]:
        return Counter(row["verdict"] for row in far_rows(uri, "verdict") if row["broker_name"] == "broker-a")

    with minio.behind_proxy(tmp_path / "minio") as proxy:
        nodes = {**minio.environ(proxy.url), "SPARK_LOCAL_IP": "127.0.0.1"}
        with spark_cluster(spark_home(), tmp_path / "nodes", nodes, drivers=2) as two_workers:
            classes = ":".join(map(str, minio.jars()))
            (tmp_path / "serve.yaml").write_text(
                f"""
warehouse: {uri}
role: audit
brokers: {{in-house: {{role: engine}}}}
transaction_timeout: 2s
transaction_check_interval: 1s
sources:
  - {{kind: half, broker: in-house, paths: [{halves}]}}
  - {{kind: store, broker: broker-a, paths: [{store}]}}
spark:
  spark.master: {two_workers.master}
  spark.cores.max: 2
  spark.driver.extraClassPath: {classes}
  spark.executor.extraClassPath: {classes}
""",
                encoding="utf-8",
            )
            written(0)
            with serving(tmp_path, "--now-first") as process:
                until(lambda: len(landed()) == 20, tmp_path, seconds=LONGEST_S)
                beside = subprocess.Popen(
                    [TXMQ, "--conf", "conf/few-rows.yaml", "--conf", tmp_path / "serve.yaml", "run"]
                )
                two_workers.lose_worker(0)
                written(1)
                until(lambda: len(landed()) == 40, tmp_path, seconds=LONGEST_S)
                two_workers.lose_worker(1)
                assert beside.wait(LONGEST_S) == 0
                written(2)
                until(lambda: len(landed()) == 60, tmp_path, seconds=LONGEST_S)
                until(lambda: judged() == VERDICT_COUNTS["basic"], tmp_path, seconds=LONGEST_S)
                until(lambda: health(tmp_path)["state"] == "running", tmp_path)
                process.send_signal(signal.SIGTERM)
                assert process.wait(LONGEST_S) == 0
            assert all(list(worker.glob("app-*")) for worker in two_workers.workers)
        assert health(tmp_path)["state"] == "stopped"
        assert len(set(landed())) == len(landed()) == 60
