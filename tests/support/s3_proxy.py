"""A proxy before an object store, on loopback: it waits before each request, counts requests and bytes, and may fail.

A process of its own: deltalake holds Python's lock while it waits for a store.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any, TypeAlias

LONGEST_HEAD = 1 << 16
HEAD_END = b"\r\n\r\n"
COMMIT = re.compile(r"/_delta_log/\d{20}\.json")
NO_CONTENT = re.compile(rb"HTTP/1\.1 (1\d\d|204|304) ")


class Fault(Enum):
    """What becomes of a request instead of an answer."""

    UNAVAILABLE = "503 without the store hearing of it"
    LOST_500 = "done by the store, answered 500"
    LOST_CUT = "done by the store, then the connection is cut"
    LOST_SILENT = "done by the store, never answered: whoever asked gives up"
    CUT = "the connection is cut without the store hearing of it"
    TAKEN = "where the store refuses a put since something is there (412), it is said to be done"
    UNKNOWN = "501 without the store hearing of it"


@dataclass(frozen=True)
class Request:
    """A request as it passed: its method, its path with the query, its number from 1."""

    method: str
    path: str
    number: int

    @property
    def kind(self) -> str:
        """LIST for a listing of a bucket, else the method."""
        return "LIST" if self.method == "GET" and "list-type=2" in self.path else self.method


@dataclass
class Seen:
    """What passed since it was begun: requests by kind, bytes of bodies both ways, the requests themselves; of those that
    were answered, when they came and were."""

    kinds: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    received: int = 0
    requests: list[Request] = field(default_factory=list)
    times: list[tuple[float, float]] = field(default_factory=list)

    @property
    def total(self) -> int:
        """How many requests."""
        return sum(self.kinds.values())

    @property
    def waits(self) -> int:
        """How many requests at most followed one another, each after the answer of the one before."""
        return waits(self.times)

    def __str__(self) -> str:
        kinds = ", ".join(f"{kind} {count}" for kind, count in self.kinds.most_common())
        return f"{self.total} requests ({kinds}), {self.waits} in a row, {self.sent} bytes up, {self.received} down"


def waits(times: Sequence[tuple[float, float]]) -> int:
    """The most of these stretches of time of which none begins before the one before it has ended."""
    count, reached = 0, float("-inf")
    for ended, began in sorted((ended, began) for began, ended in times):
        if began >= reached:
            count, reached = count + 1, ended
    return count


def no_fault(request: Request) -> Fault | None:
    """Every request is answered as the store answers."""
    return None


@dataclass(frozen=True)
class Faults:
    """Which requests meet a fault: of this kind and path, every `every`-th of them from the `first` on, `most` at most.

    Counted from 1 since it was set. Picklable, as what is set on a proxy must be.
    """

    fault: Fault
    kind: str | None = None
    path: str = ""
    first: int = 1
    every: int = 1
    most: int = 1 << 30
    _met: list[int] = field(default_factory=lambda: [0])

    def __call__(self, request: Request) -> Fault | None:
        if self.kind not in (None, request.kind) or not re.search(self.path, request.path):
            return None
        self._met[0] += 1
        number = self._met[0] - self.first
        return self.fault if number >= 0 and number % self.every == 0 and number // self.every < self.most else None


Rule: TypeAlias = Callable[[Request], Fault | None]


class S3Proxy:
    """Forwards requests to the store at a port of loopback, from a process of its own."""

    def __init__(self, port: int) -> None:
        context = get_context("spawn")
        self._here, there = context.Pipe()
        self._process = context.Process(target=_run, args=(port, there), daemon=True)
        self._process.start()
        self.port: int = self._here.recv()

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"http://127.0.0.1:{self.port}"

    def set(self, *, delay_s: float | None = None, held_s: float | None = None, fails: Rule | None = None) -> None:
        """How long each request waits before it is forwarded, and a commit of a table longer; which fault a request
        meets (`no_fault`: none)."""
        for name, value in (("delay_s", delay_s), ("held_s", held_s), ("fails", fails)):
            if value is not None:
                self._asked("set", name, value)

    @contextmanager
    def counting(self) -> Iterator[Seen]:
        """What passes inside: filled in at its end."""
        seen = Seen()
        self._asked("count")
        try:
            yield seen
        finally:
            vars(seen).update(vars(self._asked("counted")))

    def close(self) -> None:
        """Stop it."""
        self._process.terminate()
        self._process.join()

    def _asked(self, *words: Any) -> Any:
        self._here.send(words)
        return self._here.recv()


def _run(port: int, there: Connection) -> None:
    forwarder = _Forwarder(port)
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(forwarder.serve, "127.0.0.1", 0, limit=LONGEST_HEAD))
    there.send(server.sockets[0].getsockname()[1])
    Thread(target=_obey, args=(forwarder, there), daemon=True).start()
    loop.run_forever()


def _obey(forwarder: _Forwarder, there: Connection) -> None:
    while True:
        match there.recv():
            case ("set", name, value):
                there.send(setattr(forwarder, name, value))
            case ("count",):
                forwarder.seen = Seen()
                there.send(None)
            case ("counted",):
                there.send(forwarder.seen)


class _Forwarder:
    def __init__(self, port: int) -> None:
        self.delay_s = self.held_s = 0.0
        self.fails: Rule = no_fault
        self.seen = Seen()
        self._target = port
        self._count = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream = _Upstream(self._target)
        try:
            while await self._forward(reader, writer, upstream):
                pass
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            upstream.close()
            with suppress(OSError):
                writer.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, upstream: _Upstream) -> bool:
        head = await reader.readuntil(HEAD_END)
        method, path, _ = head.split(b"\r\n", 1)[0].decode().split(" ", 2)
        if b"100-continue" in head.lower():
            head = re.sub(rb"(?i)\r\nexpect:[^\r]*", b"", head)
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await _body(reader, head)
        self._count += 1
        request, seen, began = Request(method, path, self._count), self.seen, time.monotonic()
        seen.kinds[request.kind] += 1
        seen.sent += len(body)
        seen.requests.append(request)
        is_commit = method == "PUT" and COMMIT.search(path) is not None
        await asyncio.sleep(self.delay_s + (self.held_s if is_commit else 0.0))
        fault = self.fails(request)
        if fault is Fault.CUT:
            return False
        if fault is Fault.UNAVAILABLE:
            return await _fail(writer, b"503 Slow Down", b"SlowDown")
        if fault is Fault.UNKNOWN:
            return await _fail(writer, b"501 Not Implemented", b"NotImplemented")
        answers, store = await upstream.opened()
        store.write(head + body)
        await store.drain()
        answer = await answers.readuntil(HEAD_END)
        has_content = method != "HEAD" and not NO_CONTENT.match(answer)
        content = await _body(answers, answer) if has_content else b""
        seen.received += len(content)
        if fault is Fault.LOST_SILENT:
            await reader.read(1)
        if fault in (Fault.LOST_CUT, Fault.LOST_SILENT):
            return False
        if fault is Fault.LOST_500:
            return await _fail(writer, b"500 Internal Server Error", b"InternalError")
        if fault is Fault.TAKEN and answer.startswith(b"HTTP/1.1 412 "):
            answer, content = b'HTTP/1.1 200 OK\r\nETag: "0"\r\nContent-Length: 0\r\n\r\n', b""
        seen.times.append((began, time.monotonic()))
        writer.write(answer + content)
        await writer.drain()
        return b"connection: close" not in answer.lower()


class _Upstream:
    """The connection to the store, opened anew where the store has closed it: it does so when nobody asks for a while."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def opened(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None or self._streams[0].at_eof():
            self.close()
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=LONGEST_HEAD)
        return self._streams

    def close(self) -> None:
        if self._streams is not None:
            with suppress(OSError):
                self._streams[1].close()


async def _fail(writer: asyncio.StreamWriter, status: bytes, code: bytes) -> bool:
    content = b"<?xml version='1.0'?><Error><Code>" + code + b"</Code><Message>made up</Message></Error>"
    length = str(len(content)).encode()
    writer.write(
        b"HTTP/1.1 " + status + b"\r\nContent-Type: application/xml\r\nContent-Length: " + length + HEAD_END + content
    )
    await writer.drain()
    return True


async def _body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    """The body behind a head, as it came."""
    found = re.search(rb"(?i)\r\ncontent-length:\s*(\d+)", head)
    if found:
        return await reader.readexactly(int(found[1]))
    if not re.search(rb"(?i)\r\ntransfer-encoding:\s*chunked", head):
        return b""
    parts: list[bytes] = []
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        parts += [line, await reader.readexactly(size + 2)]
        if size == 0:
            return b"".join(parts)


@contextmanager
def s3_proxy(port: int) -> Iterator[S3Proxy]:
    """A running proxy before the store at this port of loopback."""
    proxy = S3Proxy(port)
    try:
        yield proxy
    finally:
        proxy.close()
