"""Name servers and brokers that flood or dawdle: memory, time and numbers have an end, for each answer and in total."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from remoting_server import FakeBroker, RemotingServer, Reply, Request, answer

from txmq_lib.config.settings import Settings
from txmq_lib.errors import ProtocolError, UnreachableError
from txmq_lib.names import HALF_TOPIC, OP_TOPIC
from txmq_lib.pipeline.land.broker_state import set_ups
from txmq_lib.pipeline.land.live.live_brokers import MOST_BROKERS, LiveBroker, live_brokers
from txmq_lib.rocketmq.remoting import connection as connections
from txmq_lib.rocketmq.remoting import name_server as name_servers
from txmq_lib.rocketmq.remoting.broker import (
    Queue,
    broker_config,
    max_offsets,
)
from txmq_lib.rocketmq.remoting.connection import Access, Connection
from txmq_lib.rocketmq.remoting.name_server import routes, topics
from txmq_lib.rocketmq.remoting.producers import MOST_CLIENTS, MOST_GROUPS, producers_now
from txmq_lib.rocketmq.remoting.queue_entries import listed
from txmq_lib.rocketmq.store.consumer_offset_file import parse_consumer_offsets

MIB = 1024 * 1024
PATIENT = Access(timeout=20)
POLICY = Settings.load().for_broker("b")


@contextmanager
def at_most(mib: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < mib * MIB, f"{peak / MIB:.0f} MiB"


@contextmanager
def connected(reply: Callable[[Request], Reply], access: Access = PATIENT) -> Iterator[Connection]:
    with RemotingServer(reply) as server, Connection(server.address, access) as connection:
        yield connection


def looked_up(reply: Callable[[Request], Reply], *names: str) -> list[LiveBroker]:
    with RemotingServer(reply) as server:
        return live_brokers([server.address], PATIENT, patterns=["*"], named=names)


def route(brokers: int = 1, queues: int = 4, name: str = "b{}") -> dict[str, object]:
    called = [name.format(number) for number in range(brokers)]
    return {
        "queueDatas": [{"brokerName": each, "readQueueNums": queues, "perm": 6} for each in called],
        "brokerDatas": [{"brokerName": each, "brokerAddrs": {"0": "127.0.0.1:10911"}} for each in called],
    }


def tells(topic_list: list[str], of_topic: dict[str, object]) -> FakeNameServer:
    return FakeNameServer(topic_list, json.dumps(of_topic).encode())


class FakeNameServer:
    def __init__(self, topic_list: list[str], body: bytes) -> None:
        self.topic_list, self.body = json.dumps({"topicList": topic_list}).encode(), body

    def __call__(self, request: Request) -> Reply:
        return answer(request, body=self.topic_list if request["code"] == 206 else self.body)


def test_answers_out_of_their_order_are_not_all_held():
    waiting: list[Request] = []

    def all_at_last(request: Request) -> Reply:
        waiting.append(request)
        if len(waiting) < 64:
            return b""
        return (answer(each, body=b"x" * 8 * MIB) for each in reversed(waiting))

    with connected(all_at_last) as connection, at_most(40), pytest.raises(ProtocolError):
        list(routes(connection, [f"T{n}" for n in range(64)]))


@pytest.mark.parametrize(
    "ask", [broker_config, lambda c: list(max_offsets(c, [Queue("T", 0)]))], ids=["config", "offset"]
)
def test_an_answer_larger_than_such_an_answer_can_be_is_not_read(ask):
    def large(request: Request) -> Reply:
        return answer(request, body=b"x=y\n" * 2 * MIB, offset=1)

    with connected(large) as connection, pytest.raises(ProtocolError, match="where 1048576 are the most"):
        ask(connection)


def test_so_many_topics_and_no_more():
    many = tells([f"T{n}" for n in range(name_servers.MOST_TOPICS + 1)], route())
    with connected(many) as connection, pytest.raises(ProtocolError, match="topics"):
        topics(connection)
    with connected(tells(["T" * 2000], route())) as connection, pytest.raises(ProtocolError, match="topic list"):
        topics(connection)


def test_so_many_queues_and_no_more():
    many = tells([HALF_TOPIC, OP_TOPIC], route(40, 100_000))
    with at_most(200), pytest.raises(ProtocolError, match=r"500,000 queues.*land\.topics"):
        looked_up(many)
    (found,) = looked_up(many, "b7")
    assert len(found.queues) == 200_000, "of brokers that nobody wants none is counted"


def test_so_many_brokers_and_no_more_and_none_with_a_name_of_a_megabyte():
    with pytest.raises(ProtocolError, match="1,000 brokers"):
        looked_up(tells([HALF_TOPIC], route(MOST_BROKERS + 1)))
    with pytest.raises(ProtocolError, match="route of"):
        looked_up(tells([HALF_TOPIC], route(1, name="b" * 100_000)))


class Lister(FakeBroker):
    """Tells of entries of one size, and sends records of another."""

    def __init__(self, stated_size: int, sent: int) -> None:
        super().__init__({})
        self.told, self.sent, self.records = stated_size, sent, 0

    def __call__(self, request: Request) -> Reply:
        if request["code"] == 321:
            count = int(request["extFields"]["count"])
            entries = [{"physicOffset": n, "physicSize": self.told} for n in range(count)]
            return answer(request, body=json.dumps({"queueData": entries}).encode())
        self.records += 1
        return answer(request, body=b"x" * self.sent)


def test_op_records_are_as_large_as_their_queue_says():
    with connected(Lister(stated_size=100, sent=12 * MIB)) as connection, at_most(60), pytest.raises(ProtocolError):
        listed(connection, Queue(OP_TOPIC, 0), 0, 256)


def test_no_more_op_records_are_asked_for_at_once_than_one_answer_may_hold():
    lister = Lister(stated_size=3 * MIB, sent=3 * MIB)
    with connected(lister) as connection, at_most(60):
        found = listed(connection, Queue(OP_TOPIC, 0), 7, 256)
        assert (lister.records, found.next_offset, len(found.body)) == (5, 12, 15 * MIB)


def test_a_peer_that_takes_nearly_all_its_time_for_each_answer_is_left_in_the_end(monkeypatch):
    monkeypatch.setattr(connections, "PATIENCE", 4)

    def late(request: Request) -> Reply:
        time.sleep(0.2)
        return answer(request, offset=1)

    with connected(late, Access(timeout=0.5)) as connection:
        begun = time.monotonic()
        with pytest.raises(UnreachableError, match="too slowly"):
            list(max_offsets(connection, [Queue("T", number) for number in range(100)]))
        assert 1.5 < time.monotonic() - begun < 6


def test_a_peer_that_answers_much_may_take_its_time(monkeypatch):
    monkeypatch.setattr(connections, "PATIENCE", 1)

    def late(request: Request) -> Reply:
        time.sleep(0.002)
        return answer(request, offset=1)

    with connected(late, Access(timeout=0.5)) as connection:
        assert len(list(max_offsets(connection, [Queue("T", number) for number in range(400)]))) == 400


@pytest.mark.parametrize("key", ["T@" + "G" * 500_000, "x" * 500_000], ids=["a long group", "no key"])
def test_an_offset_table_with_a_long_name_and_many_queues_takes_no_memory(key):
    queues = {str(number): (number if "@" in key else "none") for number in range(20_000)}
    data = json.dumps({"offsetTable": {key: queues, "T@G": {"0": 7}}}).encode()
    with at_most(120):
        found = parse_consumer_offsets(data)
    assert [(entry.group, entry.offset) for entry in found.entries] == [("G", 7)]
    assert found.bad
    assert all(len(bad.raw) < 10_000 for bad in found.bad)
    assert sum(len(bad.raw) for bad in found.bad) < 20 * MIB


def test_bad_entries_without_end_are_told_of_by_number():
    table = {"T" * 500 + "@" + "G" * 500: {str(number): "none" for number in range(200_000)}}
    with at_most(120):
        found = parse_consumer_offsets(json.dumps({"offsetTable": table}).encode())
    assert len(found.bad) == 10_001
    assert found.bad[-1].raw == "and 190000 more entries like the others"


@pytest.mark.parametrize(
    "groups",
    [{f"G{n}": [] for n in range(MOST_GROUPS + 1)}, {"G": [{"clientId": "c"}] * (MOST_CLIENTS + 1)}, {"G" * 1000: []}],
    ids=["groups", "clients", "a name"],
)
def test_so_many_connected_producers_and_no_more(groups):
    body = json.dumps({"data": groups}).encode()
    with (
        connected(lambda request: answer(request, body=body)) as connection,
        pytest.raises(ProtocolError, match="are the most"),
    ):
        producers_now(connection)


def test_what_a_broker_says_of_itself_is_cut():
    said = set_ups.found("k", "s", {"storeType": "x" * 9999, "brokerRole": "y" * 9999}, [], POLICY)
    assert (said["store_type"], said["broker_role"]) == ("x" * 64, "y" * 64)
