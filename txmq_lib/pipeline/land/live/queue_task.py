"""Ranges of a live broker's queues become files of tables, in the task that pulls them; what is told of each queue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txmq_lib.names import HALF_TOPICS, PROPERTY_REAL_QUEUE_ID, PROPERTY_REAL_TOPIC
from txmq_lib.pipeline.land.records.record_files import RecordReading, Written, write_records
from txmq_lib.pipeline.land.records.record_rows import PLAIN_INT, Properties, plain_numbers
from txmq_lib.rocketmq.live_source import RANGE_UNREAD, read_ranges
from txmq_lib.rocketmq.remoting.broker import Queue
from txmq_lib.rocketmq.remoting.connection import Access
from txmq_lib.rocketmq.remoting.queue_reader import QueueRange


@dataclass(frozen=True)
class Peer:
    """The broker that is read, and as whom."""

    address: str
    access: Access
    group: str


@dataclass(frozen=True)
class QueueFacts:
    """Of the records that were read of one queue, good and bad.

    newest           store time of the newest good one; null where none is good
    first_offset     of the first record
    first_good       offset and store time of the first good one; null where none is good
    last             queue offset, physical offset and store time (ms) of the last record; the latter null where bad
    """

    newest: datetime | None
    first_offset: int
    first_good: tuple[int, datetime] | None
    last: tuple[int, int | None, int | None]

    def and_of(self, other: QueueFacts) -> QueueFacts:
        """The facts of both."""
        newest = [each.newest for each in (self, other) if each.newest is not None]
        firsts = [each.first_good for each in (self, other) if each.first_good is not None]
        return QueueFacts(
            max(newest, default=None),
            min(self.first_offset, other.first_offset),
            min(firsts, default=None),
            max(self.last, other.last, key=lambda last: last[0]),
        )


@dataclass
class Told:
    """What a reading of ranges tells beside its records.

    unread       why a queue could not be read to the end of its range
    real_queues  that halves name
    """

    facts: dict[Queue, QueueFacts] = field(default_factory=dict)
    unread: dict[Queue, str] = field(default_factory=dict)
    real_queues: set[Queue] = field(default_factory=set)

    def add(self, other: Told) -> None:
        """What another reading tells, too."""
        for queue, facts in other.facts.items():
            self._add_facts(queue, facts)
        self.unread |= other.unread
        self.real_queues |= other.real_queues

    def heard(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The records of `batches` (each of one queue), while what they tell is taken down."""
        for batch in batches:
            queue = Queue(batch["topic"][0].as_py(), batch["queue_id"][0].as_py())
            if batch["reason"][0].as_py() == RANGE_UNREAD:
                self.unread[queue] = batch["raw"][0].as_py().decode("utf-8", "replace")
                continue
            self._add_facts(queue, facts_of(batch))
            if queue.topic in HALF_TOPICS:
                self.real_queues |= _real_queues(Properties(batch["properties"]))
            yield batch

    def _add_facts(self, queue: Queue, facts: QueueFacts) -> None:
        known = self.facts.get(queue)
        self.facts[queue] = facts if known is None else known.and_of(facts)


def _real_queues(properties: Properties) -> set[Queue]:
    # What is written as no broker writes it is left out: what is not named is taken for unread.
    queue_ids, _ = plain_numbers(properties.of(PROPERTY_REAL_QUEUE_ID), PLAIN_INT, pa.int32())
    named = pa.table({"topic": properties.of(PROPERTY_REAL_TOPIC), "queue_id": queue_ids})
    each = named.group_by(["topic", "queue_id"]).aggregate([]).to_pylist()
    return {Queue(**row) for row in each if None not in row.values()}


def facts_of(batch: pa.RecordBatch) -> QueueFacts:
    """The facts of records of one queue, one at least."""
    offsets = batch["queue_offset"].to_numpy()
    last = int(offsets.argmax())
    place, time = batch["commit_log_offset"][last].as_py(), batch["store_timestamp"][last]
    time_ms = time.value // 1000 if time.is_valid else None
    good = np.flatnonzero(batch["reason"].is_null().to_numpy(zero_copy_only=False))
    newest, first_good = None, None
    if len(good):
        first = int(good[offsets[good].argmin()])
        first_good = (int(offsets[first]), batch["store_timestamp"][first].as_py())
        newest = pc.max(batch["store_timestamp"].take(pa.array(good))).as_py()
    return QueueFacts(newest, int(offsets.min()), first_good, (int(offsets[last]), place, time_ms))


class Share(NamedTuple):
    """What is pulled of one broker over one connection, and how its rows are written."""

    ranges: Sequence[QueueRange]
    peer: Peer
    reading: RecordReading

    @property
    def messages(self) -> int:
        """How many there are to pull."""
        return sum(each.stop - each.start for each in self.ranges)


def packed(shares: Iterable[Share], most: int) -> list[list[Share]]:
    """The shares, in order, as tasks of at most so many messages, or of one share: several brokers may have few."""
    tasks: list[list[Share]] = []
    room = 0
    for share in shares:
        if not tasks or share.messages > room:
            tasks.append([])
            room = most
        tasks[-1].append(share)
        room -= share.messages
    return tasks


def pull_and_write(share: Share) -> tuple[Written, Told]:
    """Pull the messages of the ranges and write those beyond doubt."""
    (ranges, peer, reading), heard = share, Told()
    batches = read_ranges(peer.address, peer.access, peer.group, ranges, reading.max_body_bytes)
    return write_records(heard.heard(batches), reading), heard


def pull_and_write_each(shares: Sequence[Share]) -> list[tuple[Written, Told]]:
    """The same of several shares, one after the other."""
    return [pull_and_write(share) for share in shares]
