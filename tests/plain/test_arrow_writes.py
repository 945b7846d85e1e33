"""Files that are written from Arrow, and their commits: whole, with Delta's statistics, once, and one of two at once."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from txmq_lib.config.table_specs import TableSpec, table_spec
from txmq_lib.delta import arrow_files, arrow_writes
from txmq_lib.delta.arrow_files import TableFile, WrittenFile, arrow_schema, stored_schema
from txmq_lib.delta.arrow_writes import ArrowWrite
from txmq_lib.delta.small_writes import create_table

SPEC = table_spec("half_message")
STEP = ArrowWrite("txmq/land/half_message/half", 1, "txmq land pass 1 half")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def write_file(path: str, spec: TableSpec, batches: Iterable[pa.RecordBatch]) -> list[WrittenFile]:
    with TableFile(path, spec) as file:
        for batch in batches:
            file.write(batch)
        return file.finish()


def halves(*offsets: int, **other: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([half(offset, **other) for offset in offsets], arrow_schema(SPEC))


def half(offset: int, **other: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        field.name: {"integer": 0, "long": 0, "string": "x"}.get(str(field.type)) for field in SPEC.fields
    }
    return row | {
        "queue_offset": offset,
        "commit_log_offset": 1000 * offset,
        "born_timestamp": NOON,
        "store_timestamp": NOON + timedelta(milliseconds=offset),
        "properties": [("KEYS", "a\nb"), ("TAGS", "")],
        "body": bytes([offset % 256]) * 3,
        "keys": None,
    } | other  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> str:
    place = str(tmp_path / "half_message")
    create_table(place, SPEC, {"delta.enableChangeDataFeed": "true"})
    return place


def offsets(path: str) -> list[int]:
    return sorted(DeltaTable(path).to_pyarrow_table()["queue_offset"].to_pylist())


def stats_of(written: list[WrittenFile]) -> dict[str, Any]:
    (file,) = written
    return dict(json.loads(file.stats))


def test_rows_come_back_as_they_were_written(path):
    batch = halves(1, 2, 300)
    STEP.append(path, write_file(path, SPEC, [batch]))
    found = DeltaTable(path).to_pyarrow_table().select(batch.schema.names).cast(batch.schema)
    assert found.to_pylist() == batch.to_pylist()
    found = duckdb.sql(f"select sum(queue_offset) from read_parquet('{path}/*.parquet')")
    assert found.fetchall() == [(303,)]


def test_the_file_has_the_types_that_spark_writes(path):
    (file,) = write_file(path, SPEC, [halves(1)])
    schema = pq.ParquetFile(f"{path}/{file.path}").schema
    columns = {column.path: column for column in (schema.column(place) for place in range(len(schema)))}
    assert {"properties.key_value.key", "properties.key_value.value"} < columns.keys()
    time = columns["store_timestamp"]
    assert time.physical_type == "INT64"
    assert json.loads(time.logical_type.to_json()) == {
        "Type": "Timestamp", "isAdjustedToUTC": True, "timeUnit": "microseconds",
        "is_from_converted_type": False, "force_set_converted_type": False,
    }  # fmt: skip
    assert (columns["body"].physical_type, columns["queue_id"].physical_type) == ("BYTE_ARRAY", "INT32")
    assert pq.read_metadata(f"{path}/{file.path}").metadata is None


def test_statistics_are_of_skipping_columns_alone(path):
    stats = stats_of(write_file(path, SPEC, [halves(7, 5), halves(9)]))
    assert stats["numRecords"] == 3
    assert (stats["minValues"]["queue_offset"], stats["maxValues"]["queue_offset"]) == (5, 9)
    names = stats["minValues"].keys() | stats["maxValues"].keys() | stats["nullCount"].keys()
    assert names <= {*SPEC.skipping_columns}
    assert not names & {"body", "properties", "tags", "content_hash"}


def test_a_column_of_nulls_states_their_number_alone(path):
    stats = stats_of(write_file(path, SPEC, [halves(1, 2, prepared_queue_offset=None)]))
    assert stats["nullCount"]["prepared_queue_offset"] == 2
    assert "prepared_queue_offset" not in stats["minValues"].keys() | stats["maxValues"].keys()


def test_times_are_stated_so_that_no_row_lies_outside(path):
    moment = NOON + timedelta(microseconds=1500)
    stats = stats_of(write_file(path, SPEC, [halves(1, store_timestamp=moment)]))
    assert stats["minValues"]["store_timestamp"] == "2026-01-01T12:00:00.001Z"
    assert stats["maxValues"]["store_timestamp"] == "2026-01-01T12:00:00.002Z"
    whole = stats_of(write_file(path, SPEC, [halves(1, store_timestamp=NOON)]))
    assert whole["maxValues"]["store_timestamp"] == "2026-01-01T12:00:00.000Z"


def test_the_last_moment_that_a_time_can_hold_is_stated(path):
    last = datetime.max.replace(tzinfo=UTC)
    stats = stats_of(write_file(path, SPEC, [halves(1, store_timestamp=last)]))
    assert "store_timestamp" not in stats["maxValues"]
    assert stats["minValues"]["store_timestamp"] == "9999-12-31T23:59:59.999Z"


def test_a_long_text_is_stated_short_or_not_at_all(path):
    long, short = "a" * 40, "\U0001f600" * 32
    stats = stats_of(write_file(path, SPEC, [halves(1, broker_name=long)]))
    assert (stats["minValues"]["broker_name"], "broker_name" in stats["maxValues"]) == ("a" * 32, False)
    stats = stats_of(write_file(path, SPEC, [halves(1, broker_name=short)]))
    assert stats["maxValues"]["broker_name"] == short


def test_texts_are_ordered_by_their_bytes(path):
    # U+FF5E stands before U+1F600, and behind it in UTF-16.
    stats = stats_of(write_file(path, SPEC, [halves(1, broker_name="\uff5e"), halves(2, broker_name="\U0001f600")]))
    assert (stats["minValues"]["broker_name"], stats["maxValues"]["broker_name"]) == ("\uff5e", "\U0001f600")


def test_row_groups_are_bounded(path, monkeypatch):
    monkeypatch.setattr(arrow_files, "ROW_GROUP_BYTES", 64 << 10)
    batches = [halves(at, body=bytes(40 << 10)) for at in range(8)]
    (file,) = write_file(path, SPEC, batches)
    metadata = pq.read_metadata(f"{path}/{file.path}")
    assert (metadata.num_row_groups, metadata.num_rows) == (4, 8)
    assert stats_of([file])["maxValues"]["queue_offset"] == 7


def test_no_rows_make_no_file(path):
    assert write_file(path, SPEC, []) == []
    assert write_file(path, SPEC, [halves()]) == []
    assert [name for name in os.listdir(path) if name.endswith(".parquet")] == []


def torn(batch: pa.RecordBatch) -> Any:
    yield batch
    raise RuntimeError("the source ends in the middle")


def test_a_file_that_is_not_finished_is_removed(path, monkeypatch):
    monkeypatch.setattr(arrow_files, "ROW_GROUP_BYTES", 1)
    with pytest.raises(RuntimeError):
        write_file(path, SPEC, torn(halves(1)))
    assert [name for name in os.listdir(path) if name.endswith(".parquet")] == []


def test_a_file_of_a_table_with_partitions_is_of_one_of_them(tmp_path):
    with pytest.raises(ValueError, match="has the partitions"):
        TableFile(str(tmp_path), table_spec("verdict"))
    with pytest.raises(ValueError, match="has the partitions"):
        TableFile(str(tmp_path), SPEC, {"is_held": "false"})


def test_rows_of_a_partition_come_back_with_its_value(tmp_path):
    spec = table_spec("end_outcome")
    create_table(str(tmp_path), spec, {})
    schema = stored_schema(spec)
    row = {
        field.name: {"int32": 1, "int64": 2, "string": "x", "bool": False}.get(str(field.type), NOON)
        for field in schema
    }
    with TableFile(str(tmp_path), spec, {"is_held": "false"}) as file:
        file.write(pa.RecordBatch.from_pylist([row], schema))
        written = file.finish()
    assert os.path.dirname(written[0].path) == "is_held=false"
    STEP.append(str(tmp_path), written)
    assert DeltaTable(str(tmp_path)).to_pyarrow_table().to_pylist() == [row | {"is_held": False}]
    assert DeltaTable(str(tmp_path)).to_pyarrow_table(filters=[("is_held", "=", True)]).num_rows == 0
    assert "is_held" not in json.loads(written[0].stats)["minValues"]


def test_a_step_is_written_once_under_its_number(path):
    for offset in (1, 2):
        STEP.append(path, write_file(path, SPEC, [halves(offset)]))
    assert (DeltaTable(path).version(), offsets(path)) == (1, [1])
    assert DeltaTable(path).history(1)[0]["userMetadata"] == STEP.tag
    assert DeltaTable(path).transaction_version(STEP.app_id) == 1


def test_files_of_an_attempt_that_failed_are_never_seen(path):
    write_file(path, SPEC, [halves(1)])
    STEP.append(path, write_file(path, SPEC, [halves(2)]))
    assert offsets(path) == [2]


def test_one_of_two_that_write_a_step_at_once_fails(path, monkeypatch):
    files = [write_file(path, SPEC, [halves(offset)]) for offset in (1, 2)]
    opened = [DeltaTable(path), DeltaTable(path)]
    monkeypatch.setattr(arrow_writes, "DeltaTable", lambda _: opened.pop())
    STEP.append(path, files[0])
    with pytest.raises(CommitFailedError):
        STEP.append(path, files[1])
    assert offsets(path) == [1]


def test_another_step_that_came_first_stands_in_nobodys_way(path, monkeypatch):
    opened = [DeltaTable(path), DeltaTable(path)]
    monkeypatch.setattr(arrow_writes, "DeltaTable", lambda _: opened.pop())
    ArrowWrite("another", 1, "other").append(path, write_file(path, SPEC, [halves(1)]))
    STEP.append(path, write_file(path, SPEC, [halves(2)]))
    assert offsets(path) == [1, 2]


def test_many_files_are_one_commit(path):
    STEP.append(path, [file for offset in range(5) for file in write_file(path, SPEC, [halves(offset)])])
    assert (DeltaTable(path).version(), offsets(path)) == (1, [0, 1, 2, 3, 4])


def test_a_commit_makes_no_checkpoint_and_leaves_old_entries_of_the_log_where_they_are(path):
    DeltaTable(path).alter.set_table_properties(
        {"delta.checkpointInterval": "3", "delta.logRetentionDuration": "interval 0 seconds"}
    )
    entries = Path(path, "_delta_log")
    for number in range(2, 9):
        ArrowWrite("step", number, "tag").append(path, write_file(path, SPEC, [halves(number)]))
    assert not list(entries.glob("*.checkpoint.parquet"))
    assert sorted(int(entry.stem) for entry in entries.glob("*.json")) == list(range(DeltaTable(path).version() + 1))
