"""What `resend` sends: the bodies of given-up transactions, as plain messages of their real topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import Row as SparkRow
from pyspark.sql import functions as F

from txmq_lib.names import (
    ACTION_RESEND,
    PROPERTY_CHECK_TIMES,
    PROPERTY_PREPARED_QUEUE_OFFSET,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_TRAN_MSG,
    ROLLBACK,
    TRANSACTION_KEY,
)
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.shared.pruning import near_values
from txmq_lib.pipeline.shared.standing import collected, requested_rows, standing_now
from txmq_lib.rocketmq.remoting.broker import Letter
from txmq_lib.rules.moments import epoch_ms
from txmq_lib.rules.requests import RESENDABLE, key_of, why_not_resent
from txmq_lib.rules.transaction_key import join_transaction, transactions_of

RESEND = "resend"
# Of a half, not of the message that a producer sent: with them a broker would take it for another half.
OF_HALVES = (
    PROPERTY_TRAN_MSG,
    PROPERTY_REAL_TOPIC,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_CHECK_TIMES,
    PROPERTY_PREPARED_QUEUE_OFFSET,
)
PLACE = ("broker_name", "commit_log_offset", "transaction_id")

Row = Mapping[str, Any]


def resendable(current: Pass) -> DataFrame:
    """Requests for those of the named transactions whose broker has given them up, and whose real topic is known.

    What a person has rolled back is not among them.
    """
    chosen = _standing(current).where("is_brokers and real_topic is not null").where(F.col("verdict").isin(*RESENDABLE))
    return join_transaction(chosen, _rolled_back(current), "left_anti").select(
        *TRANSACTION_KEY,
        F.lit(ACTION_RESEND).alias("action"),
        F.lit(current.arguments["reason"]).cast("string").alias("reason"),
        *("real_topic", "queue_id", "tran_state_table_offset", "commit_log_offset", "given_up_queue_offset"),
        F.col("verdict").alias("former_verdict"),
        F.lit(None).cast("string").alias("offset_msg_id"),
    )


def left_out(current: Pass, requests: Sequence[Row]) -> list[str]:
    """Of each transaction that is named and not among `requests`: why it is not sent again."""
    rolled_back = {key_of(row) for row in _rolled_back(current).toArrow().to_pylist()}
    found = collected(_standing(current))
    sent = {key_of(row) for row in requests}
    why = [
        (row["transaction_id"], why_not_resent(row, is_rolled_back=key_of(row) in rolled_back))
        for row in found
        if key_of(row) not in sent
    ]
    missing = sorted({*current.arguments["transaction_ids"]} - {row["transaction_id"] for row in found})
    why += [(name, "no half message of it has landed") for name in missing]
    return [f"{name}: not sent again: {reason}" for name, reason in why]


def _standing(current: Pass) -> DataFrame:
    return standing_now(current, transactions_of(requested_rows(current, "half_message")))


def _rolled_back(current: Pass) -> DataFrame:
    return transactions_of(current.read("manual_decision").where(F.col("action") == ROLLBACK))


def letters(current: Pass, requests: Sequence[Row]) -> dict[tuple[Any, ...], Letter]:
    """The message of each request to resend, by PLACE: its half as its producer sent it, under the same UNIQ_KEY."""
    resends = [row for row in requests if row["action"] == ACTION_RESEND]
    if not resends:
        return {}
    places = current.warehouse.spark.createDataFrame(
        [(row["broker_name"], row["commit_log_offset"]) for row in resends],
        "broker_name string, commit_log_offset bigint",
    )
    near = near_values("commit_log_offset", places, "commit_log_offset").rows(current, "half_message")
    found = near.join(F.broadcast(places), on=["broker_name", "commit_log_offset"], how="left_semi")
    columns = (*PLACE, "real_topic", "real_queue_id", "producer_group", "flag", "born_timestamp", "properties", "body")
    halves = {place_of(row): row.asDict() for row in found.select(*columns).collect()}
    topics = {place_of(row): row["real_topic"] for row in resends}
    return {place: _letter(halves[place], topic) for place, topic in topics.items() if place in halves}


def place_of(row: Row | SparkRow) -> tuple[Any, ...]:
    """Which half a request is about."""
    return tuple(row[name] for name in PLACE)


def _letter(half: Row, topic: str) -> Letter:
    queue_id = half["real_queue_id"]
    return Letter(
        producer_group=half["producer_group"] or "",
        topic=topic,
        queue_id=-1 if queue_id is None else queue_id,
        flag=half["flag"],
        born_ms=epoch_ms(half["born_timestamp"].astimezone()),
        properties={name: value for name, value in half["properties"].items() if name not in OF_HALVES},
        body=bytes(half["body"]),
    )
