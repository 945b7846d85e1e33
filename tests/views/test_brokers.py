"""`brokers`: what is known of each broker, put together from what its landings left."""

from __future__ import annotations

import json

from moment import NOW_TEXT as NOON

ROWS = {
    "broker": [
        {"broker_name": "b", "role": "audit", "job": "land"},
        {"broker_name": "files", "role": "engine", "job": "land"},
    ],
    "broker_set_up": [
        {
            "broker_name": "b", "kind": "rocketmq", "source": "10.0.0.1:10911", "version": "V5_5_0", "store_type": "default",
            "broker_role": "SYNC_MASTER", "set_ups": "controller, static_topics",
            "differences": "transactionCheckMax is 3, and transaction_check_max here is 15",
        }
    ],
    "landing_frontier": [
        {"broker_name": "b", "topic": "T", "queue_id": 0, "highest_store_timestamp": "2026-11-21T11:00:00Z"},
        {"broker_name": "b", "topic": "T", "queue_id": 1, "highest_store_timestamp": "2026-11-21T11:30:00Z"},
    ],
    "check_cursor": [
        {"broker_name": "b", "queue_id": 1, "half_offset": None},
        {"broker_name": "b", "queue_id": 0, "half_offset": 17},
    ],
}  # fmt: skip


def test_a_broker_is_told_with_all_that_its_landings_found_out(warehouse, txmq):
    code, out, err = txmq("--warehouse", warehouse(ROWS), "brokers", "--format", "json")
    assert (code, err) == (0, "")
    first, second = [json.loads(line) for line in out.splitlines()]
    found = {name: first[name] for name in ("broker_name", "role", "read_to_timestamp", "check_cursors")}
    assert found == {
        "broker_name": "b", "role": "audit", "read_to_timestamp": "2026-11-21T11:30:00.000Z", "check_cursors": "0:17 1:none",
    }  # fmt: skip
    set_up = ROWS["broker_set_up"][0]
    assert {name: first[name] for name in set_up} == set_up
    assert (second["broker_name"], second["kind"], second["set_ups"], second["check_cursors"]) == (
        "files",
        None,
        None,
        None,
    )
    assert txmq("--warehouse", warehouse(ROWS), "brokers", "--broker", "files", "--format", "json")[1].count("\n") == 1


def test_limits_that_differ_are_told_by_the_status(warehouse, txmq):
    code, out, _ = txmq("--warehouse", warehouse(ROWS), "status", "--now", NOON, "--format", "json")
    status = json.loads(out)
    assert code == 0
    assert status["differing"] == [{"broker_name": "b", "differences": ROWS["broker_set_up"][0]["differences"]}]
    assert status["landed"] == [
        {"broker_name": "b", "read_to_timestamp": "2026-11-21T11:30:00.000Z", "set_ups": "controller, static_topics"}
    ]
    assert [(each["text"], each["command"]) for each in status["problems"]] == [
        ("b: transactionCheckMax is 3, and transaction_check_max here is 15", "brokers --broker b --wide")
    ]


def test_the_status_names_in_what_a_broker_is_not_set_up_as_by_default(warehouse, txmq):
    as_it_comes = {**ROWS["broker_set_up"][0], "broker_name": "plain", "set_ups": "", "differences": ""}
    unknown = {"topic": "T", "queue_id": 0, "highest_store_timestamp": "2026-11-21T11:00:00Z"}
    rows = ROWS | {
        "broker_set_up": [*ROWS["broker_set_up"], as_it_comes],
        "landing_frontier": [
            *ROWS["landing_frontier"],
            *({**unknown, "broker_name": name} for name in ("files", "plain")),
        ],
    }
    _, out, _ = txmq("--warehouse", warehouse(rows), "status", "--now", NOON)
    lines = out[out.index("LANDING") :].splitlines()[1:5]
    ends = {"b": "controller, static_topics", "files": " -", "plain": "as by default"}
    assert [line.split()[0] for line in lines[1:]] == [*ends]
    assert all(line.endswith(end) for line, end in zip(lines, ["set up", *ends.values()], strict=True)), lines
