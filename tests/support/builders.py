"""Whole valid rows of any table, typed by schemas/*.yaml: a test writes only the columns it is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from moment import NOW, NOW_MS
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from txmq_lib.config.table_specs import Field, table_spec
from txmq_lib.rules.decisions import resumes
from txmq_lib.rules.evidence import Evidence
from txmq_lib.rules.policy import Limits, Policies
from txmq_lib.spark.local_frame import local_frame

# The defaults of conf/base.yaml, written again.
TIMEOUT_MS, INTERVAL_MS, CHECK_MAX, RESERVED_MS = 6_000, 60_000, 15, 259_200_000

OF_TYPE = {
    "string": "x",
    "integer": 0,
    "long": 0,
    "boolean": False,
    "timestamp": NOW,
    "binary": b"body",
    "double": 0.0,
    "array": [],
    "map": {},
}
OF_COLUMN = {
    "broker_name": "b",
    "transaction_id": "T",
    "producer_group": "PG",
    "born_timestamp": NOW - timedelta(minutes=1),
    "first_store_timestamp": NOW - timedelta(minutes=1),
    "last_store_timestamp": NOW - timedelta(minutes=1),
    "real_topic": "TopicA",
    "real_queue_id": 0,
    "origin": "landed",
    "landed_pass": 1,
    "pass_number": 1,
}
# A visible message is a committed one, an op names its half by tag d.
OF_TABLE: dict[str, dict[str, Any]] = {
    "half_message": {"topic": "RMQ_SYS_TRANS_HALF_TOPIC", "content_hash": 1},
    "message": {"topic": "TopicA", "sys_flag": 8, "content_hash": 1},
    "op_message": {"tags": "d", "content_hash": 1},
    "trans_check_max_time": {"topic": "TRANS_CHECK_MAX_TIME_TOPIC", "content_hash": 1},
    "end_transaction": {"commit_or_rollback": 8},
    "end_outcome": {"commit_or_rollback": 8, "decision": "commit", "outcome": "accepted", "code": 0},
    "pending_half": {"half_offsets": [0], "half_commit_log_offsets": [0]},
    "check_request": {"topic": "RMQ_SYS_TRANS_HALF_TOPIC", "check_times": 1, "msg_id": "T", "half_offsets": [0]},
    "landing_frontier": {"topic": "TopicA", "is_end_known": True},
    "verdict": {"verdict": "PENDING", "half_count": 1},
    "check_answer": {"asked_for": "check"},
    "manual_decision": {"action": "resume"},
}

TABLE_OF_EVIDENCE = {
    "halves": "half_message",
    "ops": "op_message",
    "visible": "message",
    "given_up": "trans_check_max_time",
    "diverted": "message",
    "checks": "check_request",
    "outcomes": "end_outcome",
    "resumed": "manual_decision",
    "orphans": "message",
}


def at(ms: int) -> datetime:
    """So many milliseconds after NOW."""
    return NOW + timedelta(milliseconds=ms)


def rows(spark: SparkSession, table: str, values: Iterable[Mapping[str, Any]] = ()) -> DataFrame:
    """A frame with exactly the table's columns; what a row does not give is valid and dull."""
    return local_frame(spark, [row(table, **columns) for columns in values], schema_of(table))


def evidence(spark: SparkSession, **tables: Iterable[Mapping[str, Any]]) -> Evidence:
    """Evidence for transactions: rows by its field names, none where a field is not given."""
    frames = {name: rows(spark, table, tables.get(name, ())) for name, table in TABLE_OF_EVIDENCE.items()}
    return Evidence(**{**frames, "resumed": resumes(frames["resumed"])})


def row(table: str, **values: Any) -> tuple[Any, ...]:
    """One row in the table's column order; a name that is no column is a typing error of the test."""
    spec = table_spec(table)
    strangers = {*values} - {*spec.columns}
    if strangers:
        raise KeyError(f"{table} has no columns {sorted(strangers)}")
    return tuple(values[field.name] if field.name in values else _default(table, field) for field in spec.fields)


def schema_of(table: str) -> StructType:
    """The table's schema as Spark knows it."""
    return StructType.fromJson(table_spec(table).to_json())


def policies(
    role: str = "engine",
    *,
    timeout_ms: int = TIMEOUT_MS,
    interval_ms: int = INTERVAL_MS,
    check_max: int = CHECK_MAX,
    reserved_ms: int = RESERVED_MS,
    **roles: str,
) -> Policies:
    """One set of limits for all brokers; `roles` names brokers with a role of their own."""

    def limits(name: str) -> Limits:
        return Limits(name, timeout_ms, interval_ms, check_max, reserved_ms)

    return Policies(limits(role), {broker: limits(own) for broker, own in roles.items()})


def table_of(frame: DataFrame, key: str, *columns: str) -> dict[Any, Any]:
    """`frame` as key -> the value of one column, or the tuple of several; times as milliseconds after NOW."""
    found: dict[Any, Any] = {}
    for line in frame.select(key, *columns).collect():
        name, *values = [_readable(value) for value in line]
        assert name not in found, f"{name} is there twice"
        found[name] = values[0] if len(values) == 1 else tuple(values)
    return found


def lines_of(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """`frame` as sorted tuples; times as milliseconds after NOW."""
    found = [tuple(_readable(value) for value in line) for line in frame.select(*columns).collect()]
    return sorted(found, key=lambda line: [(value is not None, str(type(value)), value) for value in line])


def _default(table: str, field: Field) -> Any:
    own = OF_TABLE.get(table, {})
    if field.name in own:
        return own[field.name]
    if field.name in OF_COLUMN:
        return OF_COLUMN[field.name]
    if field.nullable:
        return None
    return OF_TYPE[field.type if isinstance(field.type, str) else field.type["type"]]


def _readable(value: Any) -> Any:
    # Spark hands times over in the local zone and without it.
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000) - NOW_MS
    return bytes(value) if isinstance(value, bytearray) else value
