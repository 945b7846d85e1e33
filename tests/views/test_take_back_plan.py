"""The plan of take-back: rows that would go, by table, counted without a JVM; the job counts the same with Spark."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from txmq_lib.config.table_specs import table_specs
from txmq_lib.pipeline.taken_tables import DECISIONS, TABLES

A = {"broker_name": "a"}
ROWS = {
    "half_message": [{**A, "transaction_id": "T"}, {**A, "transaction_id": "U"}, {"broker_name": "b"}],
    "message": [{**A, "origin": "landed"}, {**A, "origin": "txmq"}, {"broker_name": "b", "origin": "txmq"}],
    "quarantine": [
        {**A, "reason": "KEY_CONFLICT", "detail": "txmq wrote a row before at queue offset 7", "job": "land"},
        {**A, "reason": "KEY_CONFLICT", "detail": "other content landed before at queue offset 8", "job": "land"},
        {**A, "reason": "KEY_CONFLICT", "job": "land"},
        {**A, "reason": "IMMUNITY_EXPIRED", "job": "reconcile"},
        {**A, "reason": "BODY_CRC", "job": "land"},
    ],
    "verdict": [{**A, "transaction_id": "T"}],
    "consumer_offset": [{"broker_name": "it's"}],
}


@pytest.fixture
def planned(warehouse, txmq, monkeypatch):
    monkeypatch.setattr("txmq_lib.cli.run.passes.build_session", None)
    uri = warehouse(ROWS)

    def run(*arguments: str, older: bool = False) -> tuple[int, dict[str, int], str]:
        if older:
            shutil.rmtree(Path(uri) / "end_trace")
        status, out, err = txmq("--warehouse", uri, "take-back", *arguments)
        rows = [line.split() for line in out.splitlines()[1:]]
        return status, {table: int(count) for table, count in rows}, err

    return run


def test_it_counts_the_rows_of_a_broker_in_every_table(planned):
    status, rows, err = planned("--broker", "a")
    assert (status, err) == (0, "nothing was done; --apply does it\n")
    assert list(rows) == list(TABLES)
    assert {table: count for table, count in rows.items() if count} == {
        "half_message": 2, "message": 2, "quarantine": 5, "verdict": 1,
    }  # fmt: skip
    assert {table for table, count in planned("--broker", "it's")[1].items() if count} == {"consumer_offset"}


def test_of_decisions_it_counts_what_txmq_wrote(planned):
    status, rows, _ = planned("--broker", "a", "--decisions", "--set", "role=audit")
    assert (status, list(rows)) == (0, list(DECISIONS))
    assert {table: count for table, count in rows.items() if count} == {"message": 1, "quarantine": 2, "verdict": 1}
    status, rows, err = planned("--broker", "a", "--decisions")
    assert (status, rows) == (2, {})
    assert "role: not set for broker a: say `audit` where a RocketMQ broker decides" in err


def test_a_table_that_an_older_warehouse_lacks_has_no_rows(planned):
    status, rows, _ = planned("--broker", "a", older=True)
    assert (status, rows["end_trace"], rows["half_message"]) == (0, 0, 2)


def test_a_broker_without_rows_is_said_with_the_nearest(planned):
    assert planned("--broker", "c") == (2, {}, "error USAGE: no row of broker c has landed\n")


def test_a_condition_names_columns_that_its_table_has():
    for table, which in (*TABLES.items(), *DECISIONS.items()):
        assert {*which.columns, "broker_name"} <= {*table_specs()[table].columns}, table
