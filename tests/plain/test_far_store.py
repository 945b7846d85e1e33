"""A store on an object store reads as the same one on this disk does: its log, its queues, its files of settings."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from captured import unpack_store
from deltalake.fs import DeltaStorageHandler

from txmq_lib.errors import InputError
from txmq_lib.pipeline.land.store.log_landing import cuts_worth_a_task
from txmq_lib.pipeline.land.store.store_landing import _as_of_log
from txmq_lib.pipeline.land.store.store_plan import can_be_carried_on
from txmq_lib.rocketmq.store import commit_log, far_files, near_store
from txmq_lib.rocketmq.store.broker_conf import read_broker_conf
from txmq_lib.rocketmq.store.commit_log import LogFile, list_files, log_end, record_at, record_end, torn_ends
from txmq_lib.rocketmq.store.consume_queue import dispatched_to, queue_bounds
from txmq_lib.rocketmq.store.consumer_offset_file import read_consumer_offset_file
from txmq_lib.rocketmq.store.set_up import set_up_of
from txmq_lib.rocketmq.store_source import read_range

SCHEME = "file://"


@pytest.fixture(autouse=True)
def _a_disk_is_an_object_store(monkeypatch):
    monkeypatch.setattr(far_files, "is_far", lambda place: place.startswith(SCHEME))
    monkeypatch.setattr(near_store, "_copies", {})
    monkeypatch.setattr(far_files, "_seen", {})
    monkeypatch.setattr(commit_log, "_remembered", {})
    monkeypatch.setattr(far_files, "SETTLED_S", -1.0)
    monkeypatch.setattr(far_files, "PIECE_BYTES", 10_000)


@pytest.fixture(params=["basic", "restart"])
def store(request, tmp_path) -> Path:
    return Path(unpack_store(request.param, tmp_path))


def far(store: Path) -> str:
    return f"{SCHEME}{store}"


def rows(store: str, start: int, stop: int) -> list[dict[str, object]]:
    found = []
    for file in list_files(store).files:
        for batch in read_range(file, max(start, file.base_offset), min(stop, file.end_offset)):
            found += batch.to_pylist()
    return found


def test_the_log_has_the_same_files_end_and_records(store):
    here, there = list_files(str(store)), list_files(far(store))
    assert [file._replace(path=SCHEME + file.path) for file in here.files] == list(there.files)
    end = log_end(here.files)
    assert log_end(there.files) == end
    middle = end.last.offset
    assert log_end(there.files, middle) == log_end(here.files, middle)
    assert rows(far(store), 0, end.offset) == rows(str(store), 0, end.offset)
    assert rows(far(store), middle, end.offset) == rows(str(store), middle, end.offset) != []
    (file, *_), (far_file, *_) = here.files, there.files
    for place in (file.base_offset, middle, middle + 1):
        assert record_at(there.files, place) == record_at(here.files, place)
        assert record_end(far_file, place) == record_end(file, place)
    places = [file.base_offset, middle, middle + 1]
    assert torn_ends(there.files, places) == torn_ends(here.files, places) != {}


def test_what_lies_beside_the_log_is_the_same(store):
    end = log_end(list_files(str(store)).files).offset
    (store.parent / "broker.conf").write_text("brokerName = b\n", encoding="utf-8")
    for place in ({"end_commit_log_offset": end}, {"end_commit_log_offset": end // 2}):
        bounds = queue_bounds(str(store), lowest_commit_log_offset=0, **place)
        assert queue_bounds(far(store), lowest_commit_log_offset=0, **place) == bounds != {}
        assert dispatched_to(far(store), **place) == dispatched_to(str(store), **place)
    assert set_up_of(far(store)) == set_up_of(str(store))
    here, there = read_consumer_offset_file(str(store)), read_consumer_offset_file(far(store))
    assert there == (None if here is None else here._replace(path=SCHEME + here.path))
    path, config = read_broker_conf(str(store))
    assert read_broker_conf(far(store)) == (SCHEME + path, config)


def test_copies_follow_what_becomes_of_their_originals(store):
    offsets = store / "config" / "consumerOffset.json"
    offsets.write_text('{"offsetTable":{"t@g":{0:1}}}', encoding="utf-8")
    assert read_consumer_offset_file(far(store)).offsets.entries[0].offset == 1
    offsets.write_text('{"offsetTable":{"t@g":{0:2}}}', encoding="utf-8")
    os.utime(offsets, (1, 1))
    assert read_consumer_offset_file(far(store)).offsets.entries[0].offset == 2
    for each in (offsets, offsets.with_name(offsets.name + ".bak")):
        each.unlink(missing_ok=True)
    assert read_consumer_offset_file(far(store)) is None


def test_a_second_write_of_the_same_moment_is_copied_too(store, monkeypatch):
    monkeypatch.setattr(far_files, "SETTLED_S", 3_600.0)
    offsets = store / "config" / "consumerOffset.json"
    for written in (1, 2):
        offsets.write_text(f'{{"offsetTable":{{"t@g":{{0:{written}}}}}}}', encoding="utf-8")
        os.utime(offsets, (1, 1))
        assert read_consumer_offset_file(far(store)).offsets.entries[0].offset == written


@pytest.mark.parametrize(
    ("named", "trait"),
    [
        ("dledger-n0/data/00000000000000000000", "dledger"),
        ("config/metadata/CURRENT", "rocksdb_offsets"),
        ("consumequeue_rocksdb/CURRENT", "rocksdb_queues"),
        ("epochFileCheckpoint", "controller"),
    ],
)
def test_of_what_tells_a_set_up_the_name_is_enough(store, named, trait):
    path = store / named
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * 50_000)
    assert set_up_of(far(store)).has(trait)
    copy = near_store.near(far(store)) / named
    assert copy.read_bytes() == b"\0" * 50_000


def test_words_of_a_refusal_name_the_store_and_no_copy(store):
    (store / "broker.conf").write_text("storePathCommitLog=/one,/two\n", encoding="utf-8")
    (trait,) = set_up_of(far(store)).refused
    assert f"into {far(store)}/commitlog" in trait.to_do


def test_only_what_is_asked_for_is_fetched(store, monkeypatch):
    fetched: list[str] = []
    inner = DeltaStorageHandler.open_input_file
    monkeypatch.setattr(
        DeltaStorageHandler, "open_input_file", lambda self, path: fetched.append(path) or inner(self, path)
    )
    set_up_of(far(store))
    assert not any(path.startswith("0") for path in fetched)  # no consume queue, nothing of the log
    fetched.clear()
    set_up_of(far(store))
    assert fetched == []
    (file, *_) = list_files(far(store)).files
    with far_files.stretch_of(file.path, file.size, 20_000, 30_000) as (descriptor, data):
        assert data[20_000:30_000] == Path(file.path.removeprefix(SCHEME)).read_bytes()[20_000:30_000]
        assert os.fstat(descriptor).st_blocks * 512 <= 32_768


def test_what_is_gone_or_was_cut_meanwhile_is_told(store):
    files = list_files(far(store)).files
    path = Path(files[0].path.removeprefix(SCHEME))
    with open(path, "r+b") as log:
        log.truncate(30_000)
    with pytest.raises(InputError, match=r"written anew meanwhile|Generic LocalFileSystem error"):
        log_end(files)
    shutil.rmtree(store)
    with pytest.raises(InputError, match=r"land again|Local path"):
        log_end(files)


def test_a_file_that_could_not_be_fetched_leaves_no_copy_and_none_outlives_its_original(store, monkeypatch):
    queues = store / "consumequeue"
    topic = next(path for path in sorted(queues.iterdir()) if any(path.rglob("0*")))
    inner = far_files.fetch

    def fails(of: str, path: str, *rest: object) -> None:
        if path.startswith(f"consumequeue/{topic.name}/"):
            raise FileNotFoundError(path)
        inner(of, path, *rest)

    monkeypatch.setattr(far_files, "fetch", fails)
    with pytest.raises(InputError):
        queue_bounds(far(store), lowest_commit_log_offset=0, end_commit_log_offset=1 << 40)
    copies = near_store._root_of(far(store)) / "consumequeue" / topic.name
    assert [path for path in copies.rglob("*") if path.is_file()] == []
    monkeypatch.setattr(far_files, "fetch", inner)
    bounds = queue_bounds(far(store), lowest_commit_log_offset=0, end_commit_log_offset=1 << 40)
    assert any(name == topic.name for name, _ in bounds)
    shutil.rmtree(topic)
    bounds = queue_bounds(far(store), lowest_commit_log_offset=0, end_commit_log_offset=1 << 40)
    assert not any(name == topic.name for name, _ in bounds)
    assert not copies.exists()


def test_of_a_log_that_nobody_writes_the_end_is_fetched_once(store, monkeypatch):
    fetched: list[str] = []
    inner = far_files.fetch
    monkeypatch.setattr(far_files, "fetch", lambda of, path, *rest: fetched.append(path) or inner(of, path, *rest))
    ends = [log_end(list_files(far(store)).files) for _ in range(3)]
    assert len(fetched) == 1
    monkeypatch.setattr(far_files, "SETTLED_S", 3_600.0)  # another write of the same time may follow
    assert [log_end(list_files(far(store)).files), *ends] == [ends[0]] * 4
    assert len(fetched) == 2


def test_files_that_are_not_read_or_too_long_have_copies_without_content(store, monkeypatch):
    monkeypatch.setattr(near_store, "MOST_BYTES", 1_000)
    (store / "config" / "topics.json").write_bytes(b"x" * 2_000)
    (store / "config" / "another.json").write_bytes(b"x")
    config = near_store.near(far(store)) / "config"
    assert (config / "topics.json").read_bytes() == bytes(2_000)
    assert not (config / "another.json").exists()


def test_who_may_read_the_store_and_nothing_above_it_can_land_it(store, monkeypatch):
    (store.parent / "broker.conf").write_text("a=1", encoding="utf-8")
    inner = far_files.DeltaStorageHandler

    def guarded(place: str, *rest: object) -> object:
        if place == far(store.parent):
            raise OSError("The operation lacked the necessary privileges to complete")
        return inner(place, *rest)

    assert read_broker_conf(far(store)) is not None
    monkeypatch.setattr(far_files, "DeltaStorageHandler", guarded)
    assert read_broker_conf(far(store)) is None


def test_a_plan_is_not_given_up_because_the_object_store_is_down(monkeypatch):
    monkeypatch.undo()
    access = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    for name, value in access.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError):
        can_be_carried_on(SimpleNamespace(arguments={"path": "s3://lake/store"}))


def test_an_offset_table_is_no_later_than_the_log_beside_it_in_a_bucket(store):
    table = read_consumer_offset_file(far(store))
    last = [0, table.modified_ms - 5_000, 100]
    assert _as_of_log({"path": far(store), "last": last}, table) == table  # is_far is asked there by its own name
    assert _as_of_log({"path": "s3://lake/store", "last": last}, table).modified_ms == table.modified_ms - 5_000
    assert _as_of_log({"path": "s3://lake/store", "last": None}, table) == table


def test_a_log_is_cut_into_as_many_parts_as_there_are_cores():
    warehouse = SimpleNamespace(spark=SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2)))
    files = [LogFile("0", 0, 1_000), LogFile("1000", 1_000, 1_000)]
    cuts = [*range(1_050, 2_000, 50)]
    assert cuts_worth_a_task(cuts, files, 1_000, 2_000, warehouse) == [1_500]
    assert cuts_worth_a_task(cuts, files, 1_400, 2_000, warehouse) == [1_700]
    assert cuts_worth_a_task(cuts, files, 0, 2_000, warehouse) == []  # a file is a part
    assert cuts_worth_a_task([], files, 0, 2_000, warehouse) == []
