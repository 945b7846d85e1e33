"""Whole passes over transactions T0, T1, ...: half messages of them, resolve as a plain call, what became of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from house import House, wall_clock
from moment import NOW, NOW_MS

from txmq_lib.passes.current import PassReport
from txmq_lib.pipeline.resolve import run_resolve


def half(number: int, group: str = "GID_A", **properties: str) -> dict[str, Any]:
    """A half message of transaction T<number>, born a minute before NOW."""
    born = NOW_MS - 60_000 + number
    own = {"UNIQ_KEY": f"T{number}", "PGROUP": group, "REAL_TOPIC": "TopicA", "REAL_QID": "0", "TRAN_MSG": "true"}
    return {
        "topic": "RMQ_SYS_TRANS_HALF_TOPIC", "queueId": 0, "queueOffset": number, "commitLogOffset": 1000 * number,
        "sysFlag": 0, "flag": 0, "bornTimestamp": born, "storeTimestamp": born, "bornHost": "127.0.0.1:1",
        "storeHost": "127.0.0.1:2", "offsetMsgId": f"O{number}", "reconsumeTimes": 0, "preparedTransactionOffset": 0,
        "properties": {**own, **properties}, "bodyBase64": "AHBheQ==",
    }  # fmt: skip


def resolve(house: House, environ: Mapping[str, str], now: datetime = NOW, **options: Any) -> PassReport:
    """One resolve pass."""
    return run_resolve(house.warehouse, house.settings, now=now, wall_clock=wall_clock, environ=environ, **options)


def verdicts(house: House) -> dict[str, str]:
    """The verdict of every transaction, after an audit."""
    house.audit()
    return {row["transaction_id"]: row["verdict"] for row in house.rows("verdict")}


def decided(house: House) -> dict[str, list[str]]:
    """What became of the ends of every transaction."""
    found: dict[str, list[str]] = {}
    for row in house.rows("end_outcome"):
        found.setdefault(row["transaction_id"], []).append(f"{row['decision']} {row['outcome']}")
    return found
