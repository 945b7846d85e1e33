"""`hold` and `release`: nobody is asked about a held transaction, and it is not given up, until it is released."""

from __future__ import annotations

import sqlite3
from datetime import timedelta

import pytest
from house import House, wall_clock
from moment import NOW
from resolving import half, resolve, verdicts

from txmq_lib.cli import main
from txmq_lib.cli.run.decisions import plan_of
from txmq_lib.errors import UsageError
from txmq_lib.pipeline.decision_request import DecisionRequest
from txmq_lib.pipeline.decisions import decide

LOG = "kind: sql, url_env: DB, table: log, key_column: id, state_column: state, commit: [C], rollback: [R]"
SETTINGS = ("transaction_timeout=2s", "transaction_check_interval=1m", "transaction_check_max=2")


def after(minutes: int):
    return NOW + timedelta(minutes=minutes)


def held(house: House, *ids: str, decision: str = "hold", minutes: int = 0):
    request = DecisionRequest(ids, decision=decision, reason="incident 5", decided_by="me@here")
    return decide(house.warehouse, house.settings, request, now=after(minutes), wall_clock=wall_clock)


def pending(house: House) -> dict[str, tuple[int, bool | None, bool]]:
    return {
        row["transaction_id"]: (row["check_times"], row["is_held"], row["next_check_timestamp"] is not None)
        for row in house.rows("pending_half")
    }


@pytest.mark.long
def test_a_held_one_is_neither_asked_nor_given_up_until_it_is_released(open_house, capsys):
    house = open_house(*SETTINGS, f"resolvers={{GID_A: {{{LOG}}}}}")
    house.land_rows("half", [half(0), half(1), half(2)])
    house.reconcile(NOW)
    assert pending(house) == {f"T{number}": (1, None, True) for number in range(3)}
    request = DecisionRequest(("T1",), decision="hold", reason="incident 5", decided_by="me@here")
    (row,) = plan_of(house.settings, request, NOW)
    assert (row["action"], row["verdict"], house.rows("manual_decision")) == ("hold", "PENDING", [])
    assert held(house, "T1").counts["manual_decision"] == 1
    assert held(house, "T1").counts == {"idle": 1}, "it is held already"
    assert plan_of(house.settings, request, NOW)[0]["action"] == "held_before"
    with sqlite3.connect(house.scratch / "log.db") as connection:
        connection.execute("create table log (id text primary key, state text)")
        connection.execute("insert into log values ('T1', 'C')")
    resolve(house, {"DB": f"sqlite:///{house.scratch / 'log.db'}"}, NOW)
    assert "T1" not in {row["transaction_id"] for row in house.rows("check_answer")}, "held since the last reconcile"
    with sqlite3.connect(house.scratch / "log.db") as connection:
        connection.execute("insert into log values ('T2', 'C')")
    house.reconcile(after(1))
    assert pending(house) == {"T0": (2, None, True), "T1": (1, True, False), "T2": (2, None, True)}
    resolve(house, {"DB": f"sqlite:///{house.scratch / 'log.db'}"}, after(1))
    assert {row["transaction_id"] for row in house.rows("check_answer")} == {"T0", "T2"}, "nobody is asked about T1"
    house.reconcile(after(9))
    assert pending(house) == {"T1": (1, True, False)}
    assert verdicts(house) == {"T0": "DISCARDED", "T1": "PENDING", "T2": "COMMITTED"}
    assert "idle" in house.reconcile(after(60 * 24 * 9)).counts, "what is held is never due"
    assert main(["--warehouse", house.warehouse.uri, "trace", "T1"]) == 0
    printed = capsys.readouterr().out
    assert "held: nobody is asked about it by me@here, was PENDING: incident 5" in printed
    release = f"txmq --warehouse {house.warehouse.uri} release T1"
    assert f"do:    somebody holds it, so nobody is asked: {release}" in printed
    held(house, "T1", decision="release", minutes=10)
    house.reconcile(after(10))
    assert pending(house) == {"T1": (2, None, True)}, "from where its checks stood"
    held(house, "T1", minutes=11)
    held(house, "T1", decision="release", minutes=11)
    house.reconcile(after(12))
    assert (pending(house), verdicts(house)["T1"]) == ({}, "DISCARDED"), "the last word counts"


def test_what_nobody_asks_about_is_not_held(open_house):
    house = open_house(*SETTINGS, "brokers={audited: {role: audit}}")
    house.land_rows("half", [half(0)])
    house.land_rows("half", [half(7)], broker="audited")
    with pytest.raises(UsageError, match="T7: its broker asks about it, and nothing can stop it"):
        held(house, "T7")
    with pytest.raises(UsageError, match="no half message has landed of transaction T9"):
        held(house, "T0", "T9")
    assert held(house, "T0", decision="release").counts == {"idle": 1}, "nobody holds it"
    request = DecisionRequest(("T0",), decision="rollback", reason="x", decided_by="me@here")
    decide(house.warehouse, house.settings, request, now=NOW, wall_clock=wall_clock)
    house.reconcile(NOW)
    with pytest.raises(UsageError, match="T0 is ROLLED_BACK already: nobody is asked"):
        held(house, "T0")
