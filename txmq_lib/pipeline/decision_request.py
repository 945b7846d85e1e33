"""What a person asks `settle`, `resume`, `hold` and `release` for, and what is said of their plan. Needs no Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from txmq_lib.names import (
    ACTION_HOLD,
    ACTION_RELEASE,
    ACTION_RESUME,
    COMMIT,
    PLAN_BROKERS,
    PLAN_EXPIRED,
    PLAN_HELD_BEFORE,
    PLAN_RESUMED_BEFORE,
    PLAN_SETTLED_BEFORE,
    ROLLBACK,
)

LEFT_ALONE = {
    PLAN_EXPIRED: "older than the reserved time: given up again at once if resumed; settle them instead",
    PLAN_BROKERS: "given up by a broker, which alone can resume them: ask it with --to-broker",
    PLAN_SETTLED_BEFORE: "settled so before: reconcile applies it",
    PLAN_RESUMED_BEFORE: "resumed before",
    PLAN_HELD_BEFORE: "held, or not, as it was before",
}
DOING = frozenset({COMMIT, ROLLBACK, ACTION_RESUME, ACTION_HOLD, ACTION_RELEASE})
# The most telling first: a narrow screen shows no more.
PLAN_COLUMNS = (
    *("action", "transaction_id", "verdict", "producer_group", "broker_name", "born_timestamp"),
    *("real_topic", "tran_state_table_offset", "commit_log_offset"),
)

Planned = dict[str, Any]


@dataclass(frozen=True)
class DecisionRequest:
    """Which transactions a person means, and what is recorded of the decision.

    None and () leave open; `born_ms` tells twins of one id apart (R66)
    """

    transaction_ids: Sequence[str] = ()
    groups: Sequence[str] = ()
    brokers: Sequence[str] = ()
    born_ms: int | None = None
    decision: str = ACTION_RESUME
    reason: str | None = None
    decided_by: str = ""

    def to_arguments(self) -> dict[str, Any]:
        """As the plan of a pass records it."""
        return {
            "transaction_ids": list(self.transaction_ids),
            "groups": list(self.groups),
            "brokers": list(self.brokers),
            "born_ms": self.born_ms,
            "decision": self.decision,
            "reason": self.reason,
            "decided_by": self.decided_by,
        }


@dataclass(frozen=True)
class ToSend:
    """What is to be sent: answers that `resolve` planned, or what `settle`, `resume` or `resend` mean by `request`."""

    requested_for: str
    request: DecisionRequest

    def to_arguments(self) -> dict[str, Any]:
        """As the plan of a pass records it."""
        return {"requested_for": self.requested_for, **self.request.to_arguments()}


def findings(plan: Sequence[Planned], sends_to: Sequence[str]) -> Iterator[str]:
    """What a person should know of a plan: what is left as it is and why, and what is not sent."""
    actions = Counter(row["action"] for row in plan if not _is_to_send(row))
    yield from (f"{actions[action]} {words}" for action, words in LEFT_ALONE.items() if actions[action])
    has_to_send = any(map(_is_to_send, plan))
    if has_to_send or any(row["is_brokers"] for row in to_do(plan)):
        servers = ", ".join(sends_to)
        sent = f"END_TRANSACTION with these offsets is sent to it, found by name server {servers}"
        before = "settled so before, and " if has_to_send else ""
        yield f"{before}its broker decides: {sent if servers else 'the end is recorded; --to-broker sends it'}"


def to_do(plan: Sequence[Planned]) -> list[Planned]:
    """The rows of a plan that change anything."""
    return [row for row in plan if row["action"] in DOING]


def left_alone(plan: Sequence[Planned]) -> Counter[str]:
    """How many rows of a plan change nothing, by what is planned of them."""
    return Counter(row["action"] for row in plan if row["action"] not in DOING)


def _is_to_send(row: Planned) -> bool:
    return bool(row["is_brokers"]) and row["action"] == PLAN_SETTLED_BEFORE
