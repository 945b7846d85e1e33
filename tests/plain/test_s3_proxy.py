"""The proxy before an object store: what it says of the requests that it saw, and that it stands in nobody's way."""

from __future__ import annotations

import socket
from contextlib import closing, suppress
from http.client import HTTPConnection
from threading import Thread

from s3_proxy import s3_proxy, waits


def test_requests_side_by_side_are_one_wait():
    assert waits([(0.0, 1.0), (0.1, 0.9), (0.2, 1.1)]) == 1


def test_each_that_begins_behind_an_answer_is_one_more():
    side_by_side = [(0.0, 1.0), (0.0, 3.0), (1.0, 2.0), (1.5, 2.5)]
    assert waits(side_by_side) == 2
    assert waits([*side_by_side, (2.5, 4.0), (3.0, 4.0)]) == 3
    assert waits([]) == 0


def answer_once_per_connection(server: socket.socket) -> None:
    """A store that closes a connection when it has answered, without saying so, as one does when nobody asks for a while."""
    with suppress(OSError):
        while True:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


def test_a_connection_that_the_store_closed_meanwhile_is_opened_anew():
    with socket.create_server(("127.0.0.1", 0)) as server, s3_proxy(server.getsockname()[1]) as proxy:
        Thread(target=answer_once_per_connection, args=(server,), daemon=True).start()
        proxy.set(delay_s=0.1)  # the store's closing has come by then
        with closing(HTTPConnection("127.0.0.1", proxy.port, timeout=20)) as client, proxy.counting() as seen:
            for _ in range(3):
                client.request("GET", "/lake/key")
                assert client.getresponse().read() == b"ok"
        assert (seen.total, seen.waits) == (3, 3)
