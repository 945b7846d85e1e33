"""Passes after a power cut: some of the disk's legal states; `make faults FAULTS="--only crash"` builds all, of every job."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from contents import contents, differences
from crash_states import CUT, CUT_AT_LINE, EMPTY, ZEROS, Recording, build, harmed, recorded
from delta.tables import DeltaTable
from house import House
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from truth import CAPTURES

from txmq_lib.delta.entry_check import TableCheck
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.spark.jvm import jvm_class

# Of those on tables, where the second time changes nothing.
CHANGES = (
    "SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 604800 seconds', 'some' = 'thing')",
    "SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    "ALTER COLUMN m COMMENT 'some'",
)
SETTINGS = ("transaction_timeout=2", "transaction_check_interval=3", "transaction_check_max=0")


def land(house: House) -> None:
    house.land("half", CAPTURES / "restart" / "half.jsonl.gz")


def reconcile(house: House) -> None:
    house.reconcile()


@pytest.fixture(autouse=True)
def is_another_boot(monkeypatch):
    monkeypatch.setattr("txmq_lib.passes.damage.this_boot", lambda: "another")


@pytest.fixture
def landed(open_house) -> House:
    house = open_house(*SETTINGS)
    land(house)
    house.land("end", CAPTURES / "restart" / "ends.jsonl.gz")
    return house


def ended_as_undisturbed(house: House, job: Callable[[House], None], most: int) -> Recording:
    """Do the job, then once more in `most` of the states that a power cut may leave, spread over all there are."""
    with recorded(Path(house.warehouse.uri), house.warehouse) as recording:
        job(house)
    expected = contents(Path(house.warehouse.uri))
    states = list(recording.states())
    for number, (cut, state) in enumerate(states[:: max(len(states) // most, 1)][:most]):
        place = house.scratch / f"state-{number}"
        build(place, state)
        job(House(Warehouse(house.warehouse.spark, str(place)), house.scratch, house.settings))
        found = differences(expected, contents(place))
        # One that was committed may be done once more for nothing.
        assert not {table: each for table, each in found.items() if table != "pass" or each[0]}, cut
    return recording


def test_a_reconcile_ends_as_undisturbed_in_whatever_state_the_disk_is(landed):
    recording = ended_as_undisturbed(landed, reconcile, most=4)
    synced = [event.path for event in recording.events if event.what == "synced"]
    made = [event.path for event in recording.events if event.what == "created"]
    assert set(synced) >= {path for path in made if "_delta_log" in path or path.endswith(".parquet")}


def test_a_commit_of_spark_whose_first_task_had_no_rows_is_whole(spark, warehouse_dir):
    """Spark says two files and Delta adds one: rows that are all there were set aside for that, or a start refused."""
    late = spark.range(0, 10, 1, 4).where("id > 7")
    for frame, mode in ((late, "append"), (late, "append"), (late.where("id > 70"), "overwrite")):
        frame.write.format("delta").mode(mode).save(str(warehouse_dir))
    table = TableCheck(warehouse_dir)
    texts = [(table.log / f"{version:020d}.json").read_text(encoding="utf-8") for version in table.versions]
    said = [(int(text.split('"numFiles":"')[1].split('"')[0]), text.count('{"add":')) for text in texts]
    assert said == [(2, 1), (2, 1), (1, 0)]
    assert list(table.faults(range(table.newest + 1), ())) == []


def test_the_way_to_a_new_warehouse_is_on_the_disk_before_its_pass_log_is_and_synced_for_all_tables_at_once(
    spark, tmp_path, monkeypatch
):
    place, synced = tmp_path / "new" / "levels" / "warehouse", []
    sync = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    assert len(Warehouse(spark, str(place)).create_missing()) > 20
    way = [place, *place.parents]
    made = [path for path in synced if path.parent == place and path.name != "pass"]
    behind_all = synced[synced.index(made[-1]) : synced.index(place / "pass" / "_delta_log")]
    assert set(way) <= set(behind_all)
    assert {synced.count(above) for above in way} == {2}, "once for all, and once for the pass log"


def test_an_entry_of_spark_that_changes_what_a_table_is_is_seen_where_it_is_cut_behind_its_first_line(
    spark, warehouse_dir
):
    """Whole it is none, be nothing new in it: a start would refuse a good warehouse."""
    builder = DeltaTable.createIfNotExists(spark).location(str(warehouse_dir)).addColumn("n", "BIGINT")
    for _ in range(2):
        builder.property("delta.enableChangeDataFeed", "true").execute()
    for change in ("ADD COLUMNS (m STRING)", *CHANGES, *CHANGES, "UNSET TBLPROPERTIES ('some')"):
        spark.sql(f"ALTER TABLE delta.`{warehouse_dir}` {change}")
    table = TableCheck(warehouse_dir)
    assert len(table.versions) == 1 + 1 + 2 * len(CHANGES) + 1
    everything = range(table.newest + 1)
    assert list(table.faults(everything, ())) == []
    for version in table.versions:
        entry = table.log / f"{version:020d}.json"
        whole = entry.read_bytes()
        entry.write_bytes(harmed(whole, CUT_AT_LINE))
        assert list(TableCheck(warehouse_dir).faults(everything, ())) == [(version, "its log entry is cut off")], whole
        entry.write_bytes(whole)


def checksummed(spark: SparkSession, entry: Path) -> Path:
    """Write an entry again as Delta's own class does; its checksum."""
    hadoop, content = "org.apache.hadoop.fs", entry.read_bytes()
    files = jvm_class(spark, f"{hadoop}.FileSystem").getLocal(spark.sparkContext._jsc.hadoopConfiguration())
    stream = files.create(jvm_class(spark, f"{hadoop}.Path")(str(entry)), True)
    stream.write(bytearray(content))
    stream.close()
    return entry.with_name(f".{entry.name}.crc")


@pytest.mark.parametrize(
    ("harm", "is_of_entry", "said"),
    [
        *[(harm, False, "its file part-") for harm in (EMPTY, CUT, ZEROS)],
        *[(harm, True, "its log entry" if harm == CUT else "") for harm in (EMPTY, CUT, ZEROS)],
    ],
)
def test_a_checksum_that_was_cut_off_is_told_where_spark_cannot_read_for_it(
    spark, warehouse_dir, harm, is_of_entry, said
):
    """Hadoop keeps checksums beside its files, and believes them: a pass ended there for good."""
    for first in (0, 10):
        spark.range(first, first + 10, 1, 1).write.format("delta").mode("append").save(str(warehouse_dir))
    of_files = sorted(warehouse_dir.glob(".part-*.crc"), key=lambda path: path.stat().st_mtime_ns)
    entry = warehouse_dir / "_delta_log" / f"{1:020d}.json"
    checksum = checksummed(spark, entry) if is_of_entry else of_files[-1]
    table = TableCheck(warehouse_dir)
    assert list(table.faults(range(table.newest + 1), ())) == []
    # Spark's session knows the log of a place that it has seen.
    place = warehouse_dir.with_name("after")
    shutil.copytree(warehouse_dir, place)
    harmed_one = place / checksum.relative_to(warehouse_dir)
    harmed_one.write_bytes(harmed(checksum.read_bytes(), harm))
    table = TableCheck(place)
    faults = list(table.faults(range(table.newest + 1), ()))
    assert [(version, fault.startswith(said)) for version, fault in faults] == [(1, True)] * bool(said)
    read = nullcontext() if not said else pytest.raises(Py4JJavaError)
    with read:
        spark.read.format("delta").load(str(place)).collect()


def test_so_does_a_landing(open_house):
    ended_as_undisturbed(open_house(*SETTINGS), land, most=2)


@pytest.mark.long
def test_so_do_passes_of_many_rows(landed, monkeypatch):
    monkeypatch.setattr("txmq_lib.passes.runner.SMALL_PASS_BYTES", -1)
    monkeypatch.setattr("txmq_lib.passes.writer.FEW_ROWS", -1)
    ended_as_undisturbed(landed, reconcile, most=12)
