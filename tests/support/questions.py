"""Checks as a resolver is asked them, without Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from txmq_lib.answers.protocol import Check

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def check(transaction_id: str = "T", *, age_s: float = 60, **half: Any) -> Check:
    """The first check of a transaction of that age; `half` is what its half message has."""
    born = NOW - timedelta(seconds=age_s)
    return Check("b", transaction_id, "PG", born, 1, NOW, "check", 0, 5, 500, "O", "TopicA", 0, half)
