"""Random histories of one broker in the landing contract, many side by side: each has offsets and a real topic of its own."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterable
from typing import Any, NamedTuple

from engine_model import End, Half, Transaction

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
MAX_TIME_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
STORED = ("half", "op", "message", "max_time")  # kinds of what a broker stored
START_MS = 1_795_262_400_000
OFFSETS, PLACES = 64, 1_000_000
IMMUNITIES = ("1", "3", "9", "0", "-1", "-5", "+4", "soon", "99999999999999999999", "9223372036854775807")


class Event(NamedTuple):
    """Something that lands in batch `batch`: `kind` is of the landing contract, `what` a Half, an End or a row of it."""

    batch: int
    kind: str
    what: Any


def engine_history(number: int, dice: random.Random, batches: int, span_ms: int) -> list[Event]:
    """Halves with copies, and ends of every sort, each landing in some batch, some of them twice."""
    events: list[Event] = []
    in_order = dice.random() < 0.5
    topic = f"T{number}"
    chains: list[list[Half]] = []
    next_offset = 0
    for one in range(dice.randrange(1, 4)):
        born = START_MS + dice.randrange(-2_000, span_ms)
        group = None if dice.random() < 0.03 else dice.choice("AB")
        transaction = Transaction(f"{number}.{one}", group, born)
        real_topic = dice.choices((topic, None, OP_TOPIC), (94, 3, 3))[0]
        real_queue = dice.choices((0, 1, None, -1), (70, 26, 3, 1))[0]
        immunity = dice.choice(IMMUNITIES) if dice.random() < 0.3 else None
        chain: list[Half] = []
        for copy in range(dice.choices((1, 2, 3), (70, 20, 10))[0]):
            place = number * PLACES + next_offset * 1_000
            stored = born + 5 + copy * 3_000
            offset = number * OFFSETS + next_offset
            chain.append(
                Half(transaction, offset, place, stored, real_topic, real_queue, immunity, f"body {number}.{one}")
            )
            next_offset += 1
        chains.append(chain)
    events += [
        Event(_batch(dice, batches, span_ms, half.stored_ms, in_order), "half", half) for c in chains for half in c
    ]
    for chain in chains:
        for _ in range(dice.choices((0, 1, 2, 3), (20, 45, 25, 10))[0]):
            end = _end(dice, chain, number, next_offset, span_ms)
            events.append(Event(_batch(dice, batches, span_ms, end.ts, in_order), "end", end))
    for event in list(events):
        if dice.random() < 0.1:
            events.append(Event(dice.randrange(event.batch, batches), event.kind, event.what))
        elif event.kind == "half" and event.batch + 1 < batches and dice.random() < 0.03:
            other = event.what._replace(body="rebuilt")
            events.append(Event(dice.randrange(event.batch + 1, batches), "half", other))
    dice.shuffle(events)
    return events


def _end(dice: random.Random, chain: list[Half], number: int, next_offset: int, span_ms: int) -> End:
    half = dice.choice(chain)
    ts = half.transaction.born_ms + dice.choice((0, 1, dice.randrange(span_ms), 2_000, 2_001, 3_000, 3_001))
    group = "C" if dice.random() < 0.05 else (half.transaction.group or "A")
    offset, place = half.offset, half.place
    fault = dice.random()
    if fault < 0.05:
        offset += 1
    elif fault < 0.10:
        place += 1
    elif fault < 0.14:
        # No half has landed there, nor ever will.
        offset, place = number * OFFSETS + 63, place + 7
    code = dice.choices((8, 12, 0, 7), (55, 30, 10, 5))[0]
    return End(ts, group, offset, place, code, dice.random() < 0.3)


def _batch(dice: random.Random, batches: int, span_ms: int, moment: int, in_order: bool) -> int:
    if not in_order:
        return dice.randrange(batches)
    return max(0, min(batches - 1, (moment - START_MS) * batches // span_ms))


def half_row(half: Half) -> dict[str, Any]:
    """A half in the landing contract."""
    half_properties = {
        "PGROUP": half.transaction.group,
        "REAL_TOPIC": half.real_topic,
        "REAL_QID": None if half.real_queue is None else str(half.real_queue),
        "CHECK_IMMUNITY_TIME_IN_SECONDS": half.immunity,
    }
    properties = {name: value for name, value in half_properties.items() if value is not None}
    return message_row(
        HALF_TOPIC,
        queue_offset=half.offset,
        place=half.place,
        born_ms=half.transaction.born_ms,
        stored_ms=half.stored_ms,
        properties={"UNIQ_KEY": half.transaction.transaction_id, "TRAN_MSG": "true", **properties},
        body=half.body,
    )


def end_row(end: End) -> dict[str, Any]:
    """An end in the landing contract."""
    return {
        "ts": end.ts,
        "producerGroup": end.group,
        "tranStateTableOffset": end.offset,
        "commitLogOffset": end.place,
        "commitOrRollback": end.code,
        "fromTransactionCheck": end.is_from_check,
    }


def message_row(
    topic: str,
    *,
    queue_offset: int,
    place: int,
    born_ms: int,
    stored_ms: int,
    properties: dict[str, str],
    body: str,
    queue_id: int = 0,
    sys_flag: int = 0,
    prepared: int = 0,
) -> dict[str, Any]:
    """A stored message in the landing contract."""
    return {
        "topic": topic,
        "queueId": queue_id,
        "queueOffset": queue_offset,
        "commitLogOffset": place,
        "sysFlag": sys_flag,
        "flag": 0,
        "bornTimestamp": born_ms,
        "storeTimestamp": stored_ms,
        "bornHost": "127.0.0.1:1",
        "storeHost": "127.0.0.1:2",
        "offsetMsgId": f"{place:032X}",
        "reconsumeTimes": 0,
        "preparedTransactionOffset": prepared,
        "properties": properties,
        "body": body,
        "bodyBase64": base64.b64encode(body.encode()).decode(),
    }


def audit_history(number: int, dice: random.Random, batches: int, span_ms: int) -> list[Event]:
    """What a broker may have stored: halves with copies, ops of several tokens, visible and given-up messages."""
    topic, rows = f"T{number}", []
    next_half = next_op = next_visible = next_gone = 0
    place = number * PLACES

    def stored(kind: str, moment: int, topic: str, **fields: Any) -> dict[str, Any]:
        nonlocal place
        place += 1_000
        rows.append((kind, message_row(topic, place=place, stored_ms=moment, **fields)))
        return rows[-1][1]

    for one in range(dice.randrange(1, 4)):
        born = START_MS + dice.randrange(span_ms)
        half_properties = {
            "UNIQ_KEY": f"{number}.{one}",
            "PGROUP": dice.choice("AB"),
            "REAL_TOPIC": topic,
            "REAL_QID": "0",
        }
        chain, moment = [], born + 5
        for _ in range(dice.choices((1, 2, 3), (60, 25, 15))[0]):
            properties = half_properties | {"TRAN_MSG": "true"}
            chain.append(stored("half", moment, HALF_TOPIC, queue_offset=number * OFFSETS + next_half, born_ms=born,
                                properties=properties, body="half"))  # fmt: skip
            next_half, moment = next_half + 1, moment + 3_000
            if dice.random() < 0.12:
                gone = stored("max_time", moment, MAX_TIME_TOPIC, queue_offset=number * OFFSETS + next_gone,
                              born_ms=born, properties=properties, body="half")  # fmt: skip
                next_gone += 1
                chain.append(gone)
        for _ in range(dice.choices((0, 1, 2), (35, 55, 10))[0]):
            named = dice.choice(chain)
            properties = half_properties if dice.random() < 0.95 else half_properties | {"UNIQ_KEY": "another"}
            visible_topic, flag = dice.choices(((topic, 8), ("%RETRY%G", 8), (topic, 0)), (85, 10, 5))[0]
            stored("message", moment, visible_topic, queue_offset=number * OFFSETS + next_visible, born_ms=born,
                   properties=properties, body="half", sys_flag=flag, prepared=named["commitLogOffset"])  # fmt: skip
            next_visible += 1
        for _ in range(dice.choices((0, 1, 2), (30, 60, 10))[0]):
            halves = [row for row in chain if row["topic"] == HALF_TOPIC]
            tokens = [str(dice.choice(halves)["queueOffset"]) for _ in range(dice.choices((1, 2), (90, 10))[0])]
            stored("op", moment, OP_TOPIC, queue_offset=number * OFFSETS + next_op, born_ms=moment,
                   properties={"TAGS": "d"}, body="".join(f"{token}," for token in tokens))  # fmt: skip
            next_op += 1
    in_order = dice.random() < 0.5
    events = [Event(_batch(dice, batches, span_ms, row["storeTimestamp"], in_order), kind, row) for kind, row in rows]
    again = [Event(dice.randrange(e.batch, batches), e.kind, e.what) for e in events if dice.random() < 0.1]
    return events + again


def rows_of(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Events of one kind as rows of the landing contract, in their order."""
    forms = {Half: half_row, End: end_row, dict: dict}
    return [forms[type(event.what)](event.what) for event in events]
