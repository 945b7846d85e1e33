"""DestinationFiles of restored messages: each queue numbered densely in the order of its ends, wherever its rows lie."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from moment import NOW

from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.arrow_files import stored_schema
from txmq_lib.pipeline.reconcile.in_arrow import numbering
from txmq_lib.pipeline.reconcile.in_arrow.numbering import numbered_destinations

SCHEMA = stored_schema(table_spec("end_outcome"))
STARTS = {("b", "TopicA", 0): 100, ("c", "TopicA", 0): 7}


def outcome(number: int, dice: random.Random) -> dict[str, Any]:
    row: dict[str, Any] = {
        field.name: {"int32": 0, "int64": 0, "string": "x", "bool": False}.get(str(field.type), NOW) for field in SCHEMA
    }
    decision, is_effective = dice.choice([("commit", True)] * 8 + [("rollback", True), ("commit", False)])
    return row | {
        "broker_name": dice.choice("bbc"), "real_topic": dice.choice(["TopicA", "TopicB"]),
        "real_queue_id": dice.randrange(3), "commit_log_offset": number * 100, "half_queue_offset": number,
        "ts": NOW.replace(microsecond=1000 * dice.randrange(4)), "landed_pass": dice.randrange(2),
        "landing_order": dice.randrange(50), "commit_or_rollback": 8 if decision == "commit" else 12,
        "decision": decision, "is_effective": is_effective,
    }  # fmt: skip


def queue_of(row: dict[str, Any]) -> numbering.Queue:
    return row["broker_name"], row["real_topic"], row["real_queue_id"]


@pytest.mark.parametrize("in_a_part", [40, 1_000_000])
@pytest.mark.parametrize("seed", range(3))
def test_destinations_are_those_of_the_ends_in_order(tmp_path: Path, monkeypatch, seed, in_a_part):
    monkeypatch.setattr(numbering, "ROWS_IN_A_PART", in_a_part)
    monkeypatch.setattr(numbering, "SAMPLED", 2)
    dice = random.Random(seed)
    rows = [outcome(number, dice) for number in range(500)]
    files = []
    for number in range(4):
        files.append(str(tmp_path / f"{number}.parquet"))
        pq.write_table(pa.Table.from_pylist(rows[number::4], SCHEMA), files[-1], row_group_size=50)
    # A broker that decides itself gets none of these.
    commits = [row for row in rows if row["is_effective"] and row["decision"] == "commit"]
    ours = [row for row in commits if queue_of(row) != ("b", "TopicB", 2)]
    per_queue = Counter(map(queue_of, ours))
    (tmp_path / "destinations").mkdir()
    destinations = numbered_destinations(
        files, str(tmp_path / "destinations"), row_counts=per_queue, starts=STARTS, threads=2
    )
    assert destinations is not None
    in_order = defaultdict(list)
    order = ("ts", "commit_or_rollback", "landed_pass", "landing_order", "commit_log_offset")
    for row in sorted(ours, key=lambda row: [row[name] for name in order]):
        in_order[queue_of(row)].append(row["commit_log_offset"])
    expected = {
        (*queue, STARTS.get(queue, 0) + turn): offset
        for queue, offsets in in_order.items()
        for turn, offset in enumerate(offsets)
    }
    found = destinations.between(0, 10**9).to_pylist()
    names = ("broker_name", "topic", "queue_id", "queue_offset")
    assert {tuple(row[name] for name in names): row["commit_log_offset"] for row in found} == expected
    assert len(found) == len(expected)
    assert all(row["half_queue_offset"] * 100 == row["commit_log_offset"] for row in found)
    near = destinations.between(10_000, 19_900)["commit_log_offset"].to_pylist()
    assert sorted(near) == sorted(offset for offset in expected.values() if 10_000 <= offset <= 19_900)
    assert len(destinations.parts) == (1 if in_a_part > 500 else -(-len(ours) // in_a_part))


def test_a_queue_of_too_many_is_left_to_spark(tmp_path, monkeypatch):
    monkeypatch.setattr(numbering, "MOST_IN_A_FILE", 3)
    assert numbered_destinations([], str(tmp_path), row_counts={("b", "T", 0): 4}, starts={}, threads=1) is None
