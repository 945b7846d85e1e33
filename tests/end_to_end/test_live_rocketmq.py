"""Real RocketMQ brokers with real Java clients: landed while producers send, killed, settled, resumed.

The commands are those of the pages, on real name servers, a real PostgreSQL and the time of day.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from house import House
from page_commands import on_page, settings_under
from postgresql import PASSWORD, PostgreSQL
from real_broker import BROKER, NEWEST_4_9, Client, RealRocketmq, free_port, plans, real_rocketmq

from txmq_lib.cli import main
from txmq_lib.rocketmq.remoting.broker import OddTopics, odd_topics
from txmq_lib.rocketmq.remoting.connection import Connection
from txmq_lib.rocketmq.remoting.frame import Command
from txmq_lib.views.cursors import stopped_checks
from txmq_lib.views.reader import WarehouseReader

pytestmark = pytest.mark.real

VERSIONS = ("5.5.0", NEWEST_4_9)
LAND = "txmq land rocketmq --namesrv 10.0.0.1:9876 --namesrv 10.0.0.2:9876 --conf audit.yaml"
TXMQ = "import sys; from txmq_lib.cli import main; sys.exit(main())"
ID = "C000020246654E0E2F2A6940C4EC0021"
SETTLE = (
    "txmq settle C000020246654E0E2F2A6940C4EC0021 --commit "
    '--reason "ticket 4711: paid" --to-broker --apply --conf audit.yaml'
)
RESUME = 'txmq resume --group GID_PAY --reason "database was down" --to-broker --apply --conf audit.yaml'
GIVEN_UP_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
HALF_TOPIC, OP_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
# What the broker of `rocketmq` has, so that nothing is warned about.
POLICY = "transaction_timeout: 2s\ntransaction_check_interval: 3s\ntransaction_check_max: 2\n"
# The state at once, then the answer to checks: what becomes of it where everybody answers in time.
VERDICT_OF = {"CU": "COMMITTED", "RU": "ROLLED_BACK", "UC": "COMMITTED", "UR": "ROLLED_BACK", "UU": "DISCARDED",
              "CC": "COMMITTED", "RR": "ROLLED_BACK"}  # fmt: skip


@pytest.fixture(scope="module", params=VERSIONS)
def rocketmq(request: pytest.FixtureRequest) -> Iterator[RealRocketmq]:
    """A broker that asks soon and gives up soon."""
    with real_rocketmq(request.param) as server:
        yield server


@pytest.fixture(params=VERSIONS)
def patient(request: pytest.FixtureRequest) -> Iterator[RealRocketmq]:
    """A broker that asks nobody during a test, so that no copy of a half lies beside it (R64)."""
    with real_rocketmq(request.param, transactionTimeOut="600000") as server:
        yield server


@pytest.fixture(scope="module")
def postgresql() -> Iterator[PostgreSQL]:
    server = PostgreSQL.created()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@dataclass
class Auditor:
    """The command line on a warehouse, with an `audit.yaml` of its own; what a command told is in `out` and `err`."""

    house: House
    server: RealRocketmq
    conf: Path
    capsys: pytest.CaptureFixture[str]
    out: str = ""
    err: str = ""
    has_own_process: bool = False

    def run(self, command: str, *, status: int | None = 0, transaction_id: str = ID) -> None:
        """Run a command of the pages; status None: it may end with any."""
        # The first name server is down: the next is asked.
        names = {"10.0.0.1:9876": f"127.0.0.1:{free_port()}", "10.0.0.2:9876": self.server.namesrv,
                 "audit.yaml": str(self.conf), ID: transaction_id}  # fmt: skip
        if command.count(":9876") == 1:
            names["10.0.0.1:9876"] = self.server.namesrv
        arguments = on_page("brokers.md" if command == LAND else "recover.md", command, names)
        if self.has_own_process:
            done = subprocess.run([sys.executable, "-c", TXMQ, *arguments], capture_output=True, text=True, check=False)
            ended, self.out, self.err = done.returncode, done.stdout, done.stderr
        else:
            ended = main(arguments)
            self.out, self.err = self.capsys.readouterr()
        assert status in (ended, None), self.out + self.err

    def count(self, name: str) -> int:
        """A count that the last command told."""
        counts = dict(line.split(maxsplit=1) for line in self.out.splitlines() if " " in line)
        return int(counts.get(name, 0))

    def verdicts(self) -> dict[str, str]:
        """Verdicts after an audit, by transaction id."""
        self.house.audit(now=datetime.now(UTC))
        return {row["transaction_id"]: row["verdict"] for row in self.house.rows("verdict")}


@pytest.fixture
def auditor(open_house: Callable[..., House], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable:
    """A function that opens an auditor of a server, with more settings."""

    def opened(server: RealRocketmq, settings: str = POLICY, topics: str = '["*"]') -> Auditor:
        house, conf = open_house("role=audit"), tmp_path / "audit.yaml"
        base = f"role: audit\nwarehouse: {house.warehouse.uri}\nland: {{topics: {topics}}}\n"
        source = f'sources:\n  - {{kind: rocketmq, namesrv: ["{server.namesrv}"]}}\n'
        # A broker on a machine with much else to do may take its time.
        patience = "" if "rocketmq:" in settings else "\nrocketmq: {timeout: 30s}\n"
        conf.write_text(base + source + settings + patience, encoding="utf-8")
        house.settings = house.settings.load([str(conf)])
        return Auditor(house, server, conf, capsys)

    return opened


def found_in(server: RealRocketmq, *topics: str) -> Counter[tuple[str, bool]]:
    """How often the Java client finds a transaction in topics: by id, and whether given up."""
    client = server.client("list", server.namesrv, ",".join(topics))
    client.wait_for("pulled")
    client.stop()
    return Counter((id_, topic == GIVEN_UP_TOPIC) for id_, topic, _ in client.told("got"))


def ended_in(server: RealRocketmq) -> set[str]:
    """The transactions of which the Java client finds a half that an op names: somebody ended them (R25)."""
    client = server.client("list", server.namesrv, f"{HALF_TOPIC},{OP_TOPIC}")
    client.wait_for("pulled")
    client.stop()
    half_at = {place: id_ for id_, _, place in client.told("got")}
    ended = {f"{queue}:{offset}" for queue, *offsets in client.told("ended") for offset in offsets}
    return {half_at[place] for place in ended & half_at.keys()}


def sent(*producers: Client) -> dict[str, str]:
    """Transaction id -> plan, of all that producers sent."""
    return {id_: plan for producer in producers for id_, plan in plans(producer.told("sent")).items()}


def becomes(plan: str, visible: int, given_up: int) -> str:
    """The verdict that follows from what the Java client finds, and from what the producer meant."""
    if visible > 1:
        return "DUPLICATED"
    if visible == 1:
        return "COMMITTED_AND_DISCARDED" if given_up else "COMMITTED"
    return VERDICT_OF[plan]


def settled(
    auditor: Auditor, truth: dict[str, str], *topics: str, is_whole: bool = True
) -> tuple[dict[str, str], dict[str, tuple[int, int]]]:
    """Land until none of ours is undecided and nothing moves; verdicts, and per id how often visible and given up.

    is_whole  whether all of them are there: a master that is lost may take some along
    """
    end = time.monotonic() + 260
    before = None
    while True:
        found = found_in(auditor.server, *topics, GIVEN_UP_TOPIC)
        auditor.run(LAND)
        verdicts = {id_: verdict for id_, verdict in auditor.verdicts().items() if id_ in truth}
        evidence = {id_: (found[id_, False], found[id_, True]) for id_ in truth}
        if (len(verdicts) == len(truth) or not is_whole) and "PENDING" not in verdicts.values() and evidence == before:
            return verdicts, evidence
        assert time.monotonic() < end, Counter(verdicts.values())
        before = evidence
        time.sleep(4)  # an op may be two batch intervals late (R30)


def test_verdicts_equal_the_truth_when_landing_while_producers_send(rocketmq, auditor):
    audit = auditor(rocketmq, topics="[TopicA, TopicB]")
    producers = [
        rocketmq.client("produce", rocketmq.namesrv, group, topic, "CU,RU,UC,UR,UU", "150", "150")
        for group, topic in (("GID_LIVE", "TopicA"), ("GID_LIFE", "TopicB"))
    ]
    landed_while_sending = []
    producers[0].wait_for("sent", count=20)
    while not all(producer.told("done") for producer in producers):
        audit.run(LAND)
        landed_while_sending.append(audit.count("half"))
    assert landed_while_sending[0] > 0
    assert "flushDiskType is ASYNC_FLUSH" in audit.err
    assert "transactionCheck" not in audit.err
    truth = sent(*producers)
    assert len(truth) == 300
    verdicts, evidence = settled(audit, truth, "TopicA", "TopicB")
    assert verdicts == {id_: becomes(plan, *evidence[id_]) for id_, plan in truth.items()}
    # On a machine that stands still for seconds a producer answers one check after the next was asked (R64).
    as_meant = sum(verdicts[id_] == VERDICT_OF[plan] for id_, plan in truth.items())
    assert as_meant > 270, Counter((plan, verdicts[id_]) for id_, plan in truth.items())
    assert Counter(verdicts.values())["DISCARDED"] == 60
    audit.run(LAND)
    assert not any(audit.count(kind) for kind in ("half", "op", "message", "max-time", "unread")), audit.out
    frontier = {(row["topic"], row["queue_id"]): row for row in audit.house.rows("landing_frontier")}
    assert frontier["RMQ_SYS_TRANS_HALF_TOPIC", 0]["next_offset"] == len(audit.house.rows("half_message"))
    assert {row["broker_name"] for row in audit.house.rows("message")} == {BROKER}
    assert not audit.house.rows("quarantine")
    summary = f"landed while sending {landed_while_sending}, {as_meant} of 300 as meant, {Counter(verdicts.values())}"
    report(f"{rocketmq.version}: {summary}")
    for producer in producers:
        producer.stop()


def test_halves_in_rocksdb_land_live_and_what_the_broker_forgot_is_committed_by_hand(auditor):
    """R116 to R121: the broker gives halves up without a trace; a late end is still taken, and consumed once."""
    in_rocksdb = {"transRocksDBEnable": "true", "transWriteOriginTransHalfEnable": "false"}
    with real_rocketmq("5.5.0", **in_rocksdb) as server:
        audit = auditor(server, topics="[TopicA]")
        producer = server.client("produce", server.namesrv, "GID_PAY", "TopicA", "CU,RU,UC,UR,UU", "300", "100")
        producer.wait_for("sent", count=40)
        landed_while_sending = []
        while not producer.told("done"):
            audit.run(LAND)
            landed_while_sending.append(audit.count("half"))
        assert landed_while_sending[0] > 0
        assert "rocksdb_halves: it keeps the index of its halves in RocksDB" in audit.err
        truth = sent(producer)
        assert len(truth) == 300
        time.sleep(20)  # timeout, and two checks and more of all that nobody decides
        # Only what is stored later tells that the checks of those before it are over.
        newest = server.client("produce", server.namesrv, "GID_ROCKS", "TopicA", "CU", "1", "0")
        newest.wait_for("done")
        end = time.monotonic() + 120
        while True:
            audit.run(LAND)
            verdicts = {id_: verdict for id_, verdict in audit.verdicts().items() if id_ in truth}
            if len(verdicts) == 300 and "PENDING" not in verdicts.values():
                break
            assert time.monotonic() < end, Counter(verdicts.values())
            time.sleep(4)
        found = found_in(server, "TopicA")
        meant = {**VERDICT_OF, "UU": "DISCARDED_UNSEEN"}
        wrong = {
            id_: (plan, verdicts[id_], found[id_, False])
            for id_, plan in truth.items()
            # On a machine that stands still a check may be answered twice (R64).
            if verdicts[id_] != ("DUPLICATED" if found[id_, False] > 1 else meant[plan])
        }
        assert not wrong
        (row,) = audit.house.rows("broker_set_up")
        assert (row["set_ups"], row["version"], row["broker_role"]) == ("rocksdb_halves", "V5_5_0", "ASYNC_MASTER")
        forgotten = next(id_ for id_, verdict in verdicts.items() if verdict == "DISCARDED_UNSEEN")
        audit.run(SETTLE, transaction_id=forgotten)
        time.sleep(3)
        audit.run(LAND)
        assert audit.verdicts()[forgotten] == "COMMITTED"
        assert found_in(server, "TopicA")[forgotten, False] == 1
        by_verdict = Counter(verdicts.values())
        # The others are asked about again: the broker stores their halves anew (R120).
        checks_before = checks_of(producer)
        audit.run(RESUME)
        resumed = audit.count("accepted")
        assert resumed == by_verdict["DISCARDED_UNSEEN"] - 1
        audit.run(LAND)
        asked_again = {id_ for id_, verdict in audit.verdicts().items() if id_ in truth and verdict == "PENDING"}
        assert len(asked_again) == resumed
        assert "DISCARDED_UNSEEN" not in audit.verdicts().values()
        # One whose count went on would be asked about once at most.
        wait_until(lambda: (checks_of(producer) - checks_before).keys() == asked_again)
        wait_until(lambda: all(count >= 2 for count in (checks_of(producer) - checks_before).values()))
        report(f"halves in RocksDB: landed while sending {landed_while_sending}, {by_verdict}, one of them committed by"
               f" hand, {resumed} asked about again, {Counter((checks_of(producer) - checks_before).values())}")  # fmt: skip


def checks_of(producer: Client) -> Counter[str]:
    """How often a producer was asked about each transaction."""
    return Counter(transaction_id for (transaction_id,) in producer.told("checked"))


def test_a_broker_that_does_not_check_is_told_two_landings_later(auditor):
    """R131, and R36: a broker that has never ended a round has no cursor yet."""
    with real_rocketmq("5.5.0", transactionCheckInterval="3600000") as server:
        audit = auditor(server, topics="[TopicA]")
        producer = server.client("produce", server.namesrv, "GID_STUCK", "TopicA", "UU", "10", "0")
        producer.wait_for("done")
        time.sleep(3)  # longer than the timeout: all of them are due
        audit.run(LAND)
        assert not stopped_checks(WarehouseReader(audit.house.warehouse.uri))
        time.sleep(70)  # two intervals of 3 s and a minute for the queue
        audit.run(LAND)
        (found,) = stopped_checks(WarehouseReader(audit.house.warehouse.uri))
        assert (found.broker_name, found.half_offset, found.waiting) == (BROKER, None, 10)
        assert main(["--conf", str(audit.conf), "status", "--format", "json"]) == 1
        status = json.loads(audit.capsys.readouterr().out)
        assert f"unchecked {BROKER}/0" in [each["condition"] for each in status["problems"]]
        assert "transactionCheckInterval is 1h" in status["differing"][0]["differences"]
        report("a broker that does not check: told by the second landing, 10 halves behind no cursor at all")


def test_compaction_topics_and_static_ones_of_a_real_broker_are_known(auditor):
    """R122, R123: what the broker says of its topics; a static one is pulled by the broker's own numbers."""
    created = {"readQueueNums": "1", "writeQueueNums": "1", "perm": "6", "topicFilterType": "SINGLE_TAG",
               "topicSysFlag": "0", "order": "false", "defaultTopic": "TBW102"}  # fmt: skip
    queue = {"gen": 0, "queueId": 0, "bname": BROKER, "logicOffset": 0, "startOffset": 0, "endOffset": -1,
             "timeOfStart": -1, "timeOfEnd": -1}  # fmt: skip
    detail = {"topic": "TopicStatic", "scope": "__global__", "totalQueues": 1, "bname": BROKER, "epoch": 1,
              "dirty": False, "currIdMap": {"0": 0}, "hostedQueues": {"0": [queue]}}  # fmt: skip
    with real_rocketmq("5.5.0") as server:
        with Connection(server.address, server.access) as connection:
            compacted = {**created, "topic": "TopicCompacted", "attributes": "+cleanup.policy=COMPACTION"}
            connection.require_success(connection.ask(Command(17, compacted)), "compaction topic")
            static = Command(
                513, {**created, "topic": "TopicStatic", "force": "false"}, body=json.dumps(detail).encode()
            )
            connection.require_success(connection.ask(static), "static topic")
            assert odd_topics(connection) == OddTopics(("TopicCompacted",), ("TopicStatic",))
        audit = auditor(server, topics='["Topic*"]')
        producer = server.client("produce", server.namesrv, "GID_STATIC", "TopicStatic", "CC,RR", "20", "0")
        producer.wait_for("done")
        truth = sent(producer)
        verdicts, _ = settled(audit, truth, "TopicStatic")
        assert verdicts == {id_: VERDICT_OF[plan] for id_, plan in truth.items()}
        assert "static_topics: read as this broker numbers their queues (R122): TopicStatic" in audit.err
        assert "compaction: not read" in audit.err
        (row,) = audit.house.rows("broker_set_up")
        assert row["set_ups"] == "compaction, static_topics"
        report(f"a static topic: 20 of 20, {Counter(verdicts.values())}; a compaction topic left out by name")


def test_a_broker_on_dledger_lands_live_and_its_store_is_refused(auditor):
    """R124: one node, which elects itself."""
    port = free_port()
    dledger = {"enableDLegerCommitLog": "true", "dLegerGroup": BROKER, "dLegerPeers": f"n0-127.0.0.1:{port}",
               "dLegerSelfId": "n0"}  # fmt: skip
    with real_rocketmq("5.5.0", **dledger) as server:
        audit = auditor(server, topics="[TopicA]")
        producer = server.client("produce", server.namesrv, "GID_DLEDGER", "TopicA", "CC,RR,CU,RU", "100", "20")
        producer.wait_for("done")
        truth = sent(producer)
        assert len(truth) == 100
        verdicts, evidence = settled(audit, truth, "TopicA")
        meant = {id_: "COMMITTED" if plan[0] == "C" else "ROLLED_BACK" for id_, plan in truth.items()}
        wrong = {id_: verdict for id_, verdict in verdicts.items() if verdict != meant[id_] and evidence[id_][0] < 2}
        assert not wrong
        (row,) = audit.house.rows("broker_set_up")
        assert row["set_ups"] == "dledger"
        store = str(server.directory / "store")
        assert main(["--conf", str(audit.conf), "land", "store", store, "--broker", "of-disk"]) == 3
        err = audit.capsys.readouterr().err
        assert "STORE_REFUSED" in err
        assert "dledger-n0/data" in err
        report(f"DLedger, one node: live {Counter(verdicts.values())} of 100, its store refused")


def test_a_broker_that_is_killed_and_started_again_is_read_on(rocketmq, auditor):
    audit = auditor(rocketmq, topics="[TopicD]")
    first = rocketmq.client("produce", rocketmq.namesrv, "GID_KILL", "TopicD", "CC,RR", "40", "0")
    first.wait_for("sent", count=40)
    audit.run(LAND)
    assert audit.count("message") > 0
    rocketmq.kill_broker()
    audit.run(LAND, status=3)
    assert "error BROKER_UNREACHABLE: " in audit.err  # or the name server has taken it off its list already
    rocketmq.start_broker()
    second = rocketmq.client("produce", rocketmq.namesrv, "GID_KILL", "TopicD", "CC,RR", "40", "0")
    second.wait_for("done")
    truth = sent(first, second)
    assert len(truth) == 80
    verdicts, evidence = settled(audit, truth, "TopicD")
    wrong = {}
    for id_, plan in truth.items():
        # A crash loses ops that were not flushed: those are asked again, a commit becomes visible twice (R76).
        if verdicts[id_] != becomes(plan, *evidence[id_]) or (evidence[id_][0] == 0) != (plan == "RR"):
            wrong[id_] = (plan, verdicts[id_], evidence[id_])
    assert not wrong
    assert not any(audit.count(f"queues_{change}") for change in ("shrank", "rebuilt"))
    assert not audit.house.rows("quarantine")
    report(f"{rocketmq.version}: after SIGKILL {Counter((truth[id_], verdict) for id_, verdict in verdicts.items())}")
    first.stop()
    second.stop()


def test_halves_whose_producer_is_gone_are_settled_from_postgresql_and_consumed_once(
    patient, auditor, postgresql, monkeypatch
):
    producer = patient.client("produce", patient.namesrv, "GID_ORDERS", "TopicB", "UU", "30", "0")
    producer.wait_for("done")
    ids = [id_ for _, id_ in producer.told("sent")]
    producer.kill()
    paid, failed, open_ = ids[:18], ids[18:27], ids[27:]
    rows = [*[(id_, "COMMITTED") for id_ in paid], *[(id_, "ROLLED_BACK") for id_ in failed]]
    values = ", ".join(f"('{id_}', '{state}')" for id_, state in rows)
    postgresql.query(
        "drop schema if exists shop cascade", "create schema shop",
        "create table shop.transaction_log (transaction_id text primary key, state text not null)",
        f"insert into shop.transaction_log values {values}",
    )  # fmt: skip
    monkeypatch.setenv("ORDERS_DATABASE_URL", postgresql.url)
    monkeypatch.setenv("PAY_AUTHORIZATION", "Bearer of-tests")
    consumer = patient.client("consume", patient.namesrv, "CG_ONCE", "TopicB")
    consumer.wait_for("done")
    audit = auditor(
        patient,
        "transaction_timeout: 1s\n" + settings_under("resolvers.md", "What to know before it runs every minute"),
    )
    audit.run(LAND)
    audit.house.reconcile(now=datetime.now(UTC))  # raises the checks
    send = "txmq resolve --to-broker --apply --namesrv 10.0.0.1:9876 --conf audit.yaml"
    audit.run(send)
    assert PASSWORD not in audit.out + audit.err
    counts = {name: audit.count(name) for name in ("asked", "commit", "rollback", "unknown", "no_answer", "accepted")}
    assert counts == {"asked": 30, "commit": 18, "rollback": 9, "unknown": 3, "no_answer": 0, "accepted": 27}
    assert "accepted is not visible yet" in audit.err
    assert Counter(audit.verdicts().values()) == {"PENDING": 30}, "accepted is not committed"
    audit.run(send)
    assert (audit.count("accepted"), audit.out.count("idle 1")) == (0, 2), "nothing is asked or sent twice"
    consumer.wait_for("got", count=18)
    audit.run(LAND)
    time.sleep(5)
    audit.run(LAND)
    assert audit.verdicts() == dict.fromkeys(paid, "COMMITTED") | dict.fromkeys(failed, "ROLLED_BACK") | dict.fromkeys(
        open_, "PENDING"
    )
    assert sorted(id_ for id_, *_ in consumer.told("got")) == sorted(paid), "each once, nothing else"
    audit.run(send)
    assert audit.count("accepted") == 0
    report(f"{patient.version}: {counts}, a real consumer got {len(consumer.told('got'))} messages, each once")
    consumer.stop()


def test_a_given_up_one_is_resumed_and_then_settled(rocketmq, auditor):
    audit = auditor(rocketmq, topics="[TopicC]")
    producer = rocketmq.client("produce", rocketmq.namesrv, "GID_PAY", "TopicC", "UU", "1", "0")
    producer.wait_for("done")
    ((_, id_),) = producer.told("sent")
    producer.kill()
    consumer = rocketmq.client("consume", rocketmq.namesrv, "CG_PAY", "TopicC")
    consumer.wait_for("done")

    def standing() -> str | None:
        audit.run(LAND)
        return audit.verdicts().get(id_)

    wait_until(lambda: standing() == "DISCARDED")
    audit.run(RESUME)
    assert audit.count("accepted") == 1
    standing()
    halves = [row for row in audit.house.rows("half_message") if row["transaction_id"] == id_]
    given_up = [row for row in audit.house.rows("trans_check_max_time") if row["transaction_id"] == id_]
    assert max(row["commit_log_offset"] for row in halves) > min(row["commit_log_offset"] for row in given_up)
    assert not consumer.told("got")
    audit.run(SETTLE, transaction_id=id_)
    assert audit.count("accepted") == 1
    consumer.wait_for("got")
    wait_until(lambda: standing() == "COMMITTED_AND_DISCARDED")
    assert [got for got, *_ in consumer.told("got")] == [id_]
    assert [row["transaction_id"] for row in audit.house.rows("message") if row["transaction_id"] == id_] == [id_]
    states = [(row["action"], row["state"], row["code"]) for row in audit.house.rows("broker_request")]
    assert Counter(states) == {
        ("resume", "sending", None): 1, ("resume", "accepted", 0): 1,
        ("commit", "sending", None): 1, ("commit", "accepted", 0): 1,
    }  # fmt: skip
    report(f"{rocketmq.version}: given up, resumed (code 0), committed (code 0), consumed once")
    consumer.stop()


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> Iterator[RealRocketmq]:
    """A broker that wants TLS and signed requests, and a user for it whose keys are in this process's environment."""
    user, word = "txmq", secrets.token_hex(16)
    monkeypatch.setenv("ACCESS_KEY", user)
    monkeypatch.setenv("SECRET_KEY", word)
    provider = "org.apache.rocketmq.auth.{0}.provider.{1}Provider"
    settings = {
        f"{what}{name}": value
        for what in ("authentication", "authorization")
        for name, value in {
            "Enabled": "true",
            "Provider": provider.format(what, f"Default{what.capitalize()}"),
            "MetadataProvider": provider.format(what, f"Local{what.capitalize()}Metadata"),
        }.items()
    }
    settings["initAuthenticationUser"] = json.dumps({"username": user, "password": word})
    settings["innerClientAuthenticationCredentials"] = json.dumps({"accessKey": user, "secretKey": word})
    with real_rocketmq(has_tls=True, transactionTimeOut="600000", **settings) as server:
        yield server


def test_a_broker_with_tls_and_acl_is_read_and_told_with_keys_from_the_environment(guarded, auditor, monkeypatch):
    producer = guarded.client("produce", guarded.namesrv, "GID_PAY", "TopicC", "CC,RR,UU", "9", "0")
    producer.wait_for("done")
    truth = sent(producer)
    keys = "access_key_env: ACCESS_KEY, secret_key_env: SECRET_KEY"
    tls = f"tls: true, ca_file: {guarded.certificate}, checks_host_name: false"
    # Spark's workers have the environment of the process that started Spark.
    audit = auditor(guarded, f"transaction_timeout: 600s\nrocketmq: {{{keys}, {tls}}}\n", "[TopicC]")
    audit.has_own_process = True
    audit.run(LAND)
    time.sleep(4)
    audit.run(LAND)
    expected = {id_: {"UU": "PENDING"}.get(plan, VERDICT_OF[plan]) for id_, plan in truth.items()}
    assert audit.verdicts() == expected
    undecided = next(id_ for id_, plan in truth.items() if plan == "UU")
    audit.run(SETTLE, transaction_id=undecided)
    assert audit.count("accepted") == 1
    wait_until(lambda: (audit.run(LAND), audit.verdicts()[undecided])[1] == "COMMITTED")
    monkeypatch.setenv("SECRET_KEY", "of nobody")
    audit.run(LAND, status=1)  # thresholds.unread
    assert (audit.count("unread") > 0, "check signature failed" in audit.err) == (True, True)
    report(f"{guarded.version}: TLS and ACL: {Counter(audit.verdicts().values())}; with a wrong key: {audit.err}")


def wait_until(holds: Callable[[], bool], seconds: float = 150) -> None:
    """Look again and again."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(2)


def report(words: str) -> None:
    """What was seen, for whoever runs this (`pytest -rP`)."""
    sys.stdout.write(f"{words}\n")
