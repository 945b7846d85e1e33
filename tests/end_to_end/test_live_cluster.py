"""Several live brokers in one pass: all have topics, offsets and places of the same names, and none speaks for another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from histories import HALF_TOPIC, OP_TOPIC
from house import House, wall_clock
from live_cluster import LiveCluster, live_cluster
from moment import NOW
from small_log import SmallLog

from txmq_lib.config.settings import Settings
from txmq_lib.errors import RoleChanged, UnreachableError
from txmq_lib.passes.current import PassReport
from txmq_lib.pipeline.land.job import run_land_rocketmq
from txmq_lib.pipeline.land.landing_pass import run_landing
from txmq_lib.pipeline.land.live import queue_landing
from txmq_lib.pipeline.land.records import files_of_tasks
from txmq_lib.pipeline.take_back import run_take_back
from txmq_lib.views.declared.running import LANDED
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.select import ViewQuery, view_rows

AUDIT = ("role=audit", "rocketmq.timeout=2s", "file_reserved_time=3650d")
TABLES = (
    "half_message", "op_message", "message", "quarantine", "landing_frontier", "consumer_offset_commit", "check_cursor",
    "connected_producer", "broker_set_up", "broker",
)  # fmt: skip
OF_A_PASS = {"pass_number", "landed_pass"}


def log() -> SmallLog:
    """Two transactions: one was committed, one rolled back; both have their ops."""
    log = SmallLog()
    log.plain("Gone")
    committed, rolled_back = log.half("committed"), log.half("rolled_back")
    log.commit(committed)
    log.op(committed)
    log.op(rolled_back)
    log.plain()
    return log


@pytest.fixture
def cluster() -> Iterator[LiveCluster]:
    with live_cluster(
        {name: log().queues() for name in ("fine", "mute", "topic", "anew", "short", "untold")}
    ) as served:
        for member in served.members.values():
            member.offsets = {"Real@G": {"0": 1}, f"{HALF_TOPIC}@CID_RMQ_SYS_TRANS": {"0": 1}}
        yield served


def land(house: House, cluster: LiveCluster, *brokers: str, minutes: int = 0) -> PassReport:
    return run_land_rocketmq(
        house.warehouse, house.settings, name_servers=[cluster.address], brokers=brokers,
        now=NOW + timedelta(minutes=minutes), wall_clock=wall_clock, environ={},
    )  # fmt: skip


def rows(house: House, table: str) -> list[str]:
    kept = ({name: value for name, value in row.items() if name not in OF_A_PASS} for row in house.rows(table))
    return sorted(map(repr, kept))


def go_on(cluster: LiveCluster) -> None:
    """Each broker gets another half whose op follows, and a trouble of its own."""
    for name, member in cluster.members.items():
        more = log()
        late = more.half("late")
        more.op(late)
        more.plain()
        member.broker.queues = more.queues()
        member.offsets["Real@G"]["0"] = 2
        if name == "mute":
            member.refuse(OP_TOPIC)
        if name == "short":  # the places of its newest records were misread
            member.broker.log_end = late["commitLogOffset"]
        if name == "untold":
            member.untold = {"Gone"}
    of_topic, anew = SmallLog(), SmallLog()
    for number in range(3):
        of_topic.plain()  # the topic was made anew
        anew.half(f"anew{number}")
    queues = cluster["topic"].broker.queues
    cluster["topic"].broker.queues = {**queues, ("Real", 0): of_topic.queues()["Real", 0]}
    cluster["anew"].broker.queues = {(OP_TOPIC, 0): [], ("Real", 0): [], **anew.queues()}


@pytest.mark.long
def test_what_lands_together_is_what_each_broker_lands_alone(open_house, cluster, monkeypatch):
    together, by_spark, alone = (open_house(*AUDIT, name=name) for name in ("together", "spark", "alone"))
    for minutes in (0, 5):
        if minutes:
            go_on(cluster)
        for name in cluster.members:
            land(alone, cluster, name, minutes=minutes)
        with monkeypatch.context() as only_spark:
            only_spark.setattr(files_of_tasks, "can_write", lambda warehouse: False)
            land(by_spark, cluster, minutes=minutes)
        report = land(together, cluster, minutes=minutes)
        for table in TABLES:
            assert rows(together, table) == rows(alone, table), table
            assert rows(by_spark, table) == rows(alone, table), table
    assert len({row["pass_number"] for row in together.rows("pass")}) == 2
    assert (report.counts["brokers"], report.counts["unread"]) == (6, 1)
    assert sorted(report.brokers) == ["anew", "fine", "short", "topic", "untold"]
    quarantined = {(row["broker_name"], row["reason"]) for row in together.rows("quarantine")}
    assert ("topic", "KEY_CONFLICT") in quarantined
    assert not {name for name, _ in quarantined} & {"fine", "mute", "short", "untold"}
    former = {row["broker_name"] for row in together.rows("landing_frontier") if row["former_timestamp"]}
    assert former == {"anew"}


@pytest.fixture
def pair() -> Iterator[LiveCluster]:
    with live_cluster({name: log().queues() for name in ("a", "b")}) as served:
        for member in served.members.values():
            member.offsets = {f"{HALF_TOPIC}@CID_RMQ_SYS_TRANS": {"0": 2}}  # nothing waits for checks
        yield served


def verdicts(house: House, minutes: int = 1) -> dict[str, dict[str, tuple[str, str]]]:
    house.audit(NOW + timedelta(minutes=minutes))
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for row in house.rows("verdict"):
        found.setdefault(row["broker_name"], {})[row["transaction_id"]] = (row["verdict"], row["reason"])
    return found


def test_ops_that_could_not_be_read_hold_back_the_halves_of_their_broker_and_of_no_other(open_house, pair, monkeypatch):
    house = open_house(*AUDIT)
    monkeypatch.setattr(queue_landing, "_land_by_spark", None)
    pair["b"].refuse(OP_TOPIC)
    report = land(house, pair)
    assert (report.counts["unread"], report.brokers) == (1, ("a",))
    assert {row["broker_name"] for row in house.rows("half_message")} == {"a"}
    assert {row["broker_name"] for row in house.rows("message")} == {"a", "b"}
    read = {(row["broker_name"], row["topic"]) for row in house.rows("landing_frontier")}
    assert {("a", HALF_TOPIC), ("a", OP_TOPIC), ("a", "**"), ("b", "Real")} <= read
    assert not {("b", HALF_TOPIC), ("b", OP_TOPIC), ("b", "**")} & read
    decided = verdicts(house)["a"]
    assert {name: verdict for name, (verdict, _) in decided.items()} == {
        "committed": "COMMITTED", "rolled_back": "ROLLED_BACK",
    }  # fmt: skip
    pair["b"].interrupt = lambda request: None
    again = land(house, pair, minutes=2)
    assert again.counts["half"] == 2
    assert verdicts(house, 3) == {"a": decided, "b": decided}


def test_a_broker_without_news_takes_no_part_and_one_that_is_down_is_told(open_house, pair):
    house = open_house(*AUDIT)
    pair["b"].server.close()
    first = land(house, pair)
    assert (first.counts["brokers"], first.counts["unread"], first.brokers) == (1, 1, ("a",))
    assert any(words.startswith("broker b: not read: ") for words in first.findings)
    pair["b"].server = type(pair["b"].server)(pair["b"].broker)
    land(house, pair, minutes=1)
    assert "idle" in land(house, pair, minutes=2).counts
    more = log()
    more.plain()
    pair["a"].broker.queues = more.queues()
    land(house, pair, minutes=3)
    plans = {row["pass_number"]: json.loads(row["arguments"])["brokers"] for row in house.rows("pass")}
    named = {number: [plan["broker_name"] for plan in each] for number, each in plans.items()}
    assert named == {1: ["a"], 2: ["b"], 3: ["a"]}
    pair["a"].server.close()
    pair["b"].server.close()
    with pytest.raises(UnreachableError, match=pair["a"].server.address):
        land(house, pair)


def landed_of(house: House, *brokers: str) -> list[tuple[object, ...]]:
    query = ViewQuery({"broker": brokers} if brokers else {})
    columns = ["pass_number", "broker_name", "kind", "state"]
    return list(view_rows(WarehouseReader(house.warehouse.uri), LANDED, query, columns=columns))


def test_one_of_several_is_taken_back_and_lands_again_while_plans_of_older_versions_are_abandoned(open_house, pair):
    house = open_house(*AUDIT)
    land(house, pair)
    before = {table: rows(house, table) for table in TABLES}
    assert landed_of(house) == [(1, "a", "rocketmq", "committed"), (1, "b", "rocketmq", "committed")]
    assert landed_of(house, "b") == [(1, "b", "rocketmq", "committed")]
    now = NOW + timedelta(minutes=1)
    run_take_back(house.warehouse, house.settings, broker_name="b", now=now, wall_clock=wall_clock, tell=lambda _: None)
    for table in TABLES:
        assert {row["broker_name"] for row in house.rows(table)} <= {"a"}, table
    old = {"kind": "rocketmq", "broker_name": "b", "address": "", "queues": [], "offsets": None, "topics": ["*"]}
    with house.killed_after("broker"):
        run_landing(house.warehouse, house.settings, lambda: old, now=NOW, wall_clock=wall_clock)
    land(house, pair)
    assert landed_of(house, "b") == [(3, "b", "rocketmq", "committed"), (2, "b", "rocketmq", "abandoned"),
                                     (1, "b", "rocketmq", "committed")]  # fmt: skip
    assert {table: rows(house, table) for table in TABLES} == before


def test_where_the_role_of_one_is_another_than_recorded_nothing_of_any_lands(open_house, pair):
    house = open_house(*AUDIT)
    land(house, pair, "b")
    other = Settings.load(assignments=[*AUDIT, "brokers.b.role=engine"], warehouse=house.warehouse.uri)
    before = house.versions()
    with pytest.raises(RoleChanged, match="broker b: "):
        land(replace(house, settings=other), pair)
    assert house.versions() == before
