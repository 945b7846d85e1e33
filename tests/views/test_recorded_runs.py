"""Runs are remembered, those that fail too; thresholds work where nobody set them. No JVM is started."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import typer
from deltalake import DeltaTable
from moment import NOW_TEXT as NOON

from txmq_lib.cli.run import recorded as recording
from txmq_lib.cli.run import writing_runs
from txmq_lib.cli.run.before_spark import OTHER_FILE_SYSTEMS
from txmq_lib.cli.run.recorded import Run, recorded
from txmq_lib.cli.run.rounds import IDLE_WRITTEN_EVERY, WRITTEN_EVERY, Rounds
from txmq_lib.cli.run.writing_runs import MOST_S, write_runs
from txmq_lib.config.settings import Settings
from txmq_lib.delta import run_rows
from txmq_lib.errors import UsageError
from txmq_lib.files.run_marker import FOLDER
from txmq_lib.passes.current import PassReport

ROOT = Path(__file__).resolve().parents[2]
FAILING = ("land", "half", "/there/is/none", "--broker", "a")
AT = datetime(2026, 11, 21, 11, tzinfo=UTC)


def runs(txmq, uri: str, *more: str) -> list[dict]:
    status, out, err = txmq("--warehouse", uri, "runs", "--format", "json", *more)
    assert status == 0, err
    return [json.loads(line) for line in out.splitlines()]


def run(command: str, seconds_ago: float, *, brokers: tuple[str, ...] = (), **steps: str) -> dict:
    """A row of a run that ended so long before noon, with its steps: empty where they were done."""
    ended = AT + timedelta(hours=1) - timedelta(seconds=seconds_ago)
    of_run = Run(command, ended - timedelta(seconds=1), {command: "", **steps}, {}, set(brokers))
    is_failed = any(steps.values())
    return of_run.row(ended, "failed" if is_failed else "done", 3 if is_failed else 0, next(iter(steps.values()), ""))


def test_a_run_that_fails_before_any_pass_leaves_a_row(txmq, tmp_path, monkeypatch):
    for name in OTHER_FILE_SYSTEMS:
        monkeypatch.delenv(name, raising=False)  # another test of this process may have a session
    uri = str(tmp_path / "w")
    before = datetime.now(UTC) - timedelta(seconds=1)
    assert txmq("--warehouse", uri, *FAILING)[0] == 2
    (row,) = runs(txmq, uri)
    words = "nothing to land at /there/is/none: there is no such file or directory"
    assert (row["command"], row["outcome"], row["exit_status"]) == ("land half", "failed", 2)
    assert (row["error_code"], row["error"]) == ("NOTHING_TO_LAND", words)
    assert row["steps"] == {"land half": f"NOTHING_TO_LAND: {words}"}
    assert before <= datetime.fromisoformat(row["started_timestamp"]) <= datetime.fromisoformat(row["ended_timestamp"])
    assert row["process"] == os.getpid()
    assert "@" in row["started_by"]
    assert list((tmp_path / "w" / FOLDER).iterdir()) == []
    txmq("--warehouse", uri, "land", "end", "/nor/here", "--broker", "a")
    assert [each["command"] for each in runs(txmq, uri)] == ["land end", "land half"]
    assert [each["command"] for each in runs(txmq, uri, "--command", "land end", "--state", "failed")] == ["land end"]


def test_steps_of_a_run_and_who_landed_are_kept(txmq, tmp_path):
    settings = Settings.load(assignments=[f"warehouse={tmp_path}/w"])
    with pytest.raises(UsageError), recorded("run", settings) as under_way:  # noqa: PT012 - what a run comes to
        under_way.step("land store /s", PassReport("land", 4, {}, {}, brokers=("a", "b")))
        under_way.step("land rocketmq x:1", UsageError("no"))
        under_way.step("audit", PassReport("audit", 0, {"idle": 1}, {}))
        raise UsageError("password=hunter2 is wrong")
    (row,) = runs(txmq, str(tmp_path / "w"))
    assert row["steps"] == {"land store /s": "", "land rocketmq x:1": "USAGE: no", "audit": ""}
    assert (row["passes"], row["brokers"]) == ({"land": 4}, ["a", "b"])
    assert "hunter2" not in json.dumps(row)


def test_a_run_that_went_on_without_a_source_says_which(txmq, tmp_path):
    settings = Settings.load(assignments=[f"warehouse={tmp_path}/w"])
    with pytest.raises(typer.Exit), recorded("run", settings) as under_way:  # noqa: PT012 - what a run comes to
        under_way.step("land rocketmq x:1", UsageError("no"))
        raise typer.Exit(1)
    (row,) = runs(txmq, str(tmp_path / "w"))
    assert (row["outcome"], row["exit_status"], row["error"]) == ("findings", 1, "USAGE: no")


def test_a_run_that_was_killed_is_told_by_the_next(txmq, tmp_path):
    code = "\n".join(
        [
            "import sys, time",
            "from txmq_lib.config.settings import Settings",
            "from txmq_lib.cli.run.recorded import recorded",
            "with recorded('run', Settings.load(assignments=[f'warehouse={sys.argv[1]}'])):",
            "    print('runs', flush=True)",
            "    time.sleep(60)",
        ]
    )
    uri = str(tmp_path / "w")
    command = [sys.executable, "-c", code, uri]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}) as running:
        assert running.stdout.readline() == b"runs\n"
        # While it runs nobody takes it for killed.
        assert txmq("--warehouse", uri, *FAILING)[0] == 2
        assert [row["command"] for row in runs(txmq, uri)] == ["land half"]
        running.send_signal(signal.SIGKILL)
    status, _, err = txmq("--warehouse", uri, *FAILING)
    assert status == 2
    assert "killed, or its machine stopped: nobody saw its end" in err.splitlines()[0]
    found = [(row["command"], row["outcome"], row["exit_status"]) for row in runs(txmq, uri)]
    assert sorted(found, key=str) == [("land half", "failed", 2), ("land half", "failed", 2), ("run", "killed", None)]
    txmq("--warehouse", uri, *FAILING)
    assert [row["outcome"] for row in runs(txmq, uri, "--state", "killed")] == ["killed"]


def test_what_a_killed_run_left_stays_until_it_is_written(tmp_path, monkeypatch):
    settings = Settings.load(assignments=[f"warehouse={tmp_path}/w"])
    (tmp_path / "w" / FOLDER).mkdir(parents=True)
    left = tmp_path / "w" / FOLDER / "x.json"
    left.write_text(json.dumps(writing_runs.as_json(run("run", 60))))
    (left.parent / "torn.json").write_text('{"command": ')

    def fails(*_: object, **__: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(run_rows, "append_runs", fails)
    with recorded("audit", settings):
        pass
    assert left.exists()
    monkeypatch.undo()
    with recorded("audit", settings):
        pass
    assert not left.exists()
    commands = DeltaTable(str(tmp_path / "w" / "run")).to_pyarrow_table()["command"].to_pylist()
    assert sorted(commands) == ["audit", "run"]


def test_nothing_of_it_fails_or_holds_up_a_run(tmp_path, monkeypatch, capsys):
    place = tmp_path / "file"
    place.write_text("")
    with recorded("audit", Settings.load(assignments=[f"warehouse={place}/w"])):
        pass
    assert capsys.readouterr().err.startswith("this run is not recorded: ")

    monkeypatch.setattr(run_rows, "append_runs", lambda *_, **__: time.sleep(60))
    monkeypatch.setattr(writing_runs, "MOST_S", 0.2)
    begun = time.monotonic()
    assert write_runs(str(tmp_path / "w"), [run("run", 1)]) == "the table did not answer in 0 s"
    assert time.monotonic() - begun < MOST_S


def test_a_row_is_kept_whatever_becomes_of_the_upkeep_behind_it(tmp_path, monkeypatch, capsys):
    def fails(*_: object, **__: object) -> None:
        time.sleep(0.5)
        raise OSError("the disk is full")

    monkeypatch.setattr(run_rows, "keep_small", fails)
    monkeypatch.setattr(writing_runs, "MOST_S", 0.3)
    uri = str(tmp_path / "w")
    assert write_runs(uri, [run("run", 1)]) == ""
    assert capsys.readouterr().err == "the rows of runs are not put together: OSError: the disk is full\n"
    assert DeltaTable(f"{uri}/run").to_pyarrow_table().num_rows == 1


def test_a_failed_run_is_recorded_without_spark(tmp_path, monkeypatch):
    sessions = []
    monkeypatch.setattr(recording, "write_runs", lambda *_, spark, **__: sessions.append(spark) or "")
    settings = Settings.load(assignments=[f"warehouse={tmp_path}/w"])
    for error in (None, OSError("Spark does not reach the store")):
        with suppress(OSError), recorded("audit", settings) as made:
            made.spark = "a session"
            if error is not None:
                raise error
    assert sessions == ["a session", None]


LEFT = """
import atexit, os, sys, threading, time
from txmq_lib import cli
from txmq_lib.cli import app
from txmq_lib.cli.run import writing_runs
from txmq_lib.files.scratch import scratch
def run(_):
    writing_runs.MOST_S = 0.1
    writing_runs._append = lambda *_: time.sleep(float(sys.argv[1])) or 1
    atexit.register(print, "at exit")
    print(writing_runs.write_runs("w", []), scratch())
    return 7
app.run = run
sys.exit(cli.main())
"""


@pytest.mark.parametrize("is_left", [True, False])
def test_a_process_that_leaves_a_row_to_its_thread_ends_without_python_for_it(is_left, tmp_path):
    """deltalake's answer to a thread while Python ends has ended processes by SIGSEGV."""
    seconds = "60" if is_left else "0"
    done = subprocess.run([sys.executable, "-c", LEFT, seconds], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 7, done.stderr
    assert ("at exit" in done.stdout) != is_left
    assert not Path(done.stdout.split()[-1 if is_left else -3]).exists(), "scratch files"


def test_rounds_of_a_service_leave_a_row_a_minute_and_an_idle_hour_one(tmp_path, txmq):
    clock = [AT]
    uri = str(tmp_path / "w")
    rounds = Rounds(uri, AT, lambda: clock[0])

    def kept() -> list[tuple]:
        return [(row["outcome"], row["passes"], row["steps"]) for row in runs(txmq, uri, "--sort", "started_timestamp")]

    rounds.done("audit", PassReport("audit", 1, {}, {}))
    rounds.failed("land store /s", "INPUT_UNREADABLE: gone")
    assert kept() == [("failed", {"audit": 1}, {"audit": "", "land store /s": "INPUT_UNREADABLE: gone"})]
    clock[0] += timedelta(seconds=1)
    for _ in range(3):
        rounds.done("audit", PassReport("audit", 0, {"idle": 1}, {}))
        clock[0] += WRITTEN_EVERY
    assert len(kept()) == 1
    clock[0] += IDLE_WRITTEN_EVERY
    rounds.done("audit", PassReport("audit", 0, {"idle": 1}, {}))
    assert kept()[1:] == [("done", {}, {"audit": ""})]
    rounds.done("audit", PassReport("audit", 2, {}, {}))
    rounds.write()
    assert kept()[2:] == [("done", {"audit": 2}, {"audit": ""})]


def test_a_service_tells_at_once_that_it_serves_and_that_a_step_works_again(tmp_path, txmq):
    clock = [AT + timedelta(seconds=9)]
    uri = str(tmp_path / "w")
    rounds = Rounds(uri, AT, lambda: clock[0])
    idle = PassReport("audit", 0, {"idle": 1}, {})

    def kept() -> list[dict]:
        clock[0] += timedelta(seconds=1)
        return [row["steps"] for row in runs(txmq, uri, "--sort", "started_timestamp")]

    rounds.begun()
    assert kept() == [{"serve": ""}]
    assert datetime.fromisoformat(runs(txmq, uri)[0]["started_timestamp"]) == AT
    # What another process may have left failing is told soon, though nothing came of it.
    rounds.done("audit", idle)
    clock[0] += WRITTEN_EVERY
    rounds.done("audit", idle)
    assert kept()[1:] == [{"audit": ""}]
    rounds.failed("audit", "TABLE_MISSING: gone")
    clock[0] += timedelta(seconds=1)
    rounds.done("audit", idle)
    assert kept()[2:] == [{"audit": "TABLE_MISSING: gone"}, {"audit": ""}]
    rounds.done("audit", idle)
    clock[0] += WRITTEN_EVERY
    rounds.done("audit", idle)
    assert len(kept()) == 4


def test_many_rows_are_put_together_and_old_ones_go(tmp_path, monkeypatch):
    monkeypatch.setattr(run_rows, "TIDIED_EVERY", 4)
    uri = str(tmp_path / "w")
    old = {**run("run", 60), "started_timestamp": AT - timedelta(days=91), "run_id": "old"}
    for row in (old, *(run("run", second) for second in range(3))):
        run_rows.keep_small(uri, run_rows.append_runs(uri, [row]), has_work=False, wall=AT)
    table = DeltaTable(f"{uri}/run")
    assert (table.to_pyarrow_table().num_rows, len(table.file_uris())) == (3, 1)


@pytest.fixture
def failures_told(warehouse, txmq):
    """The problems past a limit that `status` tells at noon of rows, as (text, limit), and its status."""

    def read(rows: dict, of_runs: list[dict] = (), *settings: str) -> tuple[int, list[tuple[str, str]]]:
        uri = warehouse(rows)
        if of_runs:
            run_rows.append_runs(uri, list(of_runs))
        options = [part for each in settings for part in ("--set", each)]
        status, out, _ = txmq("--warehouse", uri, *options, "status", "--now", NOON, "--format", "json")
        problems = json.loads(out)["problems"]
        return status, [(each["text"], each["limit"]) for each in problems if each["limit"]]

    return read


def test_the_last_failure_of_each_step_is_told_until_it_is_done(failures_told):
    fails = run("run", 120, **{"land store /s": "INPUT_UNREADABLE: gone"})
    again = run("run", 60, **{"land store /s": "INPUT_UNREADABLE: gone\nfor ever"})
    done = run("run", 30, **{"land store /s": ""})
    text = "land store /s failed 2 times, last 1m ago: INPUT_UNREADABLE: gone"
    assert failures_told({}, [fails, again]) == (1, [(text, "thresholds.failing 0")])
    assert failures_told({}, [fails, again], "thresholds.failing=2") == (0, [])
    assert failures_told({}, [fails, again, done]) == (0, [])
    assert failures_told({}, [run("run", 8 * 86_400, **{"land store /s": "INPUT_UNREADABLE: gone"})]) == (0, [])


def test_a_source_that_is_configured_no_more_fails_no_more(failures_told, warehouse, txmq):
    steps = {"land store /s": "INPUT_UNREADABLE: gone", "land offsets of rocketmq n:1 m:1": "REMOTING: down"}
    other = "sources=[{kind: store, paths: [/other, /t], broker: b}]"
    names = "sources=[{kind: rocketmq, namesrv: ['n:1', 'm:1']}, {kind: store, paths: [/s], broker: b}]"
    assert len(failures_told({}, [run("run", 60, **steps)])[1]) == 2
    assert failures_told({}, [run("run", 60, **steps)], other) == (0, [])
    assert len(failures_told({}, [run("run", 60, **steps)], names)[1]) == 2
    # What is no source stays, and so does the row of the run.
    by_hand = {"land store": "INPUT_UNREADABLE: gone", "audit": "UNEXPECTED: no"}
    assert len(failures_told({}, [run("run", 60, **by_hand)], other)[1]) == 2
    uri = warehouse({})
    run_rows.append_runs(uri, [run("run", 60, **steps)])
    for command in (("metrics", "--out", "-"), ("status",)):
        assert "/s" in txmq("--warehouse", uri, *command)[1]
        assert "/s" not in txmq("--warehouse", uri, "--set", other, *command)[1]
    assert len(runs(txmq, uri)) == 1


def test_a_mistake_of_who_typed_a_command_is_no_failure(failures_told, txmq, tmp_path):
    mistakes = [
        run("settle", 60, settle="USAGE: T1 is decided"),
        run("commit", 60, commit="USAGE: T1 is decided"),
        run("land half", 60, **{"land half": "NOTHING_TO_LAND: nothing to land at /typo"}),
    ]
    assert failures_told({}, mistakes) == (0, [])
    # What nobody types is no mistake of typing: a source of the settings.
    gone = run("run", 60, **{"land half /in": "NOTHING_TO_LAND: nothing to land at /in"})
    assert failures_told({}, [gone])[0] == 1
    unset = run("run", 60, run="USAGE: no")
    assert failures_told({}, [unset])[0] == 1


def serving(command: str, started: float, ended: float | None, outcome: str, steps: dict[str, str]) -> dict:
    """A row of a service or of its rounds, in seconds before noon."""
    noon = AT + timedelta(hours=1)
    at_end = None if ended is None else noon - timedelta(seconds=ended)
    words = "killed" if outcome == "killed" else next((words for words in steps.values() if words), "")
    return Run(command, noon - timedelta(seconds=started), steps).row(at_end, outcome, None, words)


def test_a_service_that_was_killed_fails_until_it_serves_again(failures_told):
    killed = serving("serve", 900, None, "killed", {})
    own = [
        serving("serve rounds", 900, 890, "done", {"serve": ""}),
        serving("serve rounds", 880, 700, "done", {"audit": ""}),
    ]
    assert failures_told({}, [killed, *own])[1] == [("serve failed 15m ago: killed: killed", "thresholds.failing 0")]
    again = serving("serve rounds", 60, 50, "done", {"serve": ""})
    assert failures_told({}, [killed, *own, again]) == (0, [])


def test_no_landing_of_a_broker_for_half_the_time_its_files_are_kept_is_told(failures_told):
    # 72 h by default, so 36 h.
    rows = [run("run", 36 * 3600 + 60, brokers=("a", "b")), run("run", 36 * 3600 - 60, brokers=("b",))]
    assert failures_told({}, rows) == (1, [("no successful landing of a: 1d 12h", "thresholds.no_landing 1d 12h")])
    assert failures_told({}, rows, "brokers.b.file_reserved_time=48h")[1][1] == (
        "no successful landing of b: 1d 11h", "thresholds.no_landing 1d",
    )  # fmt: skip
    assert failures_told({}, rows, "thresholds.no_landing=null") == (0, [])
    assert failures_told({}, rows, "thresholds.brokers.a.no_landing=null") == (0, [])
    limited = failures_told({}, rows[1:], "thresholds.brokers.b={no_landing: 1h}")
    assert limited == (1, [("no successful landing of b: 1d 11h", "thresholds.brokers.b.no_landing 1h")])


def test_a_broker_that_stores_nothing_over_a_weekend_is_not_behind(failures_told):
    read_to = (AT - timedelta(hours=60)).isoformat()
    rows = {"landing_frontier": [{"broker_name": "a", "topic": "T", "highest_store_timestamp": read_to}]}
    assert failures_told(rows, [run("run", 60, brokers=("a",))]) == (0, [])
    limit = ("landing of a is behind: 2d 13h", "thresholds.landing_behind 1d 12h")
    assert failures_told(rows, (), "thresholds.landing_behind=auto") == (1, [limit])
    own = ("thresholds.landing_behind=auto", "thresholds.brokers.a.landing_behind=null")
    assert failures_told(rows, (), *own) == (0, [])


def half(group: str, minutes_ago: float) -> dict:
    stored = AT + timedelta(hours=1) - timedelta(minutes=minutes_ago)
    return {"producer_group": group, "first_store_timestamp": stored.isoformat(), "transaction_id": group}


def test_a_half_older_than_twice_the_time_of_all_checks_is_told(failures_told):
    # 2 x (6 s + 16 x 60 s) with the settings of base.yaml.
    rows = {"pending_half": [half("G1", 33), half("G2", 31)]}
    assert failures_told(rows) == (1, [("the oldest undecided transaction: 33m", "thresholds.pending_age 32m 12s")])
    assert failures_told(rows, (), "transaction_check_max=16") == (0, [])
    assert failures_told(rows, (), "thresholds.producer_groups.G1.pending_age=1h") == (0, [])
    limited = failures_told(rows, (), "thresholds.producer_groups.G2.pending_age=30m", "thresholds.pending_age=null")
    assert limited == (
        1,
        [("the oldest undecided transaction of G2: 31m", "thresholds.producer_groups.G2.pending_age 30m")],
    )
    assert failures_told(rows, (), "thresholds.producer_groups.G1.pending=0", "thresholds.pending_age=null") == (
        1, [("1 transactions of G1 undecided", "thresholds.producer_groups.G1.pending 0")],
    )  # fmt: skip
    assert (
        failures_told(rows, (), "thresholds.pending=1", "thresholds.pending_age=null")[1][0][1]
        == "thresholds.pending 1"
    )


def test_the_age_of_the_oldest_is_that_at_the_newest_landing_and_leaves_held_ones_out(failures_told):
    limit = ("the oldest undecided transaction: 33m", "thresholds.pending_age 32m 12s")
    rows = {"pending_half": [half("G1", 93)]}
    assert failures_told(rows, [run("run", 3600, brokers=("a",)), run("run", 7200, brokers=("b",))]) == (1, [limit])
    rows = {"pending_half": [half("G1", 91)]}
    assert failures_told(rows, [run("run", 3600, brokers=("a",))]) == (0, [])
    own = "thresholds.producer_groups.G1.pending_age=30m"
    assert (
        failures_told(rows, [run("run", 3600, brokers=("a",))], own)[1][0][0]
        == "the oldest undecided transaction of G1: 31m"
    )
    rows = {"pending_half": [{**half("G1", 93), "is_held": True}, {**half("G1", 33), "is_held": False}]}
    assert failures_told(rows) == (1, [limit])
    rows = {"pending_half": [{**half("G1", 93), "is_held": True}]}
    assert failures_told(rows) == failures_told(rows, (), own) == (0, [])


def test_queues_of_a_group_that_has_stopped_are_told_and_a_retired_group_is_not(failures_told):
    place = {"broker_name": "a", "topic": "T", "queue_id": 0}
    rows = {
        "consumer_offset": [{**place, "consumer_group": "CG", "next_offset": 1}],
        "landing_frontier": [{**place, "next_offset": 9, "highest_store_timestamp": NOON}],
    }
    text = "1 queues of consumer group CG stopped"
    assert failures_told(rows) == (1, [(text, "thresholds.lag_states 0")])
    assert failures_told(rows, (), "thresholds.consumer_groups.CG.lag_states=null") == (0, [])
    limited = failures_told(rows, (), "thresholds.consumer_groups.CG={lag: 7, lag_states: 1}")
    assert limited == (1, [("8 messages behind: consumer group CG", "thresholds.consumer_groups.CG.lag 7")])


def test_passes_are_told_a_row_each_with_how_long_they_took(warehouse, txmq):
    def row(number: int, state: str, second: int) -> dict:
        return {
            "job": "land",
            "pass_number": number,
            "state": state,
            "wall_timestamp": f"2026-11-21T11:00:{second:02}Z",
        }

    rows = [
        row(1, "started", 0),
        row(1, "committed", 7),
        row(2, "started", 8),
        row(2, "abandoned", 9),
        row(3, "started", 10),
    ]
    _, out, _ = txmq("--warehouse", warehouse({"pass": rows}), "passes", "--format", "json")
    found = [json.loads(line) for line in out.splitlines()]
    assert [(each["pass_number"], each["state"], each["duration_s"]) for each in found] == [
        (3, "started", None), (2, "abandoned", 1.0), (1, "committed", 7.0),
    ]  # fmt: skip
    assert found[2]["started_timestamp"] == "2026-11-21T11:00:00.000Z"


def test_a_warehouse_of_before_has_no_runs_and_its_status_is_told(warehouse, txmq):
    uri = warehouse({})
    shutil.rmtree(Path(uri) / "run", ignore_errors=True)
    status, out, _ = txmq("--warehouse", uri, "status", "--now", NOON)
    assert (status, "RUNS     none" in out) == (0, True)
