"""The DAG in a real Airflow 3, in an environment of its own: a run, the same run again, one with a broker that is down."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from hook_server import hook_server
from pages import marked, steps

from txmq_lib.config.table_specs import table_specs

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]
CAPTURE = ROOT / "tests" / "captures" / "basic"
AIRFLOW = ROOT / "build" / "airflow"
PACKAGES = ("apache-airflow==3.1.8", "apache-airflow-providers-apache-spark==6.3.4")
DATE, LATER = "2026-11-21T12:00:00+00:00", "2026-11-21T12:05:00+00:00"
DEAD = {"kind": "rocketmq", "namesrv": ["127.0.0.1:1"]}  # nothing ever listens there


@pytest.fixture(scope="module")
def airflow() -> Path:
    """Airflow's command, installed once."""
    command = AIRFLOW / "bin" / "airflow"
    if not command.exists():
        subprocess.run([sys.executable, "-m", "venv", AIRFLOW], check=True)
        subprocess.run([AIRFLOW / "bin" / "pip", "install", "--quiet", *PACKAGES], check=True)
    return command


@pytest.fixture
def hook() -> Iterator[Any]:
    with hook_server() as server:
        yield server


@pytest.fixture
def environ(tmp_path: Path, hook: Any) -> dict[str, str]:
    """Where Airflow keeps its things, and what the page of the site leaves to its reader."""
    settings = tmp_path / "txmq.yaml"
    sources = [
        {"kind": kind, "paths": [str(CAPTURE / name)], "broker": "oracle-a"}
        for kind, name in (("half", "half.jsonl.gz"), ("end", "ends.jsonl.gz"))
    ]
    # Limits that what lands here is past: somebody is told.
    alerts = {"alerts": {"url_env": "HOOK_URL"}, "thresholds": {"pending": 0, "given_up": 0}}
    of_txmq = {"warehouse": str(tmp_path / "warehouse"), "role": "engine", "sources": sources, **alerts}
    settings.write_text(json.dumps({**of_txmq, "spark": {"spark.sql.shuffle.partitions": 1}}), encoding="utf-8")
    return {
        **{name: value for name, value in os.environ.items() if name != "SPARK_HOME"},
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "jobs"),
        "SETTINGS": str(settings),
        "METRICS": str(tmp_path / "txmq.prom"),
        "HOOK_URL": f"http://127.0.0.1:{hook.server_address[1]}/alerts",
        # spark-submit, and the Python of its jobs, are those of this environment; so is txmq.
        "PATH": f"{Path(sys.executable).parent}:{AIRFLOW / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
    }


def versions(warehouse: Path) -> dict[str, int]:
    return {name: DeltaTable(str(warehouse / name)).version() for name in table_specs() if name != "pass"}


def test_a_run_of_the_dag_reconciles_and_the_same_run_again_changes_nothing(airflow, environ, hook, tmp_path):
    page = marked("airflow.md", "test_a_run_of_the_dag_reconciles_and_the_same_run_again_changes_nothing")
    commands = [step.command for block in page for step in steps(block)]

    def call(command: str, status: int = 0) -> str:
        done = subprocess.run(command, shell=True, env=environ, capture_output=True, text=True, timeout=900)
        assert done.returncode == status, (command, (done.stdout + done.stderr)[-5000:])
        return done.stdout + done.stderr

    said = {command: call(command) for command in commands}
    assert "No data found" in said["airflow dags list-import-errors"]
    warehouse = tmp_path / "warehouse"
    (test,) = [command for command in commands if command.startswith("airflow dags test ")]
    assert test.endswith(DATE)
    outcomes = DeltaTable(str(warehouse / "end_outcome")).to_pyarrow_table().to_pylist()
    assert sum(row["is_effective"] for row in outcomes) > 300
    clocks = {row["now"].isoformat() for row in DeltaTable(str(warehouse / "pass")).to_pyarrow_table().to_pylist()
              if row["job"] != "maintain"}  # fmt: skip
    assert clocks == {DATE}
    assert "txmq_pending_transactions" in Path(environ["METRICS"]).read_text(encoding="utf-8")
    assert {document["status"] for _, _, document in hook.told} == {"firing"}
    before = versions(warehouse)
    call(test)
    assert versions(warehouse) == before

    # A broker that is down, before a source with something new: that lands and is judged, and then the run fails.
    settings = Path(environ["SETTINGS"])
    conf = json.loads(settings.read_text(encoding="utf-8"))
    crafted = {"kind": "end", "paths": [str(CAPTURE / "ends_crafted.jsonl.gz")], "broker": "oracle-a"}
    settings.write_text(json.dumps({**conf, "sources": [DEAD, *conf["sources"], crafted]}), encoding="utf-8")
    later = test.replace(DATE, LATER)
    said = call(later, status=1)
    assert "DagRun failed" in said
    listed = call(f"airflow tasks states-for-dag-run txmq {LATER} --output json 2> {tmp_path}/warnings")
    states = json.loads(listed[listed.index("[{") :])
    passes = ("reconcile", "resolve", "rollup", "audit", "maintain", "alert", "metrics")
    expected = {"land": "failed", "whole": "upstream_failed", **dict.fromkeys(passes, "success")}
    assert {row["task_id"]: row["state"] for row in states if row["task_id"] in expected} == expected
    failed = max(
        (
            row
            for row in DeltaTable(str(warehouse / "run")).to_pyarrow_table().to_pylist()
            if row["outcome"] == "findings"
        ),
        key=lambda row: row["started_timestamp"],
    )
    assert dict(failed["steps"])["land rocketmq 127.0.0.1:1"].startswith("BROKER_UNREACHABLE: no name server answers")
    passes_of = DeltaTable(str(warehouse / "pass")).to_pyarrow_table().to_pylist()
    committed = {row["job"] for row in passes_of if row["now"].isoformat() == LATER and row["state"] == "committed"}
    assert {"land", "reconcile", "audit"} <= committed
