"""Whom a health file names: the process that keeps it, whatever the file says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from txmq_lib.cli import main
from txmq_lib.errors import UsageError
from txmq_lib.service.health_file import Health, serving_pid

KEEPS = """
import sys, time
from datetime import UTC, datetime
from pathlib import Path
from txmq_lib.service.health_file import Health
Health(Path(sys.argv[1]), lambda: datetime.now(UTC))
print("kept", flush=True)
time.sleep(60)
"""


@pytest.fixture
def keeper(tmp_path: Path):
    """A process that keeps `health.json`."""
    path = tmp_path / "health.json"
    with subprocess.Popen([sys.executable, "-c", KEEPS, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "kept\n"
        yield process, path
        process.kill()


def test_the_process_that_keeps_the_file_is_told_until_it_ends(keeper):
    process, path = keeper
    assert serving_pid(path) == process.pid
    path.write_text(json.dumps({**json.loads(path.read_text()), "pid": os.getpid()}))
    assert serving_pid(path) == process.pid
    process.kill()
    process.wait()
    with pytest.raises(UsageError, match="nobody serves"):
        serving_pid(path)


def test_a_second_service_with_the_same_file_is_refused(keeper):
    process, path = keeper
    again = subprocess.run([sys.executable, "-c", KEEPS, str(path)], capture_output=True, text=True, check=False)
    assert f"UsageError: process {process.pid} keeps {path}" in again.stderr


def test_a_service_that_a_signal_has_ended_while_it_started_runs_no_more(tmp_path):
    health = Health(tmp_path / "health.json", lambda: datetime.now(UTC))
    health.stopped()
    health.running()
    assert json.loads((tmp_path / "health.json").read_text())["state"] == "stopped"


@pytest.mark.parametrize("pid", [0, -1, 1])
@pytest.mark.parametrize("state", ["running", "starting"])
def test_wakeup_signals_nobody_whose_number_an_old_file_holds(tmp_path, capsys, monkeypatch, pid, state):
    path = tmp_path / "health.json"
    path.write_text(json.dumps({"pid": pid, "state": state, "steps": {}}))
    sent: list[tuple[int, int]] = []
    # Recorded and never sent: 0 is this process's own group, -1 every process of the machine.
    monkeypatch.setattr(os, "kill", lambda *arguments: sent.append(arguments))
    assert main(["wakeup", "--health-file", str(path)]) == 2
    assert "nobody serves" in capsys.readouterr().err
    assert sent == []


def test_a_planted_lock_is_not_waited_for(tmp_path, capsys):
    path = tmp_path / "health.json"
    path.write_text("{}")
    os.mkfifo(tmp_path / ".health.json.lock")
    assert main(["wakeup", "--health-file", str(path)]) == 2
    assert "no plain file" in capsys.readouterr().err
