"""What is asked about a transaction and what was said: a check, an answer, the protocol of a resolver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol

LONGEST_WORDS = 300

# Why an answer is unknown, or a rollback without a row.
ABSENT, UNMAPPED = "ABSENT", "UNMAPPED"
# Why there is no answer.
UNREACHABLE = "UNREACHABLE"
QUERY_FAILED = "QUERY_FAILED"
BAD_ANSWER = "BAD_ANSWER"
STATES_DIFFER = "STATES_DIFFER"
FOREIGN_KEYS = "FOREIGN_KEYS"
KEY_MISSING = "KEY_MISSING"
KEY_NOT_INTEGER = "KEY_NOT_INTEGER"
RESOLVER_UNUSABLE = "RESOLVER_UNUSABLE"


@dataclass(frozen=True)
class Check:
    """One question about one transaction, as raised (R65), with what of its half the resolver needs.

    half  columns of half_message; empty where the resolver needs none
    """

    broker_name: str
    transaction_id: str
    producer_group: str
    born_timestamp: datetime
    check_times: int
    check_timestamp: datetime
    asked_for: str
    queue_id: int
    tran_state_table_offset: int
    commit_log_offset: int
    offset_msg_id: str | None
    real_topic: str | None
    real_queue_id: int | None
    half: Mapping[str, Any]

    def with_half(self, half: Mapping[str, Any]) -> Check:
        """The same question with its half message at hand."""
        return replace(self, half=half)


@dataclass(frozen=True)
class Answer:
    """What was said: commit, rollback or unknown; None is no answer, and `reason` says why.

    state  what the database or endpoint said, in its own words
    """

    answer: str | None
    state: str | None = None
    reason: str | None = None
    detail: str | None = None


class Resolver(Protocol):
    """Knows the state of local transactions, or nothing at the moment.

    batch_size   checks it takes at once
    half_columns columns of half_message that a check must carry
    down         once set, why it need not be asked any more in this pass; it is then the answer to every check
    """

    batch_size: int
    half_columns: tuple[str, ...]
    down: Answer | None

    def answers(self, checks: Sequence[Check]) -> list[Answer]:
        """One answer per check, in order; never raises for what a database or endpoint does."""

    def close(self) -> None:
        """Let go of connections."""


def no_answer(reason: str, detail: str) -> Answer:
    """No answer, and why; what is not known to be decided stays pending."""
    return Answer(None, reason=reason, detail=in_few_words(detail))


def in_few_words(text: str) -> str:
    """The first line of `text`, not too long for a row."""
    return next(iter(text.strip().splitlines()), "")[:LONGEST_WORDS]
