"""Several brokers of this process under one name server, each with the queues that it is told to serve."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from remoting_server import FakeBroker, RemotingServer, Reply, Request, answer, routed

Queues = dict[tuple[str, int], list[bytes]]


@dataclass
class Member:
    """A broker of the cluster.

    offsets    its table of consumer offsets
    untold     topics of which the name server tells nothing
    interrupt  answers otherwise, where it gives something
    """

    broker: FakeBroker
    server: RemotingServer
    offsets: dict[str, dict[str, int]] = field(default_factory=dict)
    untold: set[str] = field(default_factory=set)
    interrupt: Callable[[Request], Reply | None] = lambda request: None

    def refuse(self, topic: str) -> None:
        """Let nobody pull the topic."""
        self.interrupt = lambda request: (
            answer(request, 16, remark="no permission")
            if request["code"] == 11 and request["extFields"]["topic"] == topic
            else None
        )


class LiveCluster:
    """`address` is the name server's; members by name."""

    def __init__(self, queues: Mapping[str, Queues]) -> None:
        self.members = {name: self._member(name, own) for name, own in queues.items()}
        self.names = RemotingServer(self._route)
        self.address = self.names.address

    def __getitem__(self, name: str) -> Member:
        return self.members[name]

    def close(self) -> None:
        """Stop all."""
        for server in (self.names, *(member.server for member in self.members.values())):
            server.close()

    def _member(self, name: str, queues: Queues) -> Member:
        broker = FakeBroker(queues)
        broker.before = lambda request: self._beside_queues(self.members[name], request)
        return Member(broker, RemotingServer(broker))

    def _beside_queues(self, member: Member, request: Request) -> Reply | None:
        interrupted = member.interrupt(request)
        if interrupted is not None:
            return interrupted
        table = json.dumps({"offsetTable": member.offsets}).encode()
        bodies = {26: b"brokerRole=SYNC_MASTER\n", 43: table, 328: b'{"data":{"G":[{"clientId":"c"}]}}'}
        return answer(request, body=bodies[request["code"]]) if request["code"] in bodies else None

    def _route(self, request: Request) -> bytes:
        counts: dict[str, dict[str, int]] = {}
        for name, member in self.members.items():
            for topic, queue_id in member.broker.queues:
                if topic not in member.untold:
                    own = counts.setdefault(topic, {})
                    own[name] = max(own.get(name, 0), queue_id + 1)
        addresses = {name: member.server.address for name, member in self.members.items()}
        return routed(request, counts, addresses)


@contextmanager
def live_cluster(queues: Mapping[str, Queues]) -> Iterator[LiveCluster]:
    """A cluster served, and stopped afterwards."""
    cluster = LiveCluster(queues)
    try:
        yield cluster
    finally:
        cluster.close()
