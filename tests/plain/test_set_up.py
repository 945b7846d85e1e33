"""How a store's broker is set up, told by files laid out as RocketMQ lays them out (R122 to R128)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from captured import unpack_store

from txmq_lib.errors import StoreRefusedError
from txmq_lib.rocketmq.set_ups import compaction_topics, live_set_ups
from txmq_lib.rocketmq.store.set_up import require_readable, set_up_of, store_set_up

FIRST = "0" * 20


@pytest.fixture
def store(tmp_path: Path) -> Path:
    root = tmp_path / "store"
    lay(root, f"commitlog/{FIRST}", f"consumequeue/TopicA/0/{FIRST}", "config/topics.json")
    return root


def lay(root: Path, *names: str, text: str = "x") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def lay_table(root: Path, name: str, document: object) -> None:
    lay(root, f"config/{name}", text=json.dumps(document))


def refused(root: Path, config: dict[str, str] | None = None) -> list[str]:
    return [trait.name for trait in store_set_up(str(root), config or {}).refused]


def told(root: Path, config: dict[str, str] | None = None) -> list[str]:
    return [trait.name for trait in store_set_up(str(root), config or {}).notable]


def test_a_store_of_a_broker_as_it_comes_is_read_and_nothing_is_told_of_it(store, tmp_path):
    assert (refused(store), told(store)) == ([], [])
    real = unpack_store("basic", tmp_path / "real")
    assert (refused(real), told(real)) == ([], [])
    assert (refused(tmp_path / "none"), told(tmp_path / "none")) == ([], [])


@pytest.mark.parametrize("beside", [True, False], ids=["beside the log of before", "instead of it"])
def test_the_log_of_dledger_is_refused(store, tmp_path, beside):
    root = store if beside else tmp_path / "other"
    lay(root, f"dledger-n0/data/{FIRST}", f"dledger-n0/index/{FIRST}")
    assert refused(root) == ["dledger"]
    with pytest.raises(
        StoreRefusedError, match=r"nothing of it lands: dledger: .*dledger-n0/data.*land the live broker"
    ):
        require_readable(set_up_of(str(root)), str(root))


def test_dledger_is_refused_by_its_setting_wherever_it_keeps_its_log(store):
    assert refused(store, {"enableDLegerCommitLog": "true", "storePathDLedgerCommitLog": "/elsewhere"}) == ["dledger"]
    assert refused(store, {"enableDLegerCommitLog": "false"}) == []
    lay(store, "dledger-n0/data/checkpoint")
    assert refused(store) == [], "no log is there"


@pytest.mark.parametrize(
    ("setting", "expected"),
    [("/a/commitlog,/b/commitlog", ["multi_path"]), (" /a , /b,", ["multi_path"]), ("/a/commitlog", []), ("", [])],
)
def test_a_log_over_several_directories_is_refused_and_one_is_not(store, setting, expected):
    lay(store, "broker.conf", text=f"storePathCommitLog={setting}")
    assert [trait.name for trait in set_up_of(str(store)).refused] == expected


def test_a_log_that_lies_elsewhere_is_refused_with_its_place(tmp_path):
    lay(tmp_path, "config/topics.json")
    (trait,) = store_set_up(str(tmp_path), {"storePathCommitLog": "/data2/commitlog"}).refused
    assert (trait.name, "storePathCommitLog is /data2/commitlog" in trait.words) == ("multi_path", True)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"storePathRootDir": "/data/store", "storePathCommitLog": "/data2/commitlog"}, ["multi_path"]),
        ({"storePathCommitLog": "/data2/commitlog"}, ["multi_path"]),
        ({"storePathRootDir": "/data/store", "storePathCommitLog": "/data/store/commitlog/"}, []),
        ({"storePathCommitLog": "/home/rocketmq/store/commitlog"}, []),
        ({"storePathRootDir": "/data/store"}, []),
    ],
)
def test_a_log_in_the_store_that_its_broker_may_not_write_any_more_is_told(store, config, expected):
    """storePathCommitLog names another directory: what lies in the store is a copy of it, or of before."""
    assert (refused(store, config), told(store, config)) == ([], expected)


def test_the_log_that_the_setting_names_is_read_without_a_word(store):
    config = {"storePathRootDir": "/data/store", "storePathCommitLog": f"{store}/commitlog"}
    assert told(store, config) == []


@pytest.mark.parametrize("place", ["config/consumerOffsets", "config/metadata", "config/rdb"])
def test_offsets_in_rocksdb_are_told_and_their_stale_file_is_not_read(store, place):
    lay(store, "config/consumerOffset.json", f"{place}/000004.log")
    assert told(store) == []
    lay(store, f"{place}/CURRENT")
    assert told(store) == ["rocksdb_offsets"]
    assert refused(store) == []


@pytest.mark.parametrize("config", [{"storeType": "defaultRocksDB"}, {"configManagerVersion": "v2"}])
def test_offsets_in_rocksdb_are_told_by_settings(store, config):
    assert told(store, config) == ["rocksdb_offsets"]


@pytest.mark.parametrize("place", ["consumequeue", "consumequeue_rocksdb"])
def test_queues_in_rocksdb_are_told(store, place):
    lay(store, f"{place}/CURRENT")
    assert told(store) == ["rocksdb_queues"]


def test_static_topics_are_told_by_name(store):
    lay_table(store, "topicQueueMapping.json", {"dataVersion": {}, "topicQueueMappingInfoMap": {}})
    assert told(store) == []
    lay_table(store, "topicQueueMapping.json", {"topicQueueMappingInfoMap": {"Global": {"totalQueues": 8}}})
    (trait,) = store_set_up(str(store), {}).notable
    assert (trait.name, trait.words.endswith(": Global")) == ("static_topics", True)


def test_compaction_topics_are_told_by_name_and_no_more_than_some(store):
    topics = {
        "Plain": {"attributes": {}}, "Deleted": {"attributes": {"cleanup.policy": "DELETE"}}, "Odd": [], "Bare": {},
        **{f"C{number}": {"attributes": {"+cleanup.policy": "COMPACTION"}} for number in range(7)},
    }  # fmt: skip
    lay_table(store, "topics.json", {"topicConfigTable": topics})
    (trait,) = store_set_up(str(store), {}).notable
    assert (trait.name, trait.words.endswith(": C0, C1, C2, C3, C4 and 2 more")) == ("compaction", True)
    assert compaction_topics({"A": {"attributes": {"cleanup.policy": "compaction"}}, "B": {"attributes": "x"}}) == ["A"]
    assert compaction_topics(["no table"]) == []


def test_lmq_offsets_are_told_where_there_are_any(store):
    lay_table(store, "lmqConsumerOffset.json", {"offsetTable": {}})
    assert told(store) == []
    lay_table(store, "lmqConsumerOffset.json", {"offsetTable": {"%LMQ%q@g": 17}})
    assert told(store) == ["lmq"]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"enableControllerMode": "true"}, ["controller"]),
        ({"brokerRole": "SLAVE"}, ["slave"]),
        ({"brokerRole": "ASYNC_MASTER", "enableControllerMode": "false"}, []),
        ({"transRocksDBEnable": "true"}, []),
        ({"transRocksDBEnable": "true", "transWriteOriginTransHalfEnable": "false"}, ["rocksdb_halves"]),
    ],
)
def test_what_else_a_broker_conf_says_is_told(store, config, expected):
    assert told(store, config) == expected


def test_a_controller_is_told_by_the_file_of_its_epochs(store):
    lay(store, "epochFileCheckpoint")
    assert told(store) == ["controller"]


def test_files_that_are_none_say_nothing(store):
    for name in ("topics.json", "topicQueueMapping.json", "lmqConsumerOffset.json"):
        lay(store, f"config/{name}", text="{torn")
    (store / "broker.conf").symlink_to("/etc/hostname")
    assert (refused(store), told(store)) == ([], [])
    set_up_of(str(store))


TIERS = "org.apache.rocketmq.tieredstore.TieredMessageStore"


@pytest.mark.parametrize(
    ("config", "has"),
    [
        ({}, False),
        ({"messageStorePlugIn": ""}, False),
        ({"messageStorePlugIn": TIERS}, True),
        ({"messageStorePlugIn": f"a.b.Other,{TIERS}", "tieredStorageLevel": "FORCE"}, True),
        ({"messageStorePlugIn": TIERS, "tieredStorageLevel": "DISABLE"}, False),
        ({"messageStorePlugIn": TIERS, "tieredStorageLevel": "0"}, False),
        ({"messageStorePlugIn": "a.b.Other"}, False),
    ],
)
def test_tiered_storage_is_told_by_the_plug_in(store, config, has):
    """R134"""
    assert told(store, config) == (["tiered"] if has else [])
    assert live_set_ups(config) == (["tiered"] if has else [])


def test_a_path_with_a_splitter_alone_is_a_log_over_several_directories(store):
    assert refused(store, {"storePathCommitLog": f"{store}/commitlog,"}) == ["multi_path"]


def test_a_slave_is_told_live_and_by_its_broker_conf(store):
    assert told(store, {"brokerRole": "SLAVE"}) == live_set_ups({"brokerRole": "SLAVE"}) == ["slave"]


def test_halves_left_in_rocksdb_are_checked_as_long_as_it_is_enabled():
    """R121: where new halves go to the ordinary topic, those that lie in RocksDB are checked all the same."""
    enabled = {"transRocksDBEnable": "true"}
    assert live_set_ups(enabled) == ["rocksdb_checks"]
    assert live_set_ups({**enabled, "transWriteOriginTransHalfEnable": "true"}) == ["rocksdb_checks"]
    assert live_set_ups({**enabled, "transWriteOriginTransHalfEnable": "false"}) == ["rocksdb_halves"]
    assert live_set_ups({"transRocksDBEnable": "false", "transWriteOriginTransHalfEnable": "false"}) == []
