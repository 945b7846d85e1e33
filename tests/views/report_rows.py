"""Rows for a report that has something in every section; names in them are as hostile as messages may be."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from moment import NOW

HOSTILE = "</script><img src=x onerror=alert(1)>\"'{{7*7}}&amp;"


def ago(minutes: float) -> str:
    return (NOW - timedelta(minutes=minutes)).isoformat()


def rows(group: str = HOSTILE, pending: int = 3) -> dict[str, list[dict[str, Any]]]:
    """Every section has figures; `group` stands wherever a message may put words of its own."""

    def verdict(transaction_id: str, name: str, first: float, last: float, **more: Any) -> dict[str, Any]:
        return {
            "transaction_id": transaction_id, "verdict": name, "producer_group": group, "real_topic": group,
            "first_timestamp": ago(first), "last_timestamp": ago(last), "born_timestamp": ago(first),
            "is_settled": name != "PENDING", "broker_name": "b", **more,
        }  # fmt: skip

    return {
        "pending_half": [
            {"transaction_id": f"P{n}", "producer_group": group, "first_store_timestamp": ago(n % 3000),
             "last_store_timestamp": ago(n % 3000), "next_check_timestamp": ago(-1)}
            for n in range(pending)
        ],
        "verdict": [
            verdict("COMMITTED1", "COMMITTED", 90, 89, check_times=2, broker_check_times=1),
            verdict("ROLLED1", "ROLLED_BACK", 80, 60),
            verdict("PENDING1", "PENDING", 70, 70),
            verdict(f"DUPLICATED{group}", "DUPLICATED", 60, 49, visible_count=2, op_count=1),
            verdict("CONFLICT1", "CONFLICT", 55, 50, visible_count=1, op_count=2, contradicting_count=1),
            verdict("DISCARDED1", "DISCARDED", 50, 40, given_up_count=1),
        ],
        "half_message": [
            {"transaction_id": f"DUPLICATED{group}", "producer_group": group, "born_timestamp": ago(60),
             "broker_name": "b", "store_timestamp": ago(60), "real_topic": group, "real_queue_id": 0}
        ],
        "trans_check_max_time": [
            {"transaction_id": "DISCARDED1", "producer_group": group, "reason": "check_max",
             "given_up_timestamp": ago(40)}
        ],
        "check_request": [{"transaction_id": "PENDING1", "check_timestamp": ago(10)}],
        "consumer_offset": [
            {"broker_name": "b", "consumer_group": group, "topic": "T", "queue_id": 0, "next_offset": 40,
             "updated_timestamp": ago(30), "last_report_timestamp": ago(30), "rewind_count": 1,
             "rewinds": [{"ts": NOW - timedelta(minutes=35), "from_offset": 45, "to_offset": 20, "client_id": group}]}
        ],
        "consumer_offset_commit": [
            {"broker_name": "b", "consumer_group": group, "topic": "T", "queue_id": 0, "ts": ago(minutes),
             "next_offset": offset, "is_increase_only": offset != 20, "content_hash": offset}
            for minutes, offset in ((80, 10), (50, 45), (35, 20), (30, 40))
        ],
        "landing_frontier": [
            {"broker_name": "b", "topic": "T", "queue_id": 0, "next_offset": 50, "highest_store_timestamp": ago(5)}
        ],
        "message": [
            {"broker_name": "b", "topic": "T", "queue_id": 0, "queue_offset": n, "store_timestamp": ago(90 - n)}
            for n in range(50)
        ],
        "quarantine": [{"reason": "BROKEN_JSON", "quarantined_timestamp": ago(3)}],
        "pass": [
            {"job": "land", "pass_number": 1, "state": "committed", "wall_timestamp": ago(2),
             "seconds": [("half", 1.5)]}
        ],
    }  # fmt: skip
