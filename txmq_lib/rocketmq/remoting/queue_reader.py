"""The messages of one range of a live queue, by several requests that are under way at once. Must not know Spark."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from txmq_lib.errors import ProtocolError, RefusedError
from txmq_lib.rocketmq.remoting.broker import MESSAGES_PER_PULL, SYSTEM_BUSY, Pulled, Queue, pull_request, pulled
from txmq_lib.rocketmq.remoting.connection import LARGE_ANSWER, Connection
from txmq_lib.rocketmq.remoting.queue_entries import listed, must_be_listed
from txmq_lib.rocketmq.store.message_format import END, START, TOPIC, Frame, read_frame

PULLS_AT_ONCE: Final = 8
ENTRIES_AT_ONCE: Final = 256
BUSY_TRIES: Final = 5
_BUSY_PAUSE_SECONDS: Final = 0.1
_QUEUE_PLACE: Final = Struct(">12xi4xq")  # of a record: queue id and queue offset


class QueueRange(NamedTuple):
    """The queue offsets [start, stop) of one queue."""

    topic: str
    queue_id: int
    start: int
    stop: int

    @property
    def queue(self) -> Queue:
        """The queue itself."""
        return Queue(self.topic, self.queue_id)


class Answer(NamedTuple):
    """Records within the bytes of one answer: whole ones, and what should be one and is not.

    whole  start and end of each within the bytes
    torn   its queue offset, and its start and end within the bytes
    """

    data: bytes
    whole: list[tuple[int, int]]
    torn: list[tuple[int, int, int]]


@dataclass
class _Piece:
    """A part of the range that a pull asks for."""

    start: int
    stop: int
    tries: int = 0


def read_queue(connection: Connection, group: str, queue_range: QueueRange) -> Iterator[Answer]:
    """Every message of the range that is still there, in no order.

    What retention has deleted meanwhile is passed over. A record that cannot be read is told, and reading goes on at
    the offset behind it. A broker that is busy is asked again a few times.
    Errors  RemotingError where the range cannot be read to its end
    """
    if queue_range.start < queue_range.stop and must_be_listed(connection, group, queue_range.queue, queue_range.start):
        return _listed(connection, queue_range)
    return _pulled(connection, group, queue_range)


def stated_offset(data: bytes, frame: Frame, queue: Queue) -> int | None:
    """Where in the queue a record says that it lies; null where it says that it lies in another."""
    queue_id, offset = _QUEUE_PLACE.unpack_from(data, frame[START])
    return offset if queue_id == queue.queue_id and frame[TOPIC] == queue.topic.encode() else None


def _pulled(connection: Connection, group: str, queue_range: QueueRange) -> Iterator[Answer]:
    todo = deque(
        _Piece(start, min(start + MESSAGES_PER_PULL, queue_range.stop))
        for start in range(queue_range.start, queue_range.stop, MESSAGES_PER_PULL)
    )
    under_way: dict[int, _Piece] = {}
    while todo or under_way:
        while todo and len(under_way) < PULLS_AT_ONCE:
            piece = todo.popleft()
            request = pull_request(group, queue_range.queue, piece.start, piece.stop - piece.start)
            under_way[connection.send(request, most_bytes=LARGE_ANSWER)] = piece
        answer = connection.receive()
        if answer.opaque not in under_way:
            raise ProtocolError(f"{connection.address}: two answers to one pull")
        piece = under_way.pop(answer.opaque)
        if answer.code == SYSTEM_BUSY and piece.tries < BUSY_TRIES:
            time.sleep(_BUSY_PAUSE_SECONDS)
            todo.append(_Piece(piece.start, piece.stop, piece.tries + 1))
            continue
        next_offset = yield from _found(connection, queue_range, piece, pulled(connection, answer))
        if next_offset < piece.stop:
            todo.append(_Piece(next_offset, piece.stop))


def _listed(connection: Connection, queue_range: QueueRange) -> Iterator[Answer]:
    piece = _Piece(queue_range.start, queue_range.stop)
    while piece.start < queue_range.stop:
        piece.stop = min(piece.start + ENTRIES_AT_ONCE, queue_range.stop)
        try:
            found = listed(connection, queue_range.queue, piece.start, piece.stop - piece.start)
        except RefusedError as refusal:
            if refusal.response_code != SYSTEM_BUSY or piece.tries == BUSY_TRIES:
                raise
            time.sleep(_BUSY_PAUSE_SECONDS)
            piece.tries += 1
            continue
        piece = _Piece((yield from _found(connection, queue_range, piece, found)), queue_range.stop)


def _found(
    connection: Connection, queue_range: QueueRange, piece: _Piece, found: Pulled
) -> Generator[Answer, None, int]:
    """The records that an answer brought; then the offset to go on at."""
    next_offset = found.next_offset
    if found.is_found:
        records, read_to = _records(found.body, queue_range.queue, piece)
        yield records
        next_offset = read_to if records.torn else next_offset
    if next_offset <= piece.start:
        # A queue never ends before its range does, unless it was taken away or its broker has lost it.
        raise ProtocolError(
            f"{connection.address}: {queue_range.topic} queue {queue_range.queue_id} gives nothing at offset"
            f" {piece.start}, which it had a moment ago"
        )
    return next_offset


def _records(body: bytes, queue: Queue, piece: _Piece) -> tuple[Answer, int]:
    """The records of an answer, and the offset behind the last place where one was looked for."""
    whole: list[tuple[int, int]] = []
    torn: list[tuple[int, int, int]] = []
    position, expected = 0, piece.start
    while position < len(body):
        frame = read_frame(body, position, len(body))
        if frame is None:
            torn.append((expected, position, len(body)))  # where the next one would begin, nobody knows
            return Answer(body, whole, torn), expected + 1
        offset = stated_offset(body, frame, queue)
        if offset is not None and expected <= offset < piece.stop:
            whole.append((position, frame[END]))
            expected = offset + 1
        else:
            torn.append((expected, position, frame[END]))
            expected += 1
        position = frame[END]
    return Answer(body, whole, torn), expected
