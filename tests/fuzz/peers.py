"""Peers that say anything at any pace: webhooks, endpoints, clients of `serve`, name servers. Each has an end in time."""

from __future__ import annotations

import socket
import threading
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from fuzz.hostile import damaged
from hostile_server import HostileServer, dripping
from moment import NOW
from questions import check
from remoting_server import RemotingServer, drip

from txmq_lib.alerts.webhook import Webhook
from txmq_lib.answers.http import HttpResolver
from txmq_lib.cli.run.endpoint import Counted, endpoint
from txmq_lib.config.resolver_settings import HttpResolver as HttpSettings
from txmq_lib.errors import AlertUnsentError, RemotingError
from txmq_lib.rocketmq.remoting.connection import Access, Connection
from txmq_lib.rocketmq.remoting.name_server import topics
from txmq_lib.service.health_file import Health

MIB = 1024 * 1024
TIMEOUT_MS = 250
LONGEST_SECONDS = 5  # of an exchange whose timeout is a quarter of a second, on a machine that is busy
MOST_MIB = 24
GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\nCOMMIT_MESSAGE"


def webhook(chance: Random) -> int:
    """An alert is told or not; nothing else comes of it."""

    def tell(at: str) -> None:
        with suppress(AlertUnsentError):
            Webhook(at, {}, timeout_ms=TIMEOUT_MS, tries=1).post({"text": "x"})

    return _bounded(chance, tell)


def resolver(chance: Random) -> int:
    """A check has an answer or none."""

    def ask(at: str) -> None:
        settings = {"kind": "http", "endpoints": [at], "tries": 1, "timeout": f"{TIMEOUT_MS}ms"}
        (answer,) = HttpResolver(HttpSettings.model_validate(settings), {}).answers([check().with_half(HALF)])
        assert (answer.answer is None) == (answer.reason is not None)

    return _bounded(chance, ask)


def name_server(chance: Random) -> int:
    """Topics are told, or an error of remoting is."""
    said = chance.choice([chance.randbytes(300), b"\x00\x0f\xff\xff" + bytes(40), b"\x01\x00\x00\x00" + bytes(MIB)])
    chunks = [said] if chance.random() < 0.7 else list(drip(said[:60], pause=0))
    with RemotingServer(lambda _: iter(chunks)) as server:
        begun = time.monotonic()
        access = Access(timeout=TIMEOUT_MS / 1000)
        with suppress(RemotingError), Connection(server.address, access) as connection:
            topics(connection)
        assert time.monotonic() - begun < LONGEST_SECONDS
    return 1


def client(chance: Random) -> int:
    """Clients of the endpoint that say anything and hang up anywhere; the next one is answered, nothing is woken."""
    woken: list[bool] = []
    with TemporaryDirectory() as place:
        health = Health(Path(place) / "health.json", lambda: datetime.now(UTC))
        counted = Counted(place, Path(place) / "kept.prom", lag_window_ms=1)
        with endpoint(("127.0.0.1", 0), health, counted, wake=lambda: woken.append(True)) as at:
            assert at is not None
            for _ in range(8):
                with socket.create_connection(at, timeout=LONGEST_SECONDS) as odd:
                    odd.sendall(damaged(chance, chance.choice(REQUESTS)))
            health.running()
            with socket.create_connection(at, timeout=LONGEST_SECONDS) as good:
                good.sendall(b"GET /health HTTP/1.0\r\n\r\n")
                assert good.recv(100).startswith(b"HTTP/1.0 200")
    return 8


REQUESTS = (
    b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 5000 + b"\r\n\r\n",
    b"PUT /wakeup HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\nx",
    b"POST /wakeup HTTP/1.1\r\nHost: localhost\r\nOrigin: http://x\r\n\r\n",
    b"POST /wakeup HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /transaction/%00%ff%2e%2e%2f?a#b HTTP/1.1\r\nHost: localhost\r\n\r\n",
)
HALF = {
    "queue_offset": 5, "commit_log_offset": 500, "sys_flag": 0, "flag": 3, "born_timestamp": NOW, "body": b"",
    "store_timestamp": NOW, "born_host": "h", "store_host": "h", "offset_msg_id": "O", "properties": {},
    "reconsume_times": 0, "prepared_transaction_offset": 0,
}  # fmt: skip


def _bounded(chance: Random, ask: Callable[[str], None]) -> int:
    """Ask a peer that is good, damaged, slow or without end; the time it takes and the memory are bounded."""
    with HostileServer(lambda connection: None) as server:
        said = chance.choice([GOOD, damaged(chance, GOOD), chance.randbytes(chance.randrange(200))])
        server.behave = chance.choice(
            [
                lambda connection: connection.sendall(said),
                dripping(said, pause=0.05),
                lambda connection: (connection.sendall(said), server.flood(connection, b"x" * MIB, 200 * MIB)),
                lambda connection: server.flood(connection, b"HTTP/1.1 200 OK\r\nA: b\r\n" * 5000, 200 * MIB),
            ]
        )
        begun = time.monotonic()
        tracemalloc.start()
        try:
            ask(server.at)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert time.monotonic() - begun < LONGEST_SECONDS
        assert peak < MOST_MIB * MIB, f"{peak / MIB:.0f} MiB"
    assert threading.active_count() < 200
    return 1
