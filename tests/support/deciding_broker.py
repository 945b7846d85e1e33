"""A live broker that decides, and its name server: what it is told to commit, roll back or resume, it does."""

from __future__ import annotations

import json

from house import BROKER
from moment import NOW
from record_encoder import encode_record
from remoting_server import FakeBroker, RemotingServer, answer

HALF, OP, GIVEN_UP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"
ROCKSDB_HALF, ROCKSDB_OP = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
BORN_MS = int(NOW.timestamp() * 1000) - 60_000


class Deciding:
    """A broker with halves T0, T1, ... that commits, rolls back and resumes as one does, and its name server."""

    def __init__(self, halves: int) -> None:
        self.interrupt = lambda request: None
        self.begin(halves)
        self.server = RemotingServer(lambda request: self.broker(request))
        self.names = RemotingServer(self._route)

    def begin(self, halves: int) -> None:
        """Be as at first, with so many halves and nothing decided; under the same addresses."""
        self.broker = FakeBroker({(HALF, 0): [], (OP, 0): [], (GIVEN_UP, 0): [], ("TopicA", 0): []})
        self.broker.before = self._take
        self.physical = 0
        self.in_rocksdb: dict[int, int] = {}
        for number in range(halves):
            self.append(HALF, number)

    def append(self, topic: str, number: int, **fields) -> int:
        """Store a message of transaction T<number> under a topic; its physical offset."""
        queue = self.broker.queues[topic, 0]
        properties = {
            "UNIQ_KEY": f"T{number}",
            "PGROUP": "GID_A",
            "REAL_TOPIC": "TopicA",
            "REAL_QID": "0",
            "TRAN_MSG": "true",
        }
        stored_properties = "".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode()
        record = {
            "properties": stored_properties,
            "born_ms": BORN_MS + number,
            "store_ms": BORN_MS + 1000 + self.physical,
            **fields,
        }
        queue.append(encode_record(self.physical, topic=topic.encode(), queue_offset=len(queue), **record))
        if topic == ROCKSDB_HALF:
            self.in_rocksdb[self.physical] = number
        self.physical += 1000
        return self.physical - 1000

    def keep_in_rocksdb(self, number: int, **fields) -> int:
        """Store a half of transaction T<number> as a broker does that has the index of its halves in RocksDB."""
        for topic in (ROCKSDB_HALF, ROCKSDB_OP):
            self.broker.queues.setdefault((topic, 0), [])
        return self.append(ROCKSDB_HALF, number, **fields)

    def sent(self) -> list[tuple[int, str]]:
        """Code and transaction or message id of every request that decides."""
        return [
            (request["code"], request["extFields"].get("transactionId") or request["extFields"]["msgId"])
            for request in self.server.requests
            if request["code"] in (37, 323)
        ]

    def _take(self, request):
        interrupted = self.interrupt(request)
        if interrupted is not None:
            return interrupted
        fields = request["extFields"]
        if request["code"] == 37:
            number = int(fields["transactionId"][1:])
            if fields["producerGroup"] != "GID_A":
                return answer(request, 1, remark="The producer group wrong")
            if fields["commitOrRollback"] == "8":
                prepared = int(fields["commitLogOffset"])
                record = self.append("TopicA", number, sys_flag=8)
                assert record >= prepared
                self.broker.queues["TopicA", 0][-1] = with_prepared_offset(
                    self.broker.queues["TopicA", 0][-1], prepared
                )
            self.append(OP, number, body=f"{fields['tranStateTableOffset']},".encode(), properties=b"TAGS\x01d\x02")
            return answer(request)
        if request["code"] == 323:
            resumed = self.in_rocksdb.get(int(fields["msgId"][-16:], 16))
            if resumed is None:
                self.append(HALF, 0)
            else:  # into the pair of the half (R120)
                self.keep_in_rocksdb(resumed, store_ms=BORN_MS + 55_000)
            return answer(request)
        return answer(request, body=b"{}") if request["code"] in (26, 43) else None

    def _route(self, request):
        topics = {topic for topic, _ in self.broker.queues}
        if request["code"] == 206:
            return answer(request, body=json.dumps({"topicList": sorted(topics)}).encode())
        document = {
            "queueDatas": [{"brokerName": BROKER, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}],
            "brokerDatas": [{"brokerName": BROKER, "cluster": "c", "brokerAddrs": {"0": self.server.address}}],
        }
        return answer(request, body=json.dumps(document).encode())

    def close(self) -> None:
        self.server.close()
        self.names.close()


def with_prepared_offset(record: bytes, offset: int) -> bytes:
    """The record with preparedTransactionOffset (F2: the field before the body's length, hosts of IPv4)."""
    at = 4 + 4 + 4 + 4 + 4 + 8 + 8 + 4 + 8 + 8 + 8 + 8 + 4
    return record[:at] + offset.to_bytes(8, "big") + record[at + 8 :]
