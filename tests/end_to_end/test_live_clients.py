"""What only clients of a real broker know: which ends they sent, and whether any of them is there to be asked."""

from __future__ import annotations

import json
import time
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from real_broker import real_rocketmq
from test_live_rocketmq import (
    LAND,
    Auditor,
    auditor,  # noqa: F401 - a fixture
    found_in,
    report,
    sent,
)

from txmq_lib.cli import main

pytestmark = pytest.mark.real

POLICY = "transaction_timeout: 500ms\ntransaction_check_interval: 1s\ntransaction_check_max: 4\n"
SOON = {"transactionTimeOut": "500", "transactionCheckInterval": "1000", "transactionCheckMax": "4"}
TRACED = "[TopicA], trace_topic: RMQ_SYS_TRACE_TOPIC"


def told(audit: Auditor, *arguments: str, status: int = 0) -> str:
    ended = main(["--conf", str(audit.conf), *arguments])
    audit.out, audit.err = audit.capsys.readouterr()
    assert ended == status, audit.out + audit.err
    return audit.out


def test_who_decided_who_is_there_and_the_body_once_more(auditor):  # noqa: F811
    """R129, R130, and `resend`: ends of a client that traces, which is then killed."""
    with real_rocketmq("5.5.0", traceTopicEnable="true", **SOON) as server:
        audit = auditor(server, POLICY, topics=TRACED)
        # LR: its local transaction takes longer than the first check, which it answers by a rollback.
        producer = server.client("trace", server.namesrv, "GID_TRACED", "TopicA", "LR,CU,RU,UU", "24", "0")
        producer.wait_for("done")
        truth = sent(producer)
        end = time.monotonic() + 150
        while True:
            audit.run(LAND)
            verdicts = audit.verdicts()
            traced = Counter(row["transaction_id"] for row in audit.house.rows("end_trace"))
            if "PENDING" not in verdicts.values() and len(verdicts) == 24 and all(traced[id_] for id_ in truth):
                break
            assert time.monotonic() < end, (Counter(verdicts.values()), len(traced))
            time.sleep(3)
        lines = [json.loads(line) for line in told(audit, "end-traces", "--format", "json").splitlines()]
        ends = {
            id_: [(row["state"], row["is_from_check"]) for row in lines if row["transaction_id"] == id_]
            for id_ in truth
        }
        conflicts = [id_ for id_, verdict in verdicts.items() if verdict == "CONFLICT"]
        assert conflicts, Counter(verdicts.values())
        for id_ in conflicts:
            assert truth[id_] == "LR"
            assert {("commit", False), ("rollback", True)} <= set(ends[id_])
            story = told(audit, "trace", id_)
            assert "means: visible, with a second end accepted: its clients sent a commit and a rollback" in story
        wrong = {
            id_: (plan, ends[id_])
            for id_, plan in truth.items()
            if plan in ("CU", "RU") and ends[id_][-1] != ({"C": "commit", "R": "rollback"}[plan[0]], False)
        }
        assert not wrong
        now = datetime.now(UTC)
        assert all(abs(datetime.fromisoformat(row["ended_timestamp"]) - now) < timedelta(minutes=10) for row in lines)
        assert {row["client"].split(":")[0] for row in lines} == {"127.0.0.1"}
        given_up = [id_ for id_, verdict in verdicts.items() if verdict == "DISCARDED"]
        assert {truth[id_] for id_ in given_up} == {"UU"}
        lost = given_up[0]
        assert "a client of GID_TRACED was there: have it asked again" in told(audit, "trace", lost)
        producer.kill()
        time.sleep(2)
        audit.run(LAND)
        assert "no client of GID_TRACED connected as its broker landed; the last one went" in told(audit, "trace", lost)
        assert json.loads(told(audit, "producers", "--format", "json"))["clients"] == 0
        resend = ("resend", lost, "--reason", "it was paid", "--namesrv", server.namesrv)
        told(audit, *resend)
        assert found_in(server, "TopicA")[lost, False] == 0
        told(audit, *resend, "--apply")
        assert "idle 1" in " ".join(told(audit, *resend, "--apply").split())
        assert found_in(server, "TopicA")[lost, False] == 1, "once, under its own id"
        audit.run(LAND)
        assert audit.verdicts()[lost] == "DISCARDED"
        report(
            f"traces: {len(lines)} ends of 24 transactions, {len(conflicts)} conflicts told with both ends;"
            f" {Counter(verdicts.values())}; a client killed, told by the next landing; one given up sent again, once"
        )
