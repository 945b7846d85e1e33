"""What name servers know: which topics there are, and which broker has how many queues of each (F6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from txmq_lib.errors import ProtocolError, UnreachableError
from txmq_lib.rocketmq.lenient_json import json_object
from txmq_lib.rocketmq.remoting.connection import LARGE_ANSWER, TOPIC_NOT_EXIST, Access, Connection
from txmq_lib.rocketmq.remoting.frame import Command

GET_ROUTEINFO_BY_TOPIC: Final = 105
GET_ALL_TOPIC_LIST: Final = 206
MASTER_ID: Final = "0"

_PERM_READ: Final = 0x4
_MOST_QUEUES: Final = 100_000  # of one topic on one broker; anything above is no route
MOST_TOPICS: Final = 100_000
LONGEST_NAME: Final = 512  # of a topic, broker or address; RocketMQ takes 255 bytes, and puts some before them


@dataclass(frozen=True)
class Route:
    """Where a topic is: per broker name how many queues may be read (0: may not), and the addresses by broker id."""

    read_queues: Mapping[str, int]
    addresses: Mapping[str, Mapping[str, str]]

    def master(self, broker_name: str) -> str | None:
        """The address of a broker's master; None where it has none now."""
        return self.addresses.get(broker_name, {}).get(MASTER_ID)


@contextmanager
def name_server(addresses: Sequence[str], access: Access) -> Iterator[Connection]:
    """A connection to the first name server that answers; UnreachableError naming them all where none does."""
    connection = _first_reached(addresses, access)
    with connection:
        yield connection


def _first_reached(addresses: Sequence[str], access: Access) -> Connection:
    faults = []
    for address in addresses:
        try:
            return Connection(address, access)
        except UnreachableError as failure:
            faults.append(failure.message)
    raise UnreachableError(f"no name server answers: {'; '.join(faults)}")


def topics(connection: Connection) -> list[str]:
    """Every topic that is registered."""
    answer = connection.ask(Command(GET_ALL_TOPIC_LIST), most_bytes=LARGE_ANSWER)
    connection.require_success(answer, "topic list")
    found = _document(connection, answer.body).get("topicList")
    if not isinstance(found, list) or not all(isinstance(topic, str) and len(topic) <= LONGEST_NAME for topic in found):
        raise ProtocolError(f"{connection.address}: a topic list that is none")
    if len(found) > MOST_TOPICS:
        raise ProtocolError(f"{connection.address}: tells of {len(found):,} topics, where {MOST_TOPICS:,} are the most")
    return found


def routes(connection: Connection, topics_: Iterable[str]) -> Iterator[tuple[str, Route | None]]:
    """The route of each topic, None where it has none."""
    names = list(topics_)
    requests = (Command(GET_ROUTEINFO_BY_TOPIC, {"topic": topic, "acceptStandardJsonOnly": "true"}) for topic in names)
    for topic, answer in zip(names, connection.ask_all(requests), strict=True):
        if answer.code == TOPIC_NOT_EXIST:
            yield topic, None
            continue
        connection.require_success(answer, f"route of {topic}")
        document = _document(connection, answer.body)
        try:
            yield topic, _route(document)
        except (KeyError, TypeError, ValueError) as fault:
            raise ProtocolError(f"{connection.address}: route of {topic}: {fault} is missing or wrong") from None


def _document(connection: Connection, body: bytes) -> dict[str, object]:
    document = json_object(body)
    if document is None:
        raise ProtocolError(f"{connection.address}: a body that is no JSON object")
    return document


def _route(document: Mapping[str, object]) -> Route:
    queues: dict[str, int] = {}
    for data in _objects(document, "queueDatas"):
        count, perm = data["readQueueNums"], data["perm"]
        if type(count) is not int or type(perm) is not int or not 0 <= count <= _MOST_QUEUES:
            raise ValueError("a number of queues")
        queues[_name(data["brokerName"])] = count if perm & _PERM_READ else 0
    addresses = {}
    for data in _objects(document, "brokerDatas"):
        known = data["brokerAddrs"]
        if not isinstance(known, dict):
            raise ValueError("addresses")
        addresses[_name(data["brokerName"])] = {_name(id_): _name(address) for id_, address in known.items()}
    return Route(queues, addresses)


def _name(field: object) -> str:
    name = str(field)
    if len(name) > LONGEST_NAME:
        raise ValueError("a name")
    return name


def _objects(document: Mapping[str, object], name: str) -> list[Mapping[str, object]]:
    found = document.get(name) or []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ValueError(name)
    return found
