"""A TCP server on loopback whose peer is as bad as a test wants: it takes a request and then does what it is told."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

Behaviour = Callable[[socket.socket], None]


class HostileServer:
    """Each connection: read until the head of a request has come, then `behave` with the socket, then hang up."""

    def __init__(self, behave: Behaviour) -> None:
        self.behave = behave
        self.connections = 0
        self.sent = 0
        self._is_closed = False
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.at = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> HostileServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head and (chunk := connection.recv(65_536)):
                head += chunk
            self.behave(connection)

    def flood(self, connection: socket.socket, chunk: bytes, total: int) -> None:
        """Send a chunk again and again, and count what was taken."""
        for _ in range(total // len(chunk)):
            if self._is_closed:
                return
            connection.sendall(chunk)
            self.sent += len(chunk)


def dripping(data: bytes, *, pause: float) -> Behaviour:
    """Send the bytes one by one."""

    def behave(connection: socket.socket) -> None:
        for each in _bytes(data):
            connection.sendall(each)
            time.sleep(pause)

    return behave


def _bytes(data: bytes) -> Iterator[bytes]:
    return (data[place : place + 1] for place in range(len(data)))
