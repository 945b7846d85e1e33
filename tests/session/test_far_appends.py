"""Rows of an object store's table by one file and one entry: only behind an entry that says that this is enough."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from txmq_lib.cli.run.recorded import Run
from txmq_lib.config.table_specs import RUN_TABLE, Field, TableSpec, table_spec
from txmq_lib.delta import log_folder, run_rows
from txmq_lib.delta.arrow_files import stored_schema
from txmq_lib.delta.far_appends import APPENDABLE, FarAppends, appendable_note
from txmq_lib.delta.log_entries import LogEntries
from txmq_lib.delta.run_rows import append_runs, keep_small
from txmq_lib.delta.small_writes import create_table, table_properties

pytestmark = pytest.mark.spark
AT = datetime(2026, 11, 28, 1, 2, 3, 4567, tzinfo=UTC)
SPEC = table_spec(RUN_TABLE)


def row(number: int, passes: dict[str, int] | None = None) -> dict:
    run = Run("run", AT + timedelta(seconds=number), {"land store": ""}, passes or {}, {"broker-a"})
    return run.row(AT + timedelta(seconds=number, microseconds=1), "done", 0)


def arrow(*rows: dict) -> pa.Table:
    return pa.Table.from_pylist([{name: each.get(name) for name in SPEC.columns} for each in rows], stored_schema(SPEC))


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    """With a table `run` as `init` makes it, and one row."""
    create_table(f"{tmp_path}/{RUN_TABLE}", SPEC, table_properties(SPEC))
    append_runs(str(tmp_path), [row(0)])
    return str(tmp_path)


@pytest.fixture
def appends(spark: SparkSession, warehouse: str) -> FarAppends:
    return FarAppends(spark, f"file://{warehouse}/{RUN_TABLE}", SPEC)


def rows_of(warehouse: str) -> list[dict]:
    found = DeltaTable(f"{warehouse}/{RUN_TABLE}").to_pyarrow_table().select(list(SPEC.columns)).to_pylist()
    return sorted(found, key=lambda each: each["started_timestamp"])


def altered(warehouse: str, configuration: dict[str, str]) -> None:
    DeltaTable(f"{warehouse}/{RUN_TABLE}").alter.set_table_properties(configuration)


def test_rows_are_those_that_deltalake_and_spark_write_and_read(
    spark: SparkSession, appends: FarAppends, warehouse: str, tmp_path: Path
):
    written = [row(1, {"reconcile": 3}), row(2)]
    assert appends.append(arrow(*written)) == 2
    assert appends.append(arrow(row(3))) == 3
    by_deltalake = str(tmp_path / "other")
    append_runs(by_deltalake, [row(0), *written, row(3)])
    assert rows_of(warehouse) == rows_of(by_deltalake)
    path = f"{warehouse}/{RUN_TABLE}"
    read = spark.read.format("delta").load(path).where("started_timestamp >= '2026-11-28 01:02:05'").collect()
    assert sorted(each["run_id"] for each in read) == sorted(each["run_id"] for each in (written[1], row(3)))
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 2).load(path)
    assert [each["_change_type"] for each in feed.collect()] == ["insert"] * 3


def test_whoever_writes_by_deltalake_says_that_rows_are_enough_and_others_say_nothing(
    spark: SparkSession, appends: FarAppends, warehouse: str
):
    path = f"{warehouse}/{RUN_TABLE}"
    write_deltalake(path, arrow(row(1)), mode="append")
    assert appends.append(arrow(row(2))) is None
    assert len(rows_of(warehouse)) == 2
    append_runs(warehouse, [row(2)])
    assert appends.append(arrow(row(3))) == 4
    DeltaTable(path).optimize.compact()
    assert appends.append(arrow(row(4))) is None
    assert FarAppends(spark, f"file://{warehouse}/none", SPEC).append(arrow(row(4))) is None
    assert len(rows_of(warehouse)) == 4


def test_an_entry_that_somebody_else_has_put_meanwhile_is_looked_at_too(
    spark: SparkSession, appends: FarAppends, warehouse: str, monkeypatch: pytest.MonkeyPatch
):
    other = FarAppends(spark, f"file://{warehouse}/{RUN_TABLE}", SPEC)
    put = FarAppends._put

    def after(meanwhile):
        def wrapped(self, rows):
            written = put(self, rows)
            monkeypatch.setattr(FarAppends, "_put", put)
            meanwhile()
            return written

        monkeypatch.setattr(FarAppends, "_put", wrapped)

    after(lambda: other.append(arrow(row(1))))
    assert appends.append(arrow(row(2))) == 3
    assert [each["started_timestamp"] for each in rows_of(warehouse)] == [AT + timedelta(seconds=n) for n in range(3)]
    after(lambda: altered(warehouse, {"delta.appendOnly": "true"}))
    assert appends.append(arrow(row(3))) is None
    assert len(rows_of(warehouse)) == 3, "its file is named by none"


@pytest.mark.parametrize(
    "changed",
    [
        lambda spec: {"fields": (*spec.fields, Field("more", "string", True, ""))},
        lambda spec: {"fields": spec.fields[:-1]},
        lambda spec: {"fields": (*spec.fields[:-1], Field("txmq_version", "string", True, ""))},
        lambda spec: {"fields": (*spec.fields[:-1], Field("txmq_version", "long", False, ""))},
    ],
    ids=["a column more", "one less", "may be null", "another type"],
)
def test_a_table_of_other_columns_takes_more_than_this_version_knows(spark: SparkSession, warehouse: str, changed):
    path = f"{warehouse}/{RUN_TABLE}"
    other = TableSpec(**{**SPEC.__dict__, **changed(SPEC)})
    assert appendable_note(DeltaTable(path), SPEC).keys() == {APPENDABLE}
    assert appendable_note(DeltaTable(path), other) == {}
    assert FarAppends(spark, f"file://{path}", other).append(arrow(row(1))) is None


def test_a_table_that_asks_more_of_who_appends_is_left_to_deltalake(
    spark: SparkSession, warehouse: str, tmp_path: Path
):
    for number, alteration in enumerate(
        (
            "ADD CONSTRAINT known CHECK (process > 0)",
            "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2',"
            " 'delta.minWriterVersion' = '5')",
            "SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
        )
    ):
        path = str(tmp_path / str(number))
        create_table(path, SPEC, table_properties(SPEC))
        assert appendable_note(DeltaTable(path), SPEC)
        spark.sql(f"ALTER TABLE delta.`{path}` {alteration}")
        assert appendable_note(DeltaTable(path), SPEC) == {}, alteration
    in_parts = str(tmp_path / "in parts")
    create_table(in_parts, TableSpec(**{**SPEC.__dict__, "partition_by": ("command",)}), table_properties(SPEC))
    assert appendable_note(DeltaTable(in_parts), SPEC) == {}
    ruled = SPEC.to_json()
    ruled["fields"][-1]["metadata"]["delta.invariants"] = json.dumps({"expression": {"expression": "process > 0"}})
    log = Path(warehouse, RUN_TABLE, "_delta_log", "00000000000000000000.json")
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            action["metaData"]["schemaString"] = json.dumps(ruled)
    log.write_text("\n".join(map(json.dumps, actions)))
    assert appendable_note(DeltaTable(f"{warehouse}/{RUN_TABLE}"), SPEC) == {}


class Kept(log_folder.HadoopFolder):
    """A log that is read where nothing can be written."""

    kept: Path
    looks = 0

    def names(self, start: str) -> list[str]:
        self.looks += 1
        assert self.looks < 10, "asked without end"
        return sorted(each.name for each in self.kept.iterdir() if each.name >= start)

    def read(self, name: str) -> bytes | None:
        return (self.kept / name).read_bytes() if (self.kept / name).exists() else None


def test_what_became_of_an_entry_that_could_not_be_put_is_not_known_and_told(
    spark: SparkSession, appends: FarAppends, warehouse: str
):
    """Not taken for the entry of somebody else, which would be tried again without end."""
    log = Path(warehouse, RUN_TABLE, "_delta_log")
    folder = Kept(spark, f"file://{warehouse}/{RUN_TABLE}")
    folder.kept = log.rename(log.with_name("kept"))
    appends._entries = LogEntries(folder)
    log.write_text("in the way of the directory")
    with pytest.raises(Py4JJavaError, match="_delta_log"):
        appends.append(arrow(row(1)))


def test_where_spark_does_not_reach_the_store_nothing_is_appended(
    spark: SparkSession, warehouse: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    assert FarAppends(spark, f"file://{tmp_path}/warehouse\0/run", SPEC).append(arrow(row(1))) is None

    def is_full(self: FarAppends, _: pa.Table) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(FarAppends, "_put", is_full)
    assert FarAppends(spark, f"file://{warehouse}/{RUN_TABLE}", SPEC).append(arrow(row(1))) is None


def test_nothing_is_appended_behind_an_entry_that_a_checkpoint_is_ahead_of(
    spark: SparkSession, appends: FarAppends, warehouse: str
):
    for number in (1, 2):
        appends.append(arrow(row(number)))
    DeltaTable(f"{warehouse}/{RUN_TABLE}").create_checkpoint()
    assert FarAppends(spark, f"file://{warehouse}/{RUN_TABLE}", SPEC).append(arrow(row(3))) == 4
    for version in (3, 4):
        for entry in Path(warehouse, RUN_TABLE, "_delta_log").glob(f"*{version:020d}.json*"):  # and its checksum
            entry.unlink()
    assert FarAppends(spark, f"file://{warehouse}/{RUN_TABLE}", SPEC).append(arrow(row(4))) is None


def test_the_table_of_runs_on_a_store_is_kept_small_by_whoever_has_work(
    spark: SparkSession, warehouse: str, monkeypatch: pytest.MonkeyPatch
):
    """As on an object store: a session is used where there is one, and is left alone where it has gone."""
    monkeypatch.setattr(run_rows, "storage_options", lambda _: {})
    monkeypatch.setattr(run_rows, "is_s3", lambda _: True)
    append_runs(warehouse, [row(1)], spark=spark)
    monkeypatch.setattr(run_rows, "is_s3", lambda _: False)
    monkeypatch.setattr(run_rows, "spark_uri", lambda path: f"file://{path}")
    log = Path(warehouse, RUN_TABLE, "_delta_log")

    def engine(version: int) -> str:
        return json.loads((log / f"{version:020d}.json").read_text().splitlines()[0])["commitInfo"]["engineInfo"]

    for number in range(3, 11):
        assert append_runs(warehouse, [row(number)], spark=spark) == number
        keep_small(warehouse, number, has_work=number == 10, wall=AT)
    assert engine(2).startswith("delta-rs"), "a session whose commits on S3 take the place of others"
    assert all(engine(version).startswith("txmq/") for version in range(3, 11))
    assert [path.name[:20] for path in log.glob("*.checkpoint.parquet")] == [f"{10:020d}"]
    monkeypatch.setattr(run_rows, "is_session_alive", lambda _: False)
    append_runs(warehouse, [row(11)], spark=spark)
    assert engine(11).startswith("delta-rs")
    monkeypatch.undo()
    append_runs(warehouse, [row(12)], spark=spark)
    assert engine(12).startswith("delta-rs"), "on this disk deltalake asks nobody"
    assert len(rows_of(warehouse)) == 12
