"""Producers over gRPC, through a real proxy: their group is their topic's name (R127)."""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter

import pytest
from real_broker import plans
from real_proxy import real_proxy
from test_live_clients import told
from test_live_rocketmq import (
    LAND,
    VERDICT_OF,
    auditor,  # noqa: F401 - a fixture
    report,
)

pytestmark = pytest.mark.real

TOPIC = "TopicGrpc"
PATIENT = {"transactionTimeOut": "2000", "transactionCheckInterval": "3000", "transactionCheckMax": "40"}
# On a machine with much else to do a broker may take its time.
POLICY = (
    "transaction_timeout: 2s\ntransaction_check_interval: 3s\ntransaction_check_max: 40\nrocketmq: {timeout: 30s}\n"
)
RESOLVER = f"""resolvers:
  {TOPIC}: {{kind: sql, url_env: ORDERS, table: log, key_column: id, state_column: state, commit: [C], rollback: [R]}}
"""


def test_transactions_over_grpc_are_as_meant_and_a_resolver_by_topic_settles_the_rest(auditor, monkeypatch, tmp_path):  # noqa: F811
    with real_proxy(**PATIENT) as server:
        server.create_topic(TOPIC)
        audit = auditor(server, POLICY + RESOLVER, topics=f"[{TOPIC}]")
        alive = server.grpc_client("GrpcClient", f"127.0.0.1:{server.grpc_port}", TOPIC, "CU,RU,UC,UR", "150")
        killed = server.grpc_client("GrpcClient", f"127.0.0.1:{server.grpc_port}", TOPIC, "UU", "30")
        killed.wait_for("done")
        killed.kill()
        alive.wait_for("done")
        end = time.monotonic() + 120
        meant = plans(alive.told("sent"))
        assert len(meant) == 150
        while True:
            audit.run(LAND)
            verdicts = audit.verdicts()
            if all(verdicts.get(id_, "PENDING") != "PENDING" for id_ in meant):
                break
            assert time.monotonic() < end, Counter(verdicts.get(id_) for id_ in meant)
            time.sleep(3)
        wrong = {id_: (plan, verdicts[id_]) for id_, plan in meant.items() if verdicts[id_] != VERDICT_OF[plan]}
        assert not wrong
        assert {row["producer_group"] for row in audit.house.rows("half_message")} == {TOPIC}
        # Nobody is left to answer; what was not ended is known by the orders database alone.
        alive.kill()
        packed = server.grpc_client("GzipSender", str(server.grpc_port), TOPIC, "20")
        packed.wait_for("done")
        orphans = {**plans(killed.told("sent")), **plans(packed.told("sent"))}
        assert len(orphans) == 50
        truth = {id_: "CR"[number % 2] for number, id_ in enumerate(orphans)}
        monkeypatch.setenv("ORDERS", f"sqlite:///{tmp_path / 'orders.db'}")
        with sqlite3.connect(tmp_path / "orders.db") as orders:
            orders.execute("create table log (id text primary key, state text)")
            orders.executemany("insert into log values (?, ?)", truth.items())
        time.sleep(3)
        audit.run(LAND)
        listed = told(audit, "pending", "--group", TOPIC, "--format", "json").splitlines()
        assert listed == [] or {json.loads(line)["producer_group"] for line in listed} == {TOPIC}
        bodies = {
            bytes(row["body"])[:7] for row in audit.house.rows("half_message") if row["transaction_id"] in orphans
        }
        assert b"UU-gzip" in bodies, "unpacked as the client packed it"
        told(audit, "reconcile")
        pending = {json.loads(line)["transaction_id"] for line in
                   told(audit, "pending", "--group", TOPIC, "--format", "json").splitlines()}  # fmt: skip
        assert pending == set(orphans)
        resolve = ("resolve", "--to-broker", "--apply", "--namesrv", server.namesrv)
        told(audit, *resolve)
        time.sleep(5)
        audit.run(LAND)
        verdicts = audit.verdicts()
        of_answer = {"C": "COMMITTED", "R": "ROLLED_BACK"}
        wrong = {id_: verdicts.get(id_) for id_, state in truth.items() if verdicts.get(id_) != of_answer[state]}
        assert not wrong
        visible = {id_ for id_, verdict in verdicts.items() if verdict == "COMMITTED"}
        assert len(visible) == sum(VERDICT_OF[plan] == "COMMITTED" for plan in meant.values()) + 25
        report(
            f"gRPC: 200 transactions through a proxy: {Counter(verdicts.values())}; 50 by a resolver of {TOPIC}, 20 packed"
        )
