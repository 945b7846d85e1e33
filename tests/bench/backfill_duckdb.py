"""The backfill for DuckDB, Parquet to Parquet, each queue numbered densely."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import duckdb

from tests.bench.warehouses import data_files, timed

MEMORY = "4GB"
OUTCOMES = """
select * exclude (rank, first, half_group),
  case when not is_right then 'refused' when rank = 1 then 'accepted' when decision = first then 'repeated'
    else 'contradicting' end as outcome,
  is_right and rank = 1 as is_effective
from (
  select *, row_number() over w as rank, first_value(decision) over w as first
  from (
    select e.*, h.half_group, h.half_queue_id, h.half_queue_offset, h.half_transaction_id, h.born_timestamp,
      h.real_topic, h.real_queue_id,
      case commit_or_rollback when 8 then 'commit' else 'rollback' end as decision,
      coalesce(e.producer_group = h.half_group and e.tran_state_table_offset = h.half_queue_offset, false) as is_right
    from ends e left join (
      select broker_name, commit_log_offset, producer_group as half_group, queue_id as half_queue_id,
        queue_offset as half_queue_offset, transaction_id as half_transaction_id, born_timestamp, real_topic,
        real_queue_id
      from halves
    ) h using (broker_name, commit_log_offset)
  )
  window w as (partition by broker_name, commit_log_offset, is_right order by ts, commit_or_rollback, landing_order)
)
"""
MESSAGES = """
select h.* exclude (topic, queue_id, queue_offset, sys_flag, prepared_transaction_offset, properties, offset_msg_id,
    content_hash, real_topic, real_queue_id),
  h.real_topic as topic, h.real_queue_id as queue_id, n.queue_offset, h.sys_flag | 8 as sys_flag,
  h.commit_log_offset as prepared_transaction_offset,
  map_from_entries(list_filter(map_entries(h.properties), lambda entry:
    entry.key not in ('REAL_TOPIC', 'REAL_QID', 'TRAN_MSG'))) as properties
from halves h join (
  select broker_name, commit_log_offset, row_number() over (
    partition by broker_name, real_topic, real_queue_id order by ts, commit_or_rollback, landing_order) - 1 as queue_offset
  from end_outcome where is_effective and decision = 'commit'
) n using (broker_name, commit_log_offset)
"""
OPS = """
select broker_name, half_queue_id as queue_id, half_queue_offset, 'd' as tags,
  row_number() over (partition by broker_name, half_queue_id order by half_queue_offset) - 1 as queue_offset
from end_outcome where is_effective
"""
PENDING = """
select * exclude (body, properties) from halves
anti join (select broker_name, commit_log_offset from end_outcome where is_effective) using (broker_name, commit_log_offset)
"""
CHECKS = """
select *, 1 as check_times from pending_half where epoch_ms(born_timestamp) < epoch_ms(timestamptz '2026-11-21 12:00:00+00') - 6000
"""
QUERIES = {
    "end_outcome": OUTCOMES,
    "message": MESSAGES,
    "op_message": OPS,
    "pending_half": PENDING,
    "check_request": CHECKS,
}


def run(path: str, target: str) -> dict[str, Any]:
    """Write the same tables as txmq does; seconds of each."""
    steps: dict[str, float] = {}
    with duckdb.connect(config={"threads": len(os.sched_getaffinity(0)), "memory_limit": MEMORY}) as database:
        # Order within a file is nobody's: without it DuckDB streams.
        database.execute("set preserve_insertion_order = false")
        database.execute(f"set temp_directory = '{target}/spill'")
        for view, table in {"halves": "half_message", "ends": "end_transaction"}.items():
            _view(database, view, data_files(Path(path, table)))
        for table, query in QUERIES.items():
            place = Path(target, table)
            place.mkdir()
            with timed(steps, table):
                database.execute(f"copy ({query}) to '{place}/0.parquet' (format parquet, compression snappy)")
            _view(database, table, [f"{place}/0.parquet"])
    return {"seconds": steps}


def _view(database: duckdb.DuckDBPyConnection, name: str, files: list[str]) -> None:
    database.execute(f"create view {name} as select * from read_parquet({files!r})")
