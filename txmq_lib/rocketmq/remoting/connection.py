"""A connection to one name server or broker: requests out, answers in, each within its time. Must not know requests."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final, Self

from txmq_lib.errors import ProtocolError, RefusedError, UnreachableError
from txmq_lib.rocketmq.host_port import host_and_port
from txmq_lib.rocketmq.remoting.frame import (
    LENGTH_BYTES,
    MAX_FRAME_BYTES,
    MAX_HEADER_BYTES,
    Command,
    decode,
    encode,
    frame_length,
)
from txmq_lib.rocketmq.remoting.signature import Credentials

SUCCESS: Final = 0
TOPIC_NOT_EXIST: Final = 17
_LONGEST_REMARK: Final = 300
_RECEIVED_AT_ONCE: Final = 256 * 1024
_ASKED_AT_ONCE: Final = 64  # requests under way; they are small, so that neither side waits to write
# Bytes of a frame that answers: figures and small documents, or tables, lists and messages. A peer may send answers in
# any order, so that those under way at once are bounded together, too.
SMALL_ANSWER: Final = 1024 * 1024
LARGE_ANSWER: Final = MAX_FRAME_BYTES
_HELD_BYTES: Final = 64 * 1024 * 1024
# Waiting in all on one connection, in timeouts; beyond that a peer must answer as fast as this on the whole.
PATIENCE = 20
_SECONDS_AN_ANSWER: Final = 0.01
_BYTES_A_SECOND: Final = 1024 * 1024


@dataclass(frozen=True)
class Tls:
    """TLS as the client wants it.

    ca_file           certificates that the peer's must lead to; None: those of the system
    checks_host_name  whether the peer's certificate must name the host it was called by; RocketMQ's own client does not
    """

    ca_file: str | None = None
    checks_host_name: bool = True


@dataclass(frozen=True)
class Access:
    """How name servers and brokers are reached; `timeout` in seconds bounds connecting, and each answer, as a whole."""

    timeout: float = 3.0
    credentials: Credentials | None = None
    tls: Tls | None = None


class Connection:
    """One open connection. After an error it is closed, since nobody knows which answer would come next."""

    def __init__(self, address: str, access: Access) -> None:
        """Connects; UnreachableError where that fails."""
        self._begin(address, access, _connected(address, access))

    def _begin(self, address: str, access: Access, connected: socket.socket) -> None:
        self.address = address
        self._access = access
        self._last_opaque = 0
        self._awaited: dict[int, int] = {}
        self._received = bytearray()
        self._patience = PATIENCE * access.timeout
        self._socket = connected

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection."""
        self._socket.close()

    def ask(self, command: Command, *, most_bytes: int = SMALL_ANSWER) -> Command:
        """The answer to one request, whatever its code; ProtocolError where it is larger than `most_bytes`."""
        return next(self.ask_all([command], most_bytes=most_bytes))

    def ask_all(self, commands: Iterable[Command], *, most_bytes: int = SMALL_ANSWER) -> Iterator[Command]:
        """The answer to each request, in order; several are under way at once, fewer where answers may be large."""
        waiting: list[int] = []
        answers: dict[int, Command] = {}
        at_once = max(1, min(_ASKED_AT_ONCE, _HELD_BYTES // most_bytes))
        for command in commands:
            if len(waiting) == at_once:
                yield self._answer_to(waiting.pop(0), answers)
            waiting.append(self.send(command, most_bytes=most_bytes))
        for opaque in waiting:
            yield self._answer_to(opaque, answers)

    def _answer_to(self, opaque: int, answers: dict[int, Command]) -> Command:
        deadline = time.monotonic() + self._access.timeout
        while opaque not in answers:
            answer = self.receive(deadline)
            answers[answer.opaque] = answer
        return answers.pop(opaque)

    def send(self, command: Command, *, most_bytes: int = SMALL_ANSWER) -> int:
        """Send one request whose answer has at most so many bytes; the number under which it will come."""
        self._last_opaque += 1
        credentials = self._access.credentials
        fields = credentials.signed(command.fields, command.body) if credentials else command.fields
        frame = encode(replace(command, fields=fields, opaque=self._last_opaque))
        try:
            self._socket.settimeout(self._access.timeout)
            self._socket.sendall(frame)
        except OSError as failure:
            raise self._lost(failure) from failure
        self._awaited[self._last_opaque] = most_bytes
        return self._last_opaque

    def receive(self, deadline: float | None = None) -> Command:
        """The next answer. Requests of the peer are passed over; ProtocolError for an answer that nobody waits for.

        deadline  in monotonic seconds; None: the timeout from now on
        """
        begun = time.monotonic()
        deadline = begun + self._access.timeout if deadline is None else deadline
        try:
            while True:
                size = self._size(deadline)
                command = decode(self._taken(size, deadline))
                if not command.is_response:
                    continue  # a broker tells its clients what changed
                if command.opaque not in self._awaited:
                    raise ProtocolError("an answer to what was never asked, or a second one")
                _check_size(size, self._awaited.pop(command.opaque))
                self._lose_patience(time.monotonic() - begun, size)
                return command
        except ProtocolError as fault:
            self.close()
            raise ProtocolError(f"{self.address}: {fault.message}") from None

    def _size(self, deadline: float) -> int:
        size = frame_length(self._taken(LENGTH_BYTES, deadline))
        _check_size(size, max(self._awaited.values(), default=SMALL_ANSWER))
        return size

    def _lose_patience(self, waited: float, size: int) -> None:
        """Each answer in its time is not enough: there may be as many as a peer says."""
        self._patience += _SECONDS_AN_ANSWER + size / _BYTES_A_SECOND - waited
        if self._patience < 0:
            self.close()
            raise UnreachableError(
                f"{self.address}: it answers too slowly: {PATIENCE * self._access.timeout:g} s for too few answers"
            )

    def require_success(self, answer: Command, request: str) -> None:
        """RefusedError where the answer is no success."""
        if answer.code != SUCCESS:
            raise self.refusal(answer, request)

    def refusal(self, answer: Command, request: str) -> RefusedError:
        """The error that tells what was asked, RocketMQ's code and the first line of its words."""
        remark = "".join((answer.remark or "").strip().splitlines()[:1])[:_LONGEST_REMARK]
        words = f"{self.address}: {request}: code {answer.code}" + (f", {remark}" if remark else "")
        return RefusedError(words, response_code=answer.code, remark=remark)

    def _taken(self, size: int, deadline: float) -> bytes:
        """The next bytes received. Room is made for what has come, not for what a frame says will."""
        while len(self._received) < size:
            try:
                left = deadline - time.monotonic()
                if left <= 0:  # a peer that sends byte by byte never lets a read time out
                    raise TimeoutError
                self._socket.settimeout(left)
                chunk = self._socket.recv(_RECEIVED_AT_ONCE)
            except OSError as failure:
                raise self._lost(failure) from failure
            if not chunk:
                raise self._lost(ConnectionError("closed the connection"))
            self._received += chunk
        taken = bytes(memoryview(self._received)[:size])
        del self._received[:size]
        return taken

    def _lost(self, failure: OSError) -> UnreachableError:
        self.close()
        return UnreachableError(f"{self.address}: {_words(failure, self._access.timeout)}")


def _connected(address: str, access: Access) -> socket.socket:
    try:
        host, port = host_and_port(address)
    except ValueError as fault:  # a name server may tell anything
        raise ProtocolError(f"an address {fault}") from None
    try:
        plain = socket.create_connection((host, port), timeout=access.timeout)
    except OSError as failure:
        raise UnreachableError(f"{address}: {_words(failure, access.timeout)}") from failure
    except ValueError:  # of the codec for host names
        raise UnreachableError(f"{address[:100]}: no host has such a name") from None
    with suppress(OSError):
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if access.tls is None:
        return plain
    try:
        context = ssl.create_default_context(cafile=access.tls.ca_file)
        context.check_hostname = access.tls.checks_host_name
        return context.wrap_socket(plain, server_hostname=host)
    except OSError as failure:
        plain.close()
        raise UnreachableError(f"{address}: TLS: {_words(failure, access.timeout)}") from failure


def _check_size(size: int, most_bytes: int) -> None:
    if size > most_bytes + MAX_HEADER_BYTES:
        raise ProtocolError(f"an answer of {size} bytes, where {most_bytes} are the most")


def _words(failure: OSError, timeout: float) -> str:
    if isinstance(failure, TimeoutError):
        return f"no answer within {timeout:g} s"
    return failure.strerror or str(failure) or type(failure).__name__
