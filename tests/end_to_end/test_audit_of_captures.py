"""Audit role: what a real broker wrote gets the verdicts that its own rows prove, from files and from its store."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import truth
from captured import unpack_store
from house import BROKER
from truth import Transaction

AUDIT = "role=audit"
FILES = {"half": "half", "op": "op", "message": "visible", "max-time": "max_time"}


def judged(house) -> dict[Transaction, tuple]:
    return {
        Transaction(row["transaction_id"], int(row["born_timestamp"].timestamp() * 1000 + 0.5)): (
            row["verdict"],
            row["visible_count"],
            row["op_count"],
            row["given_up_count"] > 0,
        )
        for row in house.rows("verdict")
    }


def expected(capture: str) -> dict[Transaction, tuple]:
    counted = truth.verdicts(truth.facts(capture))
    return {key: (one.verdict, one.visible, one.ops, one.given_up) for key, one in counted.items()}


LONG = [pytest.param(name, marks=pytest.mark.long) for name in ("basic", "consumer", "mixed")]


@pytest.mark.parametrize("capture", ["restart", *LONG])
def test_files_and_store_give_every_transaction_the_verdict_its_rows_prove(open_house, tmp_path: Path, capture):
    files, store = open_house(AUDIT, name="files"), open_house(AUDIT, name="store")
    for kind, name in FILES.items():
        if truth.rows(capture, name):
            files.land(kind, truth.CAPTURES / capture / f"{name}.jsonl.gz")
    files.audit()
    store.land_store(unpack_store(capture, tmp_path))
    store.audit()
    from_files, from_store = judged(files), judged(store)
    diverted = {key for key, one in from_files.items() if one[0] == "DIVERTED"}
    assert {key: one for key, one in from_files.items() if key not in diverted} == expected(capture)
    assert from_store == from_files
    counts: dict[str, int] = {}
    for verdict, *_ in from_files.values():
        counts[verdict] = counts.get(verdict, 0) + 1
    assert counts == truth.VERDICT_COUNTS[capture]
    assert not files.rows("quarantine")
    assert not store.rows("quarantine")
    assert_rows_are_equal(files, store)
    if capture == "restart":
        before = store.versions()
        store.audit()
        shutil.copy(truth.CAPTURES / capture / "broker.conf", tmp_path)
        findings = store.land_store(tmp_path / "store").findings
        # Its settings were not known before: what is kept of its set-up changes, and nothing else.
        assert store.versions() == {**before, "broker_set_up": before["broker_set_up"] + 1}
        conf = f"broker {BROKER}, {tmp_path}/broker.conf"
        assert [words.split(":")[0:2] for words in findings] == [
            [conf, f" {words}"]
            for words in (
                "transactionTimeOut is 2s, and transaction_timeout here is 6s",
                "transactionCheckInterval is 3s, and transaction_check_interval here is 1m",
                "transactionCheckMax is 3, and transaction_check_max here is 15",
                "flushDiskType is ASYNC_FLUSH",
            )
        ]


def assert_rows_are_equal(files, store) -> None:
    ours = ("landed_pass", "origin")
    for table in ("half_message", "op_message", "trans_check_max_time", "message"):
        by_place = {}
        for house in (files, store):
            rows = house.rows(table)
            kept = [{name: value for name, value in row.items() if name not in ours} for row in rows]
            by_place[house.warehouse.uri] = {
                tuple(row.get(name) for name in ("topic", "queue_id", "queue_offset", "position")): row for row in kept
            }
        from_files, from_store = by_place[files.warehouse.uri], by_place[store.warehouse.uri]
        # The reading client skipped system topics that a store holds.
        assert {place: from_store.get(place) for place in from_files} == from_files, table
        extra = {place[0] for place in from_store.keys() - from_files.keys()}
        assert extra <= {"rmq_sys_wheel_timer", "RMQ_SYS_TRACE_TOPIC", "OFFSET_MOVED_EVENT"}, (table, extra)
