"""The HTTP endpoint of `txmq serve` at addresses of both kinds, and with clients of all kinds."""

from __future__ import annotations

import json
import os
import resource
import socket
import struct
import threading
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from urllib.request import urlopen

import pytest

from txmq_lib.cli.run import endpoint as endpoints
from txmq_lib.cli.run.endpoint import Counted, endpoint, listen_address
from txmq_lib.service.health_file import Health


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_an_address_of_either_kind_is_listened_at(tmp_path, host):
    health = Health(tmp_path / "health.json", lambda: datetime.now(UTC))
    counted = Counted(str(tmp_path), tmp_path / "counted.json", lag_window_ms=1)
    with endpoint(listen_address(f"{host}:0"), health, counted, wake=lambda: None) as (_, port):
        health.running()
        with urlopen(f"http://{host}:{port}/health") as answer:
            assert json.load(answer)["state"] == "running"


@contextmanager
def listening(tmp_path, wake=lambda: None):
    health = Health(tmp_path / "health.json", lambda: datetime.now(UTC))
    counted = Counted(str(tmp_path), tmp_path / "counted.json", lag_window_ms=1)
    with endpoint(("127.0.0.1", 0), health, counted, wake=wake) as at:
        health.running()
        yield at


def asked(at, words: bytes = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n") -> bytes:
    with socket.create_connection(at, timeout=10) as client:
        client.sendall(words)
        said = b""
        with suppress(ConnectionResetError):
            while chunk := client.recv(65_536):
                said += chunk
        return said


def is_cut(client: socket.socket, seconds: float) -> bool:
    """Whether the other side hangs up within so many seconds, however much is said to it."""
    ends = time.monotonic() + seconds
    client.settimeout(0.05)
    while time.monotonic() < ends:
        try:
            client.sendall(b"X")
            if client.recv(65_536) == b"":
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


@pytest.mark.parametrize("begin", [b"", b"GET /health HTTP/1.1\r\nX-A: "], ids=["the request line", "a header"])
def test_a_client_that_drips_is_cut_off_in_time_as_a_whole(tmp_path, monkeypatch, begin):
    monkeypatch.setattr(endpoints, "LONGEST_SECONDS", 1.0)
    with listening(tmp_path) as at, socket.create_connection(at) as client:
        client.sendall(begin)
        begun = time.monotonic()
        assert is_cut(client, 8)
        assert 0.5 < time.monotonic() - begun < 4
        assert b"200 OK" in asked(at)


def test_a_client_that_reads_nothing_is_cut_off_and_a_long_answer_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr(endpoints, "LONGEST_SECONDS", 0.5)
    long = "x" * 50_000_000

    def slow(_: Counted) -> str:
        time.sleep(1.5)  # figures may take longer than a client may
        return long

    monkeypatch.setattr(Counted, "text", slow)
    with listening(tmp_path) as at:
        assert asked(at, b"GET /metrics HTTP/1.0\r\n\r\n").endswith(b"x")
        before = threading.active_count()
        with socket.create_connection(at) as client:
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            time.sleep(0.3)
            assert threading.active_count() > before
            ends = time.monotonic() + 8
            while threading.active_count() > before and time.monotonic() < ends:
                time.sleep(0.1)
            assert threading.active_count() <= before


def test_so_many_clients_and_no_more_and_the_next_ones_are_answered(tmp_path):
    with listening(tmp_path) as at:
        before = threading.active_count()
        clients = [socket.create_connection(at) for _ in range(endpoints.MOST_CLIENTS + 40)]
        time.sleep(1)
        assert threading.active_count() - before <= endpoints.MOST_CLIENTS
        for client in clients:
            client.close()
        time.sleep(0.3)
        assert b"200 OK" in asked(at)


def test_where_no_file_can_be_opened_the_endpoint_does_not_spin(tmp_path):
    with listening(tmp_path) as at:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        clients = [socket.socket() for _ in range(8)]
        lowest_free = os.dup(0)
        os.close(lowest_free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
        try:
            for client in clients:
                client.setblocking(False)
                client.connect_ex(at)
            before = time.process_time()
            time.sleep(2)
            spent = time.process_time() - before
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for client in clients:
            client.close()
        assert spent < 0.2
        assert b"200 OK" in asked(at)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9190"])
def test_no_page_of_a_browser_wakes_the_service(tmp_path, origin):
    woken: list[bool] = []
    with listening(tmp_path, wake=lambda: woken.append(True)) as at:
        answer = asked(at, f"POST /wakeup HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\n\r\n".encode())
        assert (b"403" in answer.split(b"\r\n")[0], woken) == (True, [])
        assert b"202" in asked(at, b"POST /wakeup HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert woken == [True]


def test_what_clients_do_is_not_told_on_stderr(tmp_path, capfd):
    with listening(tmp_path) as at:
        for words in (b"\x1b[2J\r\n\r\n", b"GET /" + b"x" * 100_000 + b"\r\n\r\n", b"GET /health HTTP/9.9\r\n\r\n",
                      b"GET /\x1b]0;t\x07 HTTP/1.1\r\n\r\n", b"G\r\n" * 100, b"POST /wakeup HTTP/1.1\r\n" + b"a: b\r\n" * 1000):  # fmt: skip
            with socket.create_connection(at) as client:
                client.sendall(words)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        time.sleep(0.5)
        assert b"200 OK" in asked(at)
    assert capfd.readouterr() == ("", "")


def test_on_loopback_nothing_is_told_under_a_name_that_is_made_to_lead_here(tmp_path):
    woken: list[bool] = []
    with listening(tmp_path, wake=lambda: woken.append(True)) as at:
        for path in (b"GET /health", b"GET /metrics", b"GET /", b"POST /wakeup"):
            answer = asked(at, path + b" HTTP/1.1\r\nHost: evil.example\r\n\r\n")
            assert b" 403 " in answer.split(b"\r\n")[0], path
        assert (woken, b"running" in asked(at, b"GET /health HTTP/1.0\r\n\r\n")) == ([], True), "scripts say no name"


def test_elsewhere_scrapers_ask_by_any_name(tmp_path):
    health = Health(tmp_path / "health.json", lambda: datetime.now(UTC))
    counted = Counted(str(tmp_path), tmp_path / "counted.json", lag_window_ms=1)
    with endpoint(("0.0.0.0", 0), health, counted, wake=lambda: None) as (_, port):
        health.running()
        assert b" 200 " in asked(("127.0.0.1", port), b"GET /health HTTP/1.1\r\nHost: txmq.monitoring\r\n\r\n")


def test_what_cannot_be_answered_is_told_in_a_line_without_secrets(tmp_path, monkeypatch):
    def fails(_: Counted) -> str:
        raise OSError("GET https://me:s3cret@h/x?token=s3cret\nfailed\x1b[2J")

    monkeypatch.setattr(Counted, "text", fails)
    with listening(tmp_path) as at:
        head, _, answer = asked(at, b"GET /metrics HTTP/1.0\r\n\r\n").partition(b"\r\n\r\n")
    assert b" 500 " in head.split(b"\r\n")[0]
    assert answer == b"UNEXPECTED: OSError: GET https://me:***@h/x?token=***\n"


def test_no_page_of_elsewhere_frames_an_answer_or_takes_it_for_its_own(tmp_path):
    with listening(tmp_path) as at:
        head = asked(at).partition(b"\r\n\r\n")[0].splitlines()
    assert {b"X-Frame-Options: DENY", b"Cross-Origin-Resource-Policy: same-origin"} <= {*head}
