"""A store on an object store reads as the same one on this disk does: its log, its queues, its files of settings."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from captured import unpack_store
from deltalake.fs import DeltaStorageHandler

from txmq_lib.errors import InputError
from txmq_lib.rocketmq.store import far_store
from txmq_lib.rocketmq.store.broker_conf import read_broker_conf
from txmq_lib.rocketmq.store.commit_log import list_files, log_end, record_at, record_end, torn_end
from txmq_lib.rocketmq.store.consume_queue import dispatched_to, queue_bounds
from txmq_lib.rocketmq.store.consumer_offset_file import read_consumer_offset_file
from txmq_lib.rocketmq.store.set_up import set_up_of
from txmq_lib.rocketmq.store_source import read_range

SCHEME = "file://"


@pytest.fixture(autouse=True)
def _a_disk_is_an_object_store(monkeypatch):
    monkeypatch.setattr(far_store, "is_far", lambda place: place.startswith(SCHEME))
    monkeypatch.setattr(far_store, "_copies", {})
    monkeypatch.setattr(far_store, "PIECE_BYTES", 10_000)


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
        assert torn_end(there.files, place) == torn_end(here.files, place)


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
    copy = far_store.near(far(store)) / named
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
    with far_store.stretch_of(file.path, file.size, 20_000, 30_000) as (descriptor, data):
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
