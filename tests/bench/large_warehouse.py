"""A large warehouse written straight with DuckDB and deltalake, no JVM: what views and status are measured on.

Files are as passes leave them: each holds the transactions of one span of time, so times ascend from file to file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, Schema, write_deltalake

from txmq_lib.config.table_specs import table_spec, table_specs

END = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
DAYS = 30
ROWS_PER_FILE = 500_000
GROUPS, TOPICS = 20, 40

# The numbers of rows of 1 million pending transactions among 10 million, and of 10,000 queues.
LARGE = {"verdicts": 10_000_000, "pending": 1_000_000, "queues": 10_000, "passes": 500}

BORN = f"to_timestamp({(END - timedelta(days=DAYS)).timestamp()} + {DAYS * 86_400} * (i / $total::DOUBLE))"
TRANSACTION = f"""
    'broker-' || i % 2 AS broker_name, printf('7F0000010001%020X', i) AS transaction_id,
    'GID_' || i % {GROUPS} AS producer_group, {BORN} AS born_timestamp,
    'Topic' || i % {TOPICS} AS real_topic, (i % 8)::INT AS real_queue_id"""

SELECTS = {
    "pending_half": f"""SELECT {TRANSACTION}, 0 AS queue_id, i AS queue_offset, i * 400 AS commit_log_offset,
        [i] AS half_offsets, [i * 400] AS half_commit_log_offsets, born_timestamp AS first_store_timestamp,
        born_timestamp AS last_store_timestamp, 0 AS broker_check_times, (i % 5)::INT AS check_times,
        born_timestamp AS last_check_timestamp, born_timestamp + INTERVAL 1 MINUTE AS next_check_timestamp""",
    "verdict": f"""SELECT {TRANSACTION}, CASE WHEN i % 10 = 9 THEN 'PENDING' WHEN i % 1000 = 1 THEN 'DISCARDED'
            WHEN i % 100000 = 2 THEN 'CONFLICT' WHEN i % 10 = 0 THEN 'ROLLED_BACK' ELSE 'COMMITTED' END AS verdict,
        CASE WHEN verdict IN ('COMMITTED', 'CONFLICT') THEN 1 ELSE 0 END AS visible_count,
        CASE WHEN verdict IN ('PENDING', 'DISCARDED') THEN 0 ELSE 1 END AS op_count, 1 AS half_count,
        CASE WHEN verdict = 'DISCARDED' THEN 1 ELSE 0 END AS given_up_count, 0 AS contradicting_count,
        (i % 5)::INT AS check_times, 0 AS broker_check_times, born_timestamp AS first_timestamp,
        born_timestamp + INTERVAL 2 SECOND AS last_timestamp, 1 + i // {ROWS_PER_FILE} AS pass_number,
        verdict <> 'PENDING' AS is_settled""",
    "message": f"""SELECT * EXCLUDE (real_topic, real_queue_id), real_topic AS topic, real_queue_id AS queue_id,
            i AS queue_offset, i * 400 + 200 AS commit_log_offset, 8 AS sys_flag, 0 AS flag,
            born_timestamp + INTERVAL 2 SECOND AS store_timestamp, 0 AS reconsume_times,
            i * 400 AS prepared_transaction_offset, MAP {{}}::MAP(VARCHAR, VARCHAR) AS properties,
            encode(repeat(md5(i::VARCHAR), 8)) AS body, 'tag' AS tags, 'order-' || i AS keys, 'landed' AS origin,
            0 AS landed_pass FROM (SELECT {TRANSACTION}, i""",
    "half_message": f"""SELECT {TRANSACTION}, 'RMQ_SYS_TRANS_HALF_TOPIC' AS topic, 0 AS queue_id, i AS queue_offset, i * 400 AS commit_log_offset,
        4 AS sys_flag, 0 AS flag, born_timestamp AS store_timestamp, 0 AS reconsume_times,
        0 AS prepared_transaction_offset, MAP {{}}::MAP(VARCHAR, VARCHAR) AS properties,
        encode(repeat(md5(i::VARCHAR), 8)) AS body, 'order-' || i AS keys, 'landed' AS origin, 0 AS landed_pass""",
    "check_request": f"""SELECT {TRANSACTION}, 1 AS check_times, born_timestamp + INTERVAL 1 MINUTE AS check_timestamp,
        'RMQ_SYS_TRANS_HALF_TOPIC' AS topic, 0 AS queue_id, i AS tran_state_table_offset, i * 400 AS commit_log_offset,
        transaction_id AS msg_id, [i] AS half_offsets, 1 AS pass_number""",
    "trans_check_max_time": f"""SELECT {TRANSACTION}, 'TRANS_CHECK_MAX_TIME_TOPIC' AS topic, 0 AS queue_id,
        i AS queue_offset, 0 AS sys_flag, 0 AS flag, born_timestamp AS store_timestamp, 0 AS reconsume_times,
        0 AS prepared_transaction_offset, MAP {{}}::MAP(VARCHAR, VARCHAR) AS properties, ''::BLOB AS body,
        'check_max' AS reason, born_timestamp + INTERVAL 15 MINUTE AS given_up_timestamp, false AS is_rolled_back,
        'txmq' AS origin, 1 AS landed_pass""",
    "end_outcome": f"""SELECT {TRANSACTION}, born_timestamp + INTERVAL 2 SECOND AS ts, i AS tran_state_table_offset,
        i * 400 AS commit_log_offset, 8 AS commit_or_rollback, i % 7 = 0 AS from_transaction_check,
        transaction_id AS end_transaction_id, CASE WHEN i + 20 >= $total THEN 'held' ELSE 'accepted' END AS outcome, 'commit' AS decision, 0 AS code,
        true AS is_effective, 1 AS pass_number, ts AS judged_timestamp, 'landed' AS origin, 1 + i // {ROWS_PER_FILE} AS landed_pass,
        i AS landing_order, i + 20 >= $total AS is_held""",
    "consumer_offset": f"""SELECT 'broker-' || i % 2 AS broker_name, 'CG_' || i % {GROUPS} AS consumer_group,
        'Topic' || i AS topic, 0 AS queue_id, 1000 + i % 3 AS next_offset, {BORN} AS updated_timestamp,
        updated_timestamp AS last_report_timestamp, 1 AS last_report_landed_pass, i AS last_report_landing_order,
        1 AS report_count, 0 AS ignored_count, 0 AS late_count, 0 AS rewind_count, [] AS rewinds, 0 AS jump_count,
        [] AS jumps, 0 AS conflict_count, [] AS conflicts, 1 AS pass_number""",
    "landing_frontier": f"""SELECT 'broker-' || i % 2 AS broker_name, 'Topic' || i AS topic, 0 AS queue_id,
        1002 AS next_offset, {BORN} AS highest_store_timestamp, 0 AS lowest_kept_offset, true AS is_end_known,
        1 AS pass_number""",
    "quarantine": f"""SELECT i::VARCHAR AS fingerprint, 'broker-0' AS broker_name, 'half' AS kind,
        CASE WHEN i % 2 = 0 THEN 'BROKEN_JSON' ELSE 'MISSING_FIELD' END AS reason, 'x' AS detail, 'y' AS raw,
        'z' AS source, 'land' AS job, 1 AS pass_number, {BORN} AS quarantined_timestamp""",
}


@dataclass(frozen=True)
class Scale:
    """How many rows of each kind."""

    verdicts: int
    pending: int
    queues: int
    passes: int

    def rows(self) -> dict[str, int]:
        """Rows per table; a fifth of the messages keeps the disk small and is enough to see that bodies stay unread."""
        fifth, thousandth = max(self.verdicts // 5, 1), max(self.verdicts // 1000, 1)
        return {
            "pending_half": self.pending,
            "verdict": self.verdicts,
            "message": fifth,
            "half_message": fifth,
            "check_request": self.pending,
            "trans_check_max_time": thousandth,
            "end_outcome": self.verdicts,
            "consumer_offset": self.queues,
            "landing_frontier": self.queues,
            "quarantine": thousandth,
        }


def empty_table(directory: Path, name: str) -> None:
    """One table of `schemas/` without a row."""
    spec = table_spec(name)
    DeltaTable.create(
        directory / name, Schema.from_json(json.dumps(spec.to_json())), partition_by=list(spec.partition_by)
    )


def write_warehouse(directory: Path, scale: Scale) -> None:
    """Every table of `schemas/` under `directory`, which must be new."""
    for name in table_specs():
        empty_table(directory, name)
    for name, total in scale.rows().items():
        for begin in range(0, total, ROWS_PER_FILE):
            _append(directory / name, name, begin, min(begin + ROWS_PER_FILE, total), total)
    _write_passes(directory / "pass", scale.passes)


def _append(path: Path, name: str, begin: int, end: int, total: int) -> None:
    closing = ")" if name == "message" else ""
    sql = SELECTS[name].replace("$total", str(total))
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"CREATE TABLE made AS {sql} FROM range({begin}, {end}) AS r(i){closing}")
        _write(connection, path, name)


def _write(connection: duckdb.DuckDBPyConnection, path: Path, name: str) -> None:
    made = {row[0] for row in connection.execute("DESCRIBE made").fetchall()}
    columns = ", ".join(column if column in made else f"NULL AS {column}" for column in table_spec(name).columns)
    table = connection.sql(f"SELECT {columns} FROM made").to_arrow_table()
    schema = pa.schema(DeltaTable(path).schema().to_arrow())
    write_deltalake(path, table.cast(schema), mode="append", target_file_size=1 << 30)


def _write_passes(path: Path, count: int) -> None:
    """A started and a committed row per pass, each a commit and a file of its own, as passes write them."""
    settings = json.dumps({"role": "engine"})
    for number in range(1, count + 1):
        job = ("land", "reconcile", "rollup", "audit")[number % 4]
        now = (END - timedelta(minutes=count - number)).isoformat()
        for state in ("started", "committed"):
            with duckdb.connect() as connection:
                connection.execute("SET TimeZone = 'UTC'")
                connection.execute(
                    f"""CREATE TABLE made AS SELECT '{job}' AS job, {number // 4 + 1} AS pass_number,
                    '{state}' AS state, TIMESTAMPTZ '{now}' AS now, MAP {{'verdict': 1}} AS input_versions,
                    MAP {{'verdict': 1}} AS since_versions, '' AS plan_id, '{{}}' AS arguments,
                    '{settings}' AS settings, 'abc' AS settings_fingerprint, MAP {{'verdict_PENDING': 7}} AS counts,
                    MAP {{'verdict': 1.5, 'touched': 0.5}} AS seconds, MAP {{}}::MAP(VARCHAR, BIGINT) AS checkpoints,
                    TIMESTAMPTZ '{now}' AS wall_timestamp, 'user@host' AS started_by, '0.1.0' AS txmq_version"""
                )
                _write(connection, path, "pass")
