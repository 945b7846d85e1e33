"""Writes by deltalake under Delta's protocol of transaction numbers: once each, and one of two at once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta import small_writes
from txmq_lib.delta.conform import struct_type
from txmq_lib.delta.small_writes import SmallWrite, can_write, create_table, with_own_arrays
from txmq_lib.spark.local_frame import arrow_rows

SPEC = table_spec("landing_frontier")
STEP = SmallWrite("txmq/land/landing_frontier/frontier", 1, "txmq land pass 1 frontier")


def ends(**offsets: int) -> pa.Table:
    rows = [
        {
            "broker_name": "b",
            "topic": topic,
            "queue_id": 0,
            "next_offset": offset,
            "is_end_known": True,
            "pass_number": 1,
        }
        for topic, offset in offsets.items()
    ]
    return arrow_rows([{name: row.get(name) for name in SPEC.columns} for row in rows], struct_type(SPEC))


@pytest.fixture
def path(tmp_path: Path) -> str:
    place = str(tmp_path / "landing_frontier")
    create_table(place, SPEC, {"delta.enableDeletionVectors": "false"})
    return place


def written_once(path: str) -> None:
    create_table(path, SPEC, {})
    STEP.append(path, ends(A=3))


def offsets(path: str) -> dict[str, int]:
    return {row["topic"]: row["next_offset"] for row in DeltaTable(path).to_pyarrow_table().to_pylist()}


@pytest.mark.parametrize(
    "sign", [*(chr(code) for code in range(1, 128) if chr(code) != "/"), "\u00e9", "\u05d0", "\U0001f600"]
)
def test_a_table_whose_path_deltalake_cannot_write_is_left_to_spark(tmp_path, sign):
    path = str(tmp_path / f"a{sign}b")
    if can_write(path):
        written_once(path)
        assert offsets(path) == {"A": 3}
    else:
        # A panic is no Exception.
        with pytest.raises(BaseException):  # noqa: B017, PT011
            written_once(path)


def test_a_table_is_made_once_with_the_columns_of_its_schema(path):
    create_table(path, SPEC, {})
    table = DeltaTable(path)
    assert (table.version(), tuple(field.name for field in table.schema().fields)) == (0, SPEC.columns)


def test_a_step_is_written_once_under_its_number(path):
    for _ in range(2):
        STEP.append(path, ends(A=3))
    assert (DeltaTable(path).version(), offsets(path)) == (1, {"A": 3})
    assert DeltaTable(path).history(1)[0]["userMetadata"] == STEP.tag
    SmallWrite(STEP.app_id, 2, "next").overwrite(path, ends(B=4), where=None)
    assert offsets(path) == {"B": 4}


def test_of_two_that_write_one_step_at_once_the_second_fails(path, monkeypatch):
    def other_first(table: DeltaTable, *rest: object, **options: object) -> None:
        monkeypatch.undo()
        STEP.append(path, ends(A=3))
        small_writes.write_deltalake(table, *rest, **options)

    monkeypatch.setattr(small_writes, "write_deltalake", other_first)
    with pytest.raises(CommitFailedError):
        STEP.append(path, ends(A=3))
    assert (DeltaTable(path).version(), offsets(path)) == (1, {"A": 3})


@pytest.mark.parametrize(
    "opens", [lambda path: SmallWrite("another", 1, "other").append(path, ends(B=5)), small_writes.open_table]
)
def test_no_other_thread_brings_a_far_table_up_to_date_between_the_look_at_it_and_the_write(path, monkeypatch, opens):
    """As the threads of a service on an object store: tables there stay open, for all of the process."""
    monkeypatch.setattr(small_writes, "storage_options", lambda _: {})
    monkeypatch.setattr(small_writes, "_OPEN", {})
    SmallWrite("first", 1, "first").append(path, ends(A=1))
    beside = Thread(target=opens, args=(path,))

    def looked() -> int:
        # A process that carries the same plan on, then a thread of this one.
        same = CommitProperties(app_transactions=[Transaction(STEP.app_id, STEP.number)])
        write_deltalake(path, ends(A=3), mode="append", commit_properties=same)
        beside.start()
        beside.join(timeout=2)
        return 0

    with pytest.raises(CommitFailedError):
        replace(STEP, highest=looked).append(path, ends(A=3))
    beside.join()
    assert Counter(DeltaTable(path).to_pyarrow_table()["next_offset"].to_pylist())[3] == 1


def test_steps_of_others_do_not_stand_in_the_way(path, monkeypatch):
    def other_first(table: DeltaTable, *rest: object, **options: object) -> None:
        monkeypatch.undo()
        SmallWrite("another", 1, "other").append(path, ends(B=5))
        small_writes.write_deltalake(table, *rest, **options)

    monkeypatch.setattr(small_writes, "write_deltalake", other_first)
    STEP.append(path, ends(A=3))
    assert offsets(path) == {"A": 3, "B": 5}


def test_an_upsert_inserts_what_is_new_and_updates_what_may_be_updated(path):
    STEP.append(path, ends(A=3, B=9))
    merge = SmallWrite(STEP.app_id, 2, "merge")
    merge.upsert(path, ends(A=7, B=1, C=2), key=SPEC.key, only_if="s.next_offset >= t.next_offset")
    assert offsets(path) == {"A": 7, "B": 9, "C": 2}


def test_nested_arrays_without_offsets_as_spark_sends_them_can_be_written(tmp_path):
    # An empty array of texts may have no offsets at all: Arrow allows it, and Spark does it.
    texts = pa.Array.from_buffers(pa.string(), 0, [None, pa.py_buffer(b""), pa.py_buffer(b"")])
    rows = pa.table({"n": [1, 2], "texts": pa.ListArray.from_arrays(pa.array([0, 0, 0], pa.int32()), texts)})
    found = with_own_arrays(rows)
    assert found.equals(pa.table({"n": [1, 2], "texts": pa.array([[], []], pa.list_(pa.string()))}))
    inner = found.column("texts").chunk(0).values.buffers()[1]
    assert inner is not None
    assert inner.size >= 4
    assert with_own_arrays(rows.slice(0, 0)).num_rows == 0
