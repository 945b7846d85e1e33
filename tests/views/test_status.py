"""`txmq status`: the figures of one screen, what counts as a problem, thresholds, 80 columns."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from moment import NOW_TEXT as NOON
from views.conftest import append, take_for_far

from txmq_lib.views import far_files
from txmq_lib.views.landing_figures import last_passes, newest_passes
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.scan import Scan
from txmq_lib.views.status import span_text

ROOT = Path(__file__).resolve().parents[2]


def at(clock: str) -> str:
    return f"2026-11-21T{clock}Z"


def half(transaction_id: str, group: str | None, stored: str, **more: Any) -> dict[str, Any]:
    return {"transaction_id": transaction_id, "producer_group": group, "first_store_timestamp": stored, **more}


def passed(job: str, number: int, state: str, wall: str, **more: Any) -> dict[str, Any]:
    return {"job": job, "pass_number": number, "state": state, "wall_timestamp": at(wall), **more}


ROWS: dict[str, list[dict[str, Any]]] = {
    "pending_half": [
        half("A", "G1", at("11:59:00.001"), next_check_timestamp=at("12:00:01")),
        half("B", "G1", at("11:59:00"), next_check_timestamp=NOON, check_times=2),
        half("C", "G1", at("11:00:00"), next_check_timestamp=None, broker_check_times=7),
        half("D", "G2", at("11:50:00.001")),
        half("E", None, "2026-11-20T11:00:00Z"),
    ],
    "check_request": [{"check_timestamp": at("11:00:00")}, {"check_timestamp": at("11:30:00")}],
    "end_outcome": [
        {"from_transaction_check": True, "decision": "commit", "landing_order": 1},
        {"from_transaction_check": True, "decision": None, "landing_order": 2},
        {"from_transaction_check": True, "decision": "commit", "is_held": True, "landing_order": 3},
        {"from_transaction_check": False, "decision": "rollback", "landing_order": 4},
    ],
    "trans_check_max_time": [{"given_up_timestamp": at("10:00:00")}],
    "verdict": [
        {"verdict": "COMMITTED", "is_settled": True, "transaction_id": "1"},
        {"verdict": "COMMITTED", "is_settled": True, "transaction_id": "2"},
        {"verdict": "DUPLICATED", "is_settled": True, "transaction_id": "3"},
        {"verdict": "DISCARDED", "is_settled": True, "transaction_id": "4"},
        {"verdict": "PENDING", "is_settled": False, "transaction_id": "5"},
    ],
    "consumer_offset": [
        {"broker_name": "a", "consumer_group": "CG1", "topic": "T", "queue_id": 0, "next_offset": 10},
        {
            "broker_name": "a",
            "consumer_group": "CG1",
            "topic": "T",
            "queue_id": 1,
            "next_offset": 99,
            "rewind_count": 3,
        },
        {"broker_name": "a", "consumer_group": "CG2", "topic": "T", "queue_id": 0, "next_offset": 100},
        {"broker_name": "a", "consumer_group": "CG2", "topic": "U", "queue_id": 0, "next_offset": 5},
    ],
    "landing_frontier": [
        {
            "broker_name": "a",
            "topic": "T",
            "queue_id": 0,
            "next_offset": 110,
            "highest_store_timestamp": at("11:55:00"),
        },
        {"broker_name": "a", "topic": "T", "queue_id": 1, "next_offset": 50, "highest_store_timestamp": at("11:58:00")},
        {"broker_name": "b", "topic": "T", "queue_id": 0, "next_offset": 1, "highest_store_timestamp": None},
    ],
    "quarantine": [
        {"reason": "BROKEN_JSON", "quarantined_timestamp": at("11:00:00"), "fingerprint": "1"},
        {"reason": "OP_TAG", "quarantined_timestamp": at("11:00:00"), "fingerprint": "2"},
        {"reason": "OP_TAG", "quarantined_timestamp": at("11:59:30"), "fingerprint": "3"},
    ],
    "pass": [
        passed("audit", 1, "committed", "10:00:00", counts=[("verdict_COMMITTED", 99)]),
        passed("audit", 2, "started", "10:59:00"),
        passed("audit", 2, "committed", "11:00:00", counts=[("verdict_COMMITTED", 2)], seconds=[("verdict", 1.5)]),
        passed("land", 3, "started", "11:00:00"),
        passed("land", 3, "abandoned", "11:00:01"),
        passed("land", 4, "committed", "11:01:00", counts=[("quarantine_half", 2), ("half", 9)]),
        passed("reconcile", 1, "started", "11:57:00"),
    ],
}


# Limits that hold by default and that these rows are past; what is told of them is in test_runs.py.
UNLIMITED = ("--set", "thresholds.pending_age=null", "--set", "thresholds.lag_states=null")


@pytest.fixture
def status(warehouse, txmq):
    def run(*arguments: str, rows: dict[str, list[dict[str, Any]]] = ROWS) -> tuple[int, str, str]:
        return txmq("--warehouse", warehouse(rows), "status", "--now", NOON, *UNLIMITED, *arguments)

    return run


@pytest.fixture
def status_told(status):
    code, out, err = status("--format", "json")
    assert (code, err, out.count("\n")) == (0, "", 1)
    return json.loads(out)


def test_pending_is_counted_by_age_and_producer_group_the_largest_first(status_told):
    assert status_told["pending_count"] == 5
    groups = [(row["producer_group"], row["count"], row["oldest_transaction_id"]) for row in status_told["pending"]]
    assert groups == [("G1", 3, "C"), ("G2", 1, "D"), (None, 1, "E")]
    assert status_told["pending"][0] == {
        "producer_group": "G1",
        "count": 3,
        "ages": {"1m": 1, "10m": 1, "1h": 0, "1d": 1, "older": 0},  # an age of exactly a minute is in the next class
        "oldest_timestamp": "2026-11-21T11:00:00.000Z",
        "oldest_transaction_id": "C",
        "oldest_asked_timestamp": "2026-11-21T11:00:00.000Z",  # nobody holds it
        "due": 1,
        "most_checks": 7,
        "clients": None,  # no live broker told
        "unattended": 0,
    }
    assert status_told["pending"][2]["ages"]["older"] == 1
    assert [row["due"] for row in status_told["pending"]] == [1, 0, 0]


def test_checks_answers_and_given_up_are_counted(status_told):
    checks = status_told["checks"]
    assert (checks["asked"], checks["last_asked_timestamp"]) == (2, "2026-11-21T11:30:00.000Z")
    assert (checks["answered"], checks["answers"]) == (2, {"commit": 1, "malformed": 1})
    assert (status_told["given_up"], status_told["last_given_up_timestamp"]) == (1, "2026-11-21T10:00:00.000Z")


def test_verdicts_come_with_what_the_last_audit_pass_gave(status_told):
    assert [(row["verdict"], row["count"], row["last_pass"]) for row in status_told["verdicts"]] == [
        ("DUPLICATED", 1, 0), ("COMMITTED", 2, 2), ("DISCARDED", 1, 0), ("PENDING", 1, 0),
    ]  # fmt: skip


def test_lag_is_counted_per_group_with_the_states_of_its_queues(status_told):
    assert status_told["offsets"] == [
        {"broker_name": "a", "consumer_group": "CG1", "queues": 2, "lag": 100,
         "states": {"beyond_end": 1, "ok": 1}, "lag_states": {"ahead_of_queue": 1, "stopped": 1}, "rewinds": 3},
        {"broker_name": "a", "consumer_group": "CG2", "queues": 3, "lag": 10,
         "states": {"ok": 1, "unknown": 2}, "lag_states": {"never_committed": 1, "stopped": 1, "unknown": 1}, "rewinds": 0},
    ]  # fmt: skip


def test_quarantine_landing_and_passes_are_told(status_told):
    assert [(row["reason"], row["count"]) for row in status_told["quarantine"]] == [("OP_TAG", 2), ("BROKEN_JSON", 1)]
    assert status_told["landed"] == [
        {"broker_name": "a", "read_to_timestamp": "2026-11-21T11:58:00.000Z", "set_ups": None},
        {"broker_name": "b", "read_to_timestamp": None, "set_ups": None},
    ]
    passes = [(row["job"], row["pass_number"], row["unfinished_number"]) for row in status_told["passes"]]
    assert passes == [("land", 4, None), ("reconcile", None, 1), ("audit", 2, None)]
    assert status_told["passes"][2]["seconds"] == {"verdict": 1.5}


def test_problems_name_the_command_that_shows_more(status_told):
    assert [(row["text"], row["command"], row["limit"]) for row in status_told["problems"]] == [
        ("the oldest undecided transaction: 1d 1h", "pending", None),
        ("100 messages behind: consumer group CG1", "offsets --group CG1 --sort lag:desc", None),
        ("reconcile pass 1 started 3m ago, not ended", "passes --job reconcile", None),
        ("1 visible more than once", "verdicts --state duplicated", None),
        ("1 given up, nobody decided", "verdicts --state discarded", None),
        ("2 consumer queues stopped: messages wait, nobody reports", "offsets --lag-state stopped", None),
        ("1 consumer queues ahead of the end of the queue", "offsets --lag-state ahead_of_queue", None),
        ("1 consumer queues never committed by their group", "offsets --lag-state never_committed", None),
        ("3 records in quarantine", "quarantine", None),
    ]


@pytest.mark.parametrize(
    ("key", "within", "past"),
    [
        ("pending", "5", "4"),
        ("pending_age", "25h", "24h"),
        ("given_up", "1", "0"),
        ("contradicted", "1", "0"),
        ("lag", "100", "99"),
        ("landing_behind", "2m", "119s"),
        ("quarantined", "2", "1"),
    ],
)
def test_past_a_threshold_the_status_is_1_and_the_finding_comes_first(status, key, within, past):
    assert status("--set", f"thresholds.{key}={within}")[0] == 0
    code, out, _ = status("--set", f"thresholds.{key}={past}", "--format", "json")
    assert code == 1
    limits = [problem["limit"] for problem in json.loads(out)["problems"]]
    assert limits[0].startswith(f"thresholds.{key} ")
    assert set(limits[1:]) == {None}
    code, out, _ = status("--set", f"thresholds.{key}={past}")
    assert (code, out.splitlines()[1][:2]) == (1, "! ")


def test_orphans_end_the_status_with_1_and_are_listed_by_broker_and_topic(status):
    rows = [
        {"broker_name": broker, "topic": topic, "queue_id": 0, "queue_offset": turn, "state": state}
        for turn, (broker, topic, state) in enumerate(
            [("b", "T T", "orphan"), ("b", "T T", "orphan"), ("c", "U", "before_first"), ("b", "V", "half_landed")]
        )
    ]
    code, out, _ = status(rows={**ROWS, "orphan": rows})
    first, command = out.splitlines()[1:3]
    assert (code, first) == (
        1,
        "! 2 committed messages of T T on b without a half: something was not read (thresholds.orphans 0)",
    )
    assert command.strip() == "txmq orphans --state orphan --broker b --topic 'T T'"
    _, out, _ = status("--format", "json", rows={**ROWS, "orphan": rows})
    assert json.loads(out)["orphans"] == [
        {"broker_name": "b", "topic": "T T", "count": 2, "before_first": 0},
        {"broker_name": "c", "topic": "U", "count": 0, "before_first": 1},
    ]
    assert status("--set", "thresholds.orphans=2", rows={**ROWS, "orphan": rows})[0] == 0


def test_what_somebody_has_decided_is_no_longer_told_as_undecided(status):
    key = {
        "producer_group": "G",
        "born_timestamp": at("09:00:00"),
        "broker_name": "b",
        "last_timestamp": at("10:00:00"),
    }
    verdicts = [{**key, "verdict": "DISCARDED", "transaction_id": str(number)} for number in range(6)]
    decided = {
        "decided_timestamp": at("11:00:00"),
        **{name: key[name] for name in ("producer_group", "born_timestamp", "broker_name")},
    }
    moment = decided.pop("decided_timestamp")
    sent = {**decided, "action": "commit", "transaction_id": "3", "pass_number": 2, "requested_timestamp": moment}
    decided["decided_timestamp"] = moment
    rows = {
        "verdict": [*verdicts, {**key, "verdict": "COMMITTED", "transaction_id": "9"}],
        "manual_decision": [
            {**decided, "action": "commit", "transaction_id": "1"},
            {**decided, "action": "rollback", "transaction_id": "2", "is_planned_for_broker": True},
            {**decided, "action": "commit", "transaction_id": "3", "is_planned_for_broker": True},
            {**decided, "action": "resume", "transaction_id": "4"},
            {**decided, "action": "resume", "transaction_id": "5", "decided_timestamp": at("09:30:00")},
            {**decided, "action": "commit", "transaction_id": "9"},
        ],
        "broker_request": [{**sent, "state": "accepted"}, {**sent, "state": "sending"}],
    }  # fmt: skip
    _, out, _ = status("--format", "json", rows=rows)
    document = json.loads(out)
    assert [(each["decision"], each["count"]) for each in document["decided"]] == [
        ("commit accepted", 1), ("commit recorded", 1), ("resume recorded", 1), ("rollback to be sent", 1),
    ]  # fmt: skip
    assert [problem["text"] for problem in document["problems"]] == [
        "2 given up, nobody decided",
        "2 decided by hand: reconcile, then audit",
        "1 decided by hand, not sent to their broker",
        "1 taken by their broker: land, then audit",
    ]
    assert status("--set", "thresholds.given_up=2", rows=rows)[0] == 0
    given_up = {"given_up_timestamp": at("10:00:00"), **{name: key[name] for name in ("broker_name", "producer_group")}}
    _, out, _ = status(rows={**rows, "trans_check_max_time": [{**given_up, "transaction_id": "1"}] * 6})
    (line,) = [line for line in out.splitlines() if line.startswith("GIVEN UP 6")]
    assert line.endswith("2 of them undecided")


def test_verdicts_given_before_other_passes_say_that_an_audit_is_due(status):
    def status_told(*jobs: tuple[str, str]) -> tuple[bool, str]:
        rows = {**ROWS, "pass": [passed(job, 1, "committed", clock) for job, clock in jobs]}
        line = next(line for line in status(rows=rows)[1].splitlines() if line.startswith("VERDICTS"))
        return json.loads(status("--format", "json", rows=rows)[1])["is_audit_due"], line

    assert status_told(("land", "10:00:00"), ("audit", "11:00:00"), ("maintain", "11:30:00")) == (False, "VERDICTS")
    due = "VERDICTS  txmq audit is due: other passes came after it"
    for job in ("land", "reconcile", "resume"):
        assert status_told(("audit", "11:00:00"), (job, "11:00:01")) == (True, due)


def test_what_is_not_known_is_told_with_its_reason(status):
    unknown = {"verdict": "RESOLVED_UNKNOWN", "is_settled": False}
    rows = {
        "verdict": [
            {**unknown, "reason": "gap", "transaction_id": "1"},
            {**unknown, "reason": "gap", "transaction_id": "2"},
            {**unknown, "reason": "elsewhere", "transaction_id": "3"},
            {**unknown, "reason": None, "transaction_id": "4"},
            {"verdict": "ROLLED_BACK", "reason": "log_read", "is_settled": True, "transaction_id": "5"},
        ]
    }
    document = json.loads(status("--format", "json", rows=rows)[1])
    assert {row["verdict"]: (row["count"], row["reasons"]) for row in document["verdicts"]} == {
        "ROLLED_BACK": (1, {"log_read": 1}),
        "RESOLVED_UNKNOWN": (4, {"elsewhere": 1, "gap": 2}),
    }
    assert [(problem["text"], problem["command"]) for problem in document["problems"]] == [
        ("1 decided, commit or rollback not known: elsewhere", "verdicts --state resolved_unknown --reason elsewhere"),
        ("2 decided, commit or rollback not known: gap", "verdicts --state resolved_unknown --reason gap"),
    ]


def test_every_command_a_problem_names_is_one_that_runs(status, warehouse, txmq):
    thresholds = ("pending", "given_up", "contradicted", "lag", "quarantined")
    options = [part for key in thresholds for part in ("--set", f"thresholds.{key}=0")]
    _, out, _ = status(*options, "--format", "json")
    uri = warehouse({})
    for problem in json.loads(out)["problems"]:
        # Nothing has landed there: whoever is asked for by name is not known, which is status 1; 2 would be a wrong command.
        assert txmq("--warehouse", uri, *shlex.split(problem["command"]))[0] in (0, 1), problem


def test_the_screen_fits_80_columns_and_has_no_colour_in_a_pipe(status):
    wide = {
        **ROWS,
        "pending_half": [half(f"{n:032}", f"GID_{'x' * 60}_{n}", at("11:00:00")) for n in range(9)],
        "consumer_offset": [
            {
                "broker_name": "broker-" + "y" * 40,
                "consumer_group": f"CG_{'z' * 70}_{n}",
                "queue_id": n,
                "next_offset": n,
            }
            for n in range(9)
        ],
    }
    for rows in (ROWS, wide):
        code, out, err = status(rows=rows)
        lines = out.splitlines()
        assert code == 0, err
        assert [line for line in lines[1:] if len(line) > 80] == []
        assert "\x1b" not in out
        assert len(lines) < 60
    assert "  and 3 more groups: txmq pending" in lines


FORGED = "x\x1b[2J\nno problem found;id>/tmp/p"
SHOWN = r"x\x1b[2J\x0ano problem found;id>/tmp/p"


def test_names_move_no_cursor_and_forge_no_line(status):
    rows = {
        "pending_half": [half(FORGED, FORGED, at("11:00:00"))],
        "consumer_offset": [{"broker_name": "a", "consumer_group": FORGED, "topic": "T", "next_offset": 0}],
        "landing_frontier": [{"broker_name": "a", "topic": "T", "next_offset": 9}],
    }
    code, out, _ = status("--set", "thresholds.lag=1", rows=rows)
    lines = out.splitlines()
    assert code == 1
    assert "\x1b" not in out
    assert [line for line in lines if line.startswith("no problem found")] == []
    assert lines[1] == f"! 9 messages behind: consumer group {SHOWN} (thresholds.lag 1)"
    assert lines[2] == f"    txmq offsets --group '{SHOWN}' --sort lag:desc"
    assert f"PENDING  1   due now 0   oldest 1h: {SHOWN}" in lines
    head = next(place for place, line in enumerate(lines) if line.startswith("  producer group"))
    assert len(lines[head]) == len(lines[head + 1])


def test_a_name_in_a_command_is_one_word_of_a_shell(status):
    rows = {
        "consumer_offset": [{"broker_name": "a", "consumer_group": FORGED, "topic": "T", "next_offset": 0}],
        "landing_frontier": [{"broker_name": "a", "topic": "T", "next_offset": 9}],
    }
    _, out, _ = status("--set", "thresholds.lag=1", "--format", "json", rows=rows)
    first = json.loads(out)["problems"][0]
    assert shlex.split(first["command"]) == ["offsets", "--group", FORGED, "--sort", "lag:desc"]


def test_an_empty_warehouse_says_that_nothing_has_landed(status):
    code, out, _ = status(rows={})
    assert code == 0
    assert out.splitlines()[1] == "nothing has landed yet: txmq land, or txmq run with sources"
    assert "PENDING  0" in out
    assert "LANDING  nothing has landed" in out


def test_a_warehouse_where_only_ends_have_landed_is_not_told_as_empty(status):
    landed = {"job": "land", "pass_number": 1, "state": "committed", "wall_timestamp": "2026-11-21T10:30:00Z"}
    _, out, _ = status(rows={"pass": [landed]})
    assert out.splitlines()[1] == "no problem found"


@pytest.mark.parametrize("lowered", [None, "SMALL_FILE", "KEPT_BYTES"])
def test_what_is_read_from_afar_is_what_is_read_from_local_files(status, monkeypatch, lowered):
    near = status("--format", "json")
    # Tables and files side by side; whole, by their columns, or streamed.
    take_for_far(monkeypatch)
    if lowered:
        monkeypatch.setattr(far_files, lowered, 0)
    far = status("--format", "json")
    status_told = [{**json.loads(out), "warehouse": None} for _, out, _ in (near, far)]
    assert status_told[0] == status_told[1]
    assert status_told[0]["pending_count"] == 5


def test_of_a_table_of_before_that_is_streamed_a_column_it_lacks_is_null(warehouse, txmq, monkeypatch):
    uri = warehouse(ROWS)
    for table, lacking in (("pending_half", ["is_held"]), ("verdict", ["reason"]), ("run", ["brokers"])):
        before = DeltaTable(f"{uri}/{table}").to_pyarrow_table().drop_columns(lacking)
        write_deltalake(f"{uri}/{table}", before, mode="overwrite", schema_mode="overwrite")
    status_told = txmq("--warehouse", uri, "status", "--now", NOON, *UNLIMITED, "--format", "json")
    monkeypatch.setattr(WarehouseReader, "_files", lambda reader, scan: None)
    assert txmq("--warehouse", uri, "status", "--now", NOON, *UNLIMITED, "--format", "json") == status_told
    assert json.loads(status_told[1])["pending_count"] == 5
    scan = Scan("verdict", ("reason",), ({"reason": ["undecided"]},))
    assert WarehouseReader(uri).rows(scan) == []
    assert WarehouseReader(uri).rows(Scan("verdict", ("reason",))) == [{"reason": None}] * 5


def test_of_thousands_of_passes_only_files_that_may_hold_the_newest_are_read(txmq, tmp_path, empty_tables):
    shutil.copytree(empty_tables, tmp_path / "w")
    rows = [
        *(passed("land", number, "committed", "10:00:00") for number in (1, 2, 3)),
        passed("land", 4, "started", "11:00:00"),
        passed("audit", 1, "committed", "09:00:00"),
        passed("maintain", 7, "started", "08:00:00"),
    ]
    for row in rows:
        append(tmp_path / "w", "pass", [row])
    reader = WarehouseReader(str(tmp_path / "w"))
    status_told = [(last.job, last.pass_number, last.unfinished_number) for last in last_passes(reader)]
    assert status_told == [("land", 3, 4), ("audit", 1, None), ("maintain", None, 7)]
    pruned = WarehouseReader(str(tmp_path / "w"))
    scan = Scan("pass", ("job", "pass_number"), files=newest_passes(pruned))
    kept = pruned.query("SELECT job, pass_number FROM pass ORDER BY ALL", [], {"pass": scan})
    assert list(kept) == [("audit", 1), ("land", 3), ("land", 4), ("maintain", 7)]


def test_watch_shows_it_again_until_interrupted(warehouse):
    # What is started in the background ignores SIGINT, and so does all that it starts.
    heeding = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{heeding}; import sys; from txmq_lib.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "--warehouse", warehouse(ROWS), "status", "--watch", "0.1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True
    ) as running:
        seen = 0
        deadline = time.monotonic() + 60
        while seen < 2 and time.monotonic() < deadline:
            seen += running.stdout.readline().startswith("txmq status ")
        running.send_signal(2)
        running.communicate(timeout=30)
    assert seen == 2
    assert running.returncode == 130


def test_watch_may_stand_without_its_seconds():
    from txmq_lib.cli.app import with_values

    assert with_values(["status", "--watch"]) == ["status", "--watch", "5"]
    assert with_values(["status", "--watch", "--format", "json"]) == ["status", "--watch", "5", "--format", "json"]
    assert with_values(["status", "--watch", "0.5"]) == ["status", "--watch", "0.5"]


def test_spans_are_told_in_their_two_largest_units():
    spans = [(0, "0s"), (59, "59s"), (60, "1m"), (61, "1m 1s"), (3600 + 5, "1h"), (90_061, "1d 1h"), (-120, "-2m")]
    assert [span_text(timedelta(seconds=seconds)) for seconds, _ in spans] == [text for _, text in spans]
