"""What a capture of a real broker means, worked out in plain Python from its rows: the expected values of tests.

Independent of the rules under test: dictionaries and loops over the jsonl files, by the table of docs/pages/verdicts.md.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

CAPTURES = Path(__file__).parents[1] / "captures"
Row = dict[str, Any]

# How many transactions have which verdict, by capture.
VERDICT_COUNTS = {
    "basic": {
        "COMMITTED": 290,
        "ROLLED_BACK": 55,
        "CONFLICT": 14,
        "DISCARDED": 11,
        "COMMITTED_AND_DISCARDED": 4,
        "DUPLICATED": 2,
        "DIVERTED": 1,
    },
    "consumer": {"COMMITTED": 978, "ROLLED_BACK": 85},
    # Counted from the rows of these two captures by what follows.
    "mixed": {
        "COMMITTED": 268,
        "DISCARDED": 114,
        "ROLLED_BACK": 110,
        "COMMITTED_AND_DISCARDED": 6,
        "DUPLICATED": 1,
        "CONFLICT": 1,
    },
    "restart": {"COMMITTED": 46, "DUPLICATED": 9, "DISCARDED": 5, "ROLLED_BACK": 5},
}


class Transaction(NamedTuple):
    """A transaction's key, as a capture tells it."""

    transaction_id: str
    born_ms: int


def rows(capture: str, name: str) -> list[Row]:
    """The rows of one jsonl file of a capture; none where the capture has no such file."""
    path = CAPTURES / capture / f"{name}.jsonl.gz"
    if not path.exists():
        return []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def key_of(row: Row) -> Transaction:
    """The transaction a half, given-up or visible row belongs to."""
    return Transaction(row["properties"]["UNIQ_KEY"], row["bornTimestamp"])


class Facts(NamedTuple):
    """The rows of one broker up to some moment."""

    half: list[Row]
    op: list[Row]
    visible: list[Row]
    max_time: list[Row]

    def until(self, store_ms: int) -> Facts:
        """Only what was stored up to a moment."""
        return Facts(*[[row for row in kind if row["storeTimestamp"] <= store_ms] for kind in self])


def facts(capture: str) -> Facts:
    """All rows of a capture."""
    return Facts(*[rows(capture, name) for name in ("half", "op", "visible", "max_time")])


class Counted(NamedTuple):
    """What counts for a verdict."""

    visible: int
    ops: int
    given_up: bool
    is_resumed: bool
    verdict: str


def verdicts(facts: Facts) -> dict[Transaction, Counted]:
    """The verdict of every transaction with a half row."""
    copies: dict[Transaction, list[Row]] = defaultdict(list)
    for half in facts.half:
        copies[key_of(half)].append(half)
    ops: dict[int, int] = defaultdict(int)
    for op in facts.op:
        for token in op["body"].split(","):
            if token:
                ops[int(token)] += 1
    given_up: dict[Transaction, list[Row]] = defaultdict(list)
    for row in facts.max_time:
        given_up[key_of(row)].append(row)
    committed = _committed(facts.visible)
    return {key: _counted(chain, ops, given_up[key], committed) for key, chain in copies.items()}


def said(facts: Facts) -> dict[Transaction, str]:
    """The verdict of every transaction with a half row, as far as these rows show it.

    What has the id of a committed message whose half is not among them is not undecided: that message may be its own.
    """
    found = {key: counted.verdict for key, counted in verdicts(facts).items()}
    orphaned = _ids_without_half(facts)
    for key, verdict in found.items():
        if verdict in ("PENDING", "DISCARDED") and key.transaction_id in orphaned:
            found[key] = "RESOLVED_UNKNOWN"
    return found


def _ids_without_half(facts: Facts) -> set[str]:
    there = {(row["commitLogOffset"], row["properties"]["UNIQ_KEY"]) for row in (*facts.half, *facts.max_time)}
    committed = [row for row in facts.visible if row["sysFlag"] & 0xC == 8 and not _is_no_real_topic(row["topic"])]
    named = {(row["preparedTransactionOffset"], row["properties"].get("UNIQ_KEY")) for row in committed}
    return {name for place, name in named - there if place > 0 and name is not None}


def _is_no_real_topic(topic: str) -> bool:
    return topic.startswith(("%RETRY%", "%DLQ%", "rmq_sys_")) or topic == "SCHEDULE_TOPIC_XXXX"


def pending(facts: Facts) -> set[Transaction]:
    """Transactions with no op, no visible and no given-up row; a resumed one is pending again."""
    return {
        key
        for key, counted in verdicts(facts).items()
        if not counted.visible and not counted.ops and (not counted.given_up or counted.is_resumed)
    }


def _committed(visible: Iterable[Row]) -> dict[tuple[str, str, int], int]:
    found: dict[tuple[str, str, int], int] = defaultdict(int)
    for row in visible:
        if row["sysFlag"] & 0xC == 8:
            found[(row["topic"], row["properties"]["UNIQ_KEY"], row["preparedTransactionOffset"])] += 1
    return found


def _counted(
    chain: list[Row], ops: dict[int, int], given_up: list[Row], committed: dict[tuple[str, str, int], int]
) -> Counted:
    topic = chain[0]["properties"].get("REAL_TOPIC", "")
    unique_key = chain[0]["properties"]["UNIQ_KEY"]
    places = [row["commitLogOffset"] for row in (*chain, *given_up)]
    visible = sum(committed.get((topic, unique_key, place), 0) for place in places)
    named = sum(ops.get(row["queueOffset"], 0) for row in chain)
    last_half = max(row["commitLogOffset"] for row in chain)
    is_resumed = bool(given_up) and all(row["commitLogOffset"] < last_half for row in given_up)
    return Counted(visible, named, bool(given_up), is_resumed, _verdict(visible, named, bool(given_up), is_resumed))


def _verdict(visible: int, ops: int, given_up: bool, is_resumed: bool) -> str:
    if visible >= 2:
        return "DUPLICATED"
    if visible == 1:
        if ops >= 2:
            return "CONFLICT"
        if given_up:
            return "COMMITTED_AND_DISCARDED"
        return "COMMITTED" if ops else "COMMITTED_OP_LOST"
    if ops:
        return "ROLLED_BACK"
    return "DISCARDED" if given_up and not is_resumed else "PENDING"
