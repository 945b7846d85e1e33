"""Keys taken by their kind end as they do when each is taken as the others."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from offset_histories import frame, no_state, random_history
from offset_model import WINDOW_MS, Report
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.arrow_files import TableFile, arrow_schema
from txmq_lib.delta.arrow_writes import ArrowWrite
from txmq_lib.delta.row_groups import all_files
from txmq_lib.delta.small_writes import create_table, table_properties
from txmq_lib.pipeline.rollup import report_files
from txmq_lib.pipeline.rollup.report_files import folded_by_files
from txmq_lib.rules.offset_kinds import queue_kinds
from txmq_lib.rules.offsets import rolled_up, rolled_up_folded, starting_points

pytestmark = pytest.mark.spark


def test_a_key_taken_as_its_kind_leaves_the_whole_row_that_it_leaves_as_the_others(spark):
    dice = random.Random(1_102)
    landed = frame(spark, [random_history(dice) for _ in range(3_000)])
    is_old = F.col("landed_pass") == 0
    rolled = rolled_up(no_state(spark), landed.where(is_old), conflict_window_ms=WINDOW_MS)
    state = no_state(spark).unionByName(rolled, allowMissingColumns=True).localCheckpoint()
    start = [rows.localCheckpoint() for rows in starting_points(state, landed.where(~is_old), landed)]
    kinds = queue_kinds(*start).localCheckpoint()
    kinds_seen = {(row.has_sets, row.has_clients, row.known is not None) for row in kinds.collect()}
    assert len(kinds_seen) == 8
    as_others, as_kinds = (
        {
            row.broker_name: row.asDict(recursive=True)
            for row in rolled_up(*start, conflict_window_ms=WINDOW_MS, kinds=some_kinds).collect()
        }
        for some_kinds in (None, kinds)
    )
    assert as_kinds == as_others


class Warehouse(SimpleNamespace):
    """The table of reports on this disk, in so many files."""

    def __init__(self, spark: SparkSession, place: Path, reports: list[dict[str, Any]], files: int) -> None:
        super().__init__(spark=spark, path=str(place / "reports"), on_part=lambda table, step: None)
        spec = table_spec("consumer_offset_commit")
        create_table(self.path, spec, table_properties(spec))
        others = {"content_hash": 0, "occurrence": 0}
        rows = [{**others, **each} for each in reports]
        size = -(-len(rows) // files)
        written = []
        for begin in range(0, len(rows), size):
            with TableFile(self.path, spec) as file:
                file.write(pa.RecordBatch.from_pylist(rows[begin : begin + size], arrow_schema(spec)))
                written += file.finish()
        ArrowWrite("txmq/land/consumer_offset_commit/rows", 1, "tag").append(self.path, written)


def a_pass(warehouse: Warehouse, place: Path) -> Any:
    return SimpleNamespace(
        warehouse=warehouse,
        new_files=lambda table: all_files(warehouse.path, 1),
        read=lambda table: warehouse.spark.read.format("delta").load(warehouse.path),
        directory=lambda prefix: mkdtemp(prefix=prefix, dir=place),
    )


@pytest.mark.parametrize("files", [1, 4])
def test_queues_folded_from_files_leave_the_whole_row_that_the_rules_leave(spark, tmp_path, monkeypatch, files):
    monkeypatch.setattr(report_files, "BATCH_ROWS", 1_000)
    dice = random.Random(84 + files)
    # Most of them as they mostly are, or so many would be left that Spark does it all.
    histories = [random_history(dice) for _ in range(1_000)] + [plain_history(dice) for _ in range(2_000)]
    landed = frame(spark, histories)
    is_old = F.col("landed_pass") == 0
    rolled = rolled_up(no_state(spark), landed.where(is_old), conflict_window_ms=WINDOW_MS)
    state = no_state(spark).unionByName(rolled, allowMissingColumns=True).localCheckpoint()
    new = landed.where(~is_old)
    reports = [row.asDict() for row in new.orderBy("landed_pass", "landing_order", "broker_name").collect()]
    found = folded_by_files(a_pass(Warehouse(spark, tmp_path, reports, files), tmp_path), state)
    assert found is not None
    assert found.others is not None
    folded = {row.broker_name: row for row in rolled_up_folded(state, found.rows).collect()}
    assert len(folded) > 2_000
    assert {row.client_id for row in folded.values()} == {None, "A", "B"}
    assert {row.rewind_count > 0 for row in folded.values()} == {True, False}
    by_rules = rolled_up(*starting_points(state, new, landed), conflict_window_ms=WINDOW_MS)
    expected = {row.broker_name: row for row in by_rules.collect()}
    assert folded == {name: expected[name] for name in folded}
    left = [row.broker_name for row in found.others.collect()]
    assert sorted([*left, *[each["broker_name"] for each in reports if each["broker_name"] in folded]]) == sorted(
        each["broker_name"] for each in reports
    )


def plain_history(dice: random.Random) -> list[Report]:
    """Reports of one queue by one client or by nobody, in order, in two batches; equal and smaller offsets among them."""
    client = dice.choice((None, "A"))
    return [
        Report(second, dice.choice((dice.randrange(9), dice.randrange(2**63))), True, client, second // 5, second)
        for second in sorted(dice.sample(range(10), dice.randrange(2, 10)))
    ]
