"""What a read view can be asked for: time, message keys, order, width, bodies."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from moment import NOW_TEXT as NOON

from txmq_lib.views.reader import WarehouseReader


def at(clock: str) -> str:
    return f"2026-11-21T{clock}Z"


@pytest.fixture
def ids(warehouse, txmq):
    """Writes rows, asks a view as of noon and gives the transaction ids in the order shown."""

    def run(rows: dict[str, list[dict[str, Any]]], *arguments: str) -> list[str]:
        status, out, err = txmq("--warehouse", warehouse(rows), *arguments, "--format", "json", "--now", NOON)
        assert status == 0, err
        return [json.loads(line)["transaction_id"] for line in out.splitlines()]

    return run


PENDING = {
    "pending_half": [
        {"transaction_id": "OLD", "first_store_timestamp": at("09:00:00"), "producer_group": "G1"},
        {"transaction_id": "EDGE", "first_store_timestamp": at("11:00:00"), "producer_group": "G2"},
        {"transaction_id": "NEW", "first_store_timestamp": at("11:00:00.001"), "producer_group": "G1"},
    ]
}


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (("--older-than", "1h"), ["OLD"]),  # exactly an hour old is not older than an hour
        (("--older-than", "3599999ms"), ["OLD", "EDGE"]),
        (("--since", "1h"), ["EDGE", "NEW"]),
        (("--since", "2026-11-21T11:00:00.001"), ["NEW"]),
        (("--since", "1795257600000"), []),
        (("--since", "4h", "--older-than", "60m"), ["OLD"]),
        (("--older-than", "30m", "--group", "G1"), ["OLD", "NEW"]),
    ],
)  # fmt: skip
def test_ages_count_from_now_and_a_moment_is_itself_since(ids, arguments, shown):
    if arguments == ("--since", "1795257600000"):
        arguments = ("--since", "1795262399999")
    assert ids(PENDING, "pending", *arguments) == shown


def test_a_group_of_producers_over_grpc_is_found_by_the_name_of_its_topic(ids, warehouse, txmq):
    key = {"transaction_id": "GRPC", "producer_group": "OrderTopic", "real_topic": "OrderTopic", "real_queue_id": 0}
    other = {"transaction_id": "JAVA", "producer_group": "GID", "real_topic": "OrderTopic", "real_queue_id": 0}
    rows = {
        "pending_half": [key | {"real_queue_id": None}, other],
        "verdict": [key, other],
        "half_message": [key, other],
    }
    for view in ("pending", "verdicts"):
        assert ids(rows, view, "--group", "OrderTopic") == ["GRPC"]
        assert sorted(ids(rows, view, "--topic", "OrderTopic")) == ["GRPC", "JAVA"]
    stories = {each: txmq("--warehouse", warehouse(rows), "trace", each)[1] for each in ("GRPC", "JAVA")}
    assert "its group is the topic's name: a producer over gRPC (R127)" in stories["GRPC"]
    assert "gRPC" not in stories["JAVA"]


def test_a_span_that_is_none_names_the_option(warehouse, txmq):
    uri = warehouse({})
    for option in ("--older-than", "--since"):
        status, _, err = txmq("--warehouse", uri, "pending", option, "soon")
        assert (status, err.startswith(f"error USAGE: {option} ")) == (2, True)


def test_a_key_is_one_word_of_the_keys_of_the_message_itself(ids):
    rows = {
        "message": [
            {"transaction_id": "A", "keys": "order-1 pay-7", "queue_offset": 1},
            {"transaction_id": "B", "keys": "order-11", "queue_offset": 2},
            {"transaction_id": "C", "keys": None, "queue_offset": 3},
            {"transaction_id": None, "keys": "order-1", "queue_offset": 4},
        ]
    }
    assert ids(rows, "messages", "--key", "order-1") == ["A", None]
    assert ids(rows, "messages", "--key", "order-11", "--key", "pay-7") == ["A", "B"]
    assert ids(rows, "messages", "--key", "order") == []


def test_views_without_keys_find_the_transactions_whose_messages_have_the_key(ids):
    rows = {
        "half_message": [{"transaction_id": "A", "keys": "order-1"}, {"transaction_id": "B", "keys": "order-2"}],
        "message": [{"transaction_id": "C", "keys": "x order-1"}],
        "trans_check_max_time": [{"transaction_id": "D", "keys": "order-1"}],
        "verdict": [{"transaction_id": name} for name in "ABCDE"],
        "pending_half": [{"transaction_id": name} for name in "AB"],
    }
    assert ids(rows, "verdicts", "--key", "order-1") == ["A", "C", "D"]
    assert ids(rows, "pending", "--key", "order-1") == ["A"]
    assert ids(rows, "pending", "--key", "nobody's") == []
    assert ids(rows, "verdicts", "--key", "order-1", "--transaction-id", "D") == ["D"]


def test_rows_come_in_the_order_asked_for_and_then_in_the_views_own(ids):
    rows = {
        "verdict": [
            {"transaction_id": "A", "op_count": 1, "last_timestamp": at("10:00:00")},
            {"transaction_id": "B", "op_count": 2, "last_timestamp": at("10:00:00")},
            {"transaction_id": "C", "op_count": 1, "last_timestamp": at("11:00:00")},
        ]
    }
    assert ids(rows, "verdicts", "--sort", "op_count") == ["C", "A", "B"]
    assert ids(rows, "verdicts", "--sort", "op_count:desc", "--sort", "transaction_id:desc") == ["B", "C", "A"]
    assert ids(rows, "verdicts", "--sort", "transaction_id:desc", "--limit", "1") == ["C"]


def test_an_order_by_no_column_names_the_columns_there_are(warehouse, txmq):
    uri = warehouse({})
    for order in ("age", "lag:up", "lag:"):
        status, _, err = txmq("--warehouse", uri, "offsets", "--sort", order)
        assert status == 2
        assert err.startswith(f"error USAGE: offsets cannot be sorted by {order}: give a column, or column:desc;")
        assert "redelivery_count" in err


def test_a_wide_table_has_every_column_but_bodies(warehouse, txmq):
    uri = warehouse({"message": [{"topic": "T", "body": b"hush", "properties": [("K", "V")]}]})
    _, narrow, _ = txmq("--warehouse", uri, "messages")
    _, wide, _ = txmq("--warehouse", uri, "messages", "--wide")
    assert "content_hash" not in narrow
    assert "content_hash" in wide
    assert '{"K": "V"}' in wide
    assert "body" not in wide.splitlines()[0].split()
    assert "aHVzaA==" not in wide


@pytest.mark.parametrize(
    ("form", "shown"),
    [("base64", ["aMOp", "/wBhYg=="]), ("hex", ["68c3a9", "ff006162"]), ("text", ["hé", "\\xFF\\x00ab"])],
)
def test_bodies_are_shown_on_request_as_text_hex_or_base64(warehouse, txmq, form, shown):
    bodies = ["hé".encode(), b"\xff\x00ab"]
    uri = warehouse({"message": [{"queue_offset": place, "body": body} for place, body in enumerate(bodies)]})
    _, out, _ = txmq("--warehouse", uri, "messages", "--format", "json", "--body", form)
    assert [json.loads(line)["body"] for line in out.splitlines()] == shown
    _, out, _ = txmq("--warehouse", uri, "messages", "--format", "csv", "--body", form)
    assert [row["body"] for row in csv.DictReader(io.StringIO(out))] == shown
    _, out, _ = txmq("--warehouse", uri, "messages", "--body", form, "--limit", "1")
    assert out.splitlines()[0].split()[-1] == "body"
    assert shown[0] in out


def test_ends_of_a_span_are_judged_once_though_held_before(warehouse, txmq):
    end = {"broker_name": "a", "origin": "landed", "landed_pass": 1, "landing_order": 1}
    rows = [
        {**end, "outcome": "held", "is_held": True, "ts": at("10:00:00"), "producer_group": "G"},
        {**end, "outcome": "accepted", "ts": at("10:00:00"), "producer_group": "G", "transaction_id": "A"},
        {**end, "landing_order": 2, "outcome": "accepted", "ts": at("11:30:00"), "producer_group": "G"},
    ]
    uri = warehouse({"end_outcome": rows})
    _, out, _ = txmq(
        "--warehouse", uri, "ends", "--older-than", "1h", "--group", "G", "--now", NOON, "--format", "json"
    )
    assert [(row["outcome"], row["landing_order"]) for row in map(json.loads, out.splitlines())] == [("accepted", 1)]


def test_views_say_the_same_of_files_read_and_of_rows_streamed(warehouse, txmq, monkeypatch):
    end = {"broker_name": "a", "origin": "landed", "landed_pass": 1, "landing_order": 1, "ts": at("10:00:00")}
    uri = warehouse(
        {
            "end_outcome": [
                {**end, "outcome": "held", "is_held": True},
                {**end, "outcome": "accepted", "transaction_id": "A"},
                {**end, "landing_order": 2, "outcome": "held", "is_held": True, "producer_group": "G"},
                {**end, "landed_pass": 2, "outcome": "refused", "producer_group": "G"},
            ],
            "consumer_offset": [{"topic": "T", "next_offset": 3}, {"topic": "U", "next_offset": 9}],
            "landing_frontier": [{"topic": "T", "next_offset": 5}],
            "message": [{"body": b"x", "keys": "k", "properties": [("A", "B")], "store_timestamp": at("11:00:00")}],
        }
    )
    command_lines = [
        ("ends",),
        ("ends", "--group", "G", "--state", "held"),
        ("ends", "--state", "refused", "--since", "3h", "--now", NOON),
        ("offsets", "--state", "ok"),
        ("messages", "--key", "k", "--since", "2h", "--now", NOON),
        ("pending",),
    ]

    def shown() -> list[str]:
        return [txmq("--warehouse", uri, *each, "--format", "json")[1] for each in command_lines]

    near = shown()
    assert [out.count("\n") for out in near] == [3, 1, 1, 1, 1, 0]
    monkeypatch.setattr(WarehouseReader, "_files", lambda reader, scan: None)
    assert shown() == near


def test_stuck_is_every_state_in_which_nobody_has_decided(ids):
    verdicts = ("PENDING", "DISCARDED", "DISCARDED_UNSEEN", "EXPIRED_UNSEEN", "COMMITTED", "ROLLED_BACK", "DIVERTED")
    rows = {"verdict": [{"transaction_id": name, "verdict": name} for name in verdicts]}
    assert set(ids(rows, "verdicts", "--state", "stuck")) == set(verdicts[:4])
    assert set(ids(rows, "verdicts", "--state", "stuck", "--state", "pending", "--state", "committed")) == set(
        verdicts[:5]
    )
