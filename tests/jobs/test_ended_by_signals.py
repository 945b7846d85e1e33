"""A short part of what `make faults FAULTS="--only signals"` does: commands that are ended while a JVM starts and works."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from deltalake import DeltaTable
from signals import TXMQ, signalled
from signals_commands import COMMANDS
from truth import CAPTURES

from txmq_lib.cli.app import app

pytestmark = pytest.mark.jobs


def test_every_command_is_ended_by_signals():
    groups = typer.main.get_command(app).commands.items()
    leaves = {f"{name} {leaf}".strip() for name, group in groups for leaf in getattr(group, "commands", {"": group})}
    assert {name.partition(" --")[0] for name in COMMANDS} == leaves
    assert [name for name, command in COMMANDS.items() if name.split()[0] not in command.arguments] == []


def landing(warehouse: Path) -> list[str]:
    half = str(CAPTURES / "restart" / "half.jsonl.gz")
    return [TXMQ, "--conf", "conf/few-rows.yaml", "--warehouse", str(warehouse), "land", "half", half, "--broker", "b"]


@pytest.mark.parametrize(
    ("number", "after_s", "times"),
    [(signal.SIGINT, 1.2, 1), (signal.SIGTERM, 2.5, 1), (signal.SIGHUP, 4.0, 2)],
)
def test_a_landing_that_begins_is_ended_at_once_and_leaves_no_process(
    tmp_path: Path, number: int, after_s: float, times: int
):
    ended = signalled(landing(tmp_path / "warehouse"), number, after_s, times=times)
    assert (ended.signalled, ended.faults(number)) == (True, [])


@pytest.mark.long
def test_the_next_landing_carries_on_what_a_signal_ended_and_nobody_else_can_read_it(tmp_path: Path):
    warehouse = tmp_path / "warehouse"
    table = warehouse / "pass" / "_delta_log"
    ended = signalled(landing(warehouse), signal.SIGINT, 0, when=lambda: (table / f"{1:020}.json").exists())
    assert (ended.signalled, ended.faults(signal.SIGINT)) == (True, [])
    done = subprocess.run(landing(warehouse), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert [str(path) for path in warehouse.rglob("*") if path.stat().st_mode & 0o077] == []
    rows = DeltaTable(str(warehouse / "half_message")).to_pyarrow_table().to_pylist()
    keys = [(row["queue_id"], row["queue_offset"]) for row in rows]
    assert len(keys) == len(set(keys)) > 100
    # Carried on; or given up with nothing landed, where the process came upon its JVM's end before it ended itself.
    assert ended_as(warehouse) in ({1: "committed", 2: "committed"}, {1: "abandoned", 2: "committed"})


JVM_GOES_BEHIND_THE_PLAN = """
import sys
from pyspark import SparkContext
from txmq_lib.cli import main
from txmq_lib.passes.claims import Claims

append_row = Claims.append_row

def append_and_end_the_jvm(plan, state, *rest):
    append_row(plan, state, *rest)
    if state == "started":
        jvm = SparkContext._gateway.proc
        jvm.kill()
        jvm.wait()

Claims.append_row = append_and_end_the_jvm
sys.argv[0] = "txmq"
sys.exit(main())
"""


def test_a_landing_whose_jvm_goes_says_so_and_leaves_nothing_in_the_way(tmp_path: Path):
    warehouse = tmp_path / "warehouse"
    ended = subprocess.run(
        [sys.executable, "-c", JVM_GOES_BEHIND_THE_PLAN, *landing(warehouse)[1:]],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ended.returncode, "ENVIRONMENT: Spark has gone" in ended.stderr) == (3, True), ended.stderr
    assert ended_as(warehouse) == {1: "abandoned"}


def ended_as(warehouse: Path) -> dict[int, str]:
    passes = DeltaTable(str(warehouse / "pass")).to_pyarrow_table().to_pylist()
    return {row["pass_number"]: row["state"] for row in passes if row["state"] != "started"}


def test_serve_stops_cleanly_when_interrupted(tmp_path: Path):
    health = tmp_path / "health.json"
    serve = [
        TXMQ,
        "--conf",
        "conf/few-rows.yaml",
        "--warehouse",
        str(tmp_path / "w"),
        "serve",
        "--health-file",
        str(health),
    ]

    def is_running() -> bool:
        return health.exists() and json.loads(health.read_text())["state"] == "running"

    ended = signalled(serve, signal.SIGINT, 0, when=is_running)
    assert (ended.status, ended.left, ended.words.splitlines()[-1].endswith(" stopped")) == (0, (), True)
    assert json.loads(health.read_text())["state"] == "stopped"
