"""Stores of brokers that are not set up as by default: refused before anything lands, or read without what is stale."""

from __future__ import annotations

from pathlib import Path

import pytest
from captured import unpack_store
from house import BROKER

from txmq_lib.errors import StoreRefusedError


def lay(root: Path, name: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_bytes(b"x")


def test_a_log_of_dledger_lands_nothing_and_offsets_in_rocksdb_land_no_stale_ones(open_house, tmp_path):
    house = open_house("role=audit")
    store = unpack_store("restart", tmp_path)
    lay(store, f"dledger-n0/data/{'0' * 20}")
    before = house.versions()
    with pytest.raises(StoreRefusedError, match="dledger"):
        house.land_store(store)
    assert (house.versions(), house.rows("pass")) == (before, [])
    (store / f"dledger-n0/data/{'0' * 20}").unlink()
    lay(store, "config/rdb/CURRENT")
    report = house.land_store(store)
    assert house.rows("half_message")
    assert house.rows("consumer_offset_commit") == house.rows("check_cursor") == []
    (words,) = [each for each in report.findings if "rocksdb_offsets" in each]
    assert words.startswith(f"broker {BROKER}: rocksdb_offsets: its consumer offsets are in RocksDB (config/rdb)")
    (store / "config/rdb/CURRENT").unlink()
    house.land_store(store)
    assert house.rows("consumer_offset_commit")
    assert [row["queue_id"] for row in house.rows("check_cursor")] == [0]
    (row,) = house.rows("broker_set_up")
    assert (row["broker_name"], row["kind"], row["set_ups"], row["pass_number"]) == (BROKER, "store", "", 2)
