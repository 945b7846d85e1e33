"""`land rocketmq` of 200,000 messages beside RocketMQ's own Java pull client: one broker, one run. `pytest -s` tells."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import pytest
from deltalake import DeltaTable
from house import House, wall_clock
from page_commands import on_page
from real_broker import RealRocketmq, free_port, real_rocketmq

from txmq_lib.passes.current import PassReport
from txmq_lib.pipeline.land.job import run_land_rocketmq
from txmq_lib.pipeline.land.live.live_brokers import live_brokers
from txmq_lib.pipeline.land.live.live_ranges import plan_queues
from txmq_lib.rocketmq.live_source import read_ranges
from txmq_lib.rocketmq.remoting.connection import Access, Connection

pytestmark = [pytest.mark.real, pytest.mark.jobs]

COUNT, BODY_BYTES = 200_000, 200
TOPIC = "TopicFill"
LAND = "txmq land rocketmq --namesrv 10.0.0.1:9876 --namesrv 10.0.0.2:9876 --conf audit.yaml"
TXMQ = (sys.executable, "-c", "import sys; from txmq_lib.cli import main; sys.exit(main())")


def test_two_hundred_thousand_messages_are_landed_beside_the_java_pull_client(tmp_path: Path, open_house):
    conf = tmp_path / "audit.yaml"
    conf.write_text(f"role: audit\nwarehouse: {tmp_path}/w\n", encoding="utf-8")
    with real_rocketmq() as server:
        server.client("fill", server.namesrv, TOPIC, str(COUNT), str(BODY_BYTES)).wait_for("done", seconds=200)
        java = [told("Java pull client, first", java_seconds(server))]
        begun = time.monotonic()
        done = run(*on_page("brokers.md", LAND, names_of(server, conf)))
        told("land rocketmq, the command: its JVM's start and new tables too", time.monotonic() - begun)
        cold = told("land rocketmq, its pass", done["seconds"])
        sys.stdout.write(f"  its steps: {seconds_by_step(tmp_path / 'w')}\n")
        java.append(told("Java pull client, second", java_seconds(server)))
        warm = []
        for name in ("first", "second", "third"):
            begun = time.monotonic()
            report = land(open_house("role=audit", name=name), server)
            warm.append(told(f"land rocketmq, its pass, {name} in one session", time.monotonic() - begun))
            sys.stdout.write(f"  its steps: {rounded(report.seconds)}\n")
            java.append(told("Java pull client, again", java_seconds(server)))
        begun = time.monotonic()
        assert read_alone(server) == COUNT
        told("reading and decoding over one connection, without Spark", time.monotonic() - begun)
        for what, seconds in (("cold", cold), ("warm", min(warm))):
            sys.stdout.write(f"whole pass, {what}, against Java's median: {median(java) / seconds:.2f}\n")
    assert (done["message"], done["behind"], done["unread"]) == (COUNT, 0, 0)
    assert (report.counts["message"], report.counts["unread"]) == (COUNT, 0)
    places = DeltaTable(str(tmp_path / "w" / "message")).to_pyarrow_table(columns=["topic", "queue_id", "queue_offset"])
    assert places.group_by(places.column_names).aggregate([]).num_rows == places.num_rows == COUNT


def told(what: str, seconds: float) -> float:
    sys.stdout.write(f"{what}: {COUNT / seconds:,.0f} messages per second ({seconds:.1f} s)\n")
    sys.stdout.flush()
    return seconds


def java_seconds(server: RealRocketmq) -> float:
    client = server.client("pull", server.namesrv, TOPIC)
    ((pulled, milliseconds),) = client.wait_for("pulled", seconds=200)
    assert int(pulled) == COUNT
    return int(milliseconds) / 1000


def land(house: House, server: RealRocketmq) -> PassReport:
    return run_land_rocketmq(
        house.warehouse, house.settings, name_servers=[server.namesrv], now=wall_clock(), wall_clock=wall_clock,
        environ={},
    )  # fmt: skip


def seconds_by_step(warehouse: Path) -> dict[str, float]:
    """Seconds of each step of a landing, as its pass recorded them."""
    (row,) = [
        row for row in DeltaTable(str(warehouse / "pass")).to_pyarrow_table().to_pylist() if row["state"] == "committed"
    ]
    return rounded(dict(row["seconds"]))


def rounded(seconds: dict[str, float]) -> dict[str, float]:
    return {step: round(each, 2) for step, each in seconds.items() if each >= 0.01}


def names_of(server: RealRocketmq, conf: Path) -> dict[str, str]:
    return {"10.0.0.1:9876": f"127.0.0.1:{free_port()}", "10.0.0.2:9876": server.namesrv, "audit.yaml": str(conf)}


def run(*arguments: str) -> dict[str, float]:
    """Run the command as a process of its own, with the settings everybody has; the numbers it tells."""
    done = subprocess.run([*TXMQ, *arguments], capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr[-4000:]
    sys.stdout.write(done.stdout)
    pairs = [line.split(maxsplit=1) for line in done.stdout.splitlines() if " " in line]
    return {name: float(number) for name, number in pairs if number.replace(".", "", 1).isdigit()}


def read_alone(server: RealRocketmq) -> int:
    """How many messages one connection reads into Arrow batches, without Spark."""
    (broker,) = live_brokers([server.namesrv], Access(), patterns=[TOPIC])
    with Connection(server.address, Access()) as connection:
        plans, _ = plan_queues(connection, "TXMQ_READER", broker.queues, {}, most=10**7)
    ranges = [plan.range for plan in plans if plan.queue.topic == TOPIC]
    return sum(batch.num_rows for batch in read_ranges(server.address, Access(), "TXMQ_READER", ranges))
