"""Answers of name servers and brokers that are anything: what was asked for, or an error of remoting, never another."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable, Iterable
from random import Random

from fuzz.hostile import EDGE_NUMBERS, damaged, json_text, number, text, value

from txmq_lib.errors import RemotingError
from txmq_lib.names import OP_TOPIC
from txmq_lib.rocketmq.remoting.broker import (
    MESSAGES_PER_PULL,
    Queue,
    broker_config,
    max_offsets,
    odd_topics,
    pull_request,
    pulled,
)
from txmq_lib.rocketmq.remoting.connection import Access, Connection
from txmq_lib.rocketmq.remoting.frame import FLAG_RESPONSE, Command, encode
from txmq_lib.rocketmq.remoting.name_server import Route, routes, topics
from txmq_lib.rocketmq.remoting.producers import producers_now
from txmq_lib.rocketmq.remoting.queue_entries import listed
from txmq_lib.rocketmq.remoting.runtime import broker_runtime

QUEUE = Queue(OP_TOPIC, 0)


class Answered(Connection):
    """A connection whose peer has said these bytes, whatever it is asked, and will say nothing more."""

    def __init__(self, said: bytes) -> None:
        ours, self._peer = socket.socketpair()
        self._begin("127.0.0.1:10911", Access(timeout=2), ours)
        self._peer.sendall(said)
        self._peer.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        super().close()
        self._peer.close()


def remoting(chance: Random) -> int:
    """One request and one answer: whatever is taken from it can be sent again and stored."""
    ask, body = chance.choice(REQUESTS)
    said = _said(chance, body(chance))
    with Answered(said) as connection:
        try:
            found = list(ask(connection))
        except RemotingError as failure:
            failure.message.encode()
            return 1
    for each in found:
        str(each).encode()
    for each in filter(lambda one: isinstance(one, str), found):
        encode(Command(1, {"topic": each}))
    return 1


def frame_is_read_as_it_was_written(chance: Random) -> int:
    """What another client would send comes back as it was."""
    sent = Command(
        code=chance.randrange(-(2**31), 2**31),
        fields={
            text(chance, has_surrogates=False): text(chance, has_surrogates=False) for _ in range(chance.randrange(4))
        },
        body=chance.randbytes(chance.choice([0, 1, 300])),
        opaque=1,
        flag=FLAG_RESPONSE,
        remark=chance.choice([None, text(chance, has_surrogates=False)]),
    )
    with Answered(encode(sent)) as connection:
        assert connection.ask(Command(0)) == sent
    return 1


def _said(chance: Random, body: bytes) -> bytes:
    match chance.randrange(4):
        case 0:
            return damaged(chance, _frame(json.dumps(_header(chance)).encode(), body))
        case 1:
            return _frame(json_text(chance, value(chance)).encode(), body)
        case 2:
            odd = {**_header(chance), chance.choice(["code", "opaque", "flag", "extFields", "remark"]): value(chance)}
            return _frame(json_text(chance, odd).encode(), body)
        case _:
            return _frame(json.dumps(_header(chance)).encode(), body)


def _header(chance: Random) -> dict[str, object]:
    fields = {"offset": text(chance), "nextBeginOffset": str(number(chance)), "minOffset": text(chance)}
    return {
        "code": chance.choice([0, 0, 0, 1, 17]),
        "opaque": 1,
        "flag": 1,
        "extFields": fields,
        "remark": text(chance),
    }


def _frame(head: bytes, body: bytes) -> bytes:
    return struct.pack(">iI", 4 + len(head) + len(body), len(head)) + head + body


def _topic_list(chance: Random) -> bytes:
    listed_topics = [chance.choice([text(chance), value(chance)]) for _ in range(chance.randrange(4))]
    return json_text(chance, {"topicList": chance.choice([listed_topics, [text(chance)], value(chance)])}).encode()


def _route(chance: Random) -> bytes:
    queues = {"brokerName": text(chance), "readQueueNums": chance.choice([4, *EDGE_NUMBERS]), "perm": number(chance)}
    addresses = {"brokerName": text(chance), "brokerAddrs": chance.choice([{"0": text(chance)}, value(chance)])}
    route = {"queueDatas": [queues], "brokerDatas": [addresses], text(chance): value(chance)}
    if chance.random() < 0.4:
        route[chance.choice(["queueDatas", "brokerDatas"])] = value(chance)
    whole = json_text(chance, route).encode()
    return damaged(chance, whole) if chance.random() < 0.3 else whole


def _entries(chance: Random) -> bytes:
    entries = [{"physicOffset": number(chance), "physicSize": chance.choice([5, value(chance)])}]
    return json_text(chance, {"queueData": chance.choice([entries, value(chance)])}).encode()


def _producers(chance: Random) -> bytes:
    client = chance.choice([{"clientId": text(chance)}, {"clientId": value(chance)}, value(chance)])
    groups = {text(chance): chance.choice([[client], value(chance)])}
    whole = json_text(chance, {"data": chance.choice([groups, value(chance)])}).encode()
    return damaged(chance, whole) if chance.random() < 0.3 else whole


def _topic_configs(chance: Random) -> bytes:
    attributes = chance.choice([{"+cleanup.policy": chance.choice(["COMPACTION", value(chance)])}, value(chance)])
    table = {text(chance): chance.choice([{"attributes": attributes}, value(chance)])}
    document = {"topicConfigTable": chance.choice([table, value(chance)]), "topicQueueMappingDetailMap": value(chance)}
    return json_text(chance, chance.choice([document, value(chance)])).encode()


def _runtime(chance: Random) -> bytes:
    said = {"brokerVersionDesc": text(chance), "bootTimestamp": chance.choice([text(chance), "1764000000000", 5])}
    return json_text(chance, {"table": chance.choice([said, value(chance)])}).encode()


def _connected(connection: Connection) -> list[str]:
    clients_of_groups = producers_now(connection) or {}
    return [*clients_of_groups, *(client for clients in clients_of_groups.values() for client in clients)]


def _odd(connection: Connection) -> list[str]:
    odd = odd_topics(connection)
    return [*odd.compacted, *odd.static]


def _any(chance: Random) -> bytes:
    return chance.choice([b"", chance.randbytes(40), text(chance).encode("utf-8", "surrogatepass")])


def _pull(connection: Connection) -> list[object]:
    return [pulled(connection, connection.ask(pull_request("G", Queue("T", 0), 0, MESSAGES_PER_PULL)))]


REQUESTS: tuple[tuple[Callable[[Connection], Iterable[object]], Callable[[Random], bytes]], ...] = (
    (topics, _topic_list),
    (lambda connection: (name for _, route in routes(connection, ["T"]) if route for name in _names(route)), _route),
    (lambda connection: [listed(connection, QUEUE, 0, 8)], _entries),
    (lambda connection: broker_config(connection).values(), _any),
    (lambda connection: max_offsets(connection, [Queue("T", 0)]), _any),
    (_pull, _any),
    (_connected, _producers),
    (_odd, _topic_configs),
    (lambda connection: [broker_runtime(connection).version or ""], _runtime),
    (lambda connection: [connection.ask(Command(0)).remark or ""], _any),
)


def _names(route: Route) -> list[str]:
    return [
        *route.read_queues,
        *route.addresses,
        *(each for known in route.addresses.values() for each in known.values()),
    ]
