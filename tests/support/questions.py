"""Checks as a resolver is asked them, without Spark."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from moment import NOW

from txmq_lib.answers.protocol import Check


def check(transaction_id: str = "T", *, age_s: float = 60, **half: Any) -> Check:
    """The first check of a transaction of that age; `half` is what its half message has."""
    born = NOW - timedelta(seconds=age_s)
    return Check("b", transaction_id, "PG", born, 1, NOW, "check", 0, 5, 500, "O", "TopicA", 0, half)
