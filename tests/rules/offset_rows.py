"""Offset reports and acknowledgements for rule tests: whole valid rows, a test types only what it is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.conform import struct_type
from txmq_lib.spark.local_frame import local_frame

START = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
QUEUE = {"broker_name": "b", "consumer_group": "g", "topic": "t", "queue_id": 0}
REPORT = {
    **QUEUE,
    "is_increase_only": True,
    "client_id": None,
    "content_hash": 0,
    "occurrence": 0,
    "origin": "landed",
    "landed_pass": 1,
    "landing_order": 0,
}
ACK = {**QUEUE, "client_id": "A", "offsets": [], "content_hash": 0, "occurrence": 0, "landed_pass": 1}
STATE = {
    **QUEUE,
    "next_offset": 1,
    "updated_timestamp": START,
    "last_report_timestamp": START,
    "last_report_landed_pass": 1,
    "last_report_landing_order": 0,
    "rewinds": [],
    "jumps": [],
    "conflicts": [],
    "recent_reports": [],
    "pass_number": 1,
    **{f"{name}_count": 0 for name in ("report", "ignored", "late", "rewind", "jump", "conflict")},
}


def at(second: float) -> datetime:
    """So many seconds after 2026-11-21T10:00Z."""
    return START + timedelta(seconds=second)


def rows(spark: SparkSession, table: str, values: Iterable[Mapping[str, Any]]) -> DataFrame:
    """A frame with the table's columns; what a row does not give is as above."""
    spec = table_spec(table)
    defaults = {"consumer_offset_commit": REPORT, "consumer_ack": ACK, "consumer_offset": STATE}[table]
    whole = [{**defaults, **row} for row in values]
    return local_frame(spark, [tuple(row.get(name) for name in spec.columns) for row in whole], struct_type(spec))


def no_rows(spark: SparkSession, table: str) -> DataFrame:
    """The table, empty."""
    return local_frame(spark, [], struct_type(table_spec(table)))


def second_of(moment: datetime) -> float:
    """Seconds after 2026-11-21T10:00Z of a collected timestamp (which Spark gives in the local zone)."""
    return round(moment.timestamp() - START.timestamp(), 3)
