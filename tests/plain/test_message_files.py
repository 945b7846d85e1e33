"""Rows made of the halves in row groups: each destination its own half, whatever else lies there; nothing lost in silence."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from moment import NOW

from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.arrow_files import arrow_schema
from txmq_lib.delta.row_groups import RowGroups, groups_near
from txmq_lib.errors import InvariantViolation, LeftOff
from txmq_lib.pipeline.reconcile.in_arrow import message_files, message_rows

HALVES, MESSAGES = table_spec("half_message"), table_spec("message")
ON = {"broker_name": "broker_name", "commit_log_offset": "commit_log_offset", "queue_id": "half_queue_id",
      "queue_offset": "half_queue_offset"}  # fmt: skip
MADE = partial(message_rows.restored, schema=arrow_schema(MESSAGES), now=NOW, pass_number=6)
RESTORING = message_files.TableFromHalves(table="message", on=ON, make_rows=MADE)


def half(broker: str, offset: int, at: int) -> dict[str, Any]:
    row = {field.name: {"integer": 0, "long": 0, "string": "x"}.get(str(field.type)) for field in HALVES.fields}
    return row | {
        "broker_name": broker, "queue_offset": offset, "commit_log_offset": at, "born_timestamp": NOW,
        "store_timestamp": NOW, "properties": [("REAL_TOPIC", "T"), ("KEYS", "k")], "body": f"{broker}{offset}".encode(),
    }  # fmt: skip


# In row groups of four: those of broker b lie close, two of them at one place; broker c uses the same places.
LANDED = [
    *[half("b", n, 100 * n) for n in range(6)],
    half("b", 60, 500),
    *[half("c", n, 100 * n) for n in range(3)],
    *[half("b", n, 100 * n) for n in range(7, 12)],
]


@pytest.fixture
def halves(tmp_path: Path) -> str:
    path = tmp_path / "halves.parquet"
    pq.write_table(pa.Table.from_pylist(LANDED, arrow_schema(HALVES)), path, row_group_size=4)
    return str(path)


def destination(broker: str, offset: int, at: int, number: int) -> dict[str, Any]:
    return {"broker_name": broker, "commit_log_offset": at, "half_queue_id": 0, "half_queue_offset": offset,
            "topic": "TopicA", "queue_id": 3, "queue_offset": number}  # fmt: skip


def laid_down(tmp_path: Path, *parts: list[dict[str, Any]]) -> message_files.DestinationFiles:
    schema = pa.schema([("broker_name", pa.string()), ("commit_log_offset", pa.int64()), ("half_queue_id", pa.int32()),
                        ("half_queue_offset", pa.int64()), ("topic", pa.string()), ("queue_id", pa.int32()),
                        ("queue_offset", pa.int64())])  # fmt: skip
    spans = []
    for number, part in enumerate(parts):
        path = str(tmp_path / f"destinations-{number}.parquet")
        pq.write_table(pa.Table.from_pylist(part, schema), path)
        offsets = [row["commit_log_offset"] for row in part]
        spans.append((path, min(offsets), max(offsets)))
    return message_files.DestinationFiles("commit_log_offset", tuple(spans))


def written(
    tmp_path: Path,
    halves: str,
    destinations: message_files.DestinationFiles,
    count: int,
    on_part: Any = lambda: None,
    most_bytes: int = 1,
) -> list[tuple[Any, ...]]:
    (tmp_path / "message").mkdir()
    pieces = groups_near(halves, "commit_log_offset", destinations.ranges, most_bytes=most_bytes)
    files = message_files.write_files(
        str(tmp_path / "message"), RESTORING, destinations, pieces, count=count, threads=2, on_part=on_part
    )
    assert sum(file.rows for file in files) == count
    found = pa.concat_tables([pq.read_table(tmp_path / "message" / file.path) for file in files]).to_pylist()
    return sorted((row["queue_offset"], row["body"].decode(), dict(row["properties"])["KEYS"]) for row in found)


@pytest.mark.parametrize("most_bytes", [1, 1 << 20])
def test_each_destination_gets_its_own_half_of_whatever_broker_and_age(tmp_path, halves, most_bytes):
    destinations = laid_down(
        tmp_path,
        [destination("b", 1, 100, 71), destination("b", 3, 300, 72), destination("b", 60, 500, 73)],
        [destination("c", 1, 100, 74), destination("b", 11, 1_100, 75)],
    )
    assert written(tmp_path, halves, destinations, 5, most_bytes=most_bytes) == [
        (71, "b1", "k"), (72, "b3", "k"), (73, "b60", "k"), (74, "c1", "k"), (75, "b11", "k"),
    ]  # fmt: skip


def test_row_groups_without_a_destination_are_not_read(halves):
    near = groups_near(halves, "commit_log_offset", [(1_100, 1_100)], most_bytes=1)
    assert [each.groups for each in near] == [(3,)]
    near = groups_near(halves, "commit_log_offset", [(301, 500)], most_bytes=1 << 20)
    assert [each.groups for each in near] == [(1, 2)]
    assert groups_near(halves, "commit_log_offset", [(1_101, 9_999)], most_bytes=1) == []


def test_a_destination_without_a_half_is_noticed(tmp_path, halves):
    destinations = laid_down(tmp_path, [destination("b", 1, 100, 71), destination("b", 99, 300, 72)])
    with pytest.raises(InvariantViolation, match="2 destinations, and 1 halves there"):
        written(tmp_path, halves, destinations, 2)


def test_two_destinations_of_one_half_are_noticed(tmp_path, halves):
    destinations = laid_down(tmp_path, [destination("b", 1, 100, 71), destination("b", 1, 100, 72)])
    with pytest.raises(InvariantViolation, match=r"several destinations for the half at .*'commit_log_offset': 100"):
        written(tmp_path, halves, destinations, 2)


def test_it_can_be_left_off_between_two_files(tmp_path, halves):
    destinations = laid_down(tmp_path, [destination("b", n, 100 * n, n) for n in range(6)])

    def leave_off() -> None:
        raise LeftOff("enough")

    with pytest.raises(LeftOff):
        written(tmp_path, halves, destinations, 6, on_part=leave_off)


def test_batches_are_of_few_bytes(tmp_path):
    rows = [half("b", n, n) | {"body": bytes(2 << 20)} for n in range(12)]
    path = str(tmp_path / "large.parquet")
    pq.write_table(pa.Table.from_pylist(rows, arrow_schema(HALVES)), path, use_dictionary=False, compression="none")
    found = RowGroups(path, (0,), pq.read_metadata(path).row_group(0).total_byte_size)
    assert [batch.num_rows for batch in found.batches(["body"])] == [3, 3, 3, 3]
