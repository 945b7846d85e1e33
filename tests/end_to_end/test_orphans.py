"""Committed messages whose half was never seen: told per topic, by status and the alert, until the half lands."""

from __future__ import annotations

import json

import pytest
from hook_server import hook_server
from house import BROKER
from moment import NOW
from resolving import half
from test_copies_and_rivals import message_of
from truth import facts

from txmq_lib.cli import main

AUDIT = "role=audit"


def orphans(house) -> dict[str, str]:
    """State by transaction of what is told."""
    house.audit()
    return {row["transaction_id"]: row["state"] for row in house.rows("orphan")}


def status_of(house, capsys) -> tuple[int, list[str]]:
    """Exit status, and the problems past a limit."""
    capsys.readouterr()
    code = main(["--warehouse", house.warehouse.uri, "status", "--now", NOW.isoformat(), "--format", "json"])
    document = json.loads(capsys.readouterr().out)
    return code, [problem["condition"] for problem in document["problems"] if problem["limit"]]


def alerted(house) -> list[str]:
    """What a webhook is told by one `alert`."""
    with hook_server() as hook, pytest.MonkeyPatch.context() as environ:
        environ.setenv("HOOK_URL", f"http://127.0.0.1:{hook.server_address[1]}/")
        hooked = ("--set", "alerts.url_env=HOOK_URL")
        assert main(["--warehouse", house.warehouse.uri, *hooked, "alert", "--now", NOW.isoformat()]) == 0
        return sorted(f"{body['status']} {body['condition']}" for _, _, body in hook.told)


def test_a_capture_of_visible_messages_alone_names_its_orphans_and_halves_that_land_clear_them(open_house, capsys):
    house = open_house(AUDIT)
    house.land_capture("basic", message="visible")
    house.audit()
    rows = facts("basic").visible
    first = min(row["commitLogOffset"] for row in rows)
    committed = [
        row
        for row in rows
        if row["sysFlag"] & 12 == 8 and row["topic"].startswith("Topic") and row["preparedTransactionOffset"]
    ]
    expected = {
        (row["topic"], row["queueId"], row["queueOffset"]): row["preparedTransactionOffset"] < first
        for row in committed
    }
    found = house.rows("orphan")
    assert {
        (row["topic"], row["queue_id"], row["queue_offset"]): row["state"] == "before_first" for row in found
    } == expected
    code, conditions = status_of(house, capsys)
    assert (code, sorted(conditions)) == (1, [f"orphans {BROKER}/Topic{letter}" for letter in "ABC"])
    assert alerted(house) == [f"firing orphans {BROKER}/Topic{letter}" for letter in "ABC"]
    assert alerted(house) == []
    assert house.audit().counts == {"idle": 1}
    house.land_capture("basic", half="half")
    house.audit()
    assert {row["state"] for row in house.rows("orphan")} == {"half_landed"}
    assert status_of(house, capsys) == (0, [])
    assert alerted(house) == [f"resolved orphans {BROKER}/Topic{letter}" for letter in "ABC"]


@pytest.mark.long
def test_what_lies_below_all_that_was_ever_read_is_no_problem_until_something_lower_is_read(open_house, capsys):
    house = open_house(AUDIT)
    early, late = (message_of(half(number), place=1000 * number, offset=number) for number in (3, 60))
    house.land_rows("half", [half(50)])
    house.land_rows("message", [early, late])
    assert orphans(house) == {"T3": "before_first", "T60": "orphan"}
    assert status_of(house, capsys) == (1, [f"orphans {BROKER}/TopicA"])
    house.land_rows("half", [half(60), half(2)])
    assert orphans(house) == {"T3": "orphan", "T60": "half_landed"}, (
        "the log was read from below it, and it was not there"
    )
    house.land_rows("half", [half(3)])
    assert orphans(house) == {"T3": "half_landed", "T60": "half_landed"}


def test_only_what_a_broker_committed_into_a_real_topic_needs_a_half(open_house):
    house = open_house("brokers.audited.role=audit")
    message = message_of(half(3), place=3000)
    other = {**message_of(half(4), place=4000, offset=4), "properties": {**half(4)["properties"], "UNIQ_KEY": "X"}}
    rows = [
        {**message, "topic": "%RETRY%CG"}, {**message, "topic": "%DLQ%CG"}, {**message, "topic": "SCHEDULE_TOPIC_XXXX"},
        {**message, "topic": "rmq_sys_wheel_timer"}, {**message, "topic": "Plain", "sysFlag": 0},
        {**message, "topic": "Delivered", "preparedTransactionOffset": 0}, other,
    ]  # fmt: skip
    house.land_rows("half", [half(0), half(4)], broker="audited")
    house.land_rows("message", rows, broker="audited")
    house.land_rows("message", [message])
    assert orphans(house) == {"X": "orphan"}, (
        "the half at its place is another transaction's; txmq decides for the other broker"
    )


def test_a_given_up_row_is_what_a_message_was_committed_from_as_well(open_house):
    house = open_house(AUDIT)
    given_up = {**half(0), "topic": "TRANS_CHECK_MAX_TIME_TOPIC", "commitLogOffset": 50_000}
    house.land_rows("half", [half(0)])
    house.land_rows("max-time", [given_up])
    house.land_rows("message", [message_of(half(0), place=50_000)])
    assert orphans(house) == {}
