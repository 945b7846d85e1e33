"""Which topics a landing from a broker takes: land.topics, and what transactions need in any case."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.config.sections import Land
from txmq_lib.names import (
    DIVERTING_TOPICS,
    HALF_TOPICS,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    TRANSACTION_TOPICS,
)
from txmq_lib.rocketmq.remoting.broker import Queue

EVERY_TOPIC = ("*",)
ALWAYS_LANDED = (*TRANSACTION_TOPICS, *DIVERTING_TOPICS)


def trace_topics(land: Land) -> tuple[str, ...]:
    """The topic of traces, where it is read."""
    return () if land.trace_topic is None else (land.trace_topic,)


def is_every_topic(patterns: Sequence[str]) -> bool:
    """Whether nothing is left out: then a log, or a broker, is read whole under one name."""
    return tuple(patterns) == EVERY_TOPIC


def is_landed_topic(topic: str, patterns: Sequence[str]) -> bool:
    """Whether a topic lands: always, or since it fits one of the patterns."""
    return topic in ALWAYS_LANDED or any(fnmatchcase(topic, pattern) for pattern in patterns)


def real_queues(rows: DataFrame) -> dict[str, set[Queue]]:
    """The real queues that half messages name, by broker: few, whatever the number of halves (R1)."""
    real = rows.where(F.col("topic").isin(*HALF_TOPICS)).select(
        "broker_name",
        F.col("properties")[PROPERTY_REAL_TOPIC].alias("topic"),
        F.col("properties")[PROPERTY_REAL_QUEUE_ID].try_cast("int").alias("queue_id"),
    )
    named = real.where("topic is not null and queue_id >= 0").distinct()
    found: dict[str, set[Queue]] = {}
    for row in named.collect():
        found.setdefault(row["broker_name"], set()).add(Queue(row["topic"], row["queue_id"]))
    return found
