"""`txmq serve` as a process: rounds, wakeup, health, endpoint, and stops and kills in the middle of its work."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import truth
from prometheus_client.parser import text_string_to_metric_families
from serving import TXMQ, health, open_passes, rows, serving, until, written
from small_log import SmallLog

pytestmark = pytest.mark.long


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with settings, and the directories `half` and `end` that serve lands from."""
    for kind in ("half", "end", "offset"):
        (tmp_path / kind).mkdir()
    (tmp_path / "serve.yaml").write_text(
        f"""
warehouse: {tmp_path / "warehouse"}
transaction_timeout: 2s
transaction_check_interval: 1s
transaction_check_max: 100
brokers:
  stored: {{role: audit}}
sources:
  - {{kind: half, broker: oracle-a, paths: [{tmp_path / "half"}]}}
  - {{kind: end, broker: oracle-a, paths: [{tmp_path / "end"}]}}
  - {{kind: offset, broker: oracle-a, paths: [{tmp_path / "offset"}]}}
  - {{kind: store, broker: stored, paths: [{tmp_path / "store"}]}}
""",
        encoding="utf-8",
    )
    log = SmallLog()
    log.plain()
    log.write_store(tmp_path / "store")
    return tmp_path


def unreadable(place: Path) -> None:
    """Leave the store of `place` without a log."""
    (place / "store" / "commitlog").rename(place / "away")


def readable(place: Path) -> None:
    """Give it back."""
    (place / "away").rename(place / "store" / "commitlog")


def asked(url: str, *, method: str = "GET") -> tuple[int, str]:
    try:
        with urlopen(Request(url, method=method), timeout=30) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as refused:
        return refused.code, refused.read().decode()


def test_serve_lands_what_comes_tells_how_it_fares_and_ends_cleanly(place: Path):
    halves, ends = truth.rows("basic", "half")[:40], truth.rows("basic", "ends")
    written(place / "half" / "1.jsonl", halves[:20])
    written(place / "end" / "1.jsonl", ends)
    with serving(place, "--now-first", "--listen", "127.0.0.1:0") as process:
        until(lambda: len(rows(place, "half_message")) == 20, place)
        written(place / "half" / "2.jsonl", halves[20:])
        until(lambda: len(rows(place, "half_message")) == 40, place)
        assert health(place)["pid"] == process.pid
        assert until(lambda: health(place)["state"] == "running", place)
        address = (place / "serve.log").read_text().split("listening at ")[1].split()[0]
        status, text = asked(f"http://{address}/health")
        assert (status, json.loads(text)["state"]) == (200, "running")
        status, text = asked(f"http://{address}/metrics")
        names = {family.name for family in text_string_to_metric_families(text)}
        assert (status, "rocketmq_half_messages" in names) == (200, True)
        assert asked(f"http://{address}/wakeup", method="POST") == (202, "woken\n")
        assert asked(f"http://{address}/else")[0] == 404
        # A source that cannot be read fails alone, is told, and is tried again.
        unreadable(place)
        until(lambda: health(place)["state"] == "failing", place)
        assert asked(f"http://{address}/health")[0] == 503
        written(place / "half" / "3.jsonl", truth.rows("basic", "half")[40:50])
        until(lambda: len(rows(place, "half_message")) == 50, place)
        readable(place)
        until(lambda: health(place)["state"] == "running", place)
        process.send_signal(signal.SIGTERM)
        assert process.wait(100) == 0
    assert health(place)["state"] == "stopped"
    done = subprocess.run([TXMQ, "wakeup", "--health-file", str(place / "health.json")], capture_output=True, text=True)
    assert (done.returncode, "nobody serves" in done.stderr) == (2, True)
    keys = [(row["broker_name"], row["queue_id"], row["queue_offset"]) for row in rows(place, "half_message")]
    assert len(keys) == len(set(keys)) == 50


def test_serve_waits_first_and_a_wakeup_ends_the_wait(place: Path):
    written(place / "half" / "1.jsonl", truth.rows("basic", "half")[:3])
    with serving(place, "--set", "transaction_check_interval=3600s") as process:
        until(lambda: health(place)["state"] == "running", place)
        time.sleep(2)
        assert rows(place, "half_message") == []
        woken = subprocess.run([TXMQ, "wakeup", "--health-file", str(place / "health.json")], check=False)
        assert woken.returncode == 0
        until(lambda: len(rows(place, "half_message")) == 3, place)
        process.send_signal(signal.SIGTERM)
        assert process.wait(100) == 0


def test_a_source_that_failed_is_read_soon_again_though_the_next_interval_is_far(place: Path):
    unreadable(place)
    with serving(place, "--now-first", "--set", "transaction_check_interval=3600s"):
        until(lambda: health(place)["state"] == "failing", place)
        readable(place)
        written(place / "half" / "1.jsonl", truth.rows("basic", "half")[:3])
        until(lambda: health(place)["state"] == "running" and len(rows(place, "half_message")) == 3, place, seconds=60)
        until(lambda: {row["is_settled"] for row in rows(place, "verdict")}, place, seconds=60)  # what follows runs too


def test_a_jvm_that_is_lost_between_rounds_ends_serve_with_status_3(place: Path):
    with serving(place, "--set", "transaction_check_interval=3600s") as process:
        until(lambda: health(place)["state"] == "running", place)
        (jvm,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(jvm), signal.SIGKILL)
        process.send_signal(signal.SIGUSR1)
        assert process.wait(60) == 3
    assert health(place)["state"] == "failing"
    assert health(place)["steps"]["serve"]["error"] == "Spark is gone"
    assert "Traceback" not in (place / "serve.log").read_text()


def test_stopped_and_killed_again_and_again_serve_ends_with_each_row_once(place: Path):
    halves, ends = truth.rows("basic", "half"), truth.rows("basic", "ends")
    written(place / "end" / "1.jsonl", ends)
    parts = 6
    for part in range(parts):
        written(place / "half" / f"{part}.jsonl", halves[part::parts])
        with serving(place, "--now-first") as process:
            until(lambda: health(place).get("pid") == process.pid and health(place)["state"] == "running", place)
            time.sleep(1.5 * part)
            process.send_signal(signal.SIGTERM if part % 2 else signal.SIGKILL)
            assert process.wait(100) in (0, -signal.SIGKILL)
    with serving(place, "--now-first"):
        until(lambda: len(rows(place, "half_message")) == len(halves), place)
        until(lambda: {row["is_settled"] for row in rows(place, "verdict")} and not open_passes(place), place)
        until(lambda: health(place)["steps"].get("audit", {}).get("last_success"), place)
    keys = [(row["broker_name"], row["queue_id"], row["queue_offset"]) for row in rows(place, "half_message")]
    assert len(keys) == len(set(keys)) == len(halves)
    effective = [row["transaction_id"] for row in rows(place, "end_outcome") if row["is_effective"]]
    assert len(effective) == len(set(effective))
    committed = [row["transaction_id"] for row in rows(place, "end_outcome")
                 if row["is_effective"] and row["decision"] == "commit"]  # fmt: skip
    visible = [row["transaction_id"] for row in rows(place, "message") if row["broker_name"] == "oracle-a"]
    assert sorted(visible) == sorted(committed)
