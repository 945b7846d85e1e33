"""Queues folded where their files lie leave what the rules leave; what is too much for one process is Spark's."""

from __future__ import annotations

import random
from operator import itemgetter
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from offset_histories import REPORT_DDL, START, frame, no_state, random_history, rows
from offset_model import WINDOW_MS, Report
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType

from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.arrow_files import TableFile, arrow_schema
from txmq_lib.delta.arrow_writes import ArrowWrite
from txmq_lib.delta.small_writes import create_table, table_properties
from txmq_lib.pipeline.rollup import queue_numbers, queues, report_files
from txmq_lib.pipeline.rollup.report_files import Folded, folded_by_files
from txmq_lib.rules.offsets import rolled_up, rolled_up_folded, starting_points
from txmq_lib.spark.local_frame import local_frame

pytestmark = pytest.mark.spark
REPORTS = "consumer_offset_commit"
NAMES = [column.split()[0] for column in REPORT_DDL.split(", ")]


class Warehouse(SimpleNamespace):
    """The table of reports on this disk, in so many files, every second of them as another writer leaves it."""

    def __init__(self, spark: SparkSession, place: Path, reports: list[dict[str, Any]], files: int) -> None:
        super().__init__(spark=spark, path=mkdtemp(dir=place), on_part=lambda table, step: None)
        spec = table_spec(REPORTS)
        create_table(self.path, spec, table_properties(spec))
        size, written = -(-len(reports) // files), []
        for begin in range(0, len(reports), size):
            with TableFile(self.path, spec) as file:
                file.write(pa.RecordBatch.from_pylist(reports[begin : begin + size], arrow_schema(spec)))
                written += file.finish()
        self.files = [str(Path(self.path, each.path)) for each in written]
        for file in self.files[1::2]:
            pq.write_table(pq.read_table(file), file, use_deprecated_int96_timestamps=True)
        ArrowWrite(f"txmq/land/{REPORTS}/rows", 1, "tag").append(self.path, written)


def a_pass(warehouse: Warehouse, place: Path) -> Any:
    return SimpleNamespace(
        warehouse=warehouse,
        new_files=lambda table: warehouse.files,
        read=lambda table: warehouse.spark.read.format("delta").load(warehouse.path),
        directory=lambda prefix: mkdtemp(prefix=prefix, dir=place),
    )


def reports_of(histories: list[list[Report]]) -> list[dict[str, Any]]:
    """Rows of consumer_offset_commit in the order in which they landed."""
    others = {"content_hash": 0, "occurrence": 0}
    found = [{**others, **dict(zip(NAMES, row, strict=True))} for row in rows(histories)]
    return sorted(found, key=itemgetter("landed_pass", "landing_order", "broker_name"))


@pytest.fixture
def folded(spark, tmp_path):
    """What is folded of histories that lie in so many files; `change` may change the pass."""

    def fold(histories, *, files=1, state=None, change=lambda current: None) -> Folded | None:
        current = a_pass(Warehouse(spark, tmp_path, reports_of(histories), files), tmp_path)
        change(current)
        return folded_by_files(current, no_state(spark) if state is None else state)

    return fold


def brokers(frame: DataFrame | None) -> list[str]:
    return [] if frame is None else sorted(row.broker_name for row in frame.collect())


@pytest.mark.parametrize("files", [1, 4])
def test_queues_folded_from_files_leave_the_whole_row_that_the_rules_leave(spark, folded, monkeypatch, files):
    monkeypatch.setattr(report_files, "BATCH_ROWS", 1_000)
    dice = random.Random(84 + files)
    # Most of them as they mostly are, or so many would be left that Spark does it all.
    histories = [random_history(dice) for _ in range(1_000)] + [plain_history(dice) for _ in range(2_000)]
    new_ones = [[event for event in history if event.batch] for history in histories]
    landed = frame(spark, histories)
    is_old = F.col("landed_pass") == 0
    rolled = rolled_up(no_state(spark), landed.where(is_old), conflict_window_ms=WINDOW_MS)
    state = no_state(spark).unionByName(rolled, allowMissingColumns=True).localCheckpoint()
    found = folded(new_ones, files=files, state=state)
    assert found is not None
    assert found.others is not None
    by_files = {row.broker_name: row for row in rolled_up_folded(state, found.rows).collect()}
    assert len(by_files) > 2_000
    assert {row.client_id for row in by_files.values()} == {None, "A", "B"}
    assert {row.rewind_count > 0 for row in by_files.values()} == {True, False}
    by_rules = rolled_up(*starting_points(state, landed.where(~is_old), landed), conflict_window_ms=WINDOW_MS)
    expected = {row.broker_name: row for row in by_rules.collect()}
    assert by_files == {name: expected[name] for name in by_files}
    left = [(row.broker_name, row.ts.timestamp(), row.landing_order) for row in found.others.collect()]
    assert sorted(left) == sorted(
        (report["broker_name"], report["ts"].timestamp(), report["landing_order"])
        for report in reports_of(new_ones)
        if report["broker_name"] not in by_files
    )


def plain_history(dice: random.Random) -> list[Report]:
    """Reports of one queue by one client or by nobody, in order, in two batches; equal and smaller offsets among them."""
    client = dice.choice((None, "A"))
    return [
        Report(second, dice.choice((dice.randrange(9), dice.randrange(2**63))), True, client, second // 5, second)
        for second in sorted(dice.sample(range(10), dice.randrange(2, 10)))
    ]


ONE = [Report(1, 5, True, "A", 0, 0)]
RESET = [Report(0, 5, True, "A", 0, 0), Report(1, 3, False, "A", 0, 1)]


def test_as_many_queues_are_folded_as_are_kept_and_with_one_more_none(folded, monkeypatch):
    for module in (queues, queue_numbers):
        monkeypatch.setattr(module, "MOST_QUEUES", 3)
    assert brokers(folded([ONE] * 3).rows) == ["0", "1", "2"]
    assert folded([ONE] * 4) is None


def test_none_is_folded_where_more_are_known_than_are_kept(spark, folded, monkeypatch):
    for module in (queues, queue_numbers):
        monkeypatch.setattr(module, "MOST_QUEUES", 3)
    assert brokers(folded([ONE], state=known(spark, [], queue_count=3)).rows) == ["0"]
    assert folded([ONE], state=known(spark, [], queue_count=4)) is None


def test_none_is_folded_where_more_than_half_of_all_reports_are_sparks(folded):
    of_two_clients = [Report(1, 5, True, "AB"[place % 2], 0, place) for place in range(3)]
    found = folded([ONE, ONE, of_two_clients[:2]])
    assert (brokers(found.rows), brokers(found.others)) == (["0", "1"], ["2", "2"])
    assert folded([ONE, ONE, of_two_clients]) is None


def test_more_reports_of_queues_with_sets_than_are_held_are_sparks(folded, monkeypatch):
    monkeypatch.setattr(queues, "MOST_RESET_ROWS", 2)
    found = folded([ONE, ONE, RESET])
    assert (brokers(found.rows), found.others) == (["0", "1", "2"], None)
    monkeypatch.setattr(queues, "MOST_RESET_ROWS", 1)
    found = folded([ONE, ONE, RESET])
    assert (brokers(found.rows), brokers(found.others)) == (["0", "1"], ["2", "2"])


def test_files_are_read_as_they_landed_so_that_nothing_comes_late(folded):
    histories = [[Report(place, place, True, "A", place, place) for place in range(4)]] * 5
    found = folded(histories, files=4, change=lambda current: current.warehouse.files.reverse())
    assert {(row.broker_name, row.report_count) for row in found.rows.collect()} == {(str(n), 4) for n in range(5)}
    assert found.others is None


def test_a_time_that_another_writer_stored_stays_what_it_is_however_late(folded):
    seconds = (1, 474 * 365 * 86_400)
    found = folded([[Report(second, place, True, "A", place, 0) for place, second in enumerate(seconds)]], files=2)
    assert [row.ts for row in found.rows.select(F.unix_seconds("last_report.ts").alias("ts")).collect()] == [
        int(START.timestamp()) + seconds[1]
    ]


def test_none_is_folded_where_the_files_are_not_all_here_or_lack_a_column(spark, folded):
    def without_origin(current):
        for file in current.warehouse.files:
            pq.write_table(pq.read_table(file).drop_columns(["origin"]), file)

    def elsewhere(current):
        current.new_files = lambda table: None

    def nothing_new(current):
        current.new_files = lambda table: []

    assert [folded([ONE], change=change) for change in (without_origin, elsewhere, nothing_new)] == [None] * 3


def test_a_service_that_is_ended_leaves_off_between_two_batches(folded):
    def ended(current):
        def end(table, step):
            raise InterruptedError(table)

        current.warehouse.on_part = end

    with pytest.raises(InterruptedError, match="consumer_offset"):
        folded([ONE], change=ended)


@pytest.mark.parametrize("is_ansi", ["true", "false"])
def test_a_queue_of_which_too_many_recent_reports_were_dropped_is_sparks(spark, folded, is_ansi):
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", is_ansi)
    try:
        found = folded([ONE, ONE], state=known(spark, None, queue_count=1))
        assert (brokers(found.rows), brokers(found.others)) == (["1"], ["0"])
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)


def known(spark: SparkSession, recent_reports: list[Any] | None, *, queue_count: int) -> DataFrame:
    """Rows of consumer_offset; recent reports are null where they were too many to be kept."""
    schema = no_state(spark).schema
    nothing = {field.name: [] if isinstance(field.dataType, ArrayType) else 0 for field in schema if not field.nullable}
    values = {
        **{"consumer_group": "g", "topic": "t", "queue_id": 0, "next_offset": 4, "updated_timestamp": START},
        **{"last_report_timestamp": START, "last_report_landed_pass": 0, "last_report_landing_order": 0},
        "recent_reports": recent_reports,
    }
    return local_frame(
        spark, [{**nothing, "broker_name": str(number), **values} for number in range(queue_count)], schema
    )
