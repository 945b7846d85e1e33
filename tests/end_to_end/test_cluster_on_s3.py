"""Clusters whose warehouse is on a real S3 server: that of the fault matrix, and one on which `txmq serve` works."""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import cluster
import minio
import pytest
import truth
from captured import unpack_store
from serving import TXMQ, health, rows_in, serving, until, written
from spark_cluster import SparkCluster, spark_cluster
from truth import VERDICT_COUNTS

from txmq_lib.spark.jars import spark_home

pytestmark = [pytest.mark.real, pytest.mark.long]

LONGEST_S = 600.0


def test_every_job_bears_a_worker_that_goes_down_reconcile_its_driver_and_the_others_another_driver(tmp_path: Path):
    downs = cluster.run(tmp_path / "faults")
    assert downs.is_sound, downs.notes
    assert {down.partition(": ")[0] for down in downs.jobs} == {"worker", "driver", "two drivers"}


@pytest.fixture
def two_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkCluster]:
    """A cluster for two drivers, which find a server of S3 by the environment."""
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    for name in ("nodes", "minio"):
        (tmp_path / name).mkdir()
    with minio.behind_proxy(tmp_path / "minio") as proxy:
        nodes = {**minio.environ(proxy.url), "SPARK_LOCAL_IP": "127.0.0.1"}
        with spark_cluster(spark_home(), tmp_path / "nodes", nodes, drivers=2) as running:
            yield running


def spark_settings(cluster: SparkCluster) -> dict[str, object]:
    """Spark's settings of a driver there, beside which another has room."""
    classes = ":".join(map(str, minio.jars()))
    return {
        "spark.master": cluster.master,
        "spark.cores.max": 2,
        "spark.driver.extraClassPath": classes,
        "spark.executor.extraClassPath": classes,
    }


def test_serve_on_a_cluster_lands_once_what_comes_beside_another_driver_though_workers_go_down(
    tmp_path: Path, two_workers: SparkCluster
):
    uri, store, halves = f"s3://{minio.BUCKET}/served", unpack_store("basic", tmp_path), tmp_path / "half"

    def come(number: int) -> None:
        written(halves / f"{number}.jsonl", truth.rows("basic", "half")[20 * number : 20 * number + 20])

    def landed() -> list[tuple[int, int]]:
        rows = [row for row in rows_in(uri, "half_message") if row["broker_name"] == "in-house"]
        return [(row["queue_id"], row["queue_offset"]) for row in rows]

    def judged() -> Counter[str]:
        return Counter(row["verdict"] for row in rows_in(uri, "verdict") if row["broker_name"] == "broker-a")

    def twice(table: str, *key: str) -> list[tuple[object, int]]:
        rows = Counter(tuple(row[name] for name in ("broker_name", *key)) for row in rows_in(uri, table))
        return [(row, times) for row, times in rows.items() if times > 1]

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
spark: {json.dumps(spark_settings(two_workers))}
""",
        encoding="utf-8",
    )
    come(0)
    with serving(tmp_path, "--now-first") as process, ExitStack() as stopped:
        beside = subprocess.Popen([TXMQ, "--conf", "conf/few-rows.yaml", "--conf", tmp_path / "serve.yaml", "run"])
        stopped.callback(beside.wait)
        stopped.callback(beside.kill)
        until(lambda: len(landed()) == 20, tmp_path, seconds=LONGEST_S)
        two_workers.lose_worker(0)
        come(1)
        until(lambda: len(landed()) == 40, tmp_path, seconds=LONGEST_S)
        two_workers.lose_worker(1)
        assert beside.wait(LONGEST_S) == 0
        come(2)
        until(lambda: len(landed()) == 60, tmp_path, seconds=LONGEST_S)
        until(lambda: judged() == VERDICT_COUNTS["basic"], tmp_path, seconds=LONGEST_S)
        until(lambda: health(tmp_path)["state"] == "running", tmp_path)
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONGEST_S) == 0
    assert all(list(worker.glob("app-*")) for worker in two_workers.workers)
    assert health(tmp_path)["state"] == "stopped"
    assert len(set(landed())) == len(landed()) == 60
    assert judged() == VERDICT_COUNTS["basic"]
    assert not twice("half_message", "queue_id", "queue_offset")
    assert not twice("message", "topic", "queue_id", "queue_offset")
