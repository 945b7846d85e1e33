"""Op queues that a broker does not let be pulled, read by the entries of their consume queues. Writes nothing.

A broker of 4.9 has no topic config of its op topic: name servers do not know it, and a pull is refused. Two requests
look at no topic config: one lists the entries of a consume queue, one gives the record at a physical offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile
from typing import Final, NamedTuple

from txmq_lib.errors import ProtocolError, RefusedError
from txmq_lib.names import OP_TOPIC
from txmq_lib.rocketmq.lenient_json import parsed
from txmq_lib.rocketmq.remoting.broker import Pulled, Queue, min_offsets, pull_request
from txmq_lib.rocketmq.remoting.connection import LARGE_ANSWER, SUCCESS, TOPIC_NOT_EXIST, Connection
from txmq_lib.rocketmq.remoting.frame import Command

VIEW_MESSAGE_BY_ID: Final = 33
QUERY_CONSUME_QUEUE: Final = 321


class _Entry(NamedTuple):
    """Where a record lies in the commit log, and its length in bytes."""

    physical_offset: int
    size: int


def must_be_listed(connection: Connection, group: str, queue: Queue, offset: int) -> bool:
    """Whether this is an op queue of a broker that has no such topic; a pull at the offset finds out."""
    return queue.topic == OP_TOPIC and has_no_op_topic(
        queue, connection.ask(pull_request(group, queue, offset, 1), most_bytes=LARGE_ANSWER)
    )


def has_no_op_topic(queue: Queue, answer: Command) -> bool:
    """Whether the answer to a pull says that this is an op queue of a broker that has no such topic."""
    return queue.topic == OP_TOPIC and answer.code == TOPIC_NOT_EXIST


def listed(connection: Connection, queue: Queue, offset: int, count: int) -> Pulled:
    """What a pull would bring, by one request for the entries and one for each record, no more than one answer holds.

    RefusedError where the first record cannot be had though the queue still keeps its offset.
    """
    entries = list(_at_once(_entries(connection, queue, offset, count)))
    requests = (Command(VIEW_MESSAGE_BY_ID, {"offset": str(entry.physical_offset)}) for entry in entries)
    largest = max((entry.size for entry in entries), default=0)
    answers = []
    for entry, answer in zip(entries, connection.ask_all(requests, most_bytes=max(largest, 1)), strict=True):
        if answer.code == SUCCESS and len(answer.body) != entry.size:
            raise ProtocolError(
                f"{connection.address}: {queue.topic} queue {queue.queue_id}: the record at physical offset"
                f" {entry.physical_offset} has {len(answer.body)} bytes, and its queue says {entry.size}"
            )
        answers.append(answer if answer.code == SUCCESS else replace(answer, body=b""))
    bodies = [answer.body for answer in takewhile(lambda answer: answer.code == SUCCESS, answers)]
    if bodies:
        return Pulled(True, offset + len(bodies), b"".join(bodies))
    (lowest,) = min_offsets(connection, [queue])
    if not isinstance(lowest, RefusedError) and lowest > offset:
        return Pulled(False, lowest, b"")  # retention was here meanwhile
    if answers:
        raise connection.refusal(answers[0], f"record of {queue.topic} queue {queue.queue_id} offset {offset}")
    return Pulled(False, offset, b"")


def _at_once(entries: list[_Entry]) -> Iterator[_Entry]:
    """The first entries, whose records together are no larger than one answer; the first of all whatever it is."""
    taken = 0
    for entry in entries:
        taken += entry.size
        if taken > LARGE_ANSWER and taken != entry.size:
            return
        yield entry


def _entries(connection: Connection, queue: Queue, offset: int, count: int) -> list[_Entry]:
    """Entries from an offset on, at most `count`; none where the broker has none there."""
    fields = {"topic": queue.topic, "queueId": str(queue.queue_id), "index": str(offset), "count": str(count)}
    answer = connection.ask(Command(QUERY_CONSUME_QUEUE, fields))
    connection.require_success(answer, f"entries of {queue.topic} queue {queue.queue_id}")
    if not answer.body:
        return []
    try:
        document = parsed(answer.body)
        queue_data = document.get("queueData") if isinstance(document, dict) else None
        found = [_Entry(each["physicOffset"], each["physicSize"]) for each in queue_data or []]
        if len(found) > count or not all(type(number) is int and number >= 0 for entry in found for number in entry):
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise ProtocolError(f"{connection.address}: entries of {queue.topic} that are none") from None
    return found
