"""A webhook that dawdles, floods or says nothing: each try, all tries and all alerts of a run have an end."""

from __future__ import annotations

import gzip
import threading
import time
import tracemalloc

import pytest
from hostile_server import HostileServer, dripping

from txmq_lib.alerts import told_before as alert_state
from txmq_lib.alerts import webhook as webhooks
from txmq_lib.alerts.told_before import AlertState
from txmq_lib.alerts.webhook import Webhook
from txmq_lib.errors import AlertUnsentError

OK = b"HTTP/1.1 200 OK\r\n"
MIB = 1024 * 1024


def told(server, *, timeout_ms=400, tries=1):
    Webhook(server.at, {}, timeout_ms=timeout_ms, tries=tries).post({"text": "x"})


@pytest.mark.parametrize("where", ["the status line", "the headers"])
def test_a_webhook_that_drips_is_not_told_after_the_timeout_as_a_whole(where):
    said = OK + b"Content-Length: 0\r\n\r\n" if where == "the status line" else OK + b"X: y\r\n" * 1000
    with HostileServer(dripping(said, pause=0.1)) as server:
        begun = time.monotonic()
        with pytest.raises(AlertUnsentError, match="TimeoutError"):
            told(server)
        assert time.monotonic() - begun < 2


def test_the_body_of_a_webhooks_answer_is_nobodys_business():
    with HostileServer(dripping(OK + b"\r\n" + b"." * 100, pause=0.001)) as server:
        server.behave = lambda connection: (
            connection.sendall(OK + b"Content-Length: 1500000000\r\n\r\n"),
            server.flood(connection, b"x" * MIB, 1500 * MIB),
        )
        tracemalloc.start()
        told(server, timeout_ms=5000)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 16 * MIB
        time.sleep(0.2)
        assert server.sent < 64 * MIB


def test_a_bomb_is_not_unpacked():
    bomb = gzip.compress(b"\0" * 200 * MIB, 6)
    head = OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    with HostileServer(lambda connection: connection.sendall(head + bomb)) as server:
        tracemalloc.start()
        told(server, timeout_ms=5000)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 16 * MIB


def test_headers_without_end_are_no_answer():
    with HostileServer(lambda connection: None) as server:
        server.behave = lambda connection: (
            connection.sendall(OK),
            server.flood(connection, b"X-A: b\r\n" * 1000, 900 * MIB),
        )
        with pytest.raises(AlertUnsentError, match="RemoteProtocolError"):
            told(server, timeout_ms=5000)
        assert server.sent < 64 * MIB


def test_one_run_tells_for_so_long_and_no_longer(monkeypatch):
    monkeypatch.setattr(webhooks, "LONGEST_RUN_SECONDS", 1.0)
    with HostileServer(dripping(OK, pause=1)) as server:
        webhook = Webhook(server.at, {}, timeout_ms=400, tries=3)
        begun = time.monotonic()
        for _ in range(50):
            with pytest.raises(AlertUnsentError):
                webhook.post({"text": "x"})
        assert time.monotonic() - begun < 3
        assert server.connections <= 4


def test_whoever_waits_behind_one_that_never_ends_is_told_so(tmp_path, monkeypatch):
    monkeypatch.setattr(alert_state, "LONGEST_WAIT_SECONDS", 0.3)
    state = AlertState(tmp_path / "told.json")
    ended = []

    def wait() -> None:
        with pytest.raises(AlertUnsentError, match="another process"), state.held():
            pass
        ended.append(True)

    with state.held():
        waiting = threading.Thread(target=wait, daemon=True)
        waiting.start()
        waiting.join(5)
    assert ended == [True]
    with state.held():
        pass  # once it is free, it is had
