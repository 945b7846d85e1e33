"""Groups, a row each: which one is behind, whose transactions hang."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from moment import NOW as NOON

NOW = ("--now", NOON.isoformat(), "--format", "json")


def before(minutes: float) -> str:
    return (NOON - timedelta(minutes=minutes)).isoformat()


def place(group: str, queue: int, broker: str = "b", topic: str = "T") -> dict[str, Any]:
    return {"broker_name": broker, "consumer_group": group, "topic": topic, "queue_id": queue}


def consumed(group: str, queue: int, offset: int, minutes: float, **more: Any) -> dict[str, Any]:
    moments = {"updated_timestamp": before(minutes), "last_report_timestamp": before(minutes)}
    return {**place(group, queue, **more), "next_offset": offset, **moments}


# Two queues of ten messages each, the last stored at noon and the others hours before; the window is ten minutes.
WAREHOUSE = {
    "message": [
        {"broker_name": "b", "topic": "T", "queue_id": queue, "queue_offset": n, "store_timestamp": before(minutes)}
        for queue in (0, 1)
        for n, minutes in enumerate([300] * 9 + [0])
    ],
    "landing_frontier": [
        {
            **{"broker_name": "b", "topic": "T", "queue_id": queue, "next_offset": 10, "is_end_known": True},
            **{"lowest_kept_offset": 0, "highest_store_timestamp": before(0)},
        }
        for queue in (0, 1)
    ],
    "consumer_offset": [
        {**consumed("BEHIND", 0, 4, 200), "rewind_count": 2},
        consumed("BEHIND", 1, 10, 1),
        consumed("WELL", 0, 10, 1),
        consumed("WELL", 1, 9, 2),
        consumed("ELSEWHERE", 0, 3, 1, broker="c"),
    ],
    "pending_half": [
        {"transaction_id": "P1", "producer_group": "GID_A", "first_store_timestamp": before(90), "check_times": 3},
        {
            "transaction_id": "P2",
            "producer_group": "GID_A",
            "first_store_timestamp": before(30),
            "broker_check_times": 7,
        },
        {"transaction_id": "P3", "producer_group": None, "first_store_timestamp": before(5)},
    ],
    "verdict": [
        {"transaction_id": str(n), "producer_group": group, "verdict": verdict, "last_timestamp": before(n)}
        for n, (group, verdict) in enumerate(
            [
                ("GID_A", "PENDING"),
                ("GID_A", "COMMITTED"),
                ("GID_A", "COMMITTED"),
                ("GID_A", "DISCARDED_UNSEEN"),
                ("GID_B", "ROLLED_BACK"),
                ("GID_B", "CONFLICT"),
                ("GID_B", "DUPLICATED"),
                ("GID_B", "RESOLVED_UNKNOWN"),
            ]
        )
    ],
}


@pytest.fixture
def shown(warehouse, txmq):
    uri = warehouse(WAREHOUSE)

    def rows(*arguments: str) -> list[dict[str, Any]]:
        status, out, err = txmq("--warehouse", uri, "--set", "lag_window=10m", *arguments)
        assert (status, err) == (0, "")
        return [json.loads(line) for line in out.splitlines()]

    return rows


def test_consumer_groups_come_worst_first_and_say_how_far_behind_they_are(shown):
    behind, elsewhere, well = shown("groups", *NOW)
    assert behind == {
        **{"consumer_group": "BEHIND", "topics": 1, "queues": 2, "lag": 6, "oldest_waiting_ms": 300 * 60_000},
        **{"worst_state": "stopped", "queues_in_it": 1, "newest_report_timestamp": "2026-11-21T11:59:00.000Z"},
        **{"rewinds": 2, "broker_name": "b"},
    }
    assert (well["consumer_group"], well["lag"], well["worst_state"], well["queues_in_it"]) == ("WELL", 1, "fine", 2)
    # Of the queue of another broker nothing is known but the offset.
    assert (elsewhere["lag"], elsewhere["worst_state"], elsewhere["broker_name"]) == (None, "unknown", "c")


def test_groups_agree_with_the_queues_of_offsets(shown):
    queues = shown("offsets", *NOW)
    for group in shown("groups", *NOW):
        own = [row for row in queues if row["consumer_group"] == group["consumer_group"]]
        assert group["queues"] == len(own)
        assert group["queues_in_it"] == sum(row["lag_state"] == group["worst_state"] for row in own)
        assert (group["lag"] or 0) == sum(row["lag"] or 0 for row in own)


def test_producer_groups_come_with_what_hangs_and_what_became_of_the_rest(shown):
    first, nobody, second = shown("producers", "--format", "json")
    assert first == {
        **{"producer_group": "GID_A", "pending": 2, "oldest_timestamp": "2026-11-21T10:30:00.000Z"},
        **{"oldest_transaction_id": "P1", "most_checks": 7, "given_up": 1, "contradicted": 0, "unproved": 0},
        **{"committed": 2, "rolled_back": 0, "newest_timestamp": "2026-11-21T12:00:00.000Z"},
        "clients": None,  # no live broker told
    }
    assert (nobody["producer_group"], nobody["pending"], nobody["newest_timestamp"]) == (None, 1, None)
    assert (second["producer_group"], second["pending"], second["oldest_timestamp"]) == ("GID_B", 0, None)
    assert (second["contradicted"], second["unproved"], second["rolled_back"]) == (2, 1, 1)


def test_one_group_or_broker_can_be_asked_for(shown, warehouse, txmq):
    assert [row["consumer_group"] for row in shown("groups", "--group", "WELL", *NOW)] == ["WELL"]
    assert [row["consumer_group"] for row in shown("groups", "--broker", "c", *NOW)] == ["ELSEWHERE"]
    assert [row["producer_group"] for row in shown("producers", "--group", "GID_B", "--format", "json")] == ["GID_B"]
    landed = {"half_message": [{"producer_group": "GID_ORDERS"}]}
    status, out, err = txmq("--warehouse", warehouse(landed), "producers", "--group", "GID_ORDER", "--format", "json")
    assert (status, out) == (1, "")
    assert err.splitlines() == ["no producer groups", "no group GID_ORDER has landed; there is GID_ORDERS"]


def test_every_verdict_and_lag_state_has_its_column_or_rank():
    from txmq_lib import names
    from txmq_lib.views.groups import COUNTED, WORST_FIRST

    assert sorted(WORST_FIRST) == sorted(names.LAG_STATES)
    counted = [verdict for verdicts in COUNTED.values() for verdict in verdicts]
    assert sorted([*counted, *names.STILL_ASKED]) == sorted(names.VERDICTS)
