"""What is believed and what is set aside after a power cut: commits that are empty, torn, or name files that are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from crash_states import Contents, build, recorded
from deltalake import DeltaTable, Field, Schema, TableFeatures, write_deltalake
from deltalake.schema import PrimitiveType

from txmq_lib.cli.run.findings import WARN
from txmq_lib.cli.run.warehouse_findings import damage_findings
from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.durable import sync_commits, sync_new_table
from txmq_lib.delta.entry_check import TableCheck
from txmq_lib.delta.small_writes import SmallWrite, create_table
from txmq_lib.errors import WarehouseDamaged
from txmq_lib.passes.damage import examined
from txmq_lib.passes.mending import mend, mend_after_power_cut
from txmq_lib.passes.pass_log import app_id, pass_tag

TABLES = ("half_message", "message", "broker_request", "pass")
ROW = pa.table({"n": [1]})
UNNAMED = {"half_message": 0, "message": 0, "broker_request": 0}


class Passes:
    """Passes of a warehouse, each step a row of a number."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.own: dict[tuple[str, int], dict[str, list[int]]] = {}
        for table in TABLES:
            write_deltalake(str(place / table), ROW.slice(0, 0))

    def newest(self, table: str) -> int:
        return DeltaTable(str(self.place / table)).version()

    def row(self, job: str, number: int, state: str, note: dict[str, object]) -> None:
        tag = f"{pass_tag(job, number, state)}\n{json.dumps(note)}"
        SmallWrite(app_id(job, "pass", state), number, tag).append(str(self.place / "pass"), ROW)

    def start(self, job: str, number: int) -> None:
        self.row(job, number, "started", {"input_versions": {name: self.newest(name) for name in UNNAMED}})

    def write(self, job: str, number: int, table: str) -> int:
        tag = f"{pass_tag(job, number, table)} digest"
        SmallWrite(app_id(job, table, table), number, tag).append(str(self.place / table), ROW)
        self.own.setdefault((job, number), {}).setdefault(table, []).append(self.newest(table))
        return self.newest(table)

    def commit(self, job: str, number: int) -> None:
        note = {"input_versions": {name: self.newest(name) for name in UNNAMED}, "own_versions": self.own[job, number]}
        self.row(job, number, "committed", note)

    def whole(self, job: str, number: int, *tables: str) -> None:
        self.start(job, number)
        for table in tables:
            self.write(job, number, table)
        self.commit(job, number)

    def entry(self, table: str, version: int | None = None) -> Path:
        version = self.newest(table) if version is None else version
        return self.place / table / "_delta_log" / f"{version:020d}.json"

    def data_file(self, table: str, version: int | None = None) -> Path:
        lines = map(json.loads, self.entry(table, version).read_text().splitlines())
        return self.place / table / next(line["add"]["path"] for line in lines if "add" in line)


@pytest.fixture
def passes(tmp_path: Path) -> Passes:
    made = Passes(tmp_path)
    made.whole("land", 1, "half_message")
    return made


def said_by_start(place: Path) -> list[str]:
    said: list[str] = []
    mend_after_power_cut(str(place), said.append)
    return said


def empty(path: Path) -> None:
    path.write_bytes(b"")


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def zeroed(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def at_line_end(path: Path) -> None:
    path.write_text(path.read_text().splitlines()[0])


def gone(path: Path) -> None:
    path.unlink()


def change(path: Path, edit: Callable[[str, dict[str, object]], None]) -> None:
    """Each action of an entry edited, by its kind."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        for kind, action in line.items():
            edit(kind, action)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_whole_warehouse_is_left_alone(passes):
    passes.start("reconcile", 1)
    passes.write("reconcile", 1, "message")
    assert not examined(passes.place).damaged
    assert said_by_start(passes.place) == []
    assert not (passes.place / "_set_aside").exists()


@pytest.mark.parametrize("harm", [empty, torn, zeroed, at_line_end])
def test_an_entry_of_an_open_plan_is_set_aside_and_the_plan_stays(passes, harm):
    passes.start("reconcile", 1)
    passes.write("reconcile", 1, "message")
    before, kept = passes.newest("pass"), passes.entry("message")
    harm(kept)
    assert any("message version 1" in line for line in said_by_start(passes.place))
    assert (passes.newest("message"), passes.newest("pass")) == (0, before)
    assert (passes.place / "_set_aside" / "message" / "_delta_log" / kept.name).exists()
    assert said_by_start(passes.place) == []
    assert passes.write("reconcile", 1, "message") == 1


@pytest.mark.parametrize(
    ("files", "rows", "has_statistics", "is_whole"),
    [
        (1, 1, True, True),
        # The first task of a write by Spark leaves a file without rows where others have some: stated, and not added.
        (2, 1, True, True),
        (2, 2, True, False),
        (3, 1, True, False),
        (2, 2, False, True),  # nobody knows how many rows the file has
        (3, 2, False, False),
        (2, None, True, False),
    ],
)
def test_an_entry_of_spark_with_fewer_files_than_it_says_is_whole_where_its_rows_are_all_there(
    passes, files, rows, has_statistics, is_whole
):
    passes.start("reconcile", 1)
    passes.write("reconcile", 1, "message")
    stated = {"numFiles": files, "numOutputRows": rows, "numOutputBytes": 776}
    metrics = {name: str(number) for name, number in stated.items() if number is not None}

    def by_spark(kind, action):
        if kind == "commitInfo":
            action |= {"engineInfo": "Apache-Spark/4.1.4 Delta-Lake/4.4.0", "operationMetrics": metrics}
        if kind == "add" and not has_statistics:
            del action["stats"]

    entry = passes.entry("message")
    change(entry, by_spark)
    assert (examined(passes.place).damaged == ()) == is_whole
    entry.write_text("".join(line for line in entry.read_text().splitlines(True) if "add" not in json.loads(line)))
    assert examined(passes.place).damaged


def test_an_entry_of_deltalakes_optimize_cut_behind_any_of_its_lines_is_seen(tmp_path):
    """It writes what it takes out first: rows of `run` would be gone, or stand twice."""
    for number in range(3):
        write_deltalake(tmp_path, pa.table({"a": [number]}), mode="append")
    DeltaTable(tmp_path).optimize.compact()
    entry = tmp_path / "_delta_log" / f"{3:020d}.json"
    lines = entry.read_text().splitlines(True)
    assert len(lines) == 1 + 3 + 1
    for count in range(1, len(lines) + 1):
        entry.write_text("".join(lines[:count]))
        faults = [version for version, _ in TableCheck(tmp_path).faults(range(3, 4), ())]
        assert faults == ([3] if count < len(lines) else []), count


def altered(table: Path) -> Iterator[Callable[[DeltaTable], object]]:
    """What changes the metadata of a table, or its protocol, each twice: deltalake writes an entry where nothing changes."""
    column = Field("new", PrimitiveType("long"))
    for _ in range(2):
        yield lambda one: one.alter.add_columns([column])
        yield lambda one: one.alter.set_table_properties({"delta.logRetentionDuration": "interval 3 days"})
        yield lambda one: one.alter.set_table_name("some")
        yield lambda one: one.alter.set_table_description("some")
        yield lambda one: one.alter.set_column_metadata("n", {"comment": "some"})
        yield lambda one: one.alter.add_feature(TableFeatures.AppendOnly, allow_protocol_versions_increase=True)
    yield lambda one: one.alter.add_constraint({"some": "n > 0"})
    yield lambda one: one.alter.drop_constraint("some")


def test_an_entry_that_changes_what_a_table_is_cut_behind_its_first_line_is_seen(tmp_path):
    """A table would have no columns, or lack one that all that follows relies on."""
    schema = Schema([Field("n", PrimitiveType("long"))])
    DeltaTable.create(tmp_path, schema, description="some", configuration={"delta.enableChangeDataFeed": "true"})
    for alter in altered(tmp_path):
        alter(DeltaTable(tmp_path))
    versions = TableCheck(tmp_path).versions
    assert len(versions) == 15
    assert list(TableCheck(tmp_path).faults(range(15), ())) == []
    for version in versions:
        entry = tmp_path / "_delta_log" / f"{version:020d}.json"
        whole = entry.read_text()
        at_line_end(entry)
        assert list(TableCheck(tmp_path).faults(range(15), ())) == [(version, "its log entry is cut off")], whole
        entry.write_text(whole)


@pytest.mark.parametrize("order", [("protocol", "metaData"), ("metaData", "protocol")])
def test_a_first_entry_cut_behind_either_of_what_makes_a_table_is_seen(passes, order):
    """deltalake writes the protocol first, Spark the metadata."""
    entry = passes.entry("message", 0)
    by_kind = {next(iter(json.loads(line))): line for line in entry.read_text().splitlines()}
    lines = [by_kind[kind] for kind in ("commitInfo", *order)]
    for count in range(1, 4):
        entry.write_text("".join(f"{line}\n" for line in lines[:count]))
        faults = list(TableCheck(passes.place / "message").faults(range(1), ()))
        assert bool(faults) == (count < 3), count


@pytest.mark.parametrize("stated", ["numRemovedFiles", "numTargetFilesRemoved", "num_removed_files"])
def test_an_entry_that_takes_out_fewer_files_than_it_says_is_cut_off(passes, stated):
    """Spark writes what it adds first: rows would stand beside those that took their place."""
    passes.start("reconcile", 1)
    passes.write("reconcile", 1, "message")
    entry = passes.entry("message")
    change(entry, lambda kind, action: action.update(operationMetrics={stated: 2}) if kind == "commitInfo" else None)
    whole = entry.read_text()
    removes = [json.dumps({"remove": {"path": f"part-{number}.parquet", "dataChange": False}}) for number in range(2)]
    for count in range(3):
        entry.write_text(whole + "".join(f"{line}\n" for line in removes[:count]))
        faults = [version for version, _ in TableCheck(passes.place / "message").faults(range(2), ())]
        assert faults == ([1] if count < 2 else [])


def test_a_file_of_the_change_feed_may_be_gone_where_vacuum_was_there_since(passes):
    """No entry takes it out: VACUUM removes it by its age, that of the pass log's own deletes among them."""
    passes.start("reconcile", 1)
    passes.write("reconcile", 1, "message")
    with passes.entry("message").open("a") as entry:
        entry.write("\n" + json.dumps({"cdc": {"path": "cdc-1.parquet", "partitionValues": {}, "size": 3}}))
    assert any("cdc-1.parquet is not there" in line for line in examined(passes.place).damaged)
    written = passes.entry("message")
    vacuum = written.with_name(f"{passes.newest('message') + 1:020d}.json")
    vacuum.write_text(json.dumps({"commitInfo": {"operation": "VACUUM END", "operationMetrics": {}}}) + "\n")
    assert examined(passes.place).damaged == ()
    (passes.place / "message" / "cdc-1.parquet").write_bytes(b"xxx")
    assert any("cdc-1.parquet is damaged" in line for line in examined(passes.place).damaged)
    (passes.place / "message" / "cdc-1.parquet").unlink()
    passes.data_file("message", 1).unlink()
    assert any("is not there" in line for line in examined(passes.place).damaged)


@pytest.mark.parametrize("prefix", ["file:", "file://", ""])
def test_a_file_may_lie_elsewhere_as_that_of_a_shallow_clone(passes, prefix):
    passes.start("reconcile", 1)
    passes.write("reconcile", 1, "message")
    elsewhere = passes.data_file("message").rename(passes.place / "elsewhere.parquet")
    change(passes.entry("message"), lambda kind, action: kind == "add" and action.update(path=f"{prefix}{elsewhere}"))
    assert examined(passes.place).damaged == ()
    zeroed(elsewhere)
    assert examined(passes.place).damaged


@pytest.mark.parametrize(
    "odd",
    [
        {"operationMetrics": None},
        {"operationMetrics": {"numFiles": None}},
        {"operationMetrics": {"numFiles": "1.0"}},
        {"operation": None, "engineInfo": None},
    ],
)
def test_what_a_writer_leaves_out_of_its_words_is_no_damage(passes, odd):
    passes.start("reconcile", 1)
    passes.write("reconcile", 1, "message")
    change(passes.entry("message"), lambda kind, action: kind == "commitInfo" and action.update(odd))
    assert examined(passes.place).damaged == ()


@pytest.mark.parametrize("error", [pa.ArrowMemoryError, pa.ArrowNotImplementedError])
def test_a_file_too_large_for_this_process_is_no_damage(passes, monkeypatch, error):
    passes.start("reconcile", 1)
    passes.write("reconcile", 1, "message")

    def failing(self, **_):
        raise error

    monkeypatch.setattr("pyarrow.parquet.ParquetFile.iter_batches", failing)
    assert examined(passes.place).damaged == ()


@pytest.mark.parametrize("harm", [empty, torn, zeroed, gone])
def test_so_is_one_whose_data_file_is_not_whole(passes, harm):
    passes.start("reconcile", 1)
    passes.write("reconcile", 1, "message")
    harm(passes.data_file("message"))
    assert said_by_start(passes.place)
    assert passes.newest("message") == 0


def test_data_files_are_not_read_where_the_machine_has_not_stopped(passes, monkeypatch):
    monkeypatch.setattr("txmq_lib.passes.damage.this_boot", lambda: "this")
    passes.row("reconcile", 1, "started", {"input_versions": UNNAMED, "boot": "this"})
    passes.write("reconcile", 1, "message")
    zeroed(passes.data_file("message"))
    assert said_by_start(passes.place) == []
    monkeypatch.setattr("txmq_lib.passes.damage.this_boot", lambda: "the next")
    assert said_by_start(passes.place)


@pytest.mark.parametrize("harm", [empty, torn, zeroed, gone])
def test_a_committed_row_whose_own_file_is_not_whole_leaves_the_pass_open(passes, harm):
    before = passes.newest("pass")
    passes.whole("reconcile", 1, "message")
    harm(passes.data_file("pass"))
    assert said_by_start(passes.place)
    assert (passes.newest("message"), passes.newest("pass")) == (1, before + 1)


def test_what_another_plan_has_written_on_top_goes_too(passes):
    passes.start("reconcile", 1)
    passes.start("audit", 1)
    harmed = passes.write("reconcile", 1, "message")
    passes.write("audit", 1, "message")
    empty(passes.entry("message", harmed))
    assert said_by_start(passes.place)
    assert passes.newest("message") == 0


@pytest.mark.parametrize("harm", [gone, empty, torn])
def test_what_was_compacted_and_the_files_it_was_made_of_may_be_lost_together(passes, harm):
    """Upkeep beside an open pass: neither is on the disk yet, so that commit goes which made the file compacted."""
    for job in ("reconcile", "audit"):
        passes.start(job, 1)
        passes.write(job, 1, "message")
    made_of = passes.data_file("message", 2)
    DeltaTable(str(passes.place / "message")).optimize.compact()
    assert passes.newest("message") == 3
    harm(passes.data_file("message", 3))
    harm(made_of)
    assert said_by_start(passes.place)
    assert passes.newest("message") == 1


def test_a_plan_that_was_to_read_it_goes_with_all_that_it_wrote(passes):
    passes.start("reconcile", 1)
    harmed = passes.write("reconcile", 1, "message")
    before = passes.newest("pass")
    passes.start("audit", 1)
    passes.write("audit", 1, "half_message")
    empty(passes.entry("message", harmed))
    assert said_by_start(passes.place)
    assert (passes.newest("message"), passes.newest("half_message"), passes.newest("pass")) == (0, 1, before)


@pytest.mark.parametrize("harm", [empty, torn])
def test_an_entry_that_a_committed_pass_names_is_refused_by_name(passes, harm):
    passes.start("reconcile", 1)
    harmed = passes.write("reconcile", 1, "message")
    passes.write("reconcile", 1, "half_message")
    passes.commit("reconcile", 1)
    harm(passes.entry("message", harmed))
    with pytest.raises(WarehouseDamaged, match=r"message version 1: its log entry is .*txmq mend"):
        said_by_start(passes.place)
    assert passes.entry("message", harmed).exists()


def test_mend_opens_that_pass_again(passes):
    passes.whole("reconcile", 1, "message")
    passes.whole("reconcile", 2, "message")
    before = passes.newest("pass")
    empty(passes.entry("message", 2))
    done = mend(str(passes.place))
    assert done.undone == ("reconcile pass 2",)
    assert (passes.newest("message"), passes.newest("pass")) == (1, before - 1)
    assert said_by_start(passes.place) == []


def test_what_was_sent_to_a_broker_is_never_forgotten(passes):
    passes.whole("to_broker", 1, "broker_request")
    empty(passes.entry("broker_request", 1))
    with pytest.raises(WarehouseDamaged, match="sent again"):
        mend(str(passes.place))


def newest_of_all(place: Path) -> dict[str, int]:
    return {table: DeltaTable(str(place / table)).version() for table in TABLES}


def mended(states: Iterable[tuple[str, Contents]], place: Path) -> list[dict[str, int]]:
    """The newest version of each table after the next start in each state of the disk."""
    found = []
    for number, (_, state) in enumerate(states):
        build(place / str(number), state)
        said_by_start(place / str(number))
        found.append(newest_of_all(place / str(number)))
    return found


def test_the_power_may_go_while_it_mends(passes, tmp_path_factory):
    passes.start("reconcile", 1)
    harmed = passes.write("reconcile", 1, "message")
    passes.start("audit", 1)
    passes.write("audit", 1, "half_message")
    empty(passes.entry("message", harmed))
    with recorded(passes.place) as recording:
        assert said_by_start(passes.place)
    found = mended(recording.states(), tmp_path_factory.mktemp("states"))
    assert found == [newest_of_all(passes.place)] * len(found)


def test_what_is_committed_once_it_has_mended_stays(passes, tmp_path_factory):
    passes.start("reconcile", 1)
    empty(passes.entry("message", passes.write("reconcile", 1, "message")))
    before = newest_of_all(passes.place)
    with recorded(passes.place) as recording:
        assert said_by_start(passes.place)
        passes.write("reconcile", 1, "message")
        sync_commits(str(passes.place / "message"), 0, passes.newest("message"))
        passes.commit("reconcile", 1)
        sync_commits(str(passes.place / "pass"), before["pass"], passes.newest("pass"))
    found = mended(recording.states_at(len(recording.events)), tmp_path_factory.mktemp("states"))
    assert found == [newest_of_all(passes.place)] * len(found)


@pytest.mark.parametrize("harm", [empty, torn])
def test_a_committed_file_that_is_cut_off_below_what_goes_is_refused_at_once(passes, harm):
    """It would be read again: what was compacted is set aside."""
    passes.whole("reconcile", 1, "message")
    passes.start("maintain", 1)
    tag = f"{pass_tag('maintain', 1, 'compact_message')} digest"
    SmallWrite("x", 1, tag).overwrite(str(passes.place / "message"), ROW, where=None)
    empty(passes.data_file("message", 2))
    harm(passes.data_file("message", 1))
    with pytest.raises(WarehouseDamaged):
        said_by_start(passes.place)
    with pytest.raises(WarehouseDamaged, match="would be read again are gone or cut off"):
        mend(str(passes.place))


def test_nor_is_a_commit_undone_whose_replaced_files_were_removed(passes):
    passes.whole("reconcile", 1, "message")
    passes.start("maintain", 1)
    tag = f"{pass_tag('maintain', 1, 'compact_message')} digest"
    path = str(passes.place / "message")
    SmallWrite("x", 1, tag).overwrite(path, ROW, where=None)
    DeltaTable(path).vacuum(0, dry_run=False, enforce_retention_duration=False)
    empty(passes.data_file("message", 2))
    with pytest.raises(WarehouseDamaged, match="read again are gone or cut off"):
        mend(str(passes.place))


@pytest.mark.parametrize("harm", [empty, torn, zeroed])
def test_a_torn_checkpoint_is_set_aside_and_the_entries_tell_the_same(passes, harm):
    passes.start("reconcile", 1)
    passes.write("reconcile", 1, "message")
    log = passes.place / "message" / "_delta_log"
    DeltaTable(str(passes.place / "message")).create_checkpoint()
    harm(log / f"{1:020d}.checkpoint.parquet")
    assert said_by_start(passes.place)
    assert not list(log.glob("*checkpoint*"))
    assert DeltaTable(str(passes.place / "message")).to_pyarrow_table().num_rows == 1


@pytest.mark.parametrize("harm", [empty, torn])
def test_so_is_the_file_that_names_it(passes, harm):
    DeltaTable(str(passes.place / "message")).create_checkpoint()
    harm(passes.place / "message" / "_delta_log" / "_last_checkpoint")
    assert said_by_start(passes.place)
    assert passes.newest("message") == 0


def test_what_was_begun_to_be_set_aside_is_done_whole_at_the_next_start(passes, monkeypatch):
    passes.start("reconcile", 1)
    for _ in range(2):
        passes.write("reconcile", _ + 1, "message")
    empty(passes.entry("message", 1))
    moved: list[Path] = []
    rename = Path.rename

    def once(self: Path, target: Path) -> Path:
        if moved:
            raise KeyboardInterrupt
        moved.append(self)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", once)
    with pytest.raises(KeyboardInterrupt):
        said_by_start(passes.place)
    monkeypatch.undo()
    said_by_start(passes.place)
    assert passes.newest("message") == 0


def test_the_table_of_runs_is_looked_at_as_well(passes):
    write_deltalake(str(passes.place / "run"), ROW)
    write_deltalake(str(passes.place / "run"), ROW, mode="append")
    empty(passes.entry("run", 1))
    assert said_by_start(passes.place)
    assert (passes.newest("run"), passes.newest("pass")) == (0, 2)


@pytest.mark.parametrize("harm", [empty, torn, zeroed, at_line_end])
@pytest.mark.parametrize("table", ["message", "pass"])
@pytest.mark.parametrize("mends", [lambda place: mend(str(place)).damaged, said_by_start])
def test_a_warehouse_that_was_being_made_is_made_anew(tmp_path, harm, table, mends):
    for name in TABLES:
        create_table(str(tmp_path / name), table_spec(name), {})
    harm(tmp_path / table / "_delta_log" / f"{0:020d}.json")
    found = list(damage_findings(tmp_path))
    assert [(one.state, one.to_do) for one in found] == [(WARN, "the next pass mends it by itself")]
    assert found[0].found.startswith(f"{table} version 0: its log entry is")
    assert mends(tmp_path)
    assert not DeltaTable.is_deltatable(str(tmp_path / table))
    assert not DeltaTable.is_deltatable(str(tmp_path / "pass"))
    assert DeltaTable.is_deltatable(str(tmp_path / "half_message"))
    for name in (table, "pass"):
        create_table(str(tmp_path / name), table_spec(name), {})
        assert DeltaTable(str(tmp_path / name)).schema().fields
    assert said_by_start(tmp_path) == []


@pytest.mark.parametrize("harm", [empty, at_line_end])
def test_so_is_one_where_a_plan_relies_on_a_table_that_is_gone(tmp_path, harm):
    passes = Passes(tmp_path)
    passes.start("land", 1)
    harm(passes.entry("message", 0))
    assert said_by_start(tmp_path)
    assert not DeltaTable.is_deltatable(str(tmp_path / "message"))
    assert not DeltaTable.is_deltatable(str(tmp_path / "pass")), "where it is, all are"


def test_a_column_whose_entry_is_cut_off_is_added_anew(passes):
    column = Field("new", PrimitiveType("long"))
    table = str(passes.place / "message")
    DeltaTable(table).alter.add_columns([column])
    at_line_end(passes.entry("message", 1))
    assert [one.found for one in damage_findings(passes.place)] == ["message version 1: its log entry is cut off"]
    assert said_by_start(passes.place)
    assert (passes.newest("message"), passes.newest("pass")) == (0, 2)
    DeltaTable(table).alter.add_columns([column])
    assert said_by_start(passes.place) == []
    passes.whole("reconcile", 1, "half_message")


def test_the_power_may_go_while_a_warehouse_is_made(tmp_path, tmp_path_factory):
    with recorded(tmp_path / "new" / "warehouse") as recording:
        for name in TABLES:
            create_table(str(tmp_path / "new" / "warehouse" / name), table_spec(name), {})
            sync_new_table(str(tmp_path / "new" / "warehouse" / name))
    states = tmp_path_factory.mktemp("states")
    for number, (what, state) in enumerate(recording.states()):
        place = states / str(number)
        build(place, state)
        said_by_start(place)
        there = {name for name in TABLES if DeltaTable.is_deltatable(str(place / name))}
        assert all(DeltaTable(str(place / name)).schema().fields for name in there), what
        assert "pass" not in there or there == set(TABLES), what
