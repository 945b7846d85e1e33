"""A broker that is killed, and started again with its halves in RocksDB: both pairs of topics, live and by its store."""

from __future__ import annotations

import time
from collections import Counter
from datetime import UTC, datetime

import pytest
from real_broker import BROKER, real_rocketmq
from test_live_rocketmq import (
    LAND,
    POLICY,
    VERDICT_OF,
    auditor,  # noqa: F401 - a fixture
    becomes,
    found_in,
    report,
    sent,
    settled,
)

from txmq_lib.cli import main

pytestmark = pytest.mark.real

PLANS = "CU,RU,UC,UR,UU"
IN_ROCKSDB = {"transRocksDBEnable": "true", "transWriteOriginTransHalfEnable": "false"}


def test_a_broker_switched_to_halves_in_rocksdb_is_judged_over_both_pairs(auditor, open_house):  # noqa: F811
    with real_rocketmq("5.5.0") as server:
        audit = auditor(server, POLICY, topics="[TopicA]")
        first = server.client("produce", server.namesrv, "GID_OLD", "TopicA", PLANS, "150", "30")
        first.wait_for("done")
        before = sent(first)
        verdicts, evidence = settled(audit, before, "TopicA")
        assert verdicts == {id_: becomes(plan, *evidence[id_]) for id_, plan in before.items()}
        first.stop()
        server.kill_broker()
        server.settings |= IN_ROCKSDB
        server.start_broker()
        second = server.client("produce", server.namesrv, "GID_NEW", "TopicA", PLANS, "150", "30")
        second.wait_for("done")
        after = sent(second)
        time.sleep(20)  # the timeout, and two checks and more of all that nobody decides
        # Only what is stored later tells that the checks of those before it are over.
        server.client("produce", server.namesrv, "GID_NEW", "TopicA", "CU", "1", "0").wait_for("done")
        end = time.monotonic() + 120
        while True:
            audit.run(LAND)
            verdicts = {id_: verdict for id_, verdict in audit.verdicts().items() if id_ in after}
            if len(verdicts) == 150 and "PENDING" not in verdicts.values():
                break
            assert time.monotonic() < end, Counter(verdicts.values())
            time.sleep(4)
        found = found_in(server, "TopicA")
        meant = {**VERDICT_OF, "UU": "DISCARDED_UNSEEN"}
        # On a machine that stands still a check may be answered twice (R64).
        truth = {id_: "DUPLICATED" if found[id_, False] > 1 else meant[plan] for id_, plan in after.items()}
        assert verdicts == truth
        live = audit.verdicts()
        server.kill_broker()
        conf = audit.conf.with_name("store.yaml")
        house = open_house("role=audit", name="by-store")
        conf.write_text(f"role: audit\nwarehouse: {house.warehouse.uri}\nland: {{topics: [TopicA]}}\n{POLICY}")
        store = str(server.directory / "store")
        assert main(["--conf", str(conf), "land", "store", store, "--broker", BROKER]) == 0
        audit.capsys.readouterr()
        house.settings = house.settings.load([str(conf)])
        house.audit(now=datetime.now(UTC))
        by_store = {row["transaction_id"]: row["verdict"] for row in house.rows("verdict")}
        assert {id_: by_store.get(id_) for id_ in {**before, **after}} == {
            id_: live[id_] for id_ in {**before, **after}
        }
        pairs = {row["queue_id"] for row in house.rows("half_message")}
        assert pairs == {0, -2}, "ordinary halves and halves in RocksDB"
        report(f"switched to RocksDB after a kill: {Counter(live.values())} live, the same by its store")
