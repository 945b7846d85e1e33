"""The entries of a Delta log, held against what deltalake says of the same table."""

from __future__ import annotations

from pathlib import Path
from typing import cast
from urllib.parse import unquote

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.sql import SparkSession

from txmq_lib.delta.log_actions import file_of, lies_below, real_path
from txmq_lib.delta.log_entries import LogEntries
from txmq_lib.delta.log_folder import LocalFolder
from txmq_lib.delta.log_view import LEAST_ROW_BYTES, DeltaLogView

NO_SESSION = cast("SparkSession", None)  # a log on this machine needs none


def numbers(*values: int) -> pa.Table:
    return pa.table(
        {"n": pa.array(values, pa.int64()), "part": pa.array([str(value % 2) for value in values], pa.string())}
    )


@pytest.fixture
def place(tmp_path: Path) -> str:
    path = str(tmp_path / "a table")
    write_deltalake(path, numbers(), partition_by=["part"])
    return path


def append(path: str, *values: int, app_id: str = "a", number: int = 1) -> None:
    properties = CommitProperties(app_transactions=[Transaction(app_id, number)])
    write_deltalake(path, numbers(*values), mode="append", commit_properties=properties)


def known_files(entries: LogEntries, version: int) -> set[str] | None:
    files = entries.plain_files(version, entries.newest())
    return None if files is None else {real_path(file) for file in files}


def test_there_is_no_version_where_there_is_no_table(tmp_path):
    assert LogEntries(LocalFolder(str(tmp_path / "none"))).newest() == -1


def test_versions_files_and_transaction_numbers_are_those_that_deltalake_knows(place):
    entries = LogEntries(LocalFolder(place))
    append(place, 1, 2, number=1)
    assert known_files(entries, 1) == real_files(place)
    append(place, 3, app_id="b", number=7)
    append(place, 4, number=2)
    assert entries.newest() == DeltaTable(place).version() == 3
    assert entries.txns(3) == {"a": 2, "b": 7}
    assert known_files(entries, 3) == real_files(place)
    # What an older version had is still told.
    assert known_files(entries, 1) == real_files(place, 1)
    assert {file.partition["part"] for file in entries.plain_files(3, 3)} == {"0", "1"}


def test_texts_in_the_statistics_may_have_line_ends_of_unicode(tmp_path):
    path, texts = str(tmp_path / "texts"), ["a\u2028b", "c\u2029", "\u0085d", "\x1c\x0b\x0c", "\r\n"]
    for text in texts:
        write_deltalake(path, pa.table({"text": [text]}), mode="append")
    entries = LogEntries(LocalFolder(path))
    assert [len(entries.commit(version).added) for version in range(len(texts))] == [1] * len(texts)
    assert known_files(entries, 4) == real_files(path)


def test_many_rows_that_are_alike_count_for_more_than_their_file_is_long(place):
    entries = LogEntries(LocalFolder(place))
    append(place, *[2] * 50_000)
    append(place, 3)
    log = DeltaLogView(NO_SESSION, place, entries, entries.newest())
    (alike,), (one,) = entries.commit(1).added, entries.commit(2).added
    assert (alike.rows, one.rows) == (50_000, 1)
    assert alike.size < 50_000 * LEAST_ROW_BYTES < log.bytes_between(0, 2)
    assert log.bytes_between(0, 2) == 50_000 * LEAST_ROW_BYTES + one.size
    assert log.bytes_between(1, 2) == one.size > LEAST_ROW_BYTES


def test_what_was_compacted_is_not_new(place):
    append(place, 1)
    append(place, 3)
    DeltaTable(place).optimize.compact()
    append(place, 5)
    entries = LogEntries(LocalFolder(place))
    log = DeltaLogView(NO_SESSION, place, entries, entries.newest())
    assert entries.commit(3).added != ()
    assert log.bytes_between(2, 3) == 0
    assert log.bytes_between(2, 4) == log.bytes_between(3, 4) > 0
    # Of what did more than insert every file may hold new rows.
    write_deltalake(place, numbers(9), mode="overwrite")
    assert DeltaLogView(NO_SESSION, place, entries, entries.newest()).bytes_between(4, 5) > 0


def real_files(path: str, version: int | None = None) -> set[str]:
    table = DeltaTable(path, version=version)
    return {unquote(uri).removeprefix(f"{path}/") for uri in table.file_uris()}


def test_only_commits_that_do_nothing_but_insert_tell_what_they_inserted(place):
    entries = LogEntries(LocalFolder(place))
    append(place, 1, 2)
    append(place, 3)
    DeltaTable(place).optimize.compact()
    DeltaTable(place).delete("n = 3")
    write_deltalake(place, numbers(9), mode="overwrite")
    assert len(entries.commit(1).inserted) == 2
    assert len(entries.commit(2).inserted) == 1
    # Compacted files hold no new rows; a delete and an overwrite are more than inserts.
    assert entries.commit(3).inserted == ()
    assert entries.commit(4).inserted is None
    assert entries.commit(5).inserted is None
    assert known_files(entries, 5) == real_files(place)


def test_however_many_files_there_are_each_tells_what_may_be_in_it(place):
    for value in range(40):
        append(place, 2 * value)
    entries = LogEntries(LocalFolder(place))
    files = entries.plain_files(40, entries.newest())
    assert {real_path(file) for file in files} == real_files(place)
    assert [file.may_hold("n", [(-9, -1), (20, 21)]) for file in files].count(True) == 1


def test_a_log_that_lost_entries_tells_nothing_by_itself(place):
    append(place, 1)
    append(place, 2)
    Path(place, "_delta_log", f"{0:020d}.json").unlink()
    entries = LogEntries(LocalFolder(place))
    assert entries.newest() == 2
    assert (entries.txns(2), entries.plain_files(2, 2), entries.commit(0)) == (None, None, None)
    assert entries.commit(2) is not None


def test_a_table_made_anew_in_its_place_is_read_anew(place, tmp_path):
    entries = LogEntries(LocalFolder(place))
    append(place, 1)
    append(place, 2)
    assert entries.txns(entries.newest()) == {"a": 1}
    Path(place).rename(tmp_path / "away")
    write_deltalake(place, numbers(), partition_by=["part"])
    assert entries.txns(entries.newest()) == {}


class Far(LocalFolder):
    """A log that is taken for one in a store, and what was asked of it."""

    is_near = False

    def __init__(self, table_path: str) -> None:
        super().__init__(table_path)
        self.asked_for: list[str] = []

    def names(self, start: str) -> list[str]:
        self.asked_for.append(f"names from {start}")
        return super().names(start)

    def read(self, name: str) -> bytes | None:
        self.asked_for.append(name)
        return super().read(name)


def grown(place: str, commits: int, *, checkpoint_at: int) -> None:
    for number in range(1, commits + 1):
        append(place, number, app_id=f"app-{number % 3}", number=number)
        if number == checkpoint_at:
            DeltaTable(place).create_checkpoint()


@pytest.mark.parametrize("commits", [12, 24])
def test_what_is_asked_of_a_store_begins_at_the_checkpoint_however_long_the_log_is(place, commits):
    grown(place, commits, checkpoint_at=commits - 2)
    folder = Far(place)
    entries = LogEntries(folder)
    newest = entries.newest()
    assert newest == commits
    # The checkpoint's name, then names from it on, with those of 16 entries before, which are asked for next.
    assert folder.asked_for == ["_last_checkpoint", f"names from {max(0, commits - 2 - 16):020d}"]
    assert entries.newest() == newest
    assert known_files(entries, newest) == real_files(place)
    assert entries.txns(newest) == {f"app-{n % 3}": n for n in range(commits - 2, commits + 1)}
    read = [name for name in folder.asked_for if name.endswith(".json") and not name.startswith("names")]
    assert read == [f"{version:020d}.json" for version in (commits - 1, commits)]
    assert folder.asked_for.count("_last_checkpoint") == 1


def test_a_second_look_asks_for_names_behind_the_known_version_and_reads_what_is_new(place):
    folder = Far(place)
    entries = LogEntries(folder)
    append(place, 1)
    assert entries.txns(entries.newest()) == {"a": 1}
    folder.asked_for.clear()
    assert entries.txns(entries.newest()) == {"a": 1}
    assert folder.asked_for == [f"names from {1:020d}.json"]
    append(place, 2, number=2)
    folder.asked_for.clear()
    assert entries.txns(entries.newest()) == {"a": 2}
    assert folder.asked_for == [f"names from {1:020d}.json", f"{2:020d}.json", f"names from {1:020d}.json"][:2]


def test_a_first_look_at_a_log_that_is_known_to_have_reached_a_version_is_one_request(place):
    grown(place, 18, checkpoint_at=2)
    folder = Far(place)
    assert LogEntries(folder).newest(since=17) == 18
    # With those of 16 entries before, which are asked for next.
    assert folder.asked_for == [f"names from {1:020d}.json"]
    # A version that is not there was another table's.
    assert LogEntries(Far(place)).newest(since=29) == 18


def entries_read(folder: Far) -> list[int]:
    """Of which versions entries were read since the last time, in order."""
    read = [int(name.partition(".")[0]) for name in folder.asked_for if name.endswith(".json") and name[0].isdigit()]
    folder.asked_for.clear()
    return sorted(read)


def test_versions_that_a_job_knows_are_passed_over_unread_and_others_end_what_it_knows(place):
    for number in (1, 2, 3):
        append(place, number, number=number)
    DeltaTable(place).optimize.compact()
    folder = Far(place)
    entries = LogEntries(folder)
    log = DeltaLogView(NO_SESSION, place, entries, entries.newest())
    assert log.all_known_to(0, 4, {1, 2, 3, 4}) == 4
    assert entries_read(folder) == []
    assert log.all_known_to(0, 4, {1, 2, 3}) == 4
    assert entries_read(folder) == [4]
    assert (log.all_known_to(0, 4, {1}), log.all_known_to(2, 4, {1}), log.all_known_to(0, 4)) == (1, 2, 0)
    assert (log.all_known_to(4, 4), log.all_known_to(5, 4)) == (4, 5)


def test_who_seeks_a_commit_among_entries_that_were_read_reads_no_others(place):
    for number in range(1, 9):
        tag = CommitProperties(custom_metadata={"userMetadata": f"number {number}"})
        write_deltalake(place, numbers(number), mode="append", commit_properties=tag)
    folder = Far(place)
    entries = LogEntries(folder)
    log = DeltaLogView(NO_SESSION, place, entries, entries.newest())
    entries.fetch(range(4, 9))
    assert entries_read(folder) == [4, 5, 6, 7, 8]
    assert log.tagged_commit("number 4").version == 4
    assert entries_read(folder) == []
    # Behind them the next few come at once.
    assert log.tagged_commit("number 3").version == 3
    assert entries_read(folder) == [2, 3]


def test_the_log_tells_the_same_from_a_checkpoint_on_as_from_its_first_entry(place):
    grown(place, 9, checkpoint_at=0)
    DeltaTable(place).optimize.compact()
    whole = LogEntries(LocalFolder(place))
    facts = whole.txns(10), known_files(whole, 10), whole.metadata(10)
    DeltaTable(place).create_checkpoint()
    for version in range(9):
        Path(place, "_delta_log", f"{version:020d}.json").unlink()
    later = LogEntries(LocalFolder(place))
    assert (later.txns(later.newest()), known_files(later, 10), later.metadata(10)) == facts
    assert {file.partition["part"] for file in later.plain_files(10, 10)} == {"0", "1"}
    assert {file.rows for file in later.plain_files(10, 10)} == {file.rows for file in whole.plain_files(10, 10)}


def test_a_checkpoint_that_cannot_be_read_or_is_newer_than_the_look_is_no_harm(place):
    grown(place, 6, checkpoint_at=3)
    log = Path(place, "_delta_log")
    entries = LogEntries(LocalFolder(place))
    newest = entries.newest()
    append(place, 9, number=9)
    DeltaTable(place).create_checkpoint()
    assert entries.txns(newest).get("a") is None
    assert known_files(LogEntries(LocalFolder(place)), 7) == real_files(place)
    for checkpoint in log.glob("*.checkpoint.parquet"):
        checkpoint.write_bytes(b"torn")
    assert LogEntries(LocalFolder(place)).txns(7)["a"] == 9


@pytest.mark.parametrize(
    "path",
    [
        "/a.parquet",
        "%2Fa.parquet",
        "s3://other/a.parquet",
        "file:/a.parquet",
        "../a.parquet",
        "x/%2E%2E/../a",
        "x/..%2F..%2Fa",
    ],
)
def test_a_path_that_leads_out_of_its_table_is_no_plain_one(path):
    assert not lies_below(path)
    assert not file_of({"path": path, "size": 1}).is_plain


@pytest.mark.parametrize("path", ["part-0.parquet", "is_settled=true/part-0.parquet", "at=12%3A30/part..0.parquet"])
def test_a_path_below_its_table_is_a_plain_one(path):
    assert lies_below(path)
    assert file_of({"path": path, "size": 1}).is_plain
