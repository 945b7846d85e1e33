"""The landing contract under fire in one Spark job per kind, judged by the contract in plain Python (fuzz.contract)."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from fuzz import contract
from fuzz.hostile import damaged, json_text, number, text, value
from fuzz.tally import Tally
from moment import NOW_MS
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from txmq_lib.pipeline.land.files.listing import list_files
from txmq_lib.pipeline.land.files.message_landing import _judged
from txmq_lib.pipeline.land.files.reading import json_lines
from txmq_lib.rules.contract_events import ack_rows, end_rows, offset_rows
from txmq_lib.rules.landing_contract import message_rows, quick_message_rows

MESSAGE = {
    "topic": "topic",
    "queueId": "queue_id",
    "queueOffset": "queue_offset",
    "commitLogOffset": "commit_log_offset",
    "sysFlag": "sys_flag",
    "flag": "flag",
    "bornTimestamp": "born_timestamp",
    "storeTimestamp": "store_timestamp",
    "bornHost": "born_host",
    "storeHost": "store_host",
    "offsetMsgId": "offset_msg_id",
    "reconsumeTimes": "reconsume_times",
    "preparedTransactionOffset": "prepared_transaction_offset",
    "properties": "properties",
    "bodyBase64": "body",
}
END = {
    "ts": "ts",
    "producerGroup": "producer_group",
    "tranStateTableOffset": "tran_state_table_offset",
    "commitLogOffset": "commit_log_offset",
    "commitOrRollback": "commit_or_rollback",
    "fromTransactionCheck": "from_transaction_check",
    "msgId": "msg_id",
    "transactionId": "transaction_id",
    "topic": "topic",
}
QUEUE = {"ts": "ts", "group": "consumer_group", "topic": "topic", "queueId": "queue_id", "clientId": "client_id"}
OFFSET = {**QUEUE, "offset": "next_offset", "increaseOnly": "is_increase_only"}
ACK = {**QUEUE, "event": "event", "offsets": "offsets"}
TIMES = ("born_timestamp", "store_timestamp", "ts")


def look_twice(lines: DataFrame) -> DataFrame:
    """Message lines as a pass judges them: the quick look, then the costly one at suspects."""
    return _judged(quick_message_rows(lines).localCheckpoint(), message_rows)


# name -> kind of the contract, columns of its fields, the judge under test
JUDGED: dict[str, tuple[str, dict[str, str], Callable[[DataFrame], DataFrame]]] = {
    "message lines": ("message", MESSAGE, look_twice),
    "message lines, looked at well": ("message", MESSAGE, message_rows),
    "end lines": ("end", END, lambda lines: end_rows(lines, "b")),
    "offset lines": ("offset", OFFSET, lambda lines: offset_rows(lines, "b")),
    "ack lines": ("ack", ACK, lambda lines: ack_rows(lines, "b")),
}


def run_lines(spark: SparkSession, scratch: Path, name: str, count: int, seed: int) -> Tally:
    """`count` lines of one kind as a file, through Spark once, against the contract line by line."""
    kind, columns, judge = JUDGED[name]
    chance = Random(f"{name}/{seed}")
    lines = [written(chance, kind) for _ in range(count)] + heavy_lines(kind)
    tally, begun = Tally(name, tried=len(lines)), time.monotonic()
    path = scratch / f"{kind}-{seed}.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    rows = judge(json_lines(spark, list_files(spark, [str(path)])))
    shown = [
        (F.unix_millis(column) if column in TIMES else F.col(column)).alias(field) for field, column in columns.items()
    ]
    table = rows.select("position", "reason", F.col("raw").cast("binary").alias("raw"), *shown).toArrow()
    found = sorted(table.to_pylist(), key=lambda row: row["position"])
    if len(found) != len(lines):
        tally.escapes.append(f"{name}/{seed}: {len(lines)} lines became {len(found)} rows")
    for place, (line, row) in enumerate(zip(lines, found, strict=False)):
        if wrong := difference(contract.judged(kind, line), line, row):
            tally.escapes.append(f"{name}/{seed} line {place}: {wrong}: {line[:300]!a}")
    tally.seconds = tally.longest_seconds = time.monotonic() - begun
    return tally


def difference(expected: contract.Judgement, line: bytes, row: dict[str, Any]) -> str | None:
    """What is wrong about a row, in words."""
    reason = row["reason"]
    if reason is not None:
        if not expected.is_open and reason not in expected.faults:
            return f"told {reason}, true are {sorted(expected.faults) or 'none: a good line is lost'}"
        return None if _kept_as_it_came(line, row["raw"]) else "the bad line was not kept"
    if expected.is_open:
        return None
    if expected.faults:
        return f"taken although {sorted(expected.faults)}"
    lines_by_id = {
        field: dict(held) if isinstance(held, list) and field == "properties" else held for field, held in row.items()
    }
    odd = {
        field: (lines_by_id[field], said)
        for field, said in expected.row.items()
        if field in lines_by_id
        and lines_by_id[field] != said
        and not (field == "properties" and lines_by_id[field] == dict(said))
    }
    return f"landed otherwise, (landed, said): {ascii(odd)[:300]}" if odd else None


def _kept_as_it_came(line: bytes, raw: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("utf-8") is not None
    return raw == line


def written(chance: Random, kind: str) -> bytes:
    """A line of a kind: four in ten good, three with an odd field, three damaged."""
    fields: dict[str, Any] = GOOD[kind](chance)
    how = chance.random()
    if how < 0.3:
        name = chance.choice([*fields, "header", "properties"])
        fields[name] = chance.choice([value(chance), number(chance), ..., str(number(chance)), None])
    for _ in range(chance.randrange(3)):
        fields.setdefault(f"_{text(chance)}", value(chance))
    pairs = [(name, held) for name, held in fields.items() if held is not ...]
    chance.shuffle(pairs)
    if kind == "end" and chance.random() < 0.5:
        under = {name: held for name, held in pairs if name != "ts"}
        pairs = [("header", under), *((name, held) for name, held in pairs if name == "ts")]
    if chance.random() < 0.02 and pairs:
        pairs.append((pairs[0][0], value(chance)))
    members = ",".join(f"{json_text(chance, name)}:{json_text(chance, held)}" for name, held in pairs)
    line = f"{{{members}}}".encode()
    if how > 0.7:
        line = damaged(chance, line)
    if chance.random() < 0.05:
        line += chance.choice([b" ", b"\t", b"}", b" x", line, b"\x0b", "\u2028".encode(), b"\0", b",", b"]"])
    line = line.replace(b"\n", b"?").replace(b"\r", b"?")
    return line if line.strip(b" ") else b"?"


def _message(chance: Random) -> dict[str, Any]:
    offset = chance.choice([0, 7, 2**40, 2**62])
    return {
        "topic": text(chance),
        "queueId": chance.choice([0, 2**31 - 1]),
        "queueOffset": offset,
        "commitLogOffset": chance.choice([0, 2**62]),
        "sysFlag": chance.choice([0, 8, -(2**31), 2**31 - 1]),
        "flag": chance.choice([0, -1]),
        "bornTimestamp": chance.choice([0, NOW_MS, contract.LATEST_MS]),
        "storeTimestamp": NOW_MS,
        "bornHost": text(chance),
        "storeHost": text(chance),
        "offsetMsgId": text(chance),
        "reconsumeTimes": 0,
        "preparedTransactionOffset": 0,
        "properties": {
            text(chance): chance.choice([text(chance), text(chance), 5, True, None]) for _ in range(chance.randrange(5))
        },
        "bodyBase64": base64.b64encode(chance.randbytes(chance.randrange(40))).decode(),
    }


def _end(chance: Random) -> dict[str, Any]:
    return {
        "ts": _told(chance, NOW_MS),
        "producerGroup": text(chance),
        "tranStateTableOffset": _told(chance, chance.choice([0, 2**63 - 1])),
        "commitLogOffset": _told(chance, 5),
        "commitOrRollback": _told(chance, chance.choice([0, 8, 12, -1])),
        "fromTransactionCheck": chance.choice([True, "false", "TRUE", ...]),
        "msgId": chance.choice([text(chance), ...]),
        "transactionId": text(chance),
        "bname": chance.choice(["b", ..., None]),
        "topic": chance.choice([text(chance), None]),
    }


def _offset(chance: Random) -> dict[str, Any]:
    return {
        **_queue(chance),
        "offset": _told(chance, chance.choice([0, 2**63 - 1])),
        "increaseOnly": chance.choice([True, False, "False", ...]),
    }


def _ack(chance: Random) -> dict[str, Any]:
    offsets = [_told(chance, chance.choice([0, 5, 2**63 - 1])) for _ in range(chance.randrange(4))]
    return {**_queue(chance), "event": chance.choice(contract.ACK_EVENTS), "offsets": offsets}


def _queue(chance: Random) -> dict[str, Any]:
    return {
        "ts": _told(chance, NOW_MS),
        "group": text(chance),
        "topic": text(chance),
        "queueId": _told(chance, chance.choice([0, 2**31 - 1])),
        "clientId": text(chance),
    }


def _told(chance: Random, number_: int) -> int | str:
    return str(number_) if chance.random() < 0.3 else number_


GOOD: dict[str, Callable[[Random], dict[str, Any]]] = {"message": _message, "end": _end, "offset": _offset, "ack": _ack}


def heavy_lines(kind: str) -> list[bytes]:
    """A few lines of their own weight: nested as deep as it goes, braces by the ten thousand, megabytes of text."""
    fields = {name: held for name, held in GOOD[kind](Random(1)).items() if held is not ...}
    inner = json.dumps(fields)[1:-1]

    def beside(unknown: str) -> str:
        return f"{{{inner},{unknown}}}"

    lines = [
        *(beside('"deep":' + "[" * depth + "]" * depth) for depth in (500, 998, 999, 1000, 100_000)),
        beside('"deep":' + '{"a":' * 100_000 + "1" + "}" * 100_000),
        beside('"braces":"' + "{}" * 50_000 + '"'),
        beside('"many":{},' * 20_000 + '"last":1'),
        beside('"digits":' + "9" * 5000),
        beside('"huge":1e999999999'),
        beside('"' + "n" * 60_000 + '":1'),
        beside('"long":"' + "x" * 4_000_000 + '"'),
        beside('"nan":NaN'),
        beside('"z":"{"') + "}",
        "{" * 200_000,
        "[" * 200_000,
        '"' + "\\" * 200_001,
        json.dumps(fields).replace('"', "'"),
        *(json.dumps({**fields, "topic": "?odd?"}).replace('"?odd?"', odd) for odd in ("NaN", "1e400", "-Infinity")),
    ]
    if kind == "message":
        lines += [
            json.dumps({**fields, "properties": {f"p{place}": str(place) for place in range(100_000)}}),
            json.dumps({**fields, "properties": {"a": "{}" * 50_000}}),
            json.dumps({**fields, "properties": {"n" * 60_000: "x"}}),
            *(json.dumps({**fields, "bodyBase64": base64.b64encode(bytes(mib << 20)).decode()}) for mib in (4, 20)),
        ]
    return [line.encode() for line in lines]
