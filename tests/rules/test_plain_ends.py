"""Ends judged in Arrow: their rows are those of the rules, and whatever is not plain is left to these."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders import at, policies, row, rows
from deltalake import DeltaTable
from moment import NOW
from test_end import EDGES
from test_end_order import STORIES

from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.arrow_files import TableFile, WrittenFile, arrow_schema
from txmq_lib.delta.arrow_writes import ArrowWrite
from txmq_lib.delta.small_writes import create_table, table_properties
from txmq_lib.pipeline.reconcile.in_arrow import judging
from txmq_lib.rules.end import judged_ends, matched_ends, outcome_rows
from txmq_lib.spark.row_hash import row_hash

pytestmark = pytest.mark.spark
COMMIT, ROLLBACK = 8, 12
PLAIN, STEP = 200, 500


class Warehouse(SimpleNamespace):
    """Tables of this machine, one commit each, of so many files as there are lists of rows."""

    def __init__(self, place: Path, *, files: int) -> None:
        super().__init__(place=place, files=files, spark=SimpleNamespace(sparkContext=SimpleNamespace()))
        self.spark.sparkContext.defaultParallelism = 2

    def local_path(self, table: str) -> str:
        return str(self.place / table)

    def on_part(self, table: str, step: str) -> None:
        assert table == step == "end_outcome"

    def land(self, table: str, values: list[dict[str, Any]]) -> None:
        spec = table_spec(table)
        create_table(self.local_path(table), spec, table_properties(spec))
        columns = [dict(zip(spec.columns, row(table, **each), strict=True)) for each in values]
        size = -(-len(columns) // self.files)
        parts = [columns[begin : begin + size] for begin in range(0, len(columns), size)]
        written = [file for part in parts for file in self.write(table, part)]
        ArrowWrite(f"txmq/land/{table}/rows", 1, "tag").append(self.local_path(table), written)

    def write(self, table: str, part: list[dict[str, Any]]) -> list[WrittenFile]:
        spec = table_spec(table)
        with TableFile(self.local_path(table), spec) as file:
            file.write(pa.RecordBatch.from_pylist(part, arrow_schema(spec)))
            return file.finish()


def a_pass(warehouse: Warehouse) -> Any:
    directory = warehouse.place / "others"
    directory.mkdir()
    return SimpleNamespace(
        warehouse=warehouse,
        known_to=lambda table: None,
        read=lambda table: SimpleNamespace(isEmpty=lambda: True),
        input_versions={"end_outcome": 0, "half_message": 1},
        new_files=lambda table: DeltaTable(warehouse.local_path(table)).file_uris(),
        files_near=lambda table, *_: DeltaTable(warehouse.local_path(table)).file_uris(),
        directory=lambda prefix: str(directory),
        now=NOW,
        number=7,
    )


def half_at(number: int, **values: Any) -> dict[str, Any]:
    place = {"queue_offset": number, "commit_log_offset": STEP * number, "born_timestamp": at(number)}
    return {"transaction_id": f"T{number}", **place, **values}


def end_of(number: int, **values: Any) -> dict[str, Any]:
    named = {"tran_state_table_offset": number, "commit_log_offset": STEP * number, "producer_group": "PG"}
    return {"ts": NOW, "commit_or_rollback": COMMIT, "transaction_id": f"T{number}", **named, **values}


def histories() -> tuple[list[dict[str, Any]], list[dict[str, Any]], set[str]]:
    """Halves, ends, and which of these (by msg_id) nothing has to be judged of: plain ones, each edge, each story."""
    halves = [half_at(number) for number in range(PLAIN)]
    ends = [
        end_of(number, msg_id=f"plain {number}", commit_or_rollback=ROLLBACK if number % 3 == 0 else COMMIT)
        for number in range(PLAIN)
    ]
    place = PLAIN
    plain = {each["msg_id"] for each in ends}
    for why, code, half, named, (outcome, *_) in EDGES:
        halves.append(half_at(place, **half))
        ends.append(end_of(place, commit_or_rollback=code, **{**named, "msg_id": why}))
        if outcome == "accepted" and code in (COMMIT, ROLLBACK) and half.get("check_immunity") is None:
            plain.add(why)
        place += 1
    for why, prior, story_ends, _ in STORIES:
        halves += [half_at(place, transaction_id=why), half_at(place + 1, transaction_id=why, born_timestamp=at(place))]
        for turn, each in enumerate(story_ends):
            story = {name: value for name, value in each.items() if not name.startswith("_")}
            ends.append(end_of(place + bool(each.get("_copy")), **{**story, "msg_id": f"{why}/{turn}/{prior}"}))
        place += 2
    # Two halves at one place, in row groups far from each other.
    halves = [
        half_at(9_999, commit_log_offset=STEP * 5),
        *halves,
        half_at(9_998, commit_log_offset=STEP * PLAIN - STEP),
    ]
    plain -= {"plain 5", f"plain {PLAIN - 1}"}
    # Another broker, and places that two of them share: an end means the half of its own broker.
    of_c = [{"broker_name": "c", "commit_log_offset": STEP * number + 1} for number in range(40)]
    halves += [half_at(number, transaction_id=f"C{number}", **each) for number, each in enumerate(of_c)]
    ends += [end_of(number, msg_id=f"c {number}", **each) for number, each in enumerate(of_c)]
    halves += [half_at(number, broker_name="d", transaction_id=f"D{number}") for number in (60, 9_000)]
    ends.append(end_of(9_000, broker_name="e", msg_id="of a broker without halves"))
    plain |= {f"c {number}" for number in range(40)}
    return halves, [{**each, "landing_order": turn} for turn, each in enumerate(ends)], plain


def random_histories(seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Halves with copies, twins and shared places; ends that name them, rightly for the most part, once or more."""
    dice = random.Random(seed)
    halves: list[dict[str, Any]] = []
    for number in range(400):
        values: dict[str, Any] = {"broker_name": dice.choice("bbbc")}
        if halves and dice.random() < 0.06:  # a copy, or a twin of the id
            of = dice.choice(halves)
            values["transaction_id"] = of["transaction_id"]
            if dice.random() < 0.5:
                values |= {name: of[name] for name in ("broker_name", "born_timestamp")}
        if halves and dice.random() < 0.03:
            values["commit_log_offset"] = dice.choice(halves)["commit_log_offset"]
        odd = {"producer_group": [None, "PH"], "real_topic": [None, "RMQ_SYS_TRANS_HALF_TOPIC"], "real_queue_id": [None, -1],
               "check_immunity": ["60", "x"]}  # fmt: skip
        if dice.random() < 0.06:
            name = dice.choice(sorted(odd))
            values[name] = dice.choice(odd[name])
        halves.append(half_at(number, **values))
    ends = []
    for half in halves:
        for _ in range(dice.choice([0] + 12 * [1] + [2])):
            named = {"broker_name": half["broker_name"], "producer_group": half.get("producer_group", "PG"),
                     "tran_state_table_offset": half["queue_offset"], "commit_log_offset": half["commit_log_offset"]}  # fmt: skip
            wrong = {"broker_name": "d", "producer_group": "PX", "tran_state_table_offset": 77, "commit_log_offset": 3}
            if dice.random() < 0.05:
                name = dice.choice(sorted(wrong))
                named[name] = wrong[name]
            code = dice.choice(12 * [COMMIT] + 4 * [ROLLBACK] + [0, 5])
            is_check = dice.random() < 0.2
            ends.append(
                end_of(0, **named, commit_or_rollback=code, ts=at(dice.randrange(9)), from_transaction_check=is_check)
            )
    dice.shuffle(ends)
    return halves, [{**each, "landing_order": turn} for turn, each in enumerate(ends)]


def outcomes_of_rules(spark, halves, ends, refused, decided) -> dict[int, dict[str, Any]]:
    places = rows(spark, "quarantine", [{"commit_log_offset": place, "broker_name": "b"} for place in refused])
    before = [{"transaction_id": f"T{n}", "born_timestamp": at(n), "decision": "commit"} for n in decided]
    prior = rows(spark, "end_outcome", before).withColumnRenamed("decision", "prior_decision")
    matched = matched_ends(
        rows(spark, "end_transaction", ends),
        rows(spark, "half_message", halves),
        quarantined_places=places.select("broker_name", "commit_log_offset"),
    )
    judged = judged_ends(matched, prior, policies=policies(), now=NOW)
    found = outcome_rows(judged, now=NOW, pass_number=7).toArrow().to_pylist()
    return {each["landing_order"]: each for each in found}


def judged_into_files(place, halves, ends, files, refused=(), decided=()) -> tuple[list[dict[str, Any]], list[int]]:
    """Rows of end_outcome that Arrow made, and the ends (by landing_order) that it has left."""
    warehouse = Warehouse(place, files=files)
    warehouse.land("half_message", halves)
    warehouse.land("end_transaction", ends)
    ids = pa.array([f"T{number}" for number in decided], pa.string())
    found = judging.judged_by_files(
        a_pass(warehouse), not_plain=np.sort(row_hash([ids]).to_numpy()), refused=np.array(refused, np.int64)
    )
    assert found is not None
    paths = [f"{warehouse.local_path('end_outcome')}/{file.path}" for file in found.files]
    rows_made = pa.concat_tables([pq.ParquetFile(path).read() for path in paths]).to_pylist()
    left = [pq.read_table(file) for file in sorted(Path(str(found.directory_left)).glob("*.parquet"))]
    return rows_made, pa.concat_tables(left)["landing_order"].to_pylist()


def test_many_halves_and_ends_at_one_place_are_left_to_spark_and_never_paired(tmp_path):
    at_zero = {"commit_log_offset": 0}
    warehouse = Warehouse(tmp_path, files=1)
    warehouse.land("half_message", [half_at(number, **at_zero) for number in range(3_000)])
    ends = [end_of(number, landing_order=number, **at_zero) for number in range(3_000)]
    warehouse.land("end_transaction", ends)
    none = np.empty(0, np.int64)
    assert judging.judged_by_files(a_pass(warehouse), not_plain=none, refused=none) is None


def test_ends_in_no_order_whose_halves_would_be_read_again_and_again_are_left_to_spark(tmp_path, monkeypatch):
    monkeypatch.setattr(judging, "HALVES_FREE", 0)
    warehouse = Warehouse(tmp_path, files=8)
    warehouse.land("half_message", [half_at(number) for number in range(PLAIN)])
    warehouse.files = 1
    ends = [end_of(number * 77 % PLAIN, landing_order=number) for number in range(PLAIN)]
    warehouse.land("end_transaction", ends)
    none, current = np.empty(0, np.int64), a_pass(warehouse)
    assert judging.judged_by_files(current, not_plain=none, refused=none) is not None
    monkeypatch.setattr(judging, "BATCH_ROWS", PLAIN // 10)  # ten readings, where eight are let pass
    assert judging.judged_by_files(current, not_plain=none, refused=none) is None


@pytest.mark.parametrize("seed", range(4))
def test_random_ends_get_the_rows_of_the_rules(spark, tmp_path, seed):
    halves, ends = random_histories(seed)
    judged, left = judged_into_files(tmp_path, halves, ends, files=5)
    rules = outcomes_of_rules(spark, halves, ends, (), ())
    for each in judged:
        assert each == {name: rules[each["landing_order"]][name] for name in each}
    assert len(judged) > 100
    assert sorted([*left, *[each["landing_order"] for each in judged]]) == list(range(len(ends)))


@pytest.mark.parametrize("files", [1, 7])
def test_what_arrow_judges_is_what_the_rules_say_and_the_rest_is_left_to_them(spark, tmp_path, files):
    halves, ends, plain = histories()
    refused, decided = [STEP * 20], [30, 31]
    judged, left = judged_into_files(tmp_path, halves, ends, files, refused, decided)
    rules = outcomes_of_rules(spark, halves, ends, refused, decided)
    for each in judged:
        assert each == {name: rules[each["landing_order"]][name] for name in each}
    plain -= {"plain 20", "plain 30", "plain 31"}
    assert {each["msg_id"] for each in judged} == plain
    assert sorted([*left, *[each["landing_order"] for each in judged]]) == [each["landing_order"] for each in ends]
