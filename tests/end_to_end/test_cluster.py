"""The page's lines for a standalone cluster, on one: packed, submitted, and every table as one machine makes it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import truth
from captured import unpack_store
from contents import contents, differences
from deltalake import DeltaTable
from moment import NOW_TEXT
from pages import marked, steps
from spark_cluster import SparkCluster, spark_cluster
from truth import CAPTURES, VERDICT_COUNTS

from txmq_lib.spark.jars import jar_names

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]
OF_WHEEL = ("pyproject.toml", "README.md", "LICENSE", "supply", "txmq_lib", "jobs", "conf", "schemas")
IN_WHEEL = ("store.tar.xz", "broker.conf")
LONGEST_S = 3_000


PACKING, STANDALONE = (
    [step.command for step in steps(block)]
    for block in marked("cluster.md", "test_the_capture_submitted_to_a_cluster_gives_the_tables_of_one_machine")
)


# What every executor imports, and where it stands.
PROBE = """
import json, os, time
from pyspark.sql import SparkSession

def seen(_):
    import txmq_lib
    time.sleep(1)  # so that no executor takes all tasks
    return os.getcwd(), txmq_lib.__file__

context = SparkSession.builder.getOrCreate().sparkContext
with open("probe.json", "w") as told:
    json.dump(context.parallelize(range(12), 12).map(seen).collect(), told)
"""


def ran(lines: list[str], place: Path, environ: dict[str, str]) -> None:
    """Run lines in one shell up to the first that fails; none may."""
    with (place / "lines.log").open("w+b") as log:
        shell = subprocess.Popen(["bash", "-c", "set -eo pipefail\n" + "\n".join(lines)], cwd=place, env=environ,
                                 stdout=log, stderr=log, start_new_session=True)  # fmt: skip
        try:
            status = shell.wait(LONGEST_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
    assert status == 0, "\n".join(lines) + "\n" + (place / "lines.log").read_text(errors="replace")[-6000:]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory like the top of a checkout, packed as the page says; then it has no txmq_lib beside what is packed."""
    place = tmp_path_factory.mktemp("checkout")
    for name in OF_WHEEL:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, place / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, place / name)
    (place / "tests" / "captures" / "basic").mkdir(parents=True)
    for name in IN_WHEEL:
        shutil.copy(CAPTURES / "basic" / name, place / "tests" / "captures" / "basic" / name)
    (place / ".venv").symlink_to(sys.prefix)
    ran(PACKING, place, environment(place))
    shutil.rmtree(place / "txmq_lib")
    return place


def environment(place: Path) -> dict[str, str]:
    """Of whoever submits: the Spark and the Python of the packed environment, and nothing of this one."""
    kept = {name: os.environ[name] for name in ("HOME", "JAVA_HOME", "TMPDIR", "LANG") if name in os.environ}
    return {**kept, "PATH": f"{spark_home(place) / 'bin'}:{Path(sys.executable).parent}:{os.defpath}",
            "SPARK_HOME": str(spark_home(place)), "SPARK_LOCAL_IP": "127.0.0.1"}  # fmt: skip


def spark_home(place: Path) -> Path:
    """A whole Spark without Delta's jars, as the nodes of a cluster have it."""
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return place / "environment" / "lib" / python / "site-packages" / "pyspark"


@pytest.fixture(scope="module")
def cluster(place: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(spark_home(place), tmp_path_factory.mktemp("cluster")) as running:
        yield running


def test_the_capture_submitted_to_a_cluster_gives_the_tables_of_one_machine(
    place: Path, cluster: SparkCluster, tmp_path: Path
):
    assert not any((spark_home(place) / "jars" / name).exists() for name in jar_names())
    store = unpack_store("basic", tmp_path)
    halves, ends = CAPTURES / "basic" / "half.jsonl.gz", tmp_path / "ends.jsonl"
    # They name the broker that they were sent to, and land as another's here.
    audited = [{**row, "header": {**row["header"], "bname": "in-house"}} for row in truth.rows("basic", "ends")]
    ends.write_text("".join(json.dumps(row) + "\n" for row in audited), encoding="utf-8")
    (place / "cluster.yaml").write_text(
        f"""
warehouse: {tmp_path / "cluster-warehouse"}
role: audit
brokers: {{in-house: {{role: engine}}}}
transaction_timeout: 2s
transaction_check_interval: 3s
transaction_check_max: 3
sources:
  - {{kind: store, paths: ["{store}"], broker: broker-a}}
  - {{kind: half, paths: ["{halves}"], broker: in-house}}
  - {{kind: end, paths: ["{ends}"], broker: in-house}}
spark: {{spark.sql.shuffle.partitions: 4, spark.sql.codegen.factoryMode: NO_CODEGEN}}
""",
        encoding="utf-8",
    )
    of_page = {
        "spark://spark-master:7077": cluster.master,
        "/mnt/broker-a/store": str(store),
        "/mnt/in-house/half": str(halves),
        "/mnt/in-house/end": str(ends),
        "--conf cluster.yaml": f"--conf cluster.yaml --now {NOW_TEXT}",
    }
    lines = STANDALONE
    for theirs, ours in of_page.items():
        assert any(theirs in line for line in lines), theirs
        lines = [line.replace(theirs, ours) for line in lines]
    jobs = [re.findall(r"jobs/\w+\.py(?: \w+)?", line)[0] for line in lines if "jobs/" in line]
    assert jobs == [
        *("jobs/land.py store", "jobs/land.py half", "jobs/land.py end", "jobs/reconcile.py"),
        *("jobs/rollup_offsets.py", "jobs/audit.py"),
    ]
    (place / "probe.py").write_text(PROBE, encoding="utf-8")
    ran([*lines, "spark-submit $on_cluster probe.py"], place, environment(place))

    # Executors had nothing but what was packed.
    seen = {(Path(cwd), Path(txmq)) for cwd, txmq in json.loads((place / "probe.json").read_text(encoding="utf-8"))}
    assert {cwd.parents[1] for cwd, _ in seen} == set(cluster.workers)
    assert all(txmq.is_relative_to(cwd / "environment") for cwd, txmq in seen)
    assert not (place / "txmq_lib").exists()

    warehouse = tmp_path / "local-warehouse"
    alone = [sys.executable, "-c", "from txmq_lib.cli import main; main()", "--conf", str(place / "cluster.yaml"),
             "--warehouse", str(warehouse), "run", "--now", NOW_TEXT]  # fmt: skip
    subprocess.run(alone, cwd=ROOT, check=True, timeout=LONGEST_S)
    found, expected = contents(tmp_path / "cluster-warehouse"), contents(warehouse)
    assert differences(expected, found) == {}
    assert {table for table, rows in expected.items() if rows} >= {
        *("half_message", "op_message", "message", "trans_check_max_time", "end_outcome", "verdict", "consumer_offset"),
    }
    verdicts = DeltaTable(str(tmp_path / "cluster-warehouse" / "verdict")).to_pyarrow_table().to_pylist()
    audited = [row["verdict"] for row in verdicts if row["broker_name"] == "broker-a"]
    assert {verdict: audited.count(verdict) for verdict in set(audited)} == VERDICT_COUNTS["basic"]
