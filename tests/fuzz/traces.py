"""Messages of the trace topic under fire in one Spark job, judged by the rule (R129) in plain Python."""

from __future__ import annotations

import time
from random import Random

from fuzz.contract import LATEST_MS
from fuzz.hostile import damaged, number, text
from fuzz.tally import Tally
from moment import NOW_MS
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from txmq_lib.rules.traces import MOST_BYTES, end_traces, trace_faults, trace_records
from txmq_lib.spark.local_frame import local_frame

TRACE_ROWS = (
    "broker_name string, topic string, queue_id int, queue_offset bigint, store_timestamp timestamp,"
    " content_hash bigint, born_host string, body binary"
)
STATES = {"COMMIT_MESSAGE": "commit", "ROLLBACK_MESSAGE": "rollback", "UNKNOW": "unknown"}
TRUTHS = {"true": True, "false": False}


def run_traces(spark: SparkSession, count: int, seed: int) -> Tally:
    """`count` messages and some as large as may be: each record of an end a row, or told of."""
    name = "trace bodies"
    chance = Random(f"{name}/{seed}")
    bodies = [_body(chance) for _ in range(count)] + [b"\x02" * MOST_BYTES, b"\x02" * (MOST_BYTES + 1)]
    bodies += [b"EndTransaction\x01\x02" * (MOST_BYTES // 16), b"\x01" * MOST_BYTES]
    tally, begun = Tally(name, tried=len(bodies)), time.monotonic()
    rows = [("b", "X", 0, place, None, 0, None, held) for place, held in enumerate(bodies)]
    messages = local_frame(spark, rows, TRACE_ROWS).repartition(2)
    records = trace_records(messages).cache()
    listed = F.struct("position", "state", "is_from_check", "transaction_id")
    ends = end_traces(records).groupBy("queue_offset").agg(F.sort_array(F.collect_list(listed)).alias("ends"))
    found = {row["queue_offset"]: [tuple(each.values()) for each in row["ends"]] for row in ends.toArrow().to_pylist()}
    faults = {row["queue_offset"]: row for row in trace_faults(messages, records).toArrow().to_pylist()}
    for place, held in enumerate(bodies):
        good, reason = judged(held)
        said = faults.get(place, {"reason": None})["reason"]
        if found.get(place, []) != good or said != reason:
            tally.escapes.append(f"{name}/{seed} body {place}: {said}, not {reason}: {held[:200]!r}")
    if any(len(row["detail"]) > 400 for row in faults.values()):
        tally.escapes.append(f"{name}/{seed}: a detail as long as the body")
    records.unpersist()
    tally.seconds = tally.longest_seconds = time.monotonic() - begun
    return tally


def judged(body: bytes) -> tuple[list[tuple[object, ...]], str | None]:
    """The ends that a message tells (place, state, whether to a check, id), and what is wrong with it."""
    if len(body) > MOST_BYTES:
        return [], "TRACE_BODY_TOO_LARGE"
    ends, reason = [], None
    for place, record in enumerate(body.decode("utf-8", "replace").split("\x02")):
        if not record.startswith("EndTransaction\x01"):
            continue
        fields = record.split("\x01")
        if len(fields) < 13:
            reason = "TRACE_RECORD"
            continue
        at, group, id_, state, is_from_check = fields[1], fields[3], fields[5], fields[11], fields[12]
        is_time = at.isascii() and at.isdigit() and len(at) <= 18 and int(at) <= LATEST_MS
        is_named = group not in ("", "null") and id_ not in ("", "null")
        if is_time and is_named and state in STATES and is_from_check in TRUTHS:
            ends.append((place, STATES[state], TRUTHS[is_from_check], id_))
        else:
            reason = "TRACE_RECORD"
    return ends, reason


def _body(chance: Random) -> bytes:
    body = "".join(_record(chance) for _ in range(chance.randrange(5))).encode("utf-8", "replace")
    return damaged(chance, body) if chance.random() < 0.3 else body


def _record(chance: Random) -> str:
    word = text(chance, has_surrogates=False).replace("\x01", "").replace("\x02", "")
    if chance.random() < 0.2:
        return f"{chance.choice(['Pub', 'SubAfter', 'EndTransaction', word])}\x01{word}\x02"
    at = chance.choice([NOW_MS, NOW_MS, number(chance), "", "007", f"{NOW_MS} "])
    id_, group = (chance.choice([good, good, good, word, "", "null"]) for good in ("T1", "PG"))
    state = chance.choice([*STATES, *STATES, "COMMIT", ""])
    check = chance.choice(["true", "false", "false", "perhaps", ""])
    fields = ["EndTransaction", str(at), "R", group, "TopicA", id_, word, "k", "h:1", "2", id_, state, check]
    return "\x01".join(fields + ["more"] * (chance.random() < 0.1)) + "\x02"
