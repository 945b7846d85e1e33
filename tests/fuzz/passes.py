"""Whole passes over hostile input that is good by the contract: every job ends, every good row is there, views answer."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from fuzz.hostile import EDGE_NUMBERS, damaged, number, text
from fuzz.landing import written
from fuzz.tally import Tally
from house import House
from moment import NOW, NOW_MS
from record_encoder import encode_record, write_log

from txmq_lib.names import (
    HALF_TOPIC,
    MAX_TIME_TOPIC,
    OP_TOPIC,
    PROPERTY_CHECK_IMMUNITY,
    PROPERTY_CHECK_TIMES,
    PROPERTY_DELAY,
    PROPERTY_PREPARED_QUEUE_OFFSET,
    PROPERTY_PRODUCER_GROUP,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_TAGS,
    PROPERTY_TRAN_MSG,
    PROPERTY_UNIQ_KEY,
)
from txmq_lib.views.catalogue import VIEWS
from txmq_lib.views.lag import LagWindow
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.select import ViewQuery, view_rows
from txmq_lib.views.trace import trace

KNOWN_PROPERTIES = (
    PROPERTY_CHECK_IMMUNITY,
    PROPERTY_CHECK_TIMES,
    PROPERTY_DELAY,
    PROPERTY_PREPARED_QUEUE_OFFSET,
    PROPERTY_PRODUCER_GROUP,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_TAGS,
    PROPERTY_TRAN_MSG,
    PROPERTY_UNIQ_KEY,
)
AUDITED, SERVED, STORED = "it's [b] {e} %s", 'engine-\u05d0 `"', "from a store"
SETTINGS = (
    f"brokers={json.dumps({AUDITED: {'role': 'audit'}, SERVED: {'role': 'engine'}, STORED: {'role': 'engine'}})}",
)
EDGE_OFFSETS = (0, 1, 2**31, 2**53, 2**62 - 1, 2**62)
TIMES = (0, NOW_MS, NOW_MS - 1, 253_402_300_799_999)


def run_passes(house: House, count: int, seed: int) -> Tally:
    """Land `count` good and bad lines of every kind and a store, run every job twice, ask every view."""
    name = "whole passes"
    chance = Random(f"{name}/{seed}")
    tally, begun = Tally(name), time.monotonic()
    keys: dict[str, set[int]] = {}
    for kind, topic in (("half", HALF_TOPIC), ("op", OP_TOPIC), ("max-time", MAX_TIME_TOPIC), ("message", None)):
        offsets = chance.sample(range(2, 10**6), count) + list(EDGE_OFFSETS)
        keys[kind] = set(offsets)
        good = [_message(chance, topic or text(chance) or "T", offset) for offset in offsets]
        bad = [written(chance, "message") for _ in range(count)]
        for broker in (AUDITED, SERVED):
            _land(house, tally, kind, good + bad, broker)
    for kind in ("end", "offset", "ack"):
        _land(house, tally, kind, [written(chance, kind) for _ in range(count * 2)] + _hostile_events(kind), AUDITED)
        _land(house, tally, kind, [written(chance, kind) for _ in range(count * 2)] + _hostile_events(kind), SERVED)
    house.land_store(_store(chance, house.scratch / f"store-{seed}"), broker=STORED)
    _land(house, tally, "offset", [], AUDITED, name="consumerOffset.json", content=_offset_table(chance))
    for _ in range(2):
        house.reconcile()
        house.rollup()
        house.audit()
    halves = {(row["broker_name"], row["queue_offset"]) for row in house.rows("half_message")}
    tally.escapes += [
        f"{name}/{seed}: a good half was lost, offset {offset} of {broker}"
        for broker in (AUDITED, SERVED)
        for offset in sorted(keys["half"])
        if (broker, offset) not in halves
    ]
    _ask(house, tally)
    tally.seconds = tally.longest_seconds = time.monotonic() - begun
    return tally


def _land(
    house: House, tally: Tally, kind: str, lines: list[bytes], broker: str, *, name: str = "", content: bytes = b""
) -> None:
    house.written += 1
    path = house.scratch / (name or f"{kind}-{house.written} [x] {{y}} %41 'z'.jsonl")
    path.write_bytes(content or b"\n".join(lines) + b"\n")
    house.land(kind, path, broker=broker)
    tally.tried += len(lines) or 1


def _message(chance: Random, topic: str, offset: int) -> bytes:
    properties = {
        chance.choice([*KNOWN_PROPERTIES, text(chance) or "x"]): chance.choice(
            [str(number(chance)), text(chance), "true", "d", HALF_TOPIC, "TopicA"]
        )
        for _ in range(chance.randrange(8))
    }
    fields: dict[str, Any] = {
        "topic": topic,
        "queueId": 0,
        "queueOffset": offset,
        "commitLogOffset": offset,
        "sysFlag": chance.choice([0, 4, 8, 12, -1, 2**31 - 1, -(2**31)]),
        "flag": chance.choice([0, -(2**31)]),
        "bornTimestamp": chance.choice(TIMES),
        "storeTimestamp": chance.choice(TIMES),
        "bornHost": text(chance),
        "storeHost": text(chance),
        "offsetMsgId": f"{offset:032X}",
        "reconsumeTimes": chance.choice([0, 2**31 - 1]),
        "preparedTransactionOffset": chance.choice(EDGE_OFFSETS),
        "properties": {**properties, **({PROPERTY_TAGS: "d"} if topic == OP_TOPIC else {})},
        "bodyBase64": base64.b64encode(",".join(str(number(chance)) for _ in range(4)).encode()).decode(),
    }
    return json.dumps(fields).encode()


def _hostile_events(kind: str) -> list[bytes]:
    """Good events at the edges of what an offset and a time can be."""
    queue = {"group": "g", "topic": "T", "queueId": 2**31 - 1, "clientId": "c"}
    highest = 2**63 - 1
    events: list[dict[str, Any]] = []
    for ts in TIMES:
        if kind == "end":
            end = {"ts": ts, "producerGroup": "g", "tranStateTableOffset": highest, "commitLogOffset": highest}
            events += [{**end, "commitOrRollback": decision} for decision in (0, 8, 12, 2**31 - 1)]
        elif kind == "offset":
            events += [{**queue, "ts": ts, "offset": offset} for offset in (0, highest)]
            events += [{**queue, "ts": ts, "offset": highest, "increaseOnly": False}]
        else:
            events += [{**queue, "ts": ts, "event": "allocated"}]
            events += [{**queue, "ts": ts, "event": event, "offsets": [highest, 0]} for event in ("taken", "acked")]
            events += [{**queue, "ts": ts, "event": "taken", "offsets": [highest]}]
    return [json.dumps(event).encode() for event in events]


def _store(chance: Random, place: Path) -> Path:
    log = b""
    for offset in range(60):
        fields: dict[str, Any] = {
            "queue_offset": offset,
            "topic": chance.choice([HALF_TOPIC, OP_TOPIC, "TopicA"]).encode(),
        }
        if chance.random() < 0.4:
            fields |= chance.choice(
                [
                    {"queue_offset": chance.choice([2**63 - 1, -1, 2**62])},
                    {"store_ms": chance.choice([2**63 - 1, -(2**63), -1])},
                    {"born_ms": 2**63 - 1},
                    {"queue_id": chance.choice([-1, 2**31 - 1])},
                    {"sys_flag": 0x301},
                    {"topic": b"\xff"},
                ]
            )
        record = encode_record(len(log), **fields)
        log += damaged(chance, record)[: len(record)].ljust(len(record), b"\0") if chance.random() < 0.2 else record
    # The first and the last record say when the log was written.
    first = encode_record(0, store_ms=2**63 - 1)
    log = first + log[len(first) :]
    log += encode_record(len(log), store_ms=-(2**63))
    write_log(place, [log], file_size=1 << 16)
    for queue in ("0", "2147483648", "\u0663"):
        (place / "consumequeue" / "TopicA" / queue).mkdir(parents=True)
        (place / "consumequeue" / "TopicA" / queue / f"{0:020d}").write_bytes(bytes(40))
    (place / "config").mkdir()
    (place / "config" / "consumerOffset.json").write_bytes(_offset_table(chance))
    return place


def _offset_table(chance: Random) -> bytes:
    entries = [f'"{topic}@g":{{0:{offset}}}' for topic in ("T", "\\ud800", "\\u0000") for offset in EDGE_NUMBERS[:8]]
    chance.shuffle(entries)
    table = ",".join(entries)
    return f'{{"offsetTable":{{{table}}}}}'.encode()


def _ask(house: House, tally: Tally) -> None:
    reader = WarehouseReader(house.warehouse.uri)
    for view in VIEWS:
        asking = ViewQuery(lag_window=LagWindow(NOW, 60_000) if view.is_lag_judged else None)
        rows = list(view_rows(reader, view, asking, columns=view.columns))
        json.dumps(rows).encode()
        for option, columns in view.filters.items():
            if len(columns) > 1 or columns[0] not in view.columns:
                continue
            at = view.columns.index(columns[0])
            for query in {row[at] for row in rows[:20] if isinstance(row[at], str)}:
                asking_for = replace(asking, filters={option: [query]})
                found = list(view_rows(reader, view, asking_for, columns=view.columns))
                tally.tried += 1
                if len(found) != sum(row[at] == query for row in rows):
                    tally.escapes.append(f"{view.command} --{option} {query!a} finds {len(found)} rows")
    for row in house.rows("half_message")[:30]:
        tally.tried += 1
        if not trace(reader, row["transaction_id"]):
            tally.escapes.append(f"trace {row['transaction_id']!a} finds nothing")
