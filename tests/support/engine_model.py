"""The engine role in plain Python, one transaction after the other: the reference the passes are held against.

Written from docs/pages/rules.md (R11-R18, R44-R52, R61-R73) and verdicts.md, with nothing of txmq_lib. Times are epoch ms.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

SYSTEM_TOPICS = {"RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"}
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
DECISIONS = {0: "unknown", 8: "commit", 12: "rollback"}


class Limits(NamedTuple):
    """A broker's limits; ms."""

    timeout_ms: int
    interval_ms: int
    check_max: int
    reserved_ms: int
    rolls_back_given_up: bool = False


class Transaction(NamedTuple):
    """What the copies of one half share (R56)."""

    transaction_id: str
    group: str | None
    born_ms: int


class Half(NamedTuple):
    """One half row: `place` is its physical offset."""

    transaction: Transaction
    offset: int
    place: int
    stored_ms: int
    real_topic: str | None
    real_queue: int | None
    immunity: str | None
    body: str


class End(NamedTuple):
    """One END_TRANSACTION as received."""

    ts: int
    group: str
    offset: int
    place: int
    code: int
    is_from_check: bool


class Judged(NamedTuple):
    """What became of an end."""

    outcome: str
    reason: str | None


class Check(NamedTuple):
    """A check raised."""

    transaction: Transaction
    times: int
    asked_ms: int
    offset: int


class GivenUp(NamedTuple):
    """A transaction given up; `place` is its newest half row then."""

    transaction: Transaction
    place: int
    times: int
    reason: str
    given_up_ms: int


class Visible(NamedTuple):
    """A restored message."""

    topic: str
    queue: int
    offset: int
    place: int
    body: str


class Pending(NamedTuple):
    """An undecided transaction after a pass."""

    offsets: tuple[int, ...]
    times: int
    asked_ms: int | None


@dataclass
class Engine:
    """All that landed and was decided, pass after pass."""

    limits: Limits
    halves: dict[int, Half] = field(default_factory=dict)
    places: dict[int, Half] = field(default_factory=dict)
    chains: dict[Transaction, list[Half]] = field(default_factory=lambda: defaultdict(list))
    waiting: list[tuple[tuple[int, int], End]] = field(default_factory=list)
    judged: dict[tuple[int, int], Judged] = field(default_factory=dict)
    decided: dict[Transaction, str] = field(default_factory=dict)
    contradicting: set[Transaction] = field(default_factory=set)
    visible: list[Visible] = field(default_factory=list)
    named_by_ops: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    given_up: list[GivenUp] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    pending: dict[Transaction, Pending] = field(default_factory=dict)
    conflicts: int = 0
    _seen: dict[End, int] = field(default_factory=lambda: defaultdict(int))
    _ends: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))

    def land_halves(self, halves: Iterable[Half]) -> None:
        """A half row lands once; its key with other content is kept out and counted."""
        for half in halves:
            if half.offset not in self.halves:
                self.halves[half.offset] = self.places[half.place] = half
                self.chains[half.transaction].append(half)
            elif self.halves[half.offset] != half:
                self.conflicts += 1

    def land_ends(self, batch: int, ends: Iterable[tuple[int, End]]) -> None:
        """Ends of one landing with their places in it: an equal one of an earlier landing is the same one."""
        in_this: dict[End, int] = defaultdict(int)
        for place, end in ends:
            in_this[end] += 1
            if in_this[end] > self._seen[end]:
                self.waiting.append(((batch, place), end))
        for end, times in in_this.items():
            self._seen[end] = max(self._seen[end], times)

    def reconcile(self, now: int) -> None:
        """One pass: settle, close, give up, ask."""
        self._settle(now)
        self._check(now)

    def verdicts(self) -> dict[Transaction, str]:
        """The verdict of every transaction, from what was decided here."""
        return {transaction: self._verdict(transaction) for transaction in self.chains}

    def _settle(self, now: int) -> None:
        in_order = sorted(self.waiting, key=lambda item: (item[1].ts, item[1].code, item[0]))
        self.waiting = []
        for key, end in in_order:
            reason, half = self._refusal(end, now), self.places.get(end.place)
            if reason is not None:
                self.judged[key] = Judged("refused", reason)
            elif end.code == 0:
                self.judged[key] = Judged("accepted", None)
            elif half is None:
                self.judged[key] = Judged("held", None)
                self.waiting.append((key, end))
            else:
                self.judged[key] = Judged(self._decide(half, DECISIONS[end.code]), None)

    def _refusal(self, end: End, now: int) -> str | None:
        if end.code not in DECISIONS:
            return "COMMIT_OR_ROLLBACK_WRONG"
        if end.code == 0:
            return None
        half = self.places.get(end.place)
        if half is None:
            if end.offset in self.halves:
                return "PREPARED_NOT_FOUND"
            return "HALF_NEVER_LANDED" if now - end.ts > self.limits.reserved_ms else None
        limit = max((java_long(half.immunity) or 0) * 1000, self.limits.timeout_ms)
        if half.immunity is not None and not end.is_from_check and end.ts - half.transaction.born_ms > limit:
            return "IMMUNITY_EXPIRED"
        faults = {
            "PRODUCER_GROUP_MISSING": half.transaction.group is None,
            "PRODUCER_GROUP_WRONG": half.transaction.group != end.group,
            "STATE_TABLE_OFFSET_WRONG": half.offset != end.offset,
            "REAL_TOPIC_MISSING": half.real_topic is None,
            "REAL_TOPIC_IS_SYSTEM": half.real_topic in SYSTEM_TOPICS,
            "REAL_QUEUE_MISSING": half.real_queue is None or half.real_queue < 0,
        }
        return next((reason for reason, holds in faults.items() if holds), None)

    def _decide(self, half: Half, decision: str) -> str:
        before = self.decided.get(half.transaction)
        if before is not None:
            if before == decision:
                return "repeated"
            self.contradicting.add(half.transaction)
            return "contradicting"
        self.decided[half.transaction] = decision
        self.named_by_ops[half.offset] += 1
        if decision == "commit":
            queue = (half.real_topic or "", half.real_queue or 0)
            self.visible.append(Visible(*queue, self._ends[queue], half.place, half.body))
            self._ends[queue] += 1
        return "accepted"

    def _check(self, now: int) -> None:
        before, self.pending = self.pending, {}
        for transaction, chain in self.chains.items():
            if self._is_closed(transaction):
                continue
            newest = max(chain, key=lambda half: half.place)
            known = before.get(transaction)
            times, asked_ms = (known.times, known.asked_ms) if known is not None else (0, None)
            limits = self.limits
            is_due = self._is_old_enough(newest, now) if asked_ms is None else now - asked_ms >= limits.interval_ms
            if now - transaction.born_ms > limits.reserved_ms:
                self._give_up(newest, times, "expired", now)
                continue
            if is_due and times >= limits.check_max:
                self._give_up(newest, times, "check_max", now)
                continue
            if is_due:
                times, asked_ms = times + 1, now
                self.checks.append(Check(transaction, times, now, newest.offset))
            self.pending[transaction] = Pending(tuple(sorted(half.offset for half in chain)), times, asked_ms)

    def _is_closed(self, transaction: Transaction) -> bool:
        if transaction in self.decided:
            return True
        last = max((gone.place for gone in self.given_up if gone.transaction == transaction), default=None)
        return last is not None and max(half.place for half in self.chains[transaction]) <= last

    def _is_old_enough(self, half: Half, now: int) -> bool:
        age = now - half.transaction.born_ms
        if half.immunity is None:
            # Born in the future: asked at once (R52 c).
            return age > self.limits.timeout_ms or age < 0
        seconds = java_long(half.immunity)
        limit = self.limits.timeout_ms if seconds in (None, -1) else seconds * 1000
        return age > limit

    def _give_up(self, newest: Half, times: int, reason: str, now: int) -> None:
        self.given_up.append(GivenUp(newest.transaction, newest.place, times, reason, now))
        if self.limits.rolls_back_given_up:
            self.decided[newest.transaction] = "rollback"
            self.named_by_ops[newest.offset] += 1

    def _verdict(self, transaction: Transaction) -> str:
        chain = self.chains[transaction]
        places = {half.place for half in chain}
        times_visible = sum(message.place in places for message in self.visible)
        gone = [row for row in self.given_up if row.transaction == transaction]
        if times_visible >= 2:
            return "DUPLICATED"
        if transaction in self.contradicting:
            return "CONFLICT"
        if times_visible:
            return "COMMITTED_AND_DISCARDED" if gone else "COMMITTED"
        if any(self.named_by_ops[half.offset] for half in chain):
            return "ROLLED_BACK"
        if gone and max(half.place for half in chain) <= max(row.place for row in gone):
            return "DISCARDED"
        return "PENDING"


def java_long(text: str | None) -> int | None:
    """Java's Long.parseLong: a sign, ASCII digits, 64 bits; None where it throws."""
    if text is None:
        return None
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits or any(one not in "0123456789" for one in digits):
        return None
    value = int(text)
    return value if LONG_MIN <= value <= LONG_MAX else None
