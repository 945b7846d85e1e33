"""Answers to pulls of a live queue: records and what is none become rows, each with its place, and no other error."""

from __future__ import annotations

from itertools import takewhile
from random import Random

from fuzz.hostile import damaged
from fuzz.records import RECORD_REASONS
from record_encoder import encode_record

from txmq_lib.names import RECORD_TORN
from txmq_lib.pipeline.land.live.queue_task import facts_of
from txmq_lib.pipeline.land.records.queue_runs import runs_of
from txmq_lib.rocketmq.live_source import _batches
from txmq_lib.rocketmq.remoting.broker import Queue
from txmq_lib.rocketmq.remoting.queue_reader import Answer, _Piece, _records

QUEUE = Queue("TopicA", 0)
FIRST, MOST = 5, 32


def pulls(chance: Random) -> int:
    """An answer of good records, and of good and damaged ones: what is good before the damage is there unchanged."""
    count = chance.randrange(1, 12)
    odd = [{}, {"topic": b"Other"}, {"queue_offset": 0}, {"queue_offset": -1}, {"born_ms": -1}, {"born_ms": 2**63 - 1}]
    wrong = [chance.choice(odd) if chance.random() < 0.3 else {} for _ in range(count)]
    records = [
        encode_record(
            100 * place, **{"topic": b"TopicA", "queue_offset": FIRST + place, "body": bytes([place]), **fields}
        )
        for place, fields in enumerate(wrong)
    ]
    hurt = chance.randrange(count + 1)
    body = b"".join(records[:hurt]) + (damaged(chance, b"".join(records[hurt:])) if hurt < count else b"")
    answer, read_to = _records(body, QUEUE, _Piece(FIRST, FIRST + MOST))
    assert isinstance(answer, Answer)
    assert read_to >= FIRST
    assert len(answer.torn) + len(answer.whole) >= (1 if body else 0)
    places = [*((start, end) for start, end in answer.whole), *((start, end) for _, start, end in answer.torn)]
    assert sum(end - start for start, end in places) == len(body), "bytes that nobody tells of"
    good = {}
    for batch in _batches(iter([answer]), QUEUE, 1 << 20):
        facts_of(batch)
        runs_of(batch.filter(batch["reason"].is_null()))
        for row in batch.to_pylist():
            assert (row["topic"], row["queue_id"]) == QUEUE
            assert row["reason"] is None or row["reason"] in RECORD_REASONS | {RECORD_TORN}
            assert FIRST <= row["queue_offset"] < FIRST + MOST + len(answer.torn)
            good |= {} if row["reason"] else {row["queue_offset"]: row["body"]}
    whole = [*takewhile(lambda place: not wrong[place], range(hurt))]
    assert [good.get(FIRST + place) for place in whole] == [bytes([place]) for place in whole], "a good one is lost"
    return count
