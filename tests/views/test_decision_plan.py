"""The plans of settle and resume from what has landed: no JVM is started, and pyspark is not imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from moment import NOW_TEXT

ROOT = Path(__file__).resolve().parents[2]
BORN = "2026-11-21T11:00:00Z"
KEY = {"broker_name": "a", "producer_group": "G", "born_timestamp": BORN}
NOW = ("--now", NOW_TEXT)


def half(transaction_id: str, offset: int, **more) -> dict:
    place = {"queue_id": 0, "queue_offset": offset, "commit_log_offset": 1000 + offset, "real_topic": "T"}
    return {**KEY, **place, "transaction_id": transaction_id, **more}


def lost(transaction_id: str, offset: int, **more) -> dict:
    return {
        **KEY,
        "transaction_id": transaction_id,
        "queue_offset": offset,
        "topic": "TRANS_CHECK_MAX_TIME_TOPIC",
        **more,
    }


def decision(transaction_id: str, action: str, **more) -> dict:
    return {
        **KEY,
        "transaction_id": transaction_id,
        "action": action,
        "decided_by": "me@here",
        "reason": "paid",
        **more,
    }


ROWS = {
    "half_message": [
        half("OPEN", 0), half("OPEN", 5), half("LOST", 1), half("SEEN", 2), half("OPED", 3), half("AGAIN", 4),
        half("TWIN", 6), half("TWIN", 7, born_timestamp="2026-11-21T11:00:01Z"), half("SAID", 8),
        half("OLD", 9, born_timestamp="2026-11-01T11:00:00Z"), half("ELSEWHERE", 0, broker_name="b", producer_group="H"),
        half("DELAYED", 10), half("ALONE", 11), half("BACK", 12), half("BACK", 30), half("GONE", 13), half("GONE", 31),
    ],
    "message": [
        {**KEY, "transaction_id": "SEEN", "topic": "T", "sys_flag": 8, "prepared_transaction_offset": 1002},
        # Diverted by a timer, and of another topic: they have the id, and nothing of the transaction is visible.
        {**KEY, "transaction_id": "OPEN", "topic": "rmq_sys_wheel_timer", "queue_offset": 1},
        {**KEY, "transaction_id": "LOST", "topic": "U", "sys_flag": 8, "prepared_transaction_offset": 1001},
    ],
    "op_message": [{"broker_name": "a", "queue_id": 0, "half_queue_offset": 3}],
    "trans_check_max_time": [
        lost("LOST", 0), lost("SEEN", 1), lost("AGAIN", 2), lost("OLD", 3, born_timestamp="2026-11-01T11:00:00Z"),
        lost("ELSEWHERE", 0, broker_name="b", producer_group="H"),
        lost("BACK", 4, commit_log_offset=1020), lost("GONE", 5, commit_log_offset=1020),
        lost("GONE", 6, commit_log_offset=1032),
    ],
    "manual_decision": [decision("AGAIN", "resume", given_up_queue_offset=2), decision("SAID", "commit")],
    "verdict": [
        {**KEY, "transaction_id": "SEEN", "verdict": "COMMITTED_AND_DISCARDED"},
        {**KEY, "transaction_id": "DELAYED", "verdict": "DIVERTED"},
        {**KEY, "transaction_id": "ALONE", "verdict": "RESOLVED_UNKNOWN"},
    ],
}  # fmt: skip


@pytest.fixture
def planned(warehouse, txmq):
    uri = warehouse(ROWS)

    def run(*arguments: str) -> tuple[int, list[dict], str]:
        roles = ("--set", "role=engine", "--set", "brokers.b.role=audit")
        status, out, err = txmq("--warehouse", uri, *roles, *arguments, *NOW, "--format", "json")
        return status, [json.loads(line) for line in out.splitlines()], err

    return run


SETTLE = ("--commit", "--reason", "paid")


def test_a_settle_names_the_newest_half_and_what_the_transaction_is(planned):
    status, (row,), err = planned("settle", "OPEN", *SETTLE)
    assert (status, row["verdict"], row["action"]) == (0, "PENDING", "commit")
    assert (row["tran_state_table_offset"], row["commit_log_offset"], row["real_topic"]) == (5, 1005, "T")
    assert row["born_timestamp"] == "2026-11-21T11:00:00.000Z"
    assert err == "1 commit; nothing was written: --apply does it\n"
    assert planned("settle", "LOST", "--rollback", "--reason", "no")[1][0]["verdict"] == "DISCARDED"
    # It was diverted before its half landed: --apply would judge so, too.
    assert planned("settle", "DELAYED", *SETTLE)[1][0]["verdict"] == "PENDING"
    _, rows, err = planned("settle", "SAID", *SETTLE)
    assert ([row["action"] for row in rows], err.splitlines()[0]) == (
        ["settled_before"], "1 settled so before: reconcile applies it",
    )  # fmt: skip
    assert "its broker decides: the end is recorded; --to-broker sends it" in planned("settle", "ELSEWHERE", *SETTLE)[2]


@pytest.mark.parametrize(
    ("id_", "words"),
    [
        ("SEEN", "transaction SEEN is COMMITTED_AND_DISCARDED already"),
        ("OPED", "transaction OPED is decided already"),
        ("ALONE", "transaction ALONE is RESOLVED_UNKNOWN already"),
        (
            "TWIN",
            "2 transactions have the id TWIN: broker a, group G, born 2026-11-21T11:00:00.000Z, PENDING; broker a",
        ),
        ("NOBODY", "no half message of transaction NOBODY has landed"),
    ],
)
def test_what_cannot_be_settled_is_said_as_apply_says_it(planned, id_, words):
    status, rows, err = planned("settle", id_, *SETTLE)
    assert (status, rows) == (2, [])
    assert words in err


def test_one_of_twins_is_chosen_and_another_decision_than_before_is_refused(planned):
    _, (row,), _ = planned("settle", "TWIN", *SETTLE, "--born", "2026-11-21T11:00:01Z")
    assert row["tran_state_table_offset"] == 7
    status, _, err = planned("settle", "SAID", "--rollback", "--reason", "no")
    assert (status, "was settled as commit by me@here (paid)" in err) == (2, True)


def test_a_half_behind_the_given_up_row_has_resumed_it_until_it_is_given_up_again(planned):
    """That is how a broker resumes (R73)."""
    assert planned("settle", "BACK", *SETTLE)[1][0]["verdict"] == "PENDING"
    assert planned("settle", "GONE", *SETTLE)[1][0]["verdict"] == "DISCARDED"
    assert "not given up now, so there is nothing to resume: BACK" in planned("resume", "BACK")[2]


def test_a_resume_lists_what_is_given_up_now_and_why_some_are_left(planned):
    status, rows, err = planned("resume", "--all")
    assert status == 0
    assert {row["transaction_id"]: row["action"] for row in rows} == {
        "LOST": "resume", "GONE": "resume", "OLD": "expired", "ELSEWHERE": "left_to_broker",
    }  # fmt: skip
    assert "1 expired, 1 left_to_broker, 2 resume; nothing was written: --apply does it" in err
    assert "1 left_to_broker; nothing was written: --apply would do nothing either" in planned("resume", "ELSEWHERE")[2]
    assert [row["transaction_id"] for row in planned("resume", "--group", "H")[1]] == ["ELSEWHERE"]
    assert planned("resume", "AGAIN")[1][0]["action"] == "resumed_before"
    status, _, err = planned("resume", "OPEN", "LOST")
    assert (status, "nothing to resume: OPEN" in err) == (2, True)


def test_a_plan_imports_no_spark_and_comes_in_three_seconds_of_work(warehouse):
    code = "import sys; from txmq_lib.cli import main; main(sys.argv[1:]); assert 'pyspark' not in sys.modules"
    uri = warehouse(ROWS)
    plans = ["settle", "OPEN", *SETTLE, *NOW], ["resume", "--all", *NOW], ["take-back", "--broker", "a", "--decisions"]
    for arguments in plans:
        command = [sys.executable, "-c", code, "--warehouse", uri, "--set", "role=engine", *arguments]
        before = os.times()
        begun = time.monotonic()
        ended = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
        after = os.times()
        assert ended.returncode == 0, ended.stderr
        assert "--apply does it" in ended.stderr
        worked = after.children_user + after.children_system - before.children_user - before.children_system
        assert worked < 3, (worked, time.monotonic() - begun)
