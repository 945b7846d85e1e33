"""The two data sources for reads of one's own: a whole store, or a topic by its name server, in one line each.

A pass fixes what it reads by options that these work out when a frame is planned: `from_offset` and `to_offset` of a
store; address and ranges of the queues of a topic. Where they are given, they hold.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from txmq_lib.errors import RefusedError, UsageError
from txmq_lib.rocketmq.host_port import host_and_port
from txmq_lib.rocketmq.live_source import SOURCE_NAME, Rocketmq, RocketmqReader, access_of, grouped, read_ranges
from txmq_lib.rocketmq.remoting.broker import Queue, max_offsets, min_offsets
from txmq_lib.rocketmq.remoting.connection import Access, Connection
from txmq_lib.rocketmq.remoting.name_server import name_server, routes
from txmq_lib.rocketmq.remoting.queue_reader import QueueRange
from txmq_lib.rocketmq.store.commit_log import list_files, log_end
from txmq_lib.rocketmq.store.message_format import MAX_BODY_BYTES
from txmq_lib.rocketmq.store_source import RocketmqStore, StoreReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GROUP: Final = "txmq-reader"
TIMEOUT_S: Final = "3"


def register(spark: SparkSession) -> None:
    """Register `rocketmq_store` and `rocketmq` with a session: `spark.read.format(...)` knows them from here on."""
    spark.dataSource.register(WholeStore)
    spark.dataSource.register(Topic)


class WholeStore(RocketmqStore):
    """`rocketmq_store`, read from its first record to its last whole one where no offsets are given."""

    def reader(self, schema: StructType) -> StoreReader:
        """A reader for the options given, and the ends of the log."""
        options = dict(self.options)
        options.setdefault("from_offset", "0")
        if "to_offset" not in options and "path" in options:
            options["to_offset"] = str(log_end(list_files(options["path"]).files).offset)
        return StoreReader(options)


class Topic(Rocketmq):
    """`rocketmq`, of the queues of a topic as they stand when the frame is planned, where no ranges are given.

    Options  namesrv   name servers, host:port, with commas between
             topic     the topic's name
             group     optional: consumer group to read as; nothing is committed for it
             timeout, access_key_env, secret_key_env, tls, ca_file, checks_host_name, max_body_bytes  as of `rocketmq`
    """

    def reader(self, schema: StructType) -> RocketmqReader | TopicReader:  # type: ignore[override]
        """A reader for the options given."""
        return RocketmqReader(self.options) if "ranges" in self.options else TopicReader(self.options)


@dataclass
class BrokerRanges(InputPartition):
    """The ranges of queues of one broker that one task reads."""

    address: str
    ranges: tuple[QueueRange, ...]


class TopicReader(DataSourceReader):
    """Finds the brokers of a topic, and the ends of its queues, on the driver; tasks pull."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.name_servers = [each.strip() for each in _required(options, "namesrv").split(",") if each.strip()]
        for address in self.name_servers:
            host_and_port(address)
        self.topic = _required(options, "topic")
        self.group = options.get("group", GROUP)
        self.access = access_of({"timeout": TIMEOUT_S, **options}, os.environ)
        self.max_body_bytes = int(options.get("max_body_bytes", MAX_BODY_BYTES))

    def partitions(self) -> Sequence[InputPartition]:
        """Per master that has the topic its queues, as groups of ranges. UsageError where nobody has it."""
        found: list[BrokerRanges] = []
        for address, count in self._masters().items():
            ranges = _ranges(address, self.access, [Queue(self.topic, queue_id) for queue_id in range(count)])
            found += [BrokerRanges(address, tuple(group)) for group in grouped(ranges)]
        return found

    def _masters(self) -> dict[str, int]:
        with name_server(self.name_servers, self.access) as connection:
            known = dict(routes(connection, [self.topic]))
        route = known.get(self.topic)
        if route is None:
            raise UsageError(f"{SOURCE_NAME}: the name servers know no topic {self.topic}")
        masters = {name: route.master(name) for name in route.read_queues}
        if absent := sorted(name for name, address in masters.items() if address is None):
            raise UsageError(
                f"{SOURCE_NAME}: broker {', '.join(absent)} has no master now, its queues would be missing"
            )
        return {address: route.read_queues[name] for name, address in masters.items() if address is not None}

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows of one group of ranges."""
        if isinstance(partition, BrokerRanges):
            yield from read_ranges(partition.address, self.access, self.group, partition.ranges, self.max_body_bytes)


def _ranges(address: str, access: Access, queues: Sequence[Queue]) -> list[QueueRange]:
    """The queues with their ends; RefusedError where the broker gives those of one to nobody."""
    with Connection(address, access) as connection:
        ends = [list(of(connection, queues)) for of in (min_offsets, max_offsets)]
    ranges = []
    for queue, low, high in zip(queues, *ends, strict=True):
        for end in (low, high):
            if isinstance(end, RefusedError):
                raise end
        assert isinstance(low, int)
        assert isinstance(high, int)
        ranges.append(QueueRange(queue.topic, queue.queue_id, low, high))
    return ranges


def _required(options: Mapping[str, str], option: str) -> str:
    if option not in options:
        raise UsageError(f"{SOURCE_NAME}: option {option} is missing")
    return options[option]
