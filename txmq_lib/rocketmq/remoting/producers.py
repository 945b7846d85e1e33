"""Which producers are connected to a broker (R130): all groups at once, or one at a time; bounded. Decides nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from txmq_lib.errors import ProtocolError
from txmq_lib.rocketmq.lenient_json import json_object
from txmq_lib.rocketmq.remoting.connection import LARGE_ANSWER, Connection
from txmq_lib.rocketmq.remoting.frame import Command

GET_PRODUCER_CONNECTION_LIST: Final = 204
GET_ALL_PRODUCER_INFO: Final = 328
SYSTEM_ERROR: Final = 1
NOT_SUPPORTED: Final = 3

LONGEST_CLIENT_ID: Final = 255
LONGEST_GROUP: Final = 512  # RocketMQ takes 255 bytes
MOST_GROUPS: Final = 10_000
MOST_CLIENTS: Final = 100_000  # of all groups


def producers_now(connection: Connection) -> dict[str, tuple[str, ...]] | None:
    """Ids of the clients that are connected now, by producer group (R130); None of a broker that does not tell.

    ProtocolError where it tells of more than MOST_GROUPS or MOST_CLIENTS, or of a group with no such name.
    """
    answer = connection.ask(Command(GET_ALL_PRODUCER_INFO), most_bytes=LARGE_ANSWER)
    if answer.code == NOT_SUPPORTED:
        return None
    connection.require_success(answer, "producers")
    document = json_object(answer.body)
    groups = None if document is None else document.get("data")
    if not isinstance(groups, dict):
        raise ProtocolError(f"{connection.address}: producers that are no JSON object of groups")
    clients = sum(len(each) for each in groups.values() if isinstance(each, list))
    if len(groups) > MOST_GROUPS or clients > MOST_CLIENTS or any(len(group) > LONGEST_GROUP for group in groups):
        raise ProtocolError(
            f"{connection.address}: {len(groups):,} producer groups with {clients:,} clients, where {MOST_GROUPS:,}, "
            f"{MOST_CLIENTS:,} and names of {LONGEST_GROUP} characters are the most"
        )
    return {group: tuple(_client_ids(clients)) for group, clients in groups.items()}


def producers_of(connection: Connection, groups: Iterable[str]) -> dict[str, tuple[str, ...]] | None:
    """Ids of the clients of each of these producer groups that are connected now (R130), asked group by group.

    None of a broker that does not know the request; ProtocolError where it tells of more than MOST_CLIENTS.
    """
    found: dict[str, tuple[str, ...]] = {}
    names = list(groups)
    requests = (Command(GET_PRODUCER_CONNECTION_LIST, {"producerGroup": name}) for name in names)
    for name, answer in zip(names, connection.ask_all(requests), strict=True):
        if answer.code == NOT_SUPPORTED:
            return None
        if answer.code == SYSTEM_ERROR and (answer.remark or "").endswith("not exist"):
            found[name] = ()  # no client of it has come, or all have gone
            continue
        connection.require_success(answer, f"producers of {name}")
        document = json_object(answer.body)
        if document is None:
            raise ProtocolError(f"{connection.address}: producers of a group that are no JSON object")
        found[name] = tuple(_client_ids(document.get("connectionSet")))
        if sum(len(clients) for clients in found.values()) > MOST_CLIENTS:
            raise ProtocolError(f"{connection.address}: more than {MOST_CLIENTS:,} clients of producer groups")
    return found


def _client_ids(clients: object) -> Iterator[str]:
    for client in clients if isinstance(clients, list) else ():
        client_id = client.get("clientId") if isinstance(client, dict) else None
        if isinstance(client_id, str):
            yield client_id[:LONGEST_CLIENT_ID]
