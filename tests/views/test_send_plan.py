"""The plans of resend and of --to-broker from what has landed: no JVM is started, and pyspark is not imported."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from views.test_decision_plan import BORN, KEY, NOW, ROOT, decision, half, lost

from txmq_lib.cli.run.clock import moment
from txmq_lib.cli.run.sending import requests_planned
from txmq_lib.config.settings import Settings
from txmq_lib.pipeline.decision_request import DecisionRequest, ToSend

AT = ("--namesrv", "127.0.0.1:9")
RESEND = ("--reason", "the shop waits", *AT)


def request(transaction_id: str, action: str, state: str, offset: int, **more) -> dict:
    return {
        **KEY,
        "transaction_id": transaction_id,
        "action": action,
        "state": state,
        "tran_state_table_offset": offset,
        "commit_log_offset": (5000 if action == "resume" else 1000) + offset,
        **more,
    }


def given_up(transaction_id: str, offset: int, **more) -> dict:
    return lost(transaction_id, offset, commit_log_offset=5000 + offset, **more)


def answer(transaction_id: str, said: str, **more) -> dict:
    return {**KEY, "transaction_id": transaction_id, "answer": said, "is_planned_for_broker": True, **more}


GIVEN_UP = ("LOST", "ENDED", "REFUSED", "UNSENT", "ASKED", "SENT", "ROLLED", "OURS", "SILENT")
ROWS = {
    "half_message": [
        *[half(name, offset) for offset, name in enumerate(GIVEN_UP)],
        half("OPEN", 20), half("SAID", 21), half("TAKEN", 22), half("TOPICLESS", 23, real_topic=None), half("OPED", 24),
        half("OLD", 25, born_timestamp="2026-11-01T11:00:00Z"), half("ENGINES", 26, broker_name="b"),
        half("UNSEEN", 27, queue_id=-2), half("UNSEEN ASKED", 28, queue_id=-2),
    ],
    "op_message": [{"broker_name": "a", "queue_id": 0, "half_queue_offset": 24}],
    "trans_check_max_time": [
        *[given_up(name, offset) for offset, name in enumerate(GIVEN_UP)],
        given_up("LOST", 30), given_up("TOPICLESS", 23), given_up("ENGINES", 26, broker_name="b"),
        given_up("OLD", 25, born_timestamp="2026-11-01T11:00:00Z"),
    ],
    "verdict": [{**KEY, "transaction_id": name, "verdict": "DISCARDED_UNSEEN"} for name in ("UNSEEN", "UNSEEN ASKED")],
    "manual_decision": [decision("ROLLED", "rollback"), decision("SAID", "commit", real_topic="T")],
    "broker_request": [
        request("ENDED", "commit", "sending", 1), request("ENDED", "commit", "accepted", 1),
        request("REFUSED", "commit", "sending", 2), request("REFUSED", "commit", "refused", 2),
        request("UNSENT", "resume", "sending", 3), request("UNSENT", "resume", "not_sent", 3),
        request("ASKED", "resume", "sending", 4), request("ASKED", "resume", "accepted", 4),
        request("SENT", "resend", "sending", 5), request("SENT", "resend", "accepted", 5),
        request("SILENT", "commit", "sending", 8), request("SILENT", "commit", "unanswered", 8),
        request("TAKEN", "commit", "sending", 22), request("TAKEN", "commit", "accepted", 22),
        request("UNSEEN ASKED", "resume", "sending", 28, commit_log_offset=1028),
        request("UNSEEN ASKED", "resume", "accepted", 28, commit_log_offset=1028),
    ],
    "check_answer": [
        answer("OPEN", "rollback", answered_timestamp="2026-11-21T11:30:00Z"),
        answer("OPEN", "commit", answered_timestamp="2026-11-21T11:31:00Z"),
        answer("SAID", "rollback"), answer("OPED", "commit"), answer("TAKEN", "rollback"),
        answer("LOST", "rollback"), answer("ASKED", "commit"), answer("UNSENT", "commit", is_planned_for_broker=False),
    ],
}  # fmt: skip


@pytest.fixture
def uri(warehouse) -> str:
    return warehouse(ROWS)


@pytest.fixture
def planned(uri, txmq):
    def run(*arguments: str) -> tuple[int, list[dict], list[str]]:
        roles = ("--set", "role=audit", "--set", "brokers.b.role=engine")
        status, out, err = txmq("--warehouse", uri, *roles, *arguments, *NOW, "--format", "json")
        return status, [json.loads(line) for line in out.splitlines()], err.splitlines()

    return run


def test_a_resume_asks_about_the_newest_row_of_each_that_its_broker_gave_up_and_nothing_shuts_out(planned):
    """An accepted end, a body that was sent, the same question: each would show a message twice, or ask twice (R18)."""
    status, rows, err = planned("resume", "--all", "--to-broker", *AT)
    assert (status, err) == (0, [
        "1 not asked: older than file_reserved_time, so that their broker would give them up again; settle or resend them",
        "4 not asked: what was sent of them before may have reached their broker; txmq sent",
        "8 to be sent to brokers; nothing was sent: --apply does it",
    ])  # fmt: skip
    assert {row["transaction_id"]: row["tran_state_table_offset"] for row in rows} == {
        "LOST": 30, "REFUSED": 2, "UNSENT": 3, "ROLLED": 6, "OURS": 7, "SILENT": 8, "TOPICLESS": 23, "UNSEEN": 27,
    }  # fmt: skip
    # What was given up without a trace is asked about by its half (R120).
    (unseen,) = [row for row in rows if row["former_verdict"] == "DISCARDED_UNSEEN"]
    assert (unseen["transaction_id"], unseen["commit_log_offset"]) == ("UNSEEN", 1027)
    rows.remove(unseen)
    assert {(row["action"], row["former_verdict"]) for row in rows} == {("resume", "DISCARDED")}
    assert rows[0]["born_timestamp"] == BORN.replace("Z", ".000Z")
    assert {row["commit_log_offset"] - row["tran_state_table_offset"] for row in rows} == {5000}


def test_a_resend_says_of_each_that_is_named_why_it_is_not_sent(planned):
    named = ("LOST", "ENDED", "REFUSED", "UNSENT", "ASKED", "SENT", "ROLLED", "OPEN", "OPED", "TOPICLESS", "OLD")
    status, rows, err = planned("resend", *named, *RESEND)
    sent_before = "what was sent before may have reached its broker, or this was refused before: txmq sent"
    # A broker that refused an end has not made the message visible, and a request that never left did nothing.
    assert [(row["transaction_id"], row["action"]) for row in rows] == [
        ("OLD", "resend"), ("LOST", "resend"), ("REFUSED", "resend"), ("UNSENT", "resend"),
    ]  # fmt: skip
    assert (status, err) == (0, [
        f"ASKED: not sent again: {sent_before}",
        f"ENDED: not sent again: {sent_before}",
        "OPED: not sent again: decided: only what its broker has given up is",
        "OPEN: not sent again: PENDING: only what its broker has given up is",
        "ROLLED: not sent again: settled as rollback by hand: txmq decisions",
        f"SENT: not sent again: {sent_before}",
        "TOPICLESS: not sent again: its real topic is not known",
        "4 to be sent to brokers; nothing was sent: --apply does it",
    ])  # fmt: skip
    assert planned("resend", "UNSEEN ASKED", *RESEND)[2][0] == f"UNSEEN ASKED: not sent again: {sent_before}"
    status, rows, err = planned("resend", "ENGINES", *RESEND)
    assert "txmq decides it itself (role engine)" in err[0]
    assert (rows, err[1]) == ([], "0 to be sent to brokers; nothing was sent: --apply would send nothing either")


def test_answers_make_ends_where_a_broker_decides_and_nobody_else_has(uri):
    """The last answer counts; a person's word, an end that was sent and a resume go before it."""
    settings = Settings.load(assignments=["role=audit", "brokers.b.role=engine"], warehouse=uri)
    rows, left_out = requests_planned(settings, ToSend("resolve", DecisionRequest()), moment(NOW[1]))
    assert [(row["transaction_id"], row["action"], row["former_verdict"]) for row in rows] == [
        ("LOST", "rollback", "DISCARDED"), ("OPEN", "commit", "PENDING"),
    ]  # fmt: skip
    assert left_out == []


def test_the_plan_of_a_settle_says_what_is_sent_and_what_cannot_be(planned):
    settle = ("--reason", "x", "--to-broker", *AT)
    _, (row,), err = planned("settle", "SAID", "--commit", *settle)
    assert row["action"] == "settled_before"
    assert err[0].startswith("settled so before, and its broker decides: END_TRANSACTION with these offsets is sent")
    _, (row,), err = planned("settle", "TAKEN", "--rollback", *settle)
    assert err[1] == "TAKEN: no end is sent: what was sent before may have reached its broker; txmq sent"
    # Its copy is ended, once that has landed.
    _, (row,), err = planned("settle", "UNSEEN ASKED", "--commit", *settle)
    assert (row["verdict"], err[1]) == (
        "DISCARDED_UNSEEN", "UNSEEN ASKED: no end is sent: what was sent before may have reached its broker; txmq sent",
    )  # fmt: skip
    assert "no end is sent" not in "\n".join(planned("settle", "OPEN", "--commit", *settle)[2])


def test_a_plan_imports_no_spark_and_comes_in_three_seconds_of_work(uri):
    code = "import sys; from txmq_lib.cli import main; main(sys.argv[1:]); assert 'pyspark' not in sys.modules"
    for arguments in (["resend", "LOST", *RESEND], ["resume", "--all", "--to-broker", *AT],
                      ["settle", "OPEN", "--commit", "--reason", "x", "--to-broker", *AT]):  # fmt: skip
        command = [sys.executable, "-c", code, "--warehouse", uri, "--set", "role=audit", *arguments, *NOW]
        before = os.times()
        ended = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
        after = os.times()
        assert ended.returncode == 0, ended.stderr
        assert "--apply does it" in ended.stderr
        assert after.children_user + after.children_system - before.children_user - before.children_system < 3


def test_a_warehouse_of_before_that_lacks_what_was_sent_and_decided_is_planned_all_the_same(warehouse, txmq):
    of_before = ("half_message", "trans_check_max_time")
    uri = warehouse({name: ROWS[name] for name in of_before})
    for table in ("broker_request", "check_answer", "manual_decision"):
        shutil.rmtree(Path(uri) / table)
    for command in (("resend", "LOST", *RESEND), ("resume", "LOST", "--to-broker", *AT)):
        status, out, err = txmq("--warehouse", uri, "--set", "role=audit", *command, *NOW, "--format", "json")
        assert (status, err) == (0, "1 to be sent to brokers; nothing was sent: --apply does it\n"), command
        assert json.loads(out)["transaction_id"] == "LOST"
    settings = Settings.load(assignments=["role=audit"], warehouse=uri)
    assert requests_planned(settings, ToSend("resolve", DecisionRequest()), moment(NOW[1])) == ([], [])
