"""What is put on the disk, and in what order: files before the commits that name them, directories with both."""

from __future__ import annotations

import errno
import inspect
import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from txmq_lib.delta import durable
from txmq_lib.files.atomic_file import write_whole
from txmq_lib.pipeline import maintain
from txmq_lib.pipeline.to_broker import job as to_broker


@pytest.fixture
def synced(monkeypatch) -> list[str]:
    """The paths that were synced so far, in order."""
    seen: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        seen.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return seen


@pytest.fixture
def table(tmp_path: Path) -> Path:
    place = tmp_path / "warehouse" / "some"
    for day in ("1 1", "2"):
        write_deltalake(str(place), pa.table({"n": [1], "day": [day]}), mode="append", partition_by=["day"])
    return place


def data_files(table: Path) -> set[str]:
    return {str(path) for path in table.rglob("*.parquet")}


def test_files_and_their_directories_are_synced_before_the_entries_that_name_them(table, synced):
    durable.sync_commits(str(table), -1, 1)
    log = table / "_delta_log"
    assert set(synced[:2]) == data_files(table)
    assert set(synced[2:5]) == {str(table), *(str(path.parent) for path in table.rglob("*.parquet"))}
    assert set(synced[5:7]) == {str(log / f"{version:020d}.json") for version in (0, 1)}
    assert synced[7:] == [str(log)]


def test_only_commits_behind_the_known_version_are_synced(table, synced):
    durable.sync_commits(str(table), 0, 1)
    assert str(table / "_delta_log" / f"{0:020d}.json") not in synced
    del synced[:]
    durable.sync_commits(str(table), 1, 1)
    assert synced == []


def test_checkpoints_and_checksums_go_with_their_version(table, synced):
    DeltaTable(str(table)).create_checkpoint()
    data = next(table.rglob("*.parquet"))
    (beside := data.with_name(f".{data.name}.crc")).touch()
    durable.sync_commits(str(table), -1, 1)
    log = table / "_delta_log"
    assert {str(beside), str(log / f"{1:020d}.checkpoint.parquet"), str(log / "_last_checkpoint")} <= set(synced)


def test_a_file_that_upkeep_has_removed_since_is_passed_over(table, synced):
    next(table.rglob("*.parquet")).unlink()
    durable.sync_commits(str(table), -1, 1)
    assert synced[-1] == str(table / "_delta_log")


def test_a_new_table_is_synced_with_all_directories_that_lead_to_it(table, synced):
    durable.sync_new_table(str(table))
    assert synced[-len(table.parents) - 1 :] == [str(place) for place in (table, *table.parents)]


def test_of_many_tables_one_puts_the_way_to_all_of_them_on_the_disk(table, synced):
    durable.sync_new_table(str(table), syncs_way=False)
    assert synced[-1] == str(table)
    assert not {str(place) for place in table.parents} & set(synced)


def test_a_directory_above_that_this_user_may_not_read_is_passed_over(table, synced, monkeypatch):
    """It was there before: he could not have made what he may not read."""
    real = os.open

    def refusing(path, *arguments, **named):
        if Path(path) == table.parent.parent.parent:
            raise PermissionError(errno.EACCES, "not for this user", str(path))
        return real(path, *arguments, **named)

    monkeypatch.setattr(os, "open", refusing)
    durable.sync_new_table(str(table))
    above = table.parent.parent
    assert str(above.parent) not in synced
    assert synced[-len(above.parents) :] == [str(above), *map(str, above.parents[1:])]


@pytest.mark.parametrize("call", ["open", "fsync"])
def test_a_file_that_cannot_be_put_on_the_disk_is_told(table, monkeypatch, call):
    def refusing(*_, **__):
        raise PermissionError(errno.EACCES, "not for this user")

    monkeypatch.setattr(os, call, refusing)
    with pytest.raises(PermissionError):
        durable.sync_commits(str(table), -1, 1)


def test_a_small_file_is_synced_before_it_takes_its_place(tmp_path, synced):
    write_whole(tmp_path / "state.json", "text")
    assert [os.path.dirname(path) for path in synced] == [str(tmp_path), str(tmp_path.parent)]
    assert (tmp_path / "state.json").read_text() == "text"


@pytest.mark.parametrize(
    ("function", "before", "after"),
    [(to_broker._sent, "{REQUEST_SENDING}_", "_outcome(brokers"), (maintain._maintain, "_compact(", "remove_expired(")],
)
def test_what_cannot_be_taken_back_is_done_once_what_it_relies_on_is_on_the_disk(function, before, after):
    text = inspect.getsource(function)
    assert text.index(before) < text.index("current.make_durable()") < text.index(after)
