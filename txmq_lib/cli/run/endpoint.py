"""The HTTP endpoint of `txmq serve`: /health, /metrics, and POST /wakeup."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import inf
from pathlib import Path
from socket import AF_INET, AF_INET6, SHUT_RDWR, socket
from threading import Lock, Thread
from time import monotonic, sleep
from typing import Any

from txmq_lib.cli.run.clock import wall_clock
from txmq_lib.cli.run.metrics import told_before
from txmq_lib.errors import UsageError
from txmq_lib.files.atomic_file import write_whole
from txmq_lib.service.health_file import RUNNING, Health
from txmq_lib.views.metrics import metrics_text
from txmq_lib.views.reader import WarehouseReader

MOST_CLIENTS = 32
LONGEST_SECONDS = 10.0
PAUSE_SECONDS = 0.2
TEXT, JSON = "text/plain; version=0.0.4; charset=utf-8", "application/json"


def listen_address(text: str) -> tuple[str, int]:
    """HOST:PORT as a pair; UsageError where it is none."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--listen {text}: give HOST:PORT, such as 127.0.0.1:9190")
    return host.strip("[]"), int(port)


class _Server(ThreadingHTTPServer):
    """Serves so many clients at a time; each has so long to ask, and again to take its answer, as a whole."""

    request_queue_size = MOST_CLIENTS

    def __init__(self, listen: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._lock = Lock()
        self._ends: dict[socket, float] = {}
        self.address_family = AF_INET6 if ":" in listen[0] else AF_INET
        super().__init__(listen, handler)

    def get_request(self) -> tuple[socket, Any]:
        try:
            return super().get_request()
        except OSError:
            sleep(PAUSE_SECONDS)  # no file can be opened: whoever waits keeps the socket ready, and this would spin
            raise

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as the base class has it
        with self._lock:
            is_full = len(self._ends) >= MOST_CLIENTS
            if not is_full:
                self._ends[request] = monotonic() + LONGEST_SECONDS
        if is_full:
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Twice a second: hang up on clients whose time is over, which also wakes the threads that serve them."""
        with self._lock:
            for late in [each for each, ends in self._ends.items() if ends < monotonic()]:
                with suppress(OSError):
                    late.shutdown(SHUT_RDWR)

    def asked(self, request: socket) -> None:
        """A request is whole: its answer may take as long as it takes."""
        with self._lock:
            self._ends[request] = inf

    def answers(self, request: socket) -> None:
        """An answer is there: from now on the client's time counts again."""
        with self._lock:
            self._ends[request] = monotonic() + LONGEST_SECONDS

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 - as the base class has it
        with self._lock:
            self._ends.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as the base class has it
        """What clients do is not told: each could fill the log."""


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
            text = metrics_text(
                WarehouseReader(self._warehouse),
                wall_clock(),
                lag_window_ms=self._lag_window_ms,
                before=told_before(self._kept),
            )
            write_whole(self._kept, text)
            return text


@contextmanager
def endpoint(
    listen: tuple[str, int] | None, health: Health, counted: Counted, *, wake: Callable[[], None]
) -> Iterator[tuple[str, int] | None]:
    """Answer requests until left; the address that is listened at. UsageError where it is taken. None: no endpoint."""
    if listen is None:
        yield None
        return
    try:
        server = _Server(listen, _handler(health, counted, wake))
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


def _scraped(counted: Counted) -> tuple[HTTPStatus, str, str]:
    try:
        return HTTPStatus.OK, TEXT, counted.text()
    except Exception as error:  # a failing scrape is no reason to end the service
        return HTTPStatus.INTERNAL_SERVER_ERROR, TEXT, f"{type(error).__name__}: {error}\n"


def _handler(health: Health, counted: Counted, wake: Callable[[], None]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server: _Server

        def do_GET(self) -> None:
            self.server.asked(self.request)
            if self.path == "/health":
                content = health.content
                status = HTTPStatus.OK if content["state"] == RUNNING else HTTPStatus.SERVICE_UNAVAILABLE
                self._answer(status, JSON, json.dumps(content))
            elif self.path == "/metrics":
                self._answer(*_scraped(counted))
            else:
                self._answer(HTTPStatus.NOT_FOUND, TEXT, "there are /health, /metrics and POST /wakeup\n")

        def do_POST(self) -> None:
            if self.headers.get("Origin") is not None:
                # Browsers send it with every POST, whoever's page it is: no page needs to wake anybody.
                self._answer(HTTPStatus.FORBIDDEN, TEXT, "not from a browser\n")
            elif self.path == "/wakeup":
                wake()
                self._answer(HTTPStatus.ACCEPTED, TEXT, "woken\n")
            else:
                self._answer(HTTPStatus.NOT_FOUND, TEXT, "there is POST /wakeup\n")

        def log_message(self, format: str, *args: object) -> None:
            """Requests are not told: scrapers send one every few seconds."""

        def _answer(self, status: HTTPStatus, kind: str, text: str) -> None:
            body = text.encode()
            self.server.answers(self.request)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler
