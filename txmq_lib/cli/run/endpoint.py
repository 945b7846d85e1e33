"""The HTTP endpoint of `txmq serve`: the report at /, a page per transaction, /health, /metrics, POST /wakeup."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from math import inf
from pathlib import Path
from socket import AF_INET, AF_INET6, SHUT_RDWR, SO_REUSEADDR, SOL_SOCKET, AddressFamily, socket
from threading import Lock, Thread
from time import monotonic, sleep
from typing import Any

from txmq_lib.cli.run.clock import wall_clock
from txmq_lib.cli.run.metrics import told_before
from txmq_lib.cli.run.pages import Pages, is_own_name
from txmq_lib.config.secrets import scrubbed
from txmq_lib.errors import UsageError, code_and_words
from txmq_lib.escaping import line
from txmq_lib.files.atomic_file import write_whole
from txmq_lib.service.health_file import RUNNING, Health
from txmq_lib.views.metrics import metrics_text
from txmq_lib.views.reader import WarehouseReader

MOST_CLIENTS = 32
LONGEST_SECONDS = 10.0
PAUSE_SECONDS = 0.2
LOOPBACK = "127.0.0.1"
TEXT, JSON, HTML = "text/plain; version=0.0.4; charset=utf-8", "application/json", "text/html; charset=utf-8"


def listen_address(text: str) -> tuple[str, int]:
    """HOST:PORT, or PORT on loopback, as a pair; UsageError where it is none."""
    host, colon, port = text.rpartition(":")
    host = host if colon else LOOPBACK
    if not host or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--listen {text}: give PORT, which is on 127.0.0.1, or HOST:PORT")
    return host.strip("[]"), int(port)


def require_free(listen: tuple[str, int]) -> None:
    """UsageError where nobody can listen there now."""
    try:
        with socket(_family(listen)) as probe:
            probe.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
            probe.bind(listen)
    except OSError as error:
        raise _not_free(listen, error) from error


def _not_free(listen: tuple[str, int], error: OSError) -> UsageError:
    return UsageError(f"cannot listen at {listen[0]}:{listen[1]}: {error.strerror}")


def _family(listen: tuple[str, int]) -> AddressFamily:
    return AF_INET6 if ":" in listen[0] else AF_INET


class _Server(ThreadingHTTPServer):
    """Serves so many clients at a time; each has so long to ask, and again to take its answer, as a whole."""

    request_queue_size = MOST_CLIENTS

    def __init__(self, listen: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._lock = Lock()
        self._ends: dict[socket, float] = {}
        self.listens_at = listen[0]
        self.address_family = _family(listen)
        super().__init__(listen, handler)

    def is_strange(self, host: str) -> bool:
        """Whether it listens on loopback, and is asked by a name that somebody made to lead here.

        Elsewhere scrapers ask by whatever name the network has for it.
        """
        return ip_address(str(self.server_address[0])).is_loopback and not is_own_name(host, self.listens_at)

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

    def __init__(self, warehouse: str, kept: Path, *, lag_window_ms: int, source_steps: Collection[str] = ()) -> None:
        self._warehouse = warehouse
        self._lag_window_ms = lag_window_ms
        self._source_steps = source_steps
        self._kept = kept
        self._lock = Lock()

    def text(self) -> str:
        """The metrics now, in Prometheus's text format."""
        with self._lock:
            text = metrics_text(
                WarehouseReader(self._warehouse),
                wall_clock(),
                lag_window_ms=self._lag_window_ms,
                source_steps=self._source_steps,
                before=told_before(self._kept),
            )
            write_whole(self._kept, text)
            return text


@contextmanager
def endpoint(
    listen: tuple[str, int] | None,
    health: Health,
    counted: Counted,
    *,
    wake: Callable[[], None],
    pages: Pages | None = None,
) -> Iterator[tuple[str, int] | None]:
    """Answer requests until left; the address that is listened at. UsageError where it is taken. None: no endpoint."""
    if listen is None:
        yield None
        return
    try:
        server = _Server(listen, _handler(_Answers(health, counted, wake, pages)))
    except OSError as error:
        raise _not_free(listen, error) from error
    thread = Thread(target=server.serve_forever, name="txmq-endpoint", daemon=True)
    thread.start()
    try:
        yield str(server.server_address[0]), int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


Answer = tuple[HTTPStatus, str, str]
_NOT_ITS_NAME: Answer = (HTTPStatus.FORBIDDEN, TEXT, "ask for it by the address at which it listens\n")
# Nobody's page frames an answer, or takes it for a script, style or picture of its own.
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True)
class _Answers:
    """What each path is answered: status, kind and text."""

    health: Health
    counted: Counted
    wake: Callable[[], None]
    pages: Pages | None

    def get(self, path: str, host: str, listens_at: str, *, is_strange: bool) -> Answer:
        """To a GET; `host` is the name it was asked by, `is_strange` where nothing is told under it."""
        if is_strange:
            return _NOT_ITS_NAME
        if path == "/health":
            content = self.health.content
            status = HTTPStatus.OK if content["state"] == RUNNING else HTTPStatus.SERVICE_UNAVAILABLE
            return status, JSON, json.dumps(content)
        if path == "/metrics":
            return _made(TEXT, self.counted.text)
        if self.pages is None or not self.pages.has(path):
            return HTTPStatus.NOT_FOUND, TEXT, "there are /, /health, /metrics and POST /wakeup\n"
        if not is_own_name(host, listens_at):
            return _NOT_ITS_NAME
        return _made(HTML, partial(self.pages.page, path))

    def post(self, path: str, origin: str | None, *, is_strange: bool) -> Answer:
        """To a POST. Browsers send `origin` with every one, whoever's page it is: no page needs to wake anybody."""
        if origin is not None:
            return HTTPStatus.FORBIDDEN, TEXT, "not from a browser\n"
        if is_strange:
            return _NOT_ITS_NAME
        if path != "/wakeup":
            return HTTPStatus.NOT_FOUND, TEXT, "there is POST /wakeup\n"
        self.wake()
        return HTTPStatus.ACCEPTED, TEXT, "woken\n"


def _made(kind: str, make: Callable[[], str]) -> Answer:
    try:
        return HTTPStatus.OK, kind, make()
    except Exception as error:  # what cannot be read now is no reason to end the service
        code, words = code_and_words(error)
        return HTTPStatus.INTERNAL_SERVER_ERROR, TEXT, f"{line(scrubbed(f'{code}: {words}'))}\n"


def _handler(answers: _Answers) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server: _Server

        def do_GET(self) -> None:
            self.server.asked(self.request)
            host = self.headers.get("Host", "")
            answer = answers.get(self.path, host, self.server.listens_at, is_strange=self._is_strange())
            self._answer(*answer)

        def do_POST(self) -> None:
            self._answer(*answers.post(self.path, self.headers.get("Origin"), is_strange=self._is_strange()))

        def _is_strange(self) -> bool:
            host = self.headers.get("Host")  # every browser says one
            return host is not None and self.server.is_strange(host)

        def log_message(self, format: str, *args: object) -> None:
            """Requests are not told: scrapers send one every few seconds."""

        def _answer(self, status: HTTPStatus, kind: str, text: str) -> None:
            body = text.encode()
            self.server.answers(self.request)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            for name, value in HEADERS.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    return Handler
