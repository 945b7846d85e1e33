"""Audit role at any moment: what is pending is what no row of the broker has decided by then."""

from __future__ import annotations

import pytest
import truth
from truth import Transaction

pytestmark = pytest.mark.long

AUDIT = "role=audit"
FILES = {"half": "half", "op": "op", "message": "visible", "max-time": "max_time"}


def test_pending_is_right_at_every_instant_landed_at_once_or_one_after_another(open_house):
    everything = truth.facts("basic")
    times = sorted(row["storeTimestamp"] for rows in everything for row in rows)
    instants = [times[len(times) * part // 11] for part in range(1, 11)]
    growing = open_house(AUDIT, name="growing")
    landed: set[tuple] = set()
    seen_pending = 0
    for number, instant in enumerate(instants):
        landed_by_then = everything.until(instant)
        for kind, rows in zip(FILES, landed_by_then, strict=True):
            new = [row for row in rows if (kind, row["topic"], row["queueId"], row["queueOffset"]) not in landed]
            landed |= {(kind, row["topic"], row["queueId"], row["queueOffset"]) for row in new}
            if new:
                growing.land_rows(kind, new)
        growing.reconcile()
        assert open_transactions(growing) == truth.pending(landed_by_then), f"instant {number}"
        seen_pending += len(truth.pending(landed_by_then))
        if number in (1, 5, 9):
            at_once = open_house(AUDIT, name=f"at-once-{number}")
            for kind, rows in zip(FILES, landed_by_then, strict=True):
                if rows:
                    at_once.land_rows(kind, rows)
            at_once.reconcile()
            assert open_transactions(at_once) == truth.pending(landed_by_then), f"at once, instant {number}"
    assert seen_pending > 50


def open_transactions(house) -> set[Transaction]:
    return {
        Transaction(row["transaction_id"], int(row["born_timestamp"].timestamp() * 1000 + 0.5))
        for row in house.rows("pending_half")
    }
