"""The jobs through a real spark-submit, as Airflow or cron runs them, and two of them at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyspark
import pytest
from moment import NOW_TEXT
from truth import CAPTURES

pytestmark = pytest.mark.jobs

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
SPARK = (
    *("--master", "local[2]", "--driver-memory", "1g"),
    *("--driver-java-options", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"),
    *("--conf", "spark.sql.shuffle.partitions=1", "--conf", "spark.ui.enabled=false"),
)


def started(job: str, warehouse: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    command = [str(BIN / "spark-submit"), *SPARK, str(ROOT / "jobs" / f"{job}.py"), "--warehouse", str(warehouse)]
    return subprocess.Popen(
        [*command, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def submitted(job: str, warehouse: Path, *arguments: str) -> str:
    process = started(job, warehouse, *arguments)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err[-4000:]
    return out


def viewed(warehouse: Path, view: str) -> list[dict]:
    command = [str(BIN / "txmq"), "--warehouse", str(warehouse), view, "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.long
def test_two_reconciles_at_once_under_spark_submit_make_one_set_of_results(tmp_path: Path):
    warehouse = tmp_path / "warehouse"
    landed(warehouse)
    both = [started("reconcile", warehouse, "--now", NOW_TEXT) for _ in range(2)]
    ended = [(*process.communicate(timeout=600), process.returncode) for process in both]
    assert sorted(status for *_, status in ended) in ([0, 0], [0, 4]), ended
    outcomes = viewed(warehouse, "ends")
    ends = [(row["landed_pass"], row["landing_order"]) for row in outcomes]
    assert len(ends) == len(set(ends))
    effective = [row["transaction_id"] for row in outcomes if row["is_effective"]]
    assert len(effective) == len(set(effective)) > 20
    messages = Counter((row["topic"], row["queue_id"], row["queue_offset"]) for row in viewed(warehouse, "messages"))
    assert set(messages.values()) == {1}
    assert len(messages) == sum(row["is_effective"] and row["decision"] == "commit" for row in outcomes)


@pytest.mark.long
def test_every_job_runs_under_spark_submit(tmp_path: Path):
    warehouse = tmp_path / "warehouse"
    landed(warehouse)
    offsets = CAPTURES / "restart" / "config" / "consumerOffset.json"
    submitted("land", warehouse, "offset", str(offsets), "--broker", "oracle-a", "--now", NOW_TEXT)
    submitted("reconcile", warehouse, "--now", NOW_TEXT)
    assert submitted("resolve", warehouse, "--now", NOW_TEXT).startswith(
        "nobody is asked: the settings name no resolvers"
    )
    submitted("rollup_offsets", warehouse, "--now", NOW_TEXT)
    submitted("audit", warehouse, "--now", NOW_TEXT)
    planned = submitted("maintain", warehouse, "--dry-run", "--set", "maintain.small_files=2").splitlines()
    assert planned[0].split()[:4] == ["table", "files", "mib", "small_files"]
    assert {line.split()[0] for line in planned[1:]} >= {"half_message", "pass"}
    half_cursor = [row for row in viewed(warehouse, "offsets") if row["topic"] == "RMQ_SYS_TRANS_HALF_TOPIC"]
    assert {row["consumer_group"]: row["next_offset"] for row in half_cursor} == {"CID_RMQ_SYS_TRANS": 133}
    verdicts = {row["transaction_id"] for row in viewed(warehouse, "verdicts")}
    assert len(verdicts) == 65


def landed(warehouse: Path) -> None:
    """The halves and ends of a capture, each landed by a spark-submit of its own."""
    for kind, name in (("half", "half"), ("end", "ends")):
        path = str(CAPTURES / "restart" / f"{name}.jsonl.gz")
        submitted("land", warehouse, kind, path, "--broker", "oracle-a", "--now", NOW_TEXT)
