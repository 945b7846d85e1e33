"""Real brokers that are not set up as they come: each either read rightly or refused by name, never silently half."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from house import House
from real_broker import BROKER, RealPair, RealRocketmq, real_dledger, real_pair, real_rocketmq
from test_live_clients import told
from test_live_rocketmq import (
    GIVEN_UP_TOPIC,
    LAND,
    VERDICT_OF,
    Auditor,
    auditor,  # noqa: F401 - a fixture
    becomes,
    ended_in,
    found_in,
    report,
    sent,
    settled,
    wait_until,
)
from test_live_rocketmq import POLICY as FAST

from txmq_lib.cli import main
from txmq_lib.rocketmq.remoting.broker import Queue, max_offsets
from txmq_lib.rocketmq.remoting.connection import Connection
from txmq_lib.rocketmq.remoting.frame import Command

pytestmark = pytest.mark.real

GET_ALL_TOPIC_CONFIG = 21
UPDATE_TOPIC, DELETE_TOPIC_IN_BROKER, DELETE_TOPIC_IN_NAMESRV = 17, 215, 216
PATIENT = {"transactionTimeOut": "600000"}  # asks nobody during a test
POLICY = "transaction_timeout: 600s\ntransaction_check_interval: 3s\ntransaction_check_max: 2\n"


PLANS = "CU,RU,UC,UR,UU"
IN_ROCKSDB = {"transRocksDBEnable": "true", "transWriteOriginTransHalfEnable": "false"}
# A verdict while a master was gone, and what may become of it when the halves are checked again.
LATER = {
    ("COMMITTED", "DUPLICATED"),
    ("COMMITTED", "COMMITTED_AND_DISCARDED"),
    ("DISCARDED", "COMMITTED_AND_DISCARDED"),
}


def ask(server: RealRocketmq, code: int, *, at: str = "", **fields: str) -> None:
    with Connection(at or server.address, server.access) as connection:
        connection.require_success(connection.ask(Command(code, fields)), f"request {code}")


def set_queues(server: RealRocketmq, topic: str, *, read: int, write: int, at: str = "", **more: str) -> None:
    ask(server, UPDATE_TOPIC, at=at, topic=topic, defaultTopic="TBW102", readQueueNums=str(read), writeQueueNums=str(write),
        perm="6", topicFilterType="SINGLE_TAG", topicSysFlag="0", order="false", **more)  # fmt: skip


def test_what_was_committed_where_nobody_may_read_is_not_taken_for_rolled_back(auditor):  # noqa: F811
    """readQueueNums below writeQueueNums, then a topic that is deleted: of both the name server tells less."""
    with real_rocketmq("5.5.0", **PATIENT) as server:
        audit = auditor(server, POLICY, topics="['*']")
        set_queues(server, "TopicNarrow", read=2, write=4)
        set_queues(server, "TopicGone", read=4, write=4)
        truth = {}
        for topic in ("TopicNarrow", "TopicGone"):
            producer = server.client("produce", server.namesrv, f"GID_{topic}", topic, "CC,RR", "40", "0")
            producer.wait_for("done")
            truth[topic] = sent(producer)
            producer.stop()
        ask(server, DELETE_TOPIC_IN_BROKER, topic="TopicGone")
        ask(server, DELETE_TOPIC_IN_NAMESRV, at=server.namesrv, topic="TopicGone")
        time.sleep(3)
        audit.run(LAND)
        assert "told of no more (deleted, or beyond readQueueNums)" in audit.err
        verdicts = audit.verdicts()
        queues = {row["transaction_id"]: row["real_queue_id"] for row in audit.house.rows("half_message")}
        wrong = {}
        for topic, plans in truth.items():
            for id_, plan in plans.items():
                can_be_read = topic == "TopicNarrow" and queues[id_] < 2
                meant = VERDICT_OF[plan] if can_be_read else "RESOLVED_UNKNOWN"
                if verdicts[id_] != meant:
                    wrong[id_] = (topic, plan, queues[id_], verdicts[id_])
        assert not wrong
        set_queues(server, "TopicNarrow", read=4, write=4)
        narrow, _ = settled(audit, truth["TopicNarrow"], "TopicNarrow")
        assert narrow == {id_: VERDICT_OF[plan] for id_, plan in truth["TopicNarrow"].items()}
        report(f"queues that may not be read, and a deleted topic: {Counter(verdicts.values())}; once they may be read"
               f" {Counter(narrow.values())} of 40, all as meant")  # fmt: skip


@dataclass
class ByStore:
    """What a landing of a broker's store told, and the verdicts by it."""

    err: str
    verdicts: dict[str, str]


def landed_store(audit: Auditor, open_house: Callable[..., House], server: RealRocketmq) -> ByStore:
    """All its topics: where some are left out, a store without consume queues proves no rollback by its log."""
    house = open_house("role=audit", name="by-store")
    conf = audit.conf.with_name("store.yaml")
    conf.write_text(f"role: audit\nwarehouse: {house.warehouse.uri}\nland: {{topics: ['*']}}\n{FAST}")
    store = str(server.directory / "store")
    assert main(["--conf", str(conf), "land", "store", store, "--broker", BROKER]) == 0
    err = audit.capsys.readouterr().err
    house.settings = house.settings.load([str(conf)])
    house.audit(now=datetime.now(UTC))
    return ByStore(err, {row["transaction_id"]: row["verdict"] for row in house.rows("verdict")})


def committed(audit: Auditor, group: str) -> int:
    """The offsets that a group has committed, all queues together."""
    newest = {(row["topic"], row["queue_id"]): row["next_offset"] for row in
              sorted(audit.house.rows("consumer_offset_commit"), key=lambda row: row["landed_pass"])
              if row["consumer_group"] == group}  # fmt: skip
    return sum(offset for (topic, _), offset in newest.items() if topic == "TopicA")


def follows(plan: str, visible: int, given_up: int, *, is_ended: bool) -> str:
    """The verdict that follows from what the Java client finds.

    Its master may be gone before the producer hears the check: then a new master gives it up, and nobody decided it.
    A new master may also have cursors of before a check (R75): it checks the first half again, which an op of the
    copy does not name, and gives up what was rolled back. Only the op tells which of the two it was.
    """
    if visible or not given_up or (is_ended and "R" in plan):
        return becomes(plan, visible, given_up)
    return f"ended, yet {plan} and not there" if is_ended else "DISCARDED"


def judged_by_evidence(server, verdicts, truth, evidence) -> dict[str, tuple]:
    """What is silently wrong: a verdict other than what the Java client finds and the producer meant. One of which
    there is no verdict was never landed: then nothing of it may be found either."""
    ended = ended_in(server)
    return {
        id_: (plan, verdicts.get(id_), evidence[id_], id_ in ended)
        for id_, plan in truth.items()
        if (id_ in verdicts and verdicts[id_] != follows(plan, *evidence[id_], is_ended=id_ in ended))
        or (id_ not in verdicts and (evidence[id_] != (0, 0) or id_ in ended))
    }


def checked_anew(audit: Auditor) -> set[str]:
    """The transactions of which two copies were made for the same check (R75)."""
    copies = Counter((row["transaction_id"], row["broker_check_times"]) for row in audit.house.rows("half_message"))
    return {id_ for (id_, times), count in copies.items() if times and count > 1}


def test_under_a_controller_masters_fail_over_and_back_and_no_verdict_is_wrong(auditor):  # noqa: F811
    """R128: the master is killed twice while halves wait for checks; its epochs are told apart by nobody."""
    with real_pair(has_controller=True, transactionCheckMax="6") as pair:
        audit = auditor(pair, FAST.replace("max: 2", "max: 6"), topics="[TopicA]")
        truth: dict[str, str] = {}
        masters = []
        for round_number in range(3):
            pair.wait_for(lambda: pair.master() is not None, 120)
            masters.append(pair.master())
            producer = pair.client("produce", pair.namesrv, f"GID_{round_number}", "TopicA", PLANS, "100", "10")
            if round_number < 2:
                producer.wait_for("sent", count=90)  # the last may be lost with their master, or half decided
                audit.run(LAND)
                pair.kill(masters[-1])
                truth |= sent(producer)
                pair.wait_for(lambda: pair.master() not in (None, masters[-1]), 120)
                pair.start_one(masters[-1])
                pair.wait_for(lambda: len(pair.addresses()) == 2, 120)
                producer.kill()
            else:
                producer.wait_for("done")
                truth |= sent(producer)
        assert len({*masters}) == 2
        verdicts, evidence = settled(audit, truth, "TopicA", is_whole=False)
        assert not judged_by_evidence(audit.server, verdicts, truth, evidence)
        assert "controller: it is under a controller" in audit.err
        conflicts = Counter(row["reason"] for row in audit.house.rows("quarantine"))
        anew = checked_anew(audit)
        given_up = Counter(
            (truth[id_], verdict, "checked anew" if id_ in anew else "once")
            for id_, verdict in verdicts.items()
            if evidence[id_][1]
        )
        report(f"given up: {given_up}")
        report(f"controller, masters {masters}: {len(truth)} sent, {len(verdicts)} landed, {Counter(verdicts.values())},"
               f" quarantine {dict(conflicts)}, 0 wrong")  # fmt: skip


def test_a_new_leader_of_dledger_goes_on_from_the_same_log(auditor):  # noqa: F811
    """R124: three nodes; the leader is killed while a producer sends and halves wait for checks."""
    with real_dledger(transactionCheckMax="6") as nodes:
        audit = auditor(nodes, FAST.replace("max: 2", "max: 6"), topics="[TopicA]")
        leader = nodes.master()
        first = nodes.client("produce", nodes.namesrv, "GID_0", "TopicA", PLANS, "100", "10")
        first.wait_for("sent", count=90)
        audit.run(LAND)
        nodes.kill(leader)
        truth = sent(first)
        nodes.wait_for(lambda: nodes.master() not in (None, leader), 120)
        nodes.start_one(leader)
        nodes.wait_for(lambda: len(nodes.addresses()) == len(nodes.ports), 120)
        first.kill()
        second = nodes.client("produce", nodes.namesrv, "GID_1", "TopicA", PLANS, "100", "10")
        second.wait_for("done")
        truth |= sent(second)
        verdicts, evidence = settled(audit, truth, "TopicA", is_whole=False)
        assert not judged_by_evidence(audit.server, verdicts, truth, evidence)
        (row,) = audit.house.rows("broker_set_up")
        assert row["set_ups"] == "dledger"
        conflicts = Counter(row["reason"] for row in audit.house.rows("quarantine"))
        report(f"DLedger, leaders {leader} and {nodes.master()}: {len(truth)} sent, {len(verdicts)} landed,"
               f" {Counter(verdicts.values())}, quarantine {dict(conflicts)}, 0 wrong")  # fmt: skip


def test_two_messages_at_one_offset_after_a_failover_without_sync_leave_no_verdict_wrong(auditor):  # noqa: F811
    """R128: the master goes on alone, and its slave becomes master without what it had not copied. Both go on from the
    same offset and store as many, so that the queues end where they ended."""
    with real_pair(has_controller=True, elects_any=True, **PATIENT) as pair:
        audit = auditor(pair, POLICY, topics="[TopicA]")
        master = pair.master()
        other = "second" if master == "first" else "first"
        set_queues(pair, "TopicA", read=1, write=1, at=pair.place(master))

        def produced(group: str, count: int) -> dict[str, str]:
            producer = pair.client("produce", pair.namesrv, group, "TopicA", "CC,RR", str(count), "0")
            producer.wait_for("done")
            time.sleep(5)  # ops, and the slave
            truth = sent(producer)
            producer.kill()
            audit.run(LAND)
            return truth

        both = produced("GID_BOTH", 20)
        pair.kill(other)
        time.sleep(30)  # it leaves the set of those in sync
        alone = produced("GID_ALONE", 40)
        before = found_in(pair, "TopicA")
        pair.kill(master)
        pair.start_one(other)
        pair.wait_for(lambda: pair.master() == other, 120)
        anew = produced("GID_ANEW", 40)
        found = found_in(pair, "TopicA")
        assert not any(found[id_, False] for id_ in alone), "the new master never had them"
        halves = Counter(row["producer_group"] for row in audit.house.rows("half_message"))
        conflicts = Counter(row["topic"] for row in audit.house.rows("quarantine") if row["reason"] == "KEY_CONFLICT")
        missed = 40 - halves["GID_ANEW"]
        assert 0 < missed <= conflicts["RMQ_SYS_TRANS_HALF_TOPIC"], (halves, conflicts)
        assert "controller: it is under a controller" in audit.err
        verdicts = audit.verdicts()
        wrong = {
            id_: (plan, verdicts[id_], before[id_, False], found[id_, False])
            for id_, plan in {**both, **alone, **anew}.items()
            if id_ in verdicts
            and verdicts[id_] not in (becomes(plan, max(before[id_, False], found[id_, False]), 0), "RESOLVED_UNKNOWN")
        }
        assert not wrong
        of_each = {name: dict(Counter(verdicts.get(id_) for id_ in truth)) for name, truth in
                   (("both", both), ("alone", alone), ("anew", anew))}  # fmt: skip
        report(f"two messages at one offset: {of_each}, KEY_CONFLICT {dict(conflicts)}, 0 wrong")


def topics_of(pair: RealPair, name: str) -> list[str]:
    """The topics that one of the two brokers knows."""
    with Connection(pair.place(name), pair.access) as connection:
        answer = connection.ask(Command(GET_ALL_TOPIC_CONFIG))
        connection.require_success(answer, "topics")
        return list(json.loads(answer.body)["topicConfigTable"])


def test_a_slave_that_acts_for_its_master_is_named_and_what_it_passes_over_is_told(auditor):  # noqa: F811
    """enableSlaveActingMaster: it checks no half, it sends those that are due to other brokers, of which there are none."""
    with real_pair(has_controller=False, slaveReadEnable="true") as pair:  # else it gives nothing to anybody
        audit = auditor(pair, FAST, topics="[TopicA]")
        set_queues(pair, "TopicA", read=4, write=4)
        # A slave asks its master once a minute what topics there are; of others it gives nothing, which is told.
        pair.wait_for(lambda: "TopicA" in topics_of(pair, "second"), 120)
        producer = pair.client("produce", pair.namesrv, "GID_ACTING", "TopicA", "CC,RR,UU", "60", "0")
        producer.wait_for("sent", count=60)
        truth = sent(producer)
        wait_until(lambda: sum(is_given_up for _, is_given_up in found_in(pair, GIVEN_UP_TOPIC)) == 20)
        time.sleep(5)  # the slave copies them, but may not have heard of that topic yet
        pair.kill("first")
        pair.wait_for(lambda: pair.master() == "second", 120)
        audit.run(LAND, status=None)
        if GIVEN_UP_TOPIC not in topics_of(pair, "second"):
            assert f"could not be read: {GIVEN_UP_TOPIC} queue 0" in audit.err
        assert "slave: it acts for a master that is gone" in audit.err
        (row,) = audit.house.rows("broker_set_up")
        assert (row["set_ups"], row["broker_role"]) == ("slave", "SLAVE")
        while_away = audit.verdicts()
        pair.start_one("first")
        pair.wait_for(lambda: pair.master() == "first", 120)
        verdicts, evidence = settled(audit, truth, "TopicA")
        assert not judged_by_evidence(audit.server, verdicts, truth, evidence)
        wrong = {
            id_: (truth[id_], verdict, verdicts[id_])
            for id_, verdict in while_away.items()
            if verdict not in ("PENDING", "RESOLVED_UNKNOWN", verdicts[id_]) and (verdict, verdicts[id_]) not in LATER
        }
        assert not wrong
        report(f"a slave that acts: {Counter(while_away.values())} while its master was gone, then"
               f" {Counter(verdicts.values())}, 0 wrong")  # fmt: skip


def test_a_log_over_several_directories_is_exact_live_and_its_store_refused(auditor):  # noqa: F811
    with real_rocketmq("5.5.0", mappedFileSizeCommitLog=str(64 << 10)) as server:
        store = server.directory / "store"
        paths = [store / "commitlog", server.directory / "more"]
        server.kill_broker()
        server.settings["storePathCommitLog"] = ",".join(map(str, paths))
        server.start_broker()
        audit = auditor(server, FAST, topics="[TopicA]")
        producer = server.client("produce", server.namesrv, "GID_PATHS", "TopicA", PLANS, "300", "0")
        producer.wait_for("done")
        truth = sent(producer)
        verdicts, evidence = settled(audit, truth, "TopicA")
        assert all(any(path.iterdir()) for path in paths), "the log lies in both"
        assert not judged_by_evidence(audit.server, verdicts, truth, evidence)
        assert main(["--conf", str(audit.conf), "land", "store", str(store), "--broker", "of-disk"]) == 3
        told_of = audit.capsys.readouterr().err
        assert "multi_path: its log is spread over several directories" in told_of
        assert "STORE_REFUSED" in told_of
        report(f"a log over two directories: {Counter(verdicts.values())} live, 0 wrong; its store refused")


def test_queues_and_offsets_in_rocksdb_are_exact_live_and_transactions_by_the_store(auditor, open_house):  # noqa: F811
    """R125, and consume queues in RocksDB (storeType=defaultRocksDB)."""
    with real_rocketmq("5.5.0", storeType="defaultRocksDB", autoCreateTopicEnable="true") as server:
        audit = auditor(server, FAST, topics="[TopicA]")
        consumer = server.client("consume", server.namesrv, "CG_ROCKS", "TopicA")
        consumer.wait_for("done")
        producer = server.client("produce", server.namesrv, "GID_ROCKSDB", "TopicA", PLANS, "100", "10")
        producer.wait_for("done")
        truth = sent(producer)
        verdicts, evidence = settled(audit, truth, "TopicA")
        assert not judged_by_evidence(audit.server, verdicts, truth, evidence)
        visible = sum(count for count, _ in evidence.values())
        consumer.wait_for("got", count=visible)
        wait_until(lambda: (audit.run(LAND), committed(audit, "CG_ROCKS"))[1] == visible)
        server.kill_broker()
        by_store = landed_store(audit, open_house, server)
        assert "rocksdb_offsets: its consumer offsets are in RocksDB" in by_store.err
        assert "rocksdb_queues" in by_store.err
        assert {id_: by_store.verdicts[id_] for id_ in truth} == {id_: verdicts[id_] for id_ in truth}
        report(f"queues and offsets in RocksDB: {Counter(verdicts.values())} live and by the store, 0 wrong;"
               f" {visible} messages, and CG_ROCKS committed {visible}")  # fmt: skip


def test_halves_in_rocksdb_switched_back_stay_undecided_and_no_end_is_invented(auditor):  # noqa: F811
    """transRocksDBEnable taken back: nobody checks what lies in RocksDB, and a rollback of it leaves no op."""
    with real_rocketmq("5.5.0", **IN_ROCKSDB, transactionTimeOut="30000") as server:
        audit = auditor(server, FAST.replace("timeout: 2s", "timeout: 30s"), topics="[TopicA]")
        first = server.client("produce", server.namesrv, "GID_BACK", "TopicA", "CC,RR,UC,UR,UU", "50", "0")
        first.wait_for("done")
        before = sent(first)
        server.kill_broker()
        for name in IN_ROCKSDB:
            server.settings.pop(name)
        server.settings["transactionTimeOut"] = "2000"
        server.start_broker()
        time.sleep(15)
        audit.run(LAND)
        waiting = next(id_ for id_, verdict in audit.verdicts().items() if verdict == "PENDING")
        story = told(audit, "trace", waiting)
        assert "not checked any more: it lies in RocksDB" in story
        assert "do not wait for a check: its broker looks into RocksDB no more" in story
        second = server.client("produce", server.namesrv, "GID_AFTER", "TopicA", PLANS, "50", "0")
        second.wait_for("done")
        after = sent(second)
        verdicts, evidence = settled(audit, after, "TopicA")
        assert not judged_by_evidence(audit.server, verdicts, after, evidence)
        found = found_in(server, "TopicA")
        both = audit.verdicts()
        wrong = {}
        for id_, plan in before.items():
            # An op is in memory for half a second, and a killed broker loses it (R76).
            meant = {"COMMITTED"} if found[id_, False] == 1 else {"DUPLICATED"} if found[id_, False] else {
                "PENDING", "DISCARDED_UNSEEN", *(("ROLLED_BACK",) if plan == "RR" else ())}  # fmt: skip
            if both[id_] not in meant:
                wrong[id_] = (plan, both[id_], found[id_, False])
        assert not wrong
        assert not any(both[id_] == "ROLLED_BACK" for id_, plan in before.items() if plan != "RR")
        report(f"switched back from RocksDB: before {Counter(both[id_] for id_ in before)}, after"
               f" {Counter(verdicts.values())}, 0 wrong")  # fmt: skip


def test_halves_in_rocksdb_are_still_checked_where_new_ones_go_to_the_ordinary_topic(auditor):  # noqa: F811
    """R121: transWriteOriginTransHalfEnable is true again, and transRocksDBEnable stays."""
    # A client comes back to a broker within 30 s, and checks that reach nobody count.
    patience = {"transactionTimeOut": "30000", "transactionCheckMax": "15"}
    policy = "transaction_timeout: 30s\ntransaction_check_interval: 3s\ntransaction_check_max: 15\n"
    with real_rocketmq("5.5.0", **IN_ROCKSDB, **patience) as server:
        audit = auditor(server, policy, topics="[TopicA]")
        first = server.client("produce", server.namesrv, "GID_ROCKS", "TopicA", "CC,RR,UC,UR,UU", "50", "0")
        first.wait_for("done")
        before = sent(first)
        server.kill_broker()
        server.settings["transWriteOriginTransHalfEnable"] = "true"
        server.start_broker()
        second = server.client("produce", server.namesrv, "GID_ORDINARY", "TopicA", PLANS, "50", "0")
        second.wait_for("done")
        after = sent(second)
        time.sleep(95)  # the timeout, and all checks of what nobody decides
        # Only what is stored later tells that the checks of those before it are over.
        server.client("produce", server.namesrv, "GID_NEW", "TopicA", "CU", "1", "0").wait_for("done")
        verdicts, evidence = settled(audit, before | after, "TopicA")
        (row,) = audit.house.rows("broker_set_up")
        assert row["set_ups"] == "rocksdb_checks"
        halves = {(row["transaction_id"], row["queue_id"]) for row in audit.house.rows("half_message")}
        assert {(id_, -2) for id_ in before} | {(id_, 0) for id_ in after} <= halves, "each pair has its own"
        assert not judged_by_evidence(audit.server, verdicts, after, evidence)
        meant = {
            id_: "DISCARDED_UNSEEN" if plan == "UU" else becomes(plan, *evidence[id_]) for id_, plan in before.items()
        }
        assert {id_: verdicts[id_] for id_ in before} == meant
        assert first.told("checked")
        report(f"halves in RocksDB beside ordinary ones: {Counter(verdicts[id_] for id_ in before)}, ordinary"
               f" {Counter(verdicts[id_] for id_ in after)}, 0 wrong")  # fmt: skip


def test_messages_that_go_to_lmqs_as_well_are_judged_by_their_own_topic(auditor):  # noqa: F811
    with real_rocketmq("5.5.0", enableLmq="true", enableMultiDispatch="true") as server:
        audit = auditor(server, FAST, topics="[TopicA]")
        lmqs = ("with", "INNER_MULTI_DISPATCH", "%LMQ%a,%LMQ%b")
        producer = server.client(*lmqs, "produce", server.namesrv, "GID_LMQ", "TopicA", PLANS, "100", "10")
        producer.wait_for("done")
        truth = sent(producer)
        verdicts, evidence = settled(audit, truth, "TopicA")
        assert not judged_by_evidence(audit.server, verdicts, truth, evidence)
        (row,) = audit.house.rows("broker_set_up")
        assert row["set_ups"] == "lmq"
        with Connection(server.address, server.access) as connection:
            (end,) = max_offsets(connection, [Queue("%LMQ%a", 0)])
        visible, given_up = (sum(each) for each in zip(*evidence.values(), strict=True))
        halves = len(audit.house.rows("half_message"))
        assert end == halves + visible + given_up, "an LMQ has what nobody has committed as well (R135)"
        report(
            f"messages in two LMQs: {Counter(verdicts.values())}, 0 wrong; {end} in %LMQ%a: {halves} halves and copies"
        )
