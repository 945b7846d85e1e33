"""The store of a capture served as its live broker would: a name server and a broker in this process."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from captured import unpack_store
from remoting_server import FakeBroker, RemotingServer, Reply, Request, answer, routed
from truth import CAPTURES

from txmq_lib.rocketmq.store.commit_log import LogFile, MappedLog, list_files, open_log, walk
from txmq_lib.rocketmq.store.message_format import END, HEADER_FIELDS, START, TOPIC, read_frame, read_header
from txmq_lib.rocketmq.store.records import Records

A_THOUSAND = 1_000  # queues of BenchmarkTest, which every broker has and nobody uses
NEVER_VISIBLE = (4, 12)  # transaction types that enter no queue (R10)


class LiveCapture:
    """Both servers; `broker` may be told to answer otherwise, `address` is the name server's.

    read_queues  by topic how many queues the name server tells of, where that is not as many as have messages: those of
                 the capture's topic configs; 0: of such a topic it tells nothing
    """

    def __init__(self, capture: str, scratch: Path, broker_name: str) -> None:
        store = unpack_store(capture, scratch)
        self.broker_name = broker_name
        self.broker = FakeBroker(_queues(store))
        self.offsets = (store / "config" / "consumerOffset.json").read_bytes()
        self.read_queues = _configured(store)
        self.config = (CAPTURES / capture / "broker.conf").read_bytes()
        self.interrupt = lambda request: None
        self.broker.before = self._other
        self.server = RemotingServer(self.broker)
        self.names = RemotingServer(self._route)

    @property
    def address(self) -> str:
        """The address of the name server."""
        return self.names.address

    def restart(self) -> None:
        """The broker at another address."""
        self.server.close()
        self.server = RemotingServer(self.broker)

    def close(self) -> None:
        """Stop both."""
        self.server.close()
        self.names.close()

    def _other(self, request: Request) -> Reply:
        interrupted = self.interrupt(request)
        if interrupted is not None:
            return interrupted
        bodies = {26: self.config, 43: self.offsets}
        return answer(request, body=bodies[request["code"]]) if request["code"] in bodies else None

    def _route(self, request: Request) -> bytes:
        having: defaultdict[str, int] = defaultdict(int)
        for topic, queue_id in self.broker.queues:
            if topic in self.broker.unregistered:
                continue
            having[topic] = max(having[topic], queue_id + 1)
        having |= self.read_queues
        counts = {topic: {self.broker_name: count} for topic, count in having.items() if count}
        return routed(request, counts, {self.broker_name: self.server.address})


@contextmanager
def live_capture(capture: str, scratch: Path, broker_name: str) -> Iterator[LiveCapture]:
    """A capture served, and stopped afterwards."""
    served = LiveCapture(capture, scratch, broker_name)
    try:
        yield served
    finally:
        served.close()


def _configured(store: Path) -> dict[str, int]:
    table = json.loads((store / "config" / "topics.json").read_bytes())["topicConfigTable"]
    readable = {name: topic["readQueueNums"] for name, topic in table.items() if topic["perm"] & 4}
    return {name: count for name, count in readable.items() if count < A_THOUSAND}


def _starts(log: MappedLog, file: LogFile) -> list[int]:
    whole = [each for each in walk(log, file.base_offset, file.end_offset) if isinstance(each, Records)]
    return [offset - file.base_offset for records in whole for offset in records.offsets.tolist()]


def _queues(store: Path) -> dict[tuple[str, int], list[bytes]]:
    found: defaultdict[tuple[str, int], dict[int, bytes]] = defaultdict(dict)
    for file in list_files(str(store)).files:
        with open_log(file, file.base_offset, file.end_offset) as log:
            for start in _starts(log, file):
                frame = read_frame(log.data, start, log.size)
                assert frame is not None
                header = dict(zip(HEADER_FIELDS, read_header(log.data, frame), strict=True))
                if header["sys_flag"] & 0xC not in NEVER_VISIBLE:
                    queue = (frame[TOPIC].decode(), header["queue_id"])
                    found[queue][header["queue_offset"]] = log.data[frame[START] : frame[END]]
    return {queue: [records[offset] for offset in range(len(records))] for queue, records in found.items()}
