"""Bodies and chosen properties are shown by no view, no format, no trace and no report."""

from __future__ import annotations

import json
from typing import Any

import pytest

from txmq_lib.views.catalogue import VIEWS

BODY, CARD, KEY, RECORD = "body-4711", "card-4711", "key-4711", "record-4711"
MESSAGE: dict[str, Any] = {
    "broker_name": "b", "topic": "T", "transaction_id": "C0", "producer_group": "G", "body": BODY.encode(),
    "properties": [("card_number", CARD), ("KEYS", KEY), ("UNIQ_KEY", "C0"), ("kept", "kept-4711")], "keys": KEY, "tags": "tag-4711",
}  # fmt: skip
ROWS: dict[str, list[dict[str, Any]]] = {
    "message": [MESSAGE],
    "half_message": [MESSAGE],
    "trans_check_max_time": [MESSAGE],
    "verdict": [{"transaction_id": "C0", "producer_group": "G", "broker_name": "b", "verdict": "DUPLICATED"}],
    "quarantine": [
        {"reason": "BROKEN_JSON", "raw": RECORD},
        {"reason": "BROKEN_JSON", "raw": None, "fingerprint": "2"},
    ],
}
MASK = ("--set", "mask.bodies=true", "--set", "mask.properties=[card_*, KEYS]")


@pytest.fixture
def uri(warehouse):
    return warehouse(ROWS)


def rows_of(txmq, uri, *arguments: str) -> list[dict[str, Any]]:
    status, out, err = txmq("--warehouse", uri, *arguments, "--format", "json")
    assert status == 0, err
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.parametrize("view", ["messages", "given-up"])
def test_masked_values_are_stars_and_the_rest_is_as_it_was(txmq, uri, view):
    (plain,) = rows_of(txmq, uri, view)
    (masked,) = rows_of(txmq, uri, *MASK, view)
    assert masked["body"] == masked["keys"] == "***"
    assert masked["properties"] == {"card_number": "***", "KEYS": "***", "UNIQ_KEY": "C0", "kept": "kept-4711"}
    assert plain["properties"]["card_number"] == CARD
    kept = set(plain) - {"body", "keys", "properties"}
    assert {name: masked[name] for name in kept} == {name: plain[name] for name in kept}


def test_raw_records_are_masked_with_either_setting_and_nothing_stays_nothing(txmq, uri):
    for setting in MASK[1::2]:
        assert sorted(str(row["raw"]) for row in rows_of(txmq, uri, "--set", setting, "quarantine")) == ["***", "None"]
    assert {row["raw"] for row in rows_of(txmq, uri, "quarantine")} == {RECORD, None}


def test_tags_are_masked_by_their_property(txmq, uri):
    (row,) = rows_of(txmq, uri, "--set", "mask.properties=[TA*]", "messages")
    assert (row["tags"], row["keys"]) == ("***", KEY)


def test_no_command_and_no_format_shows_what_is_masked(txmq, uri, tmp_path):
    secrets = (BODY, BODY.encode().hex(), "Ym9keS00NzEx", CARD, KEY, RECORD)
    for view in VIEWS:
        bodies = ("text", "hex", "base64") if view.bodies else (None,)
        for body in bodies:
            body_option = () if body is None else ("--body", body)
            for format_ in ("json", "csv", "table"):
                wide = ("--wide",) if format_ == "table" else ()
                _, out, _ = txmq("--warehouse", uri, *MASK, view.command, *body_option, *wide, "--format", format_)
                assert not [secret for secret in secrets if secret in out], (view.command, body, format_)
    for arguments in (("trace", "C0"), ("trace", "C0", "--format", "json"), ("trace", "--key", KEY), ("status",)):
        _, out, _ = txmq("--warehouse", uri, *MASK, *arguments)
        assert out
        assert not [secret for secret in secrets if secret in out], arguments
    out = tmp_path / "r.html"
    assert txmq("--warehouse", uri, *MASK, "report", "--out", str(out))[0] == 0
    assert not [secret for secret in secrets if secret in out.read_text(encoding="utf-8")]


@pytest.mark.parametrize(
    ("pattern", "hidden"),
    [
        ("ключ", {"ключ"}),
        ("клю?", {"ключ", "клю\n"}),
        ("*ю*", {"ключ", "клю", "клю\n"}),
        ("[д-л]*", {"ключ", "клю", "клю\n"}),
        ("[!x]люч", {"ключ"}),
        ("[[ab]x", {"[x", "ax"}),
        (r"a\\*", {"a\\*"}),
    ],
)
def test_a_pattern_reads_as_a_shell_does(txmq, warehouse, pattern, hidden):
    names = {"ключ", "клю", "x", "[x", "ax", "a\\*", "a*", "КЛЮЧ", "клю\n"}
    uri = warehouse({"message": [{**MESSAGE, "properties": [(name, "shown") for name in sorted(names)]}]})
    (row,) = rows_of(txmq, uri, "--set", f'mask.properties=["{pattern}"]', "messages")
    assert {name for name, value in row["properties"].items() if value == "***"} == hidden
    assert row["properties"].keys() == names


def test_a_pattern_is_no_sql(txmq, uri):
    (row,) = rows_of(txmq, uri, "--set", 'mask.properties=["\' OR true --"]', "messages")
    assert row["properties"]["card_number"] == CARD
