"""The HTTP endpoint of `txmq serve`: /health, /metrics, and POST /wakeup."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import AF_INET6
from threading import Lock, Thread

from txmq_lib.cli.clock import wall_clock
from txmq_lib.cli.metrics import told_before
from txmq_lib.errors import UsageError
from txmq_lib.service.health import RUNNING, Health
from txmq_lib.views.metrics import metrics_text
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.whole_file import write_whole

TEXT, JSON = "text/plain; version=0.0.4; charset=utf-8", "application/json"


def listen_address(text: str) -> tuple[str, int]:
    """HOST:PORT as a pair; UsageError where it is none."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--listen {text}: give HOST:PORT, such as 127.0.0.1:9190")
    return host.strip("[]"), int(port)


class _OfIPv6(ThreadingHTTPServer):
    address_family = AF_INET6


class Counted:
    """The metrics of a warehouse, their counters carried on in a file, so that a restart does not set them back."""

    def __init__(self, warehouse: str, kept: Path, *, lag_window_ms: int) -> None:
        self._warehouse = warehouse
        self._lag_window_ms = lag_window_ms
        self._kept = kept
        self._lock = Lock()

    def text(self) -> str:
        """The metrics now, in Prometheus's text format."""
        with self._lock:
            told = metrics_text(
                WarehouseReader(self._warehouse),
                wall_clock(),
                lag_window_ms=self._lag_window_ms,
                before=told_before(self._kept),
            )
            write_whole(self._kept, told)
            return told


@contextmanager
def endpoint(
    listen: tuple[str, int] | None, health: Health, counted: Counted, *, wake: Callable[[], None]
) -> Iterator[tuple[str, int] | None]:
    """Answer requests until left; the address that is listened at. UsageError where it is taken. None: no endpoint."""
    if listen is None:
        yield None
        return
    try:
        server = (_OfIPv6 if ":" in listen[0] else ThreadingHTTPServer)(listen, _handler(health, counted, wake))
    except OSError as error:
        raise UsageError(f"cannot listen at {listen[0]}:{listen[1]}: {error.strerror}") from error
    thread = Thread(target=server.serve_forever, name="txmq-endpoint", daemon=True)
    thread.start()
    try:
        yield str(server.server_address[0]), int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(health: Health, counted: Counted, wake: Callable[[], None]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10  # of a client that says nothing

        def do_GET(self) -> None:
            if self.path == "/health":
                told = health.content
                status = HTTPStatus.OK if told["state"] == RUNNING else HTTPStatus.SERVICE_UNAVAILABLE
                self._answer(status, JSON, json.dumps(told))
            elif self.path == "/metrics":
                try:
                    self._answer(HTTPStatus.OK, TEXT, counted.text())
                except Exception as error:  # a failing scrape is no reason to end the service
                    self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, TEXT, f"{type(error).__name__}: {error}\n")
            else:
                self._answer(HTTPStatus.NOT_FOUND, TEXT, "there are /health, /metrics and POST /wakeup\n")

        def do_POST(self) -> None:
            if self.path == "/wakeup":
                wake()
                self._answer(HTTPStatus.ACCEPTED, TEXT, "woken\n")
            else:
                self._answer(HTTPStatus.NOT_FOUND, TEXT, "there is POST /wakeup\n")

        def log_message(self, format: str, *args: object) -> None:
            """Requests are not told: scrapers send one every few seconds."""

        def _answer(self, status: HTTPStatus, kind: str, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler
