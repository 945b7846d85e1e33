"""What the task that pulls ranges of a live queue tells of them beside its files: the frontier's facts, and faults."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
from record_encoder import STORE_MS, encode_record
from remoting_server import FakeBroker, RemotingServer

from txmq_lib.names import HALF_TOPIC
from txmq_lib.pipeline.land.live.queue_task import Peer, QueueFacts, Share, Told, packed, pull_and_write
from txmq_lib.pipeline.land.records.record_files import RecordReading
from txmq_lib.pipeline.land.records.record_rows import Landing
from txmq_lib.rocketmq.remoting.broker import Queue
from txmq_lib.rocketmq.remoting.connection import Access
from txmq_lib.rocketmq.remoting.queue_reader import QueueRange

PLACE = 1000


def stored(offset: int, topic: str = "TopicA", **fields: object) -> bytes:
    place = PLACE * (offset + 1)
    return encode_record(place, topic=topic.encode(), queue_offset=offset, store_ms=STORE_MS + offset, **fields)


def at(offset: int) -> datetime:
    return datetime.fromtimestamp((STORE_MS + offset) / 1000, UTC)


def pulled(queues: dict[tuple[str, int], list[bytes]], ranges: list[QueueRange], tmp_path) -> tuple[object, Told]:
    paths = {}
    for table in ("half_message", "op_message", "message", "trans_check_max_time"):
        (tmp_path / table).mkdir()
        paths[table] = str(tmp_path / table)
    reading = RecordReading(Landing("broker-a", 1, is_engine=False), paths, None, 1 << 20, 1 << 20)
    with RemotingServer(FakeBroker(queues)) as server:
        return pull_and_write(Share(ranges, Peer(server.address, Access(1.0), "G"), reading))


def test_of_each_queue_the_first_and_last_records_and_the_newest_time_are_told(tmp_path):
    bad = encode_record(PLACE, topic=b"TopicA", queue_offset=0, store_ms=STORE_MS + 99, crc=1)
    torn = stored(3)[:4] + bytes(4) + stored(3)[8:]
    queues = {("TopicA", 0): [bad, stored(1), stored(2), torn], ("TopicB", 0): [stored(0, "TopicB")]}
    ranges = [QueueRange("TopicA", 0, 0, 4), QueueRange("TopicB", 0, 0, 1)]
    written, findings = pulled(queues, ranges, tmp_path)
    assert findings.facts == {
        Queue("TopicA", 0): QueueFacts(at(2), 0, (1, at(1)), (3, None, None)),
        Queue("TopicB", 0): QueueFacts(at(0), 0, (0, at(0)), (0, PLACE, STORE_MS)),
    }
    assert findings.unread == {}
    assert sum(file.rows for file in written.files["message"]) == 3
    assert sorted(pa.Table.from_batches(written.kept)["reason"].to_pylist()) == ["BODY_CRC", "RECORD_TORN"]


def test_a_queue_that_ends_too_soon_is_told_and_the_others_are_written(tmp_path):
    queues = {("TopicA", 0): [stored(0)], ("TopicB", 0): [stored(0, "TopicB")]}
    written, findings = pulled(queues, [QueueRange("TopicA", 0, 5, 9), QueueRange("TopicB", 0, 0, 1)], tmp_path)
    assert list(findings.unread) == [Queue("TopicA", 0)]
    assert "gives nothing at offset 5" in findings.unread[Queue("TopicA", 0)]
    assert list(findings.facts) == [Queue("TopicB", 0)]
    assert (sum(file.rows for file in written.files["message"]), written.suspects) == (1, 0)


def test_the_real_queues_that_halves_name_are_told(tmp_path):
    named = [("orders", "0"), ("payments", "3"), ("orders", "0"), ("orders", "1"), ("orders", "-1"), ("orders", "x")]
    halves = [
        stored(offset, HALF_TOPIC, properties=f"REAL_TOPIC\x01{topic}\x02REAL_QID\x01{queue_id}\x02".encode())
        for offset, (topic, queue_id) in enumerate(named)
    ]
    halves.append(stored(len(named), HALF_TOPIC, properties=b"REAL_TOPIC\x01orders\x02"))
    _, findings = pulled({(HALF_TOPIC, 0): halves}, [QueueRange(HALF_TOPIC, 0, 0, len(halves))], tmp_path)
    assert findings.real_queues == {Queue("orders", 0), Queue("payments", 3), Queue("orders", 1)}


def test_what_two_tasks_tell_of_one_queue_is_put_together():
    low = QueueFacts(at(9), 2, (4, at(4)), (5, 6000, STORE_MS + 5))
    high = QueueFacts(at(7), 6, (6, at(6)), (7, 8000, STORE_MS + 7))
    bad = QueueFacts(None, 8, None, (9, None, None))
    queue = Queue("TopicA", 0)
    for order in ([low, high, bad], [bad, low, high], [high, bad, low]):
        findings = Told()
        for facts in order:
            findings.add(Told({queue: facts}))
        assert findings.facts == {queue: QueueFacts(at(9), 2, (4, at(4)), (9, None, None))}


def test_small_shares_of_several_brokers_make_one_task_and_large_ones_a_task_each():
    def share(address: str, messages: int) -> Share:
        return Share([QueueRange("T", 0, 7, 7 + messages)], Peer(address, Access(1.0), "G"), None)

    a, b, c, d, e = (share(address, messages) for address, messages in zip("abcde", (3, 4, 8, 12, 1), strict=True))
    assert packed([a, b, c, d, e], 10) == [[a, b], [c], [d], [e]]
    assert packed([a, b], 7) == [[a, b]]
    assert packed([], 10) == []
