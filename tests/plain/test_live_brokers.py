"""Which live brokers and queues are read, and up to where: the order of the questions, the bound, what has changed."""

from __future__ import annotations

import json
from datetime import datetime
from threading import Barrier

import pytest
from moment import NOW
from record_encoder import STORE_MS, encode_record
from remoting_server import FakeBroker, RemotingServer, answer

from txmq_lib.config.settings import Settings
from txmq_lib.errors import ProtocolError, RefusedError, SettingsError, UnreachableError, UsageError
from txmq_lib.pipeline.land.broker_state.broker_settings import conf_findings, live_findings
from txmq_lib.pipeline.land.live import broker_plan
from txmq_lib.pipeline.land.live.broker_reading import BrokerReading
from txmq_lib.pipeline.land.live.brokers_plan import Asking
from txmq_lib.pipeline.land.live.live_brokers import LiveBroker, access_of, is_wanted, live_brokers
from txmq_lib.pipeline.land.live.live_ranges import KnownQueue, plan_queues
from txmq_lib.rocketmq.remoting.broker import Queue
from txmq_lib.rocketmq.remoting.connection import Access, Connection
from txmq_lib.rocketmq.remoting.producers import producers_now, producers_of
from txmq_lib.rocketmq.store.broker_conf import read_broker_conf

HALF, OP, GIVEN_UP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"
ACCESS = Access(timeout=2)


def stored(count: int, *, topic: str = "TopicA", store_ms: int = STORE_MS) -> list[bytes]:
    return [
        encode_record(1000 * offset, topic=topic.encode(), queue_offset=offset, store_ms=store_ms)
        for offset in range(count)
    ]


def planned(fake: FakeBroker, known: dict | None = None, *, most: int = 10**6, **options):
    queues = [Queue(*queue) for queue in fake.queues]
    with RemotingServer(fake) as server, Connection(server.address, ACCESS) as peer:
        plans, refusals = plan_queues(peer, "TXMQ_READER", queues, known or {}, most=most, **options)
    return {plan.queue: plan for plan in plans}, refusals, server.requests


def spans(plans) -> dict[str, tuple[int, int]]:
    return {queue.topic: (plan.start, plan.stop) for queue, plan in plans.items()}


def test_halves_are_cut_first_then_ops_then_given_up_then_real_topics():
    fake = FakeBroker({("TopicA", 0): [], (GIVEN_UP, 0): [], (OP, 0): [], ("TopicB", 3): [], (HALF, 0): []})
    topics = []

    def busy_broker(request):
        # The broker goes on while it is asked: each half that is there when HALF is cut was decided before OP is.
        if request["code"] == 30:
            topics.append(request["extFields"]["topic"])
            for records in fake.queues.values():
                records.append(b"")

    fake.before = busy_broker
    plans, _, _ = planned(fake)
    assert [topic for topic in topics if topic in (HALF, OP, GIVEN_UP)] == [HALF, OP, GIVEN_UP]
    assert topics[:3] == [HALF, OP, GIVEN_UP]
    assert sorted(topics[3:]) == ["TopicA", "TopicB"]
    ends = {queue.topic: plan.stop for queue, plan in plans.items()}
    assert ends[HALF] < ends[OP] < ends[GIVEN_UP] < min(ends["TopicA"], ends["TopicB"])


def test_reading_goes_on_where_the_last_live_record_was_and_files_hide_nothing_below():
    fake = FakeBroker({("TopicA", 0): stored(50), ("TopicB", 0): stored(50), ("TopicC", 0): stored(50)})
    known = {Queue("TopicA", 0): KnownQueue(20, 0, (19, 19_000, STORE_MS)), Queue("TopicB", 0): KnownQueue(30, 0, None)}
    plans, _, _ = planned(fake, known)
    assert spans(plans) == {"TopicA": (20, 50), "TopicB": (0, 50), "TopicC": (0, 50)}
    assert {plan.change for plan in plans.values()} == {None}


def test_messages_deleted_before_anybody_read_them_are_counted():
    fake = FakeBroker({(topic, 0): stored(50, topic=topic) for topic in ("TopicA", "TopicB")})
    fake.lowest = {("TopicA", 0): 30, ("TopicB", 0): 8}
    plans, _, _ = planned(fake, {Queue("TopicA", 0): KnownQueue(20, 0, (19, 19_000, STORE_MS))})
    assert spans(plans) == {"TopicA": (30, 50), "TopicB": (8, 50)}
    assert {queue.topic: plan.lost for queue, plan in plans.items()} == {"TopicA": 10, "TopicB": 8}


def test_what_was_deleted_before_the_tables_last_heard_of_a_queue_is_not_counted_again():
    fake = FakeBroker({(topic, 0): stored(50) for topic in ("TopicA", "TopicB")})
    fake.lowest = {("TopicA", 0): 40, ("TopicB", 0): 45}
    # Nothing of them was left when they were read last, and so no record to go on behind.
    known = {Queue(topic, 0): KnownQueue(40, 40, (19, 19_000, STORE_MS)) for topic in ("TopicA", "TopicB")}
    plans, _, _ = planned(fake, known)
    assert spans(plans) == {"TopicA": (40, 50), "TopicB": (45, 50)}
    assert {queue.topic: plan.lost for queue, plan in plans.items()} == {"TopicA": 0, "TopicB": 5}


def test_a_queue_that_shrank_or_holds_other_records_is_read_from_its_start():
    fake = FakeBroker(
        {
            ("TopicA", 0): stored(10),
            ("TopicB", 0): stored(50, topic="TopicB", store_ms=STORE_MS + 1),
            ("C", 0): stored(5),
        }
    )
    known = {
        Queue("TopicA", 0): KnownQueue(20, 0, (19, 19_000, STORE_MS)),
        Queue("TopicB", 0): KnownQueue(20, 0, (19, 19_000, STORE_MS)),
        Queue("C", 0): KnownQueue(6, 0, None),
    }
    plans, _, _ = planned(fake, known)
    assert spans(plans) == {"TopicA": (0, 10), "TopicB": (0, 50), "C": (0, 5)}
    assert {queue.topic: plan.change for queue, plan in plans.items()} == {
        "TopicA": "shrank", "TopicB": "rebuilt", "C": "shrank",
    }  # fmt: skip


@pytest.mark.parametrize(("landed", "change"), [((19, 19_000), None), ((19, 19_001), "rebuilt"), ((9, 9_000), None)])
def test_what_files_brought_is_looked_for_before_a_queue_is_first_read_live(landed, change):
    """A topic made anew may have as many messages as the old one had, and they are others."""
    known = {Queue("TopicA", 0): KnownQueue(landed[0] + 1, 0, None, landed=landed)}
    plans, _, _ = planned(FakeBroker({("TopicA", 0): stored(20)}), known)
    assert spans(plans) == {"TopicA": (0, 20)}
    assert plans[Queue("TopicA", 0)].change == change


NO_TIME = 2**61
TORN = encode_record(19_000, queue_offset=19)[:4] + bytes(4)


@pytest.mark.parametrize(
    ("there", "identity", "change"),
    [
        # Its store time could not be kept.
        (encode_record(19_000, queue_offset=19, store_ms=NO_TIME), (19, 19_000, None), None),
        (encode_record(19_001, queue_offset=19, store_ms=NO_TIME), (19, 19_000, None), "rebuilt"),
        (encode_record(19_000, queue_offset=19), (19, 19_000, None), "rebuilt"),
        # It could not be read at all, or said that it lies elsewhere.
        (TORN, (19, None, None), None),
        (encode_record(19_000, queue_offset=4711), (19, None, None), None),
        (encode_record(19_000, queue_id=1, queue_offset=19), (19, None, None), None),
        (encode_record(19_000, queue_offset=19), (19, None, None), "rebuilt"),
        (encode_record(19_000, queue_offset=4711), (19, 19_000, STORE_MS), "rebuilt"),
        (encode_record(19_000, queue_id=1, queue_offset=19), (19, 19_000, STORE_MS), "rebuilt"),
    ],
)
def test_a_bad_record_that_was_read_last_is_known_again(there, identity, change):
    records = stored(50)
    records[19] = there
    plans, _, _ = planned(FakeBroker({("TopicA", 0): records}), {Queue("TopicA", 0): KnownQueue(20, 0, identity)})
    assert spans(plans) == {"TopicA": (0 if change else 20, 50)}
    assert plans[Queue("TopicA", 0)].change == change


def test_a_queue_that_may_not_be_looked_into_does_not_hold_up_the_others():
    fake = FakeBroker({(topic, 0): stored(50, topic=topic) for topic in ("TopicA", "TopicB")})
    fake.before = lambda request: (
        answer(request, 16, remark="denied")
        if request["code"] == 11 and request["extFields"]["topic"] == "TopicB"
        else None
    )
    known = {Queue(topic, 0): KnownQueue(20, 0, (19, 19_000, STORE_MS)) for topic in ("TopicA", "TopicB")}
    plans, _, _ = planned(fake, known)
    assert spans(plans) == {"TopicA": (20, 50), "TopicB": (20, 50)}


@pytest.mark.parametrize(("store_ms", "change"), [(STORE_MS, None), (STORE_MS + 1, "rebuilt")])
def test_an_op_queue_that_may_not_be_pulled_is_looked_into_all_the_same(store_ms, change):
    fake = FakeBroker({(OP, 0): stored(50, topic=OP, store_ms=store_ms), ("TopicA", 0): stored(50)})
    fake.unregistered = {OP}
    fake.lowest = {(OP, 0): 8}
    known = {Queue(topic, 0): KnownQueue(20, 0, (19, 19_000, STORE_MS)) for topic in (OP, "TopicA")}
    plans, _, _ = planned(fake, known)
    assert spans(plans) == {OP: (8 if change else 20, 50), "TopicA": (20, 50)}
    assert plans[Queue(OP, 0)].change == change


def test_a_queue_where_nothing_is_new_is_not_looked_into():
    fake = FakeBroker({("TopicA", 0): stored(20)})
    plans, _, requests = planned(fake, {Queue("TopicA", 0): KnownQueue(20, 0, (19, 19_000, STORE_MS))})
    assert spans(plans) == {"TopicA": (20, 20)}
    assert [request["code"] for request in requests] == [30, 31]


@pytest.mark.parametrize(("store_ms", "change"), [(STORE_MS, None), (STORE_MS + 1, "rebuilt")])
def test_after_a_boot_a_queue_that_ends_where_it_ended_is_looked_into(store_ms, change):
    """R128: the new master has as many messages as the old one had, and they are others."""
    fake = FakeBroker({("TopicA", 0): stored(20, store_ms=store_ms)})
    known = {Queue("TopicA", 0): KnownQueue(20, 0, (19, 19_000, STORE_MS))}
    plans, _, _ = planned(fake, known, looks_at_all=True)
    assert spans(plans) == {"TopicA": (0 if change else 20, 20)}
    assert plans[Queue("TopicA", 0)].change == change


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (1000, {HALF: 40, OP: 10, "TopicA": 100, "TopicB": 30}),
        (150, {HALF: 10, OP: 10, "TopicA": 100, "TopicB": 30}),
        (60, {HALF: 0, OP: 10, "TopicA": 25, "TopicB": 25}),
        (3, {HALF: 0, OP: 1, "TopicA": 1, "TopicB": 1}),
    ],
)
def test_a_run_is_bounded_and_halves_come_last(most, expected):
    sizes = {HALF: 40, OP: 10, "TopicA": 100, "TopicB": 30}
    plans, _, _ = planned(FakeBroker({(topic, 0): stored(size) for topic, size in sizes.items()}), most=most)
    assert {topic: stop - start for topic, (start, stop) in spans(plans).items()} == expected
    assert [queue.topic for queue, plan in plans.items() if plan.is_whole] == [
        topic for topic in plans_order(plans) if expected[topic] == sizes[topic]
    ]


def plans_order(plans) -> list[str]:
    return [queue.topic for queue in plans]


@pytest.mark.parametrize("code", [30, 31])
def test_a_queue_that_refuses_is_told_and_the_others_are_planned(code):
    fake = FakeBroker({("TopicA", 0): stored(5), ("TopicB", 0): stored(5)})
    fake.before = lambda request: (
        answer(request, 16, remark="denied")
        if request["code"] == code and request["extFields"].get("topic") == "TopicB"
        else None
    )
    plans, (refusal,), _ = planned(fake)
    assert spans(plans) == {"TopicA": (0, 5)}
    assert isinstance(refusal, RefusedError)
    assert "TopicB queue 0: code 16, denied" in str(refusal)


# --- brokers


def name_server(routes: dict[str, dict[str, int]], masters: dict[str, str]):
    """Answers of a name server: topic -> broker -> readable queues; broker -> address of its master."""

    def reply(request):
        if request["code"] == 206:
            return answer(request, body=json.dumps({"topicList": [*routes]}).encode())
        queues = routes[request["extFields"]["topic"]]
        document = {
            "queueDatas": [
                {"brokerName": b, "readQueueNums": n, "writeQueueNums": n, "perm": 6 if n else 2}
                for b, n in queues.items()
            ],
            "brokerDatas": [
                {"brokerName": b, "cluster": "c", "brokerAddrs": {"0": masters[b]} if b in masters else {"1": "x:1"}}
                for b in queues
            ],
        }
        return answer(request, body=json.dumps(document).encode())

    return reply


ROUTES = {
    HALF: {"a": 1, "b": 1}, OP: {"a": 1, "b": 1}, "TopicA": {"a": 2}, "TopicB": {"a": 1, "b": 0, "plain": 4},
    "rmq_sys_SYNC_BROKER_MEMBER_a": {"a": 0}, "TBW102": {"a": 8}, "%RETRY%CG": {"b": 1},
}  # fmt: skip


def test_brokers_with_half_messages_are_found_with_their_wanted_queues():
    with RemotingServer(name_server(ROUTES, {"a": "h:1"})) as server:
        a, b = live_brokers([server.address], ACCESS, patterns=["*"])
        (only_b,) = live_brokers([server.address], ACCESS, patterns=["TopicA"], named=["b"])
        with pytest.raises(UsageError, match="know no broker x; they know a, b, plain"):
            live_brokers([server.address], ACCESS, patterns=["*"], named=["x"])
    assert (a.name, a.address, a.unreadable) == ("a", "h:1", ())
    assert sorted(a.queues) == [(HALF, 0), (OP, 0), ("TopicA", 0), ("TopicA", 1), ("TopicB", 0)]
    assert (b.name, b.address, b.unreadable) == ("b", None, ("TopicB",))
    assert sorted(b.queues) == [("%RETRY%CG", 0), (HALF, 0), (OP, 0)]
    assert sorted(only_b.queues) == [(HALF, 0), (OP, 0)]


def test_op_queues_that_no_name_server_tells_of_are_those_of_the_halves():
    old = {HALF: {"a": 2, "b": 1, "c": 1}, OP: {"b": 1, "c": 0}, "TopicA": {"plain": 4}}
    with RemotingServer(name_server(old, {"a": "h:1"})) as server:
        a, b, c = live_brokers([server.address], ACCESS, patterns=["*"])
        (plain,) = live_brokers([server.address], ACCESS, patterns=["*"], named=["plain"])
    assert sorted(a.queues) == [(HALF, 0), (HALF, 1), (OP, 0), (OP, 1)]
    assert sorted(b.queues) == [(HALF, 0), (OP, 0)]
    assert (c.queues, c.unreadable) == (((HALF, 0),), (OP,))
    assert {queue.topic for queue in plain.queues} == {"TopicA"}


def test_the_topics_of_transactions_are_always_wanted_and_those_of_the_system_never():
    for topic in (HALF, OP, GIVEN_UP, "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"):
        assert is_wanted(topic, ["Nothing"])
    for topic in ("TBW102", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_REVIVE_LOG_c", "SELF_TEST_TOPIC"):
        assert not is_wanted(topic, ["*"])
    assert is_wanted("TopicA", ["Topic?"])
    assert not is_wanted("Other", ["Topic?"])


def test_keys_come_from_the_environment_and_both_are_missed_at_once():
    settings = Settings.load(
        assignments=["rocketmq.access_key_env=AK", "rocketmq.secret_key_env=SK", "rocketmq.timeout=1s"]
    )
    assert access_of(settings, {"AK": "a", "SK": "s"}).credentials.secret_key == "s"
    with pytest.raises(SettingsError) as missing:
        access_of(settings, {})
    assert [fault.split(":")[0] for fault in missing.value.faults] == [
        "rocketmq.access_key_env",
        "rocketmq.secret_key_env",
    ]
    assert access_of(Settings.load(), {}) == Access(3.0)
    with pytest.raises(SettingsError, match="both of access_key_env and secret_key_env"):
        access_of(Settings.load(assignments=["rocketmq.access_key_env=AK"]), {"AK": "a"})
    with pytest.raises(SettingsError, match="the broker's own check cursors"):
        Settings.load(assignments=["rocketmq.consumer_group=CID_RMQ_SYS_TRANS"])


# --- settings of a broker

CONFIG = {
    "transactionTimeOut": "6000", "transactionCheckInterval": "60000", "transactionCheckMax": "15",
    "fileReservedTime": "72", "flushDiskType": "SYNC_FLUSH", "transRocksDBEnable": "false",
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ({}, None),
        ({"transactionTimeOut": "2000"}, "transactionTimeOut is 2s, and transaction_timeout here is 6s"),
        ({"transactionCheckInterval": "30000"}, "transactionCheckInterval is 30s, and transaction_check_interval here is 1m"),
        ({"transactionCheckMax": "3"}, "transactionCheckMax is 3, and transaction_check_max here is 15"),
        ({"fileReservedTime": "48"}, "fileReservedTime is 48h, and file_reserved_time here is 72h"),
        ({"flushDiskType": "ASYNC_FLUSH"}, "flushDiskType is ASYNC_FLUSH: a crash loses"),
        ({"transRocksDBEnable": "true"}, None),
        ({"transRocksDBEnable": "true", "transWriteOriginTransHalfEnable": "false"}, "rocksdb_halves: "),
        ({"enableControllerMode": "true"}, "controller: it is under a controller"),
        ({"brokerRole": "SLAVE"}, "slave: it acts for a master that is gone"),
        ({"brokerRole": "ASYNC_MASTER"}, None),
        ({"transactionTimeOut": "soon", "fileReservedTime": "9" * 400}, None),
    ],
)  # fmt: skip
def test_what_differs_in_the_settings_of_a_broker_is_told(config, found):
    settings = Settings.load(assignments=["role=audit"])
    findings = list(live_findings({**CONFIG, **config}, settings.for_broker("a")))
    assert len(findings) == (found is not None)
    assert all(words.startswith(found) for words in findings)
    assert list(live_findings({}, settings.for_broker("a"))) == []


def test_a_live_broker_in_the_engine_role_is_told():
    assert list(live_findings(CONFIG, Settings.load().for_broker("a"))) == [
        "its role here is engine, and a live broker decides by itself: give it role: audit"
    ]


def test_what_a_broker_conf_does_not_set_is_as_rocketmq_has_it():
    policy = Settings.load(assignments=["transaction_timeout=2s"]).for_broker("a")
    assert list(conf_findings({"flushDiskType": "SYNC_FLUSH"}, policy)) == [
        "transactionTimeOut is 6s, and transaction_timeout here is 2s"
    ]
    (words,) = conf_findings({"transactionTimeOut": "2000"}, policy)
    assert words.startswith("flushDiskType is ASYNC_FLUSH: a crash loses")


def test_a_broker_conf_is_found_in_a_store_or_beside_it_and_read_as_java_reads_it(tmp_path):
    store = tmp_path / "store"
    store.mkdir()
    assert read_broker_conf(str(store)) is None
    beside, inside = tmp_path / "broker.conf", store / "broker.conf"
    beside.write_bytes(b"# c\n! c=1\n\n a = 1 \nb:2\nc 3\r\nd==4\ne\na=5\n\xff=6\n=7\n")
    settings = {"a": "5", "b": "2", "c": "3", "d": "=4", "e": "", "\ufffd": "6", "": "7"}
    assert read_broker_conf(str(store)) == (str(beside), settings)
    inside.write_text("a=8", encoding="utf-8")
    assert read_broker_conf(str(store)) == (str(inside), {"a": "8"})


def test_all_brokers_are_asked_at_once_and_what_one_meets_is_its_own(monkeypatch):
    together = Barrier(3)

    def plan(known: dict, settings: Settings, reading: BrokerReading, now: datetime) -> dict[str, str]:
        together.wait(timeout=20)
        if reading.broker.name == "b":
            raise UnreachableError("b is down")
        return {"broker_name": reading.broker.name, "known": known[reading.broker.name]}

    monkeypatch.setattr(broker_plan, "plan", plan)
    readings = [BrokerReading(LiveBroker(name, "127.0.0.1:1", (), ()), Access()) for name in "abc"]
    known = {name: f"what is known of {name}" for name in "abc"}
    asking = Asking(Settings.load(), NOW, lambda name: [LiveBroker(name, None, (), ())])
    plans = asking.plans(known, readings)
    assert plans == [{"broker_name": name, "known": f"what is known of {name}"} for name in "ac"]
    assert [words for reading in readings for words in reading.findings] == ["broker b: not read: b is down"]
    assert [reading.failure is None for reading in readings] == [True, False, True]
    together = Barrier(1)
    with pytest.raises(UnreachableError, match="b is down"):
        asking.plans(known, readings[1:2])


PRODUCERS = [
    (b'{"data":{"G":[{"clientId":"10.0.0.9@1","version":1}],"H":[]}}', {"G": ("10.0.0.9@1",), "H": ()}),
    (b'{"data":{}}', {}),
    (b'{"data":{"G":null,"H":"x","I":[null,1,{},{"clientId":7}]}}', {"G": (), "H": (), "I": ()}),
    (b'{"data":{"G":[{"clientId":"' + b"c" * 300 + b'"}]}}', {"G": ("c" * 255,)}),
    (b'{"data":{"\\ud800":[{"clientId":"\\udfff"}]}}', {"?": ("?",)}),
    (b'{"data":[]}', None),
    (b"[]", None),
    (b"", None),
    (b"[" * 100_000, None),
]


@pytest.mark.parametrize(("body", "found"), PRODUCERS, ids=lambda value: str(value)[:40])
def test_connected_producers_are_those_that_can_be_made_out(body, found):
    with (
        RemotingServer(lambda request: answer(request, body=body)) as server,
        Connection(server.address, ACCESS) as connection,
    ):
        if found is None:
            with pytest.raises(ProtocolError, match="producers that are no JSON object of groups"):
                producers_now(connection)
        else:
            assert producers_now(connection) == found


def test_a_broker_that_does_not_know_the_request_tells_nothing_of_producers():
    with RemotingServer(lambda request: answer(request, 3)) as server, Connection(server.address, ACCESS) as connection:
        assert producers_now(connection) is None
        assert producers_of(connection, ["G"]) is None


def by_group(request):
    """As a broker before 4.9.3 answers: it knows GET_PRODUCER_CONNECTION_LIST (204) alone."""
    if request["code"] != 204:
        return answer(request, 3, remark="request type not supported")
    bodies = {"G": b'{"connectionSet":[{"clientId":"b"},{"clientId":"a","version":1},{}]}', "EMPTY": b"{}", "BAD": b"["}
    group = request["extFields"]["producerGroup"]
    if group == "FAILS":
        return answer(request, 1, remark="something else")
    return (
        answer(request, body=bodies[group])
        if group in bodies
        else answer(request, 1, remark=f"the producer group[{group}] not exist")
    )


def test_an_older_broker_tells_of_the_producers_of_one_group_at_a_time():
    with RemotingServer(by_group) as server, Connection(server.address, ACCESS) as connection:
        assert producers_now(connection) is None
        assert producers_of(connection, ["G", "GONE", "EMPTY"]) == {"G": ("b", "a"), "GONE": (), "EMPTY": ()}
        assert producers_of(connection, []) == {}
        with pytest.raises(ProtocolError, match="producers of a group that are no JSON object"):
            producers_of(connection, ["G", "BAD"])
        with pytest.raises(RefusedError, match="something else"):
            producers_of(connection, ["FAILS"])


def test_a_broker_that_has_left_the_name_servers_since_it_was_listed_is_none_to_go_on_with():
    moved = LiveBroker("broker-a", "127.0.0.1:2", (), ())
    assert Asking(Settings.load(), NOW, lambda name: [moved])._found_again("broker-a") is moved

    def unknown(name: str) -> list[LiveBroker]:
        raise UsageError(f"the name servers know no broker {name}; they know none")

    assert Asking(Settings.load(), NOW, unknown)._found_again("broker-a") is None
