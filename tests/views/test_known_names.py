"""A filter by a name that nothing has: said with the names that come nearest, and status 1."""

from __future__ import annotations

import pytest

ID = "7F0000010A1118B4AAC2" + "0" * 12
LANDED = {
    "half_message": [
        {"transaction_id": ID, "producer_group": "GID_ORDERS", "real_topic": "orders"},
        {"transaction_id": "OTHER", "producer_group": "GID_PAY", "real_topic": "payments"},
    ],
    "consumer_offset_commit": [{"consumer_group": "CID_SHIPPING", "topic": "orders", "broker_name": "broker-a"}],
    "landing_frontier": [{"broker_name": "broker-b", "topic": "invoices"}],
    "quarantine": [{"broker_name": "broker-b", "reason": "CODE_OF_BEFORE", "kind": "half"}],
}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("pending", "--group", "GID_ORDRES"), "no group GID_ORDRES has landed; there is GID_ORDERS"),
        (("verdicts", "--group", "gid_pay"), "no group gid_pay has landed; there is GID_PAY"),
        (("pending", "--topic", "payment"), "no topic payment has landed; there is payments"),
        (("messages", "--topic", "invoice"), "no topic invoice has landed; there is invoices"),
        (("offsets", "--group", "CID_SHIPING"), "no group CID_SHIPING has landed; there is CID_SHIPPING"),
        (("quarantine", "--broker", "xyz"), "no broker xyz has landed"),
        (("pending", "--transaction-id", ID[:-1] + "1"), f"no transaction-id {ID[:-1]}1 has landed"),
        (("pending", "--transaction-id", ID.lower()), f"no transaction-id {ID.lower()} has landed; there is {ID}"),
        (("pending", "--transaction-id", ID[:-1]), f"no transaction-id {ID[:-1]} has landed; there is {ID}"),
        (("pending", "--transaction-id", ID[:11]), f"no transaction-id {ID[:11]} has landed"),
        (("quarantine", "--reason", "KEY_CONFLIT"), "there is no reason KEY_CONFLIT; there is KEY_CONFLICT"),
        (("quarantine", "--reason", "body_crc"), "there is no reason body_crc; there is BODY_CRC"),
        (("quarantine", "--reason", "CODE_OF_BEFOR"), "there is no reason CODE_OF_BEFOR; there is CODE_OF_BEFORE"),
        (("quarantine", "--reason", "zzz"), "there is no reason zzz"),
        (("verdicts", "--reason", "gapp"), "there is no reason gapp; there is gap"),
        (("given-up", "--reason", "check-max"), "there is no reason check-max; there is check_max"),
        (("ends", "--reason", "IMMUNITY"), "there is no reason IMMUNITY; there is IMMUNITY_EXPIRED"),
        (("answers", "--reason", "absent"), "there is no reason absent; there is ABSENT"),
        (("runs", "--reason", "PASS_CONFLIT"), "there is no reason PASS_CONFLIT; there is PASS_CONFLICT"),
    ],
)
def test_an_unknown_name_is_said_with_the_nearest_ones(warehouse, txmq, arguments, line):
    status, out, err = txmq("--warehouse", warehouse(LANDED), *arguments, "--format", "json")
    assert (status, out) == (1, "")
    assert err.splitlines()[-1].split(",")[0] == line, "the nearest comes first"


@pytest.mark.parametrize(
    "arguments",
    [
        ("pending", "--group", "GID_ORDERS"),
        ("pending", "--transaction-id", ID),
        ("messages", "--topic", "invoices"),
        ("verdicts", "--topic", "orders", "--state", "conflict"),
        ("offsets", "--broker", "broker-b"),
        ("quarantine", "--reason", "KEY_CONFLICT"),
        ("quarantine", "--reason", "CODE_OF_BEFORE", "--since", "2030-01-01T00:00:00Z"),
        ("verdicts", "--reason", "gap"),
        ("runs", "--reason", "UNEXPECTED"),
        ("ends",),
    ],
)
def test_no_rows_of_a_known_name_is_no_failure(warehouse, txmq, arguments):
    status, out, err = txmq("--warehouse", warehouse(LANDED), *arguments, "--format", "json")
    assert (status, out) == (0, "")
    assert err.startswith(f"no rows in {arguments[0]}")
    assert len(err.splitlines()) == 1


def test_each_unknown_one_of_several_is_said(warehouse, txmq):
    uri = warehouse(LANDED)
    _, _, err = txmq("--warehouse", uri, "pending", "--group", "GID_PAY", "--group", "A", "--topic", "B")
    assert err.splitlines()[1:] == ["no group A has landed", "no topic B has landed"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("settle", "NONE", "--commit", "--reason", "r"), "no half message of transaction NONE has landed"),
        (("settle", "NONE", "--commit", "--reason", "r", "--apply"), "no half message of transaction NONE has landed"),
        (
            ("resend", "NONE", "--reason", "r", "--namesrv", "127.0.0.1:1"),
            "no half message of transaction NONE has landed",
        ),
        (("resume", ID, "NONE", "OTHER"), "no half message of transaction NONE has landed"),
        (("take-back", "--broker", "xyz"), "no row of broker xyz has landed"),
    ],
)
def test_what_is_to_be_decided_about_and_never_landed_is_said_without_a_jvm(
    warehouse, txmq, monkeypatch, arguments, line
):
    monkeypatch.setattr("txmq_lib.cli.run.passes.build_session", None)
    status, out, err = txmq("--warehouse", warehouse(LANDED), *arguments)
    assert (status, out, err) == (2, "", f"error USAGE: {line}\n")
