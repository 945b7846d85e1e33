"""Ends that clients put into the trace topic: shown beside the verdict, as facts, doubts or contradictions (R129)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

BORN = "2026-11-21T10:30:51.730Z"
KEY = {"broker_name": "a", "transaction_id": "T1", "producer_group": "PG", "born_timestamp": BORN}
MOST_LIKELY = "visible, with a second end accepted: most likely a commit and a rollback"


def said(state: str, second: int, *, check: bool = False, **more: object) -> dict[str, object]:
    place = {"broker_name": "b", "topic": "RMQ_SYS_TRACE_TOPIC", "queue_offset": second, "position": 0}
    who = {"transaction_id": "T1", "producer_group": "PG", "client": "10.0.0.9:4711", "store_host": "10.0.0.1:10911"}
    time = f"2026-11-21T10:31:{second:02}.000Z"
    return {**place, **who, "state": state, "is_from_check": check, "ended_timestamp": time, **more}


COMMIT, ROLLBACK = said("commit", 1), said("rollback", 9, check=True)
C_WORDS = "commit at 2026-11-21T10:31:01.000Z from 10.0.0.9:4711"
R_WORDS = "rollback to a check at 2026-11-21T10:31:09.000Z from 10.0.0.9:4711"
# The verdict, what clients said; then what it means, why, and what to do first (None: nothing is told).
SAYINGS = [
    ("CONFLICT", "two_ops", [], MOST_LIKELY, None, "compare with the producer's database"),
    ("CONFLICT", "two_ops", [COMMIT, ROLLBACK],
     "visible, with a second end accepted: its clients sent a commit and a rollback",
     f"its clients say they sent {C_WORDS}; {R_WORDS}", "compare with the producer's database"),
    ("CONFLICT", "two_ops", [COMMIT], MOST_LIKELY, f"its clients say they sent {C_WORDS}",
     "compare with the producer's database"),
    ("COMMITTED", "visible", [COMMIT], None, None, None),
    ("COMMITTED", "visible", [ROLLBACK], "visible once", f"contradicted: its clients say they sent {R_WORDS}",
     "compare with the producer's database: evidence contradicts, and none of it is left out"),
    ("COMMITTED", "visible", [said("unknown", 1)], None, None, None),
    ("COMMITTED", "visible", [said("rollback", 9, producer_group="OTHER")], None, None, None),
    ("ROLLED_BACK", "log_read", [COMMIT], "rolled back, never visible",
     f"contradicted: its clients say they sent {C_WORDS}",
     "compare with the producer's database: evidence contradicts, and none of it is left out"),
    ("RESOLVED_UNKNOWN", "unread", [ROLLBACK], "decided; commit or rollback is not known",
     f"its real queue was not read as far as the op; its clients say they sent {R_WORDS}",
     "land more of its real topic; else look in the producer's database"),
    ("PENDING", "undecided", [COMMIT], "undecided",
     f"never asked about; no answer and no end has landed; its clients say they sent {C_WORDS}",
     "wait for the next check, or configure a resolver for PG"),
]  # fmt: skip


@pytest.mark.parametrize(("verdict", "reason", "traces", "means", "why", "first"), SAYINGS)
def test_what_clients_say_stands_beside_the_verdict(warehouse, txmq, verdict, reason, traces, means, why, first):
    row = {**KEY, "verdict": verdict, "reason": reason, "op_count": 2, "visible_count": 1, "half_count": 1}
    uri = warehouse({"verdict": [row], "end_trace": traces})
    code, out, err = txmq("--warehouse", uri, "trace", "T1")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    shown_ends = {
        line[:7].strip(): line[7:].strip() for line in reversed(lines) if line[:6] in ("means:", "why:  ", "do:   ")
    }
    assert (shown_ends.get("means:"), shown_ends.get("why:"), shown_ends.get("do:")) == (means, why, first)
    is_hinted = "where clients trace, the setting land.trace_topic tells which ends they sent" in out
    assert is_hinted == (verdict == "CONFLICT" and not traces)


def test_ends_of_an_id_that_two_transactions_have_are_of_neither_for_sure(warehouse, txmq):
    twin = {**KEY, "born_timestamp": "2026-11-21T10:30:55.000Z"}
    verdicts = [{**each, "verdict": "COMMITTED", "visible_count": 1, "half_count": 1} for each in (KEY, twin)]
    uri = warehouse({"verdict": verdicts, "end_trace": [ROLLBACK]})
    _, out, _ = txmq("--warehouse", uri, "trace", "T1", "--format", "json")
    events = [json.loads(line) for line in out.splitlines()]
    traced = [event for event in events if event["event"] == "end_traced"]
    assert len(traced) == 1
    assert "born_timestamp" not in traced[0] or traced[0]["born_timestamp"] is None
    assert "contradicted" not in txmq("--warehouse", uri, "trace", "T1")[1]
    _, out, _ = txmq("--warehouse", uri, "verdicts", "--format", "json")
    assert [json.loads(line)["client_ends"] for line in out.splitlines()] == [None, None]


def test_the_verdicts_name_each_kind_of_end_once_and_end_traces_lists_them(warehouse, txmq):
    other = {**KEY, "transaction_id": "T2", "verdict": "COMMITTED"}
    again = said("commit", 3, client="10.0.0.8:1")
    rows = {"verdict": [{**KEY, "verdict": "CONFLICT"}, other], "end_trace": [ROLLBACK, again, COMMIT]}
    uri = warehouse(rows)
    _, out, _ = txmq("--warehouse", uri, "verdicts", "--format", "json")
    found = {row["transaction_id"]: row["client_ends"] for row in map(json.loads, out.splitlines())}
    assert found == {"T1": "commit, rollback to a check", "T2": None}
    _, out, _ = txmq("--warehouse", uri, "end-traces", "--state", "commit", "--format", "json")
    assert [json.loads(line)["client"] for line in out.splitlines()] == ["10.0.0.8:1", "10.0.0.9:4711"]
    _, out, _ = txmq("--warehouse", uri, "trace", "T1", "--format", "json")
    events = [json.loads(line) for line in out.splitlines()]
    assert [event["text"] for event in events if event["event"] == "end_traced"][-1] == (
        "rollback from PG, answering a check: sent to 10.0.0.1:10911, says its client 10.0.0.9:4711"
    )
    shutil.rmtree(Path(uri) / "end_trace")
    for command in (["verdicts", "--format", "json"], ["trace", "T1"]):
        code, out, err = txmq("--warehouse", uri, *command)
        assert (code, err) == (0, ""), f"a warehouse of before: {command}"
        assert "CONFLICT" in out
