"""Whether anybody of a producer group is there to be asked: told with what is undecided, and the advice follows (R130)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from moment import NOW_TEXT

BORN = "2026-11-21T10:30:51.730Z"
KEY = {"broker_name": "a", "transaction_id": "T1", "producer_group": "PG", "born_timestamp": BORN}
ASKED = "2026-11-21T11:00:00.000Z"
EVERY = {"broker_name": "a", "producer_group": "*", "clients": 3, "since_timestamp": ASKED}
THERE = {"broker_name": "a", "producer_group": "PG", "clients": 2, "client_ids": "c1, c2", "since_timestamp": ASKED}
GONE = {**THERE, "clients": 0, "client_ids": None, "since_timestamp": "2026-11-21T10:50:00.000Z"}
ELSEWHERE = {**THERE, "broker_name": "z"}
IS_THERE = "2 clients of PG connected as its broker landed: c1, c2"
WENT = (
    "no client of PG connected as its broker landed; the last one went before the landing of 2026-11-21T10:50:00.000Z"
)
NEVER = "no client of PG connected as its broker landed"
# What is known; how many clients, then what is said of them, and what to do first where it is pending or given up.
KNOWN = [
    ([], None, None, "wait for the next check, or configure a resolver for PG", "look in the producer's database, then"),
    ([EVERY, THERE], 2, IS_THERE,
     "wait for the next check: as its broker last landed, a client of PG was there to answer it",
     "as its broker last landed, a client of PG was there: have it asked again: txmq resume T1"),
    ([EVERY, GONE], 0, WENT,
     "as its broker last landed, no client of PG was there: start one, or configure a resolver for it",
     "look in the producer's database, then"),
    ([EVERY], 0, NEVER,
     "as its broker last landed, no client of PG was there: start one, or configure a resolver for it",
     "look in the producer's database, then"),
    # A broker that tells of one group at a time has no row of its own.
    ([THERE], 2, IS_THERE, "wait for the next check: as its broker last landed, a client of PG was there to answer it",
     "as its broker last landed, a client of PG was there: have it asked again: txmq resume T1"),
    ([GONE], 0, WENT, "as its broker last landed, no client of PG was there: start one, or configure a resolver for it",
     "look in the producer's database, then"),
    ([{**THERE, "producer_group": "OTHER"}], None, None, "wait for the next check, or configure a resolver for PG",
     "look in the producer's database, then"),
    ([ELSEWHERE], None, None, "wait for the next check, or configure a resolver for PG",
     "look in the producer's database, then"),
]  # fmt: skip


@pytest.mark.parametrize(("known", "clients", "said", "to_wait", "to_recover"), KNOWN)
def test_the_advice_follows_who_is_connected(warehouse, txmq, known, clients, said, to_wait, to_recover):
    for verdict, first in (("PENDING", to_wait), ("DISCARDED", to_recover), ("DISCARDED_UNSEEN", to_recover)):
        row = {**KEY, "verdict": verdict, "half_count": 1}
        pending = [KEY] if verdict == "PENDING" else []
        uri = warehouse({"verdict": [row], "pending_half": pending, "connected_producer": known})
        code, out, err = txmq("--warehouse", uri, "trace", "T1")
        assert (code, err) == (0, "")
        lines = {line[:6].strip(): line[7:].strip() for line in out.splitlines() if line[:6] in ("why:  ", "do:   ")}
        assert lines["do:"].startswith(first)
        assert ("a resolver for PG do it: txmq resolve --given-up" in out) == (clients == 0 and not pending)
        assert lines["why:"].partition("; ")[2].partition("; ")[2] == (said or "")
        _, out, _ = txmq("--warehouse", uri, "producers", "--format", "json")
        connected = json.loads(out)["clients"]
        assert connected == (2 if known == [ELSEWHERE] else clients), "of all brokers that told"
        if pending:
            _, out, _ = txmq("--warehouse", uri, "pending", "--format", "json")
            assert json.loads(out)["clients"] == clients
            _, out, _ = txmq("--warehouse", uri, "status", "--now", NOW_TEXT)
            assert ("1 undecided of PG: no client connected" in out) == (clients == 0)
            assert ("clients" in out) == (clients is not None)


def test_what_is_decided_says_nothing_of_clients_and_a_warehouse_of_before_is_read(warehouse, txmq):
    uri = warehouse({"verdict": [{**KEY, "verdict": "COMMITTED"}], "connected_producer": [EVERY, GONE]})
    _, out, _ = txmq("--warehouse", uri, "trace", "T1")
    assert "connected" not in out
    uri = warehouse({"verdict": [{**KEY, "verdict": "PENDING"}], "pending_half": [KEY]})
    shutil.rmtree(Path(uri) / "connected_producer")
    for command in (["trace", "T1"], ["pending"], ["producers"], ["status", "--now", NOW_TEXT]):
        assert txmq("--warehouse", uri, *command)[0] in (0, 1), command  # 1: pending for too long
