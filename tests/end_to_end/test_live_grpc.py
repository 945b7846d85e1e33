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
PATIENT = {"transactionTimeOut": "2000", "transactionCheckInterval": "3000", "transactionCheckMax": "100"}
POLICY = "transaction_timeout: 2s\ntransaction_check_interval: 3s\ntransaction_check_max: 100\n"
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
        end = time.monotonic() + 300  # a machine with much else to do takes minutes over the checks
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


def lag_states(audit, group: str) -> Counter[str]:
    lines = told(audit, "offsets", "--group", group, "--format", "json").splitlines()
    return Counter(row["lag_state"] for row in map(json.loads, lines) if row["topic"] == TOPIC)


@pytest.mark.parametrize("in_rocksdb", ["false", "true"], ids=["as it comes", "popConsumerKVServiceEnable"])
def test_a_consumer_over_grpc_pops_and_is_not_called_stalled(auditor, in_rocksdb):  # noqa: F811
    """R126: its committed offset is not how far it is; an ordinary group beside it, just as gone, is told as stopped."""
    with real_proxy(**PATIENT, popConsumerKVServiceEnable=in_rocksdb, popConsumerKVServiceInit=in_rocksdb) as server:
        server.create_topic(TOPIC)
        server.create_group("CG_POP")
        audit = auditor(server, POLICY + "lag_window: 5s\n", topics=f"[{TOPIC}]")
        place = f"127.0.0.1:{server.grpc_port}"

        def sent_now(count: int) -> dict[str, str]:
            producer = server.grpc_client("GrpcClient", place, TOPIC, "CU", str(count))
            producer.wait_for("done")
            return plans(producer.told("sent"))

        # The first is kept for 10 s, comes again, and so tells the group by its retry topic.
        first = server.grpc_client("GrpcConsumer", place, "CG_POP", TOPIC, "1", "10")
        plain = server.client("consume", server.namesrv, "CG_PLAIN", TOPIC)
        for consumer in (first, plain):
            consumer.wait_for("done")
        truth = sent_now(40)
        for consumer in (first, plain):
            consumer.wait_for("got", count=40, seconds=90)
        time.sleep(7)  # an ordinary client commits every 5 s
        audit.run(LAND)
        for consumer in (first, plain):
            consumer.kill()
        # Another client of the group takes these, and keeps them to itself for ten minutes.
        keeper = server.grpc_client("GrpcConsumer", place, "CG_POP", TOPIC, "1000", "600")
        keeper.wait_for("done")
        truth |= sent_now(20)
        keeper.wait_for("kept", count=20, seconds=90)
        seen = {"CG_POP": Counter[str](), "CG_PLAIN": Counter[str]()}

        def look(times: int) -> None:
            for _ in range(times):
                audit.run(LAND)
                told(audit, "rollup")
                for group, states in seen.items():
                    states += lag_states(audit, group)
                time.sleep(6)
                # The broker's time goes on: what is rolled back is stored, and waits for nobody.
                server.grpc_client("GrpcClient", place, TOPIC, "RU", "4").wait_for("done")

        look(2)
        keeper.kill()
        truth |= sent_now(20)  # which nobody takes
        look(3)
        verdicts = audit.verdicts()
        assert {id_: verdicts[id_] for id_ in truth} == dict.fromkeys(truth, "COMMITTED")
        assert seen["CG_POP"]["pop"] > 0, seen
        assert not {"stalled", "stopped"} & {*seen["CG_POP"]}, seen
        assert seen["CG_PLAIN"]["stopped"] > 0, seen
        report(f"POP, KV service {in_rocksdb}: 80 of 80 committed; lag states {seen}")
