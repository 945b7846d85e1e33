"""Brokers whose checks do not reach a half: told by status, metric, alert and trace within two landings (R131)."""

from __future__ import annotations

import json
import time

import pytest
from hook_server import hook_server
from real_broker import BROKER, RealRocketmq, real_rocketmq
from test_live_clients import told
from test_live_rocketmq import (
    LAND,
    auditor,  # noqa: F401 - a fixture
    report,
    wait_until,
)

from txmq_lib.rocketmq.remoting.broker import Queue, check_offsets, max_offsets
from txmq_lib.rocketmq.remoting.connection import Connection
from txmq_lib.rocketmq.remoting.frame import Command
from txmq_lib.rocketmq.remoting.name_server import routes
from txmq_lib.views.cursors import passed_over, stopped_checks
from txmq_lib.views.reader import WarehouseReader

pytestmark = pytest.mark.real

HALVES = Queue("RMQ_SYS_TRANS_HALF_TOPIC", 0)
UPDATE_CONSUMER_OFFSET = 15
PATIENT = {"transactionTimeOut": "600000"}  # no half is due during a test
POLICY = "transaction_timeout: 600s\ntransaction_check_interval: 3s\ntransaction_check_max: 2\n"


def half_end(server: RealRocketmq) -> int:
    with Connection(server.address, server.access) as connection:
        (end,) = max_offsets(connection, [HALVES])
    assert isinstance(end, int)
    return end


def stands_at(server: RealRocketmq) -> int | None:
    with Connection(server.address, server.access) as connection:
        return check_offsets(connection, [HALVES]).get(0)


def is_told_of(server: RealRocketmq, topic: str) -> bool:
    with Connection(server.namesrv, server.access) as connection:
        ((_, route),) = routes(connection, [topic])
    return route is not None and route.master(BROKER) is not None


def move_checks(server: RealRocketmq, offset: int) -> None:
    fields = {"consumerGroup": "CID_RMQ_SYS_TRANS", "topic": HALVES.topic, "queueId": "0", "commitOffset": str(offset)}
    with Connection(server.address, server.access) as connection:
        connection.require_success(connection.ask(Command(UPDATE_CONSUMER_OFFSET, fields)), "offset of the checks")


@pytest.mark.parametrize("version", ["5.5.0", "4.9.7"])
def test_halves_that_somebody_moves_the_checks_over_are_told_by_the_next_landing(auditor, version):  # noqa: F811
    with real_rocketmq(version, **PATIENT) as server:
        audit = auditor(server, POLICY, topics="[TopicA]")
        producer = server.client("produce", server.namesrv, "GID_WAITS", "TopicA", "UU,CC", "20", "0")
        producer.wait_for("done")
        waiting = [id_ for body, id_ in producer.told("sent") if body.startswith("UU")]
        wait_until(lambda: stands_at(server) is not None)
        wait_until(lambda: is_told_of(server, HALVES.topic))  # 4.9 makes the topic in its first round
        audit.run(LAND)
        told(audit, "reconcile")
        audit.verdicts()
        assert not passed_over(WarehouseReader(audit.house.warehouse.uri))
        (row,) = [row for row in audit.house.rows("connected_producer") if row["producer_group"] == "GID_WAITS"]
        assert row["clients"] == 1, "whatever the version"
        move_checks(server, half_end(server))
        time.sleep(1)
        landings, found = 0, []
        while not found and landings < 2:
            audit.run(LAND)
            landings, found = landings + 1, passed_over(WarehouseReader(audit.house.warehouse.uri))
        assert [(each.broker_name, each.count) for each in found] == [(BROKER, 10)]
        status = json.loads(told(audit, "status", "--format", "json", status=1))
        assert f"unchecked {BROKER}/0 passed over" in [each["condition"] for each in status["problems"]]
        metrics = told(audit, "metrics", "--out", "-")
        assert f'txmq_unchecked_half_messages{{node_id="{BROKER}",node_type="broker"}} 10.0' in metrics
        story = told(audit, "trace", waiting[0])
        assert "passed over by the broker's checks" in story
        assert "do not wait for a check: no round of the broker comes back to it" in story
        report(f"{version}: checks moved over 10 undecided halves: told by landing {landings} after that")


def alerted(audit, hook) -> list[tuple[str, str]]:
    """What one run of `alert` tells the webhook: status and condition."""
    told(audit, "--set", "alerts.url_env=HOOK_URL", "alert")
    taken, hook.told[:] = [(body["status"], body["condition"]) for _, _, body in hook.told], []
    return taken


def test_a_half_that_no_round_can_put_back_holds_up_all_behind_it_and_is_told(auditor, monkeypatch):  # noqa: F811
    """Its properties have no room for a count of checks: each round tries for a minute to store its copy (R38)."""
    with real_rocketmq("5.5.0", transactionTimeOut="1000", transactionCheckInterval="2000") as server:
        settings = "transaction_timeout: 1s\ntransaction_check_interval: 2s\ntransaction_check_max: 2\n"
        audit = auditor(server, settings, topics="[TopicA]")
        server.client("produce", server.namesrv, "GID_BEFORE", "TopicA", "CC", "3", "0").wait_for("done")
        wait_until(lambda: (stands_at(server) or 0) >= 3)
        poison = server.client("poison", server.namesrv, "GID_POISON", "TopicA")
        poison.wait_for("done")
        ((_, poisoned),) = poison.told("sent")
        producer = server.client("produce", server.namesrv, "GID_BEHIND", "TopicA", "UC", "10", "0")
        producer.wait_for("done")
        behind = [id_ for _, id_ in producer.told("sent")]
        time.sleep(4)
        place, waiting = stands_at(server), half_end(server) - (stands_at(server) or 0)
        audit.run(LAND)
        assert not stopped_checks(WarehouseReader(audit.house.warehouse.uri))
        with hook_server() as hook:
            monkeypatch.setenv("HOOK_URL", f"http://127.0.0.1:{hook.server_address[1]}/")
            first = alerted(audit, hook)
            time.sleep(75)
            audit.run(LAND)
            then = [alerted(audit, hook) for _ in range(2)]
        assert f"unchecked {BROKER}/0" not in [condition for _, condition in first]
        assert then == [[("firing", f"unchecked {BROKER}/0")], []], "once"
        (found,) = stopped_checks(WarehouseReader(audit.house.warehouse.uri))
        assert (found.broker_name, found.half_offset, found.waiting) == (BROKER, place, waiting)
        assert waiting >= 11
        assert not producer.told("checked"), "nobody behind it is asked"
        told(audit, "reconcile")
        assert {verdict for id_, verdict in audit.verdicts().items() if id_ in behind} == {"PENDING"}
        status = json.loads(told(audit, "status", "--format", "json", status=1))
        assert f"unchecked {BROKER}/0" in [each["condition"] for each in status["problems"]]
        assert f'{{node_id="{BROKER}",node_type="broker"}} {waiting}.0' in told(audit, "metrics", "--out", "-")
        for id_ in (poisoned, behind[0]):
            assert f"not checked any more: the broker's cursor of queue 0 stands at offset {place}" in told(
                audit, "trace", id_
            )
        report("a half that cannot be put back: its broker's checks stand, told by the second landing and by one alert;"
               " 10 wait behind")  # fmt: skip
