"""Op bodies under fire in one Spark job, judged by the rule (R26, R31, R32) in plain Python."""

from __future__ import annotations

import time
from random import Random

from fuzz.hostile import damaged, number, text
from fuzz.tally import Tally
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from txmq_lib.names import OP_TOPIC
from txmq_lib.rules.op import op_faults, op_tokens
from txmq_lib.spark.local_frame import local_frame

OP_ROWS = """broker_name string, topic string, queue_id int, queue_offset bigint, commit_log_offset bigint,
             store_timestamp timestamp, content_hash bigint, raw string, source string,
             properties map<string,string>, body binary"""


def run_ops(spark: SparkSession, count: int, seed: int) -> Tally:
    """`count` op bodies, one of them of 4 MB, against the rule in plain Python: each token a row or told of."""
    name = "op bodies"
    chance = Random(f"{name}/{seed}")
    bodies = [_op_body(chance) for _ in range(count)] + [
        b"12,x345," * 500_000,
        b"," * (1 << 20),
        b"," * 4_000_000,
        b"7" * 4_000_000,
    ]
    tally, begun = Tally(name, tried=len(bodies)), time.monotonic()
    rows = [
        ("b", OP_TOPIC, 0, place, place, None, 0, "{}", str(place), {"TAGS": "d"}, held)
        for place, held in enumerate(bodies)
    ]
    ops = local_frame(spark, rows, OP_ROWS).repartition(2)
    tokens = (
        op_tokens(ops)
        .groupBy("queue_offset")
        .agg(F.sort_array(F.collect_list(F.struct("position", "half_queue_offset"))).alias("tokens"))
    )
    named = {
        row["queue_offset"]: [tuple(each.values()) for each in row["tokens"]] for row in tokens.toArrow().to_pylist()
    }
    faults = {int(row["source"]): row for row in op_faults(ops).toArrow().to_pylist()}
    for place, held in enumerate(bodies):
        pieces = held.decode("utf-8", "replace").split(",")
        good = [(at, int(piece)) for at, piece in enumerate(pieces) if _is_offset(piece)]
        reason = None
        if len(pieces) > (1 << 20) + 1:
            good, reason = [], "OP_BODY_TOO_LARGE"
        elif not any(pieces):
            reason = "OP_BODY_EMPTY"
        elif any(piece and not _is_offset(piece) for piece in pieces):
            reason = "OP_TOKEN"
        found_reason = faults.get(place, {"reason": None})["reason"]
        if named.get(place, []) != good or found_reason != reason:
            tally.escapes.append(f"{name}/{seed} body {place}: {found_reason}, not {reason}: {held[:200]!r}")
    if any(len(row["detail"]) > 400 for row in faults.values()):
        tally.escapes.append(f"{name}/{seed}: a detail as long as the body")
    tally.seconds = tally.longest_seconds = time.monotonic() - begun
    return tally


def _is_offset(piece: str) -> bool:
    return piece.isascii() and piece.isdigit() and len(piece) <= 19 and int(piece) < 2**63


def _op_body(chance: Random) -> bytes:
    pieces = [
        chance.choice(
            [str(chance.randrange(10**6)), str(number(chance)), "", text(chance, has_surrogates=False), "007"]
        )
        for _ in range(chance.randrange(8))
    ]
    body = ",".join(pieces).encode()
    return damaged(chance, body) if chance.random() < 0.3 else body
