"""Spark data source `rocketmq`: messages of a live broker's queues, read in parallel by ranges of offsets.

Options  address          of the broker, host:port
         ranges           JSON list of [topic, queue id, first queue offset, offset to stop before]
         group            consumer group to read as; nothing is committed for it
         timeout          seconds that connecting, and each answer, may take
         access_key_env, secret_key_env  optional: environment variables of the driver that hold the keys for ACL
         max_body_bytes   optional: the body of a message that unpacks to more is left out, with a `reason`
         tls              optional: `true`; then also ca_file, and checks_host_name `true` or `false`
Must not decide which offsets to read, nor what a fault means: bad records are rows with a `reason`, and so is a range
that could not be read to its end (RANGE_UNREAD, with topic, queue and why in `raw`). Every row has the queue and the
queue offset that it was read from, also where its bytes do not say.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from txmq_lib.errors import RemotingError, UnreachableError, UsageError
from txmq_lib.rocketmq.remoting.broker import Queue
from txmq_lib.rocketmq.remoting.connection import Access, Connection, Tls
from txmq_lib.rocketmq.remoting.queue_reader import Answer, QueueRange, read_queue
from txmq_lib.rocketmq.remoting.signature import Credentials
from txmq_lib.rocketmq.store.message_batch import ARROW_SCHEMA, MAX_RAW_BYTES, decode_batches, torn_batch
from txmq_lib.rocketmq.store.message_format import MAX_BODY_BYTES
from txmq_lib.rocketmq.store.records import whole_records

SOURCE_NAME: Final = "rocketmq"
RANGE_UNREAD: Final = "RANGE_UNREAD"
MESSAGES_PER_TASK: Final = 25_000
QUEUES_PER_TASK: Final = 256
BATCH_BYTES: Final = 8 * 1024 * 1024


@dataclass
class RangeGroup(InputPartition):
    """The ranges that one task reads, one after the other over one connection."""

    ranges: tuple[QueueRange, ...]


class Rocketmq(DataSource):
    """Registers as `rocketmq`; one row per message, bad ones with a `reason`, in no order."""

    @classmethod
    def name(cls) -> str:
        """The format name."""
        return SOURCE_NAME

    def schema(self) -> StructType:
        """ARROW_SCHEMA in Spark's types."""
        return from_arrow_schema(ARROW_SCHEMA)

    def reader(self, schema: StructType) -> RocketmqReader:
        """A reader for the options given."""
        return RocketmqReader(self.options)


class RocketmqReader(DataSourceReader):
    """Plans tasks of some 25,000 messages each, and pulls in them. Keys for ACL are looked up on the driver only."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.address = _required(options, "address")
        self.group = _required(options, "group")
        self.ranges = _ranges(_required(options, "ranges"))
        self.access = access_of(options, os.environ)
        self.max_body_bytes = int(options.get("max_body_bytes", MAX_BODY_BYTES))

    def partitions(self) -> Sequence[InputPartition]:
        """Large ranges are cut, small ones put together."""
        return [RangeGroup(tuple(ranges)) for ranges in grouped(self.ranges)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows of one group of ranges."""
        if isinstance(partition, RangeGroup):
            yield from read_ranges(self.address, self.access, self.group, partition.ranges, self.max_body_bytes)


def access_of(options: Mapping[str, str], environ: Mapping[str, str]) -> Access:
    """How the options say that the broker is reached; UsageError where a key is not in the environment."""
    credentials = None
    if "access_key_env" in options:
        keys = []
        for option in ("access_key_env", "secret_key_env"):
            variable = _required(options, option)
            if not environ.get(variable):
                raise UsageError(f"{SOURCE_NAME}: {option}: the environment variable {variable} is not set")
            keys.append(environ[variable])
        credentials = Credentials(*keys)
    tls = None
    if options.get("tls", "false") == "true":
        tls = Tls(options.get("ca_file"), options.get("checks_host_name", "true") == "true")
    return Access(float(_required(options, "timeout")), credentials, tls)


def grouped(ranges: Sequence[QueueRange], most: int = MESSAGES_PER_TASK) -> Iterator[list[QueueRange]]:
    """The ranges as groups of at most so many messages and QUEUES_PER_TASK queues, large ones cut."""
    group: list[QueueRange] = []
    room = most
    for whole in ranges:
        start = whole.start
        while start < whole.stop:
            stop = min(whole.stop, start + room)
            group.append(whole._replace(start=start, stop=stop))
            room -= stop - start
            start = stop
            if room == 0 or len(group) == QUEUES_PER_TASK:
                yield group
                group, room = [], most
    if group:
        yield group


def read_ranges(
    address: str,
    access: Access,
    group: str,
    ranges: Sequence[QueueRange],
    max_body_bytes: int = MAX_BODY_BYTES,
) -> Iterator[pa.RecordBatch]:
    """The messages of the ranges as batches; one that cannot be read to its end is a row, and the rest goes on."""
    waiting = deque(ranges)
    while waiting:
        try:
            with Connection(address, access) as connection:
                while waiting:
                    yield from _batches(read_queue(connection, group, waiting[0]), waiting[0].queue, max_body_bytes)
                    waiting.popleft()
        except UnreachableError as failure:
            # Nothing more is tried: each try would take its time, and there may be thousands of queues.
            yield from (_unread_batch(queue_range, failure.message) for queue_range in waiting)
            return
        except RemotingError as failure:
            yield _unread_batch(waiting.popleft(), failure.message)


def _batches(answers: Iterator[Answer], queue: Queue, max_body_bytes: int) -> Iterator[pa.RecordBatch]:
    """Answers of 32 messages put together: a batch has a price of its own."""
    parts: list[bytes] = []
    edges: list[tuple[int, int]] = []
    size = 0
    for answer in answers:
        for offset, start, end in answer.torn:
            raw = answer.data[start : min(end, start + MAX_RAW_BYTES)]
            yield torn_batch(-1, raw, (*queue, offset))
        edges += [(start + size, end + size) for start, end in answer.whole]
        parts.append(answer.data)
        size += len(answer.data)
        if size >= BATCH_BYTES:
            yield from decode_batches(whole_records(b"".join(parts), edges), max_body_bytes)
            parts, edges, size = [], [], 0
    if edges:
        yield from decode_batches(whole_records(b"".join(parts), edges), max_body_bytes)


def _unread_batch(queue_range: QueueRange, why: str) -> pa.RecordBatch:
    row = {
        "topic": queue_range.topic,
        "queue_id": queue_range.queue_id,
        "queue_offset": queue_range.start,
        "reason": RANGE_UNREAD,
        "raw": why.encode(),
    }
    return pa.RecordBatch.from_pylist([row], schema=ARROW_SCHEMA)


def _ranges(text: str) -> tuple[QueueRange, ...]:
    try:
        found = [QueueRange(*each) for each in json.loads(text)]
        is_right = all(
            isinstance(each.topic, str) and all(type(number) is int for number in each[1:]) for each in found
        )
    except (ValueError, TypeError):
        is_right = False
    if not is_right:
        raise UsageError(f"{SOURCE_NAME}: option ranges must be a JSON list of [topic, queue id, start, stop]")
    return tuple(found)


def _required(options: Mapping[str, str], option: str) -> str:
    if option not in options:
        raise UsageError(f"{SOURCE_NAME}: option {option} is missing")
    return options[option]
