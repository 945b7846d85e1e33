"""What a verdict means, why a transaction is undecided, and what to do about it. Reads nothing."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from txmq_lib import names
from txmq_lib.views.story import Event, counted

MEANING = {
    names.DUPLICATED: "visible more than once: an end was accepted twice",
    names.CONFLICT: "visible, with a second end accepted: most likely a commit and a rollback",
    names.COMMITTED_AND_DISCARDED: "visible, and given up as well: the commit came late",
    names.COMMITTED_OP_LOST: "visible, but its op was lost: the broker will ask again",
    names.COMMITTED: "visible once",
    names.ROLLED_BACK: "rolled back, never visible",
    names.RESOLVED_UNKNOWN: "decided, but its real topic can no longer be read: commit or rollback is not known",
    names.DISCARDED: "given up after the last check: nobody decided it",
    names.DIVERTED: "its half went to the schedule or timer topic and never was under check",
    names.EXPIRED_UNSEEN: "too old to be checked, and never given up",
    names.PENDING: "undecided",
}
SETTLE = "txmq settle {id} --commit (or --rollback) --reason TEXT"
TO_DO = {
    names.DUPLICATED: "consumers must drop repeats by UNIQ_KEY",
    names.CONFLICT: "compare with the database of record",
    names.COMMITTED_AND_DISCARDED: "nothing to resend",
    names.COMMITTED_OP_LOST: "expect a second delivery",
    names.RESOLVED_UNKNOWN: "land more of the real topic; else ask the database of record",
    names.DISCARDED: f"ask the database of record, then {SETTLE}\n"
    "or have it asked again: txmq resume {id}\n"
    "where a broker decides, both with --to-broker",
    names.DIVERTED: "fix the producer: a delay or timer property took the half away; it is lost for its topic",
    names.EXPIRED_UNSEEN: f"ask the database of record, then {SETTLE}\n"
    "with --to-broker, while the broker still keeps its half; and check the broker's retention",
    names.PENDING: "wait for the next check, or configure a resolver for {group}\n"
    f"or ask the database of record, then {SETTLE}\n"
    "where a broker decides, with --to-broker",
}
# What txmq itself decided reads otherwise: it applies one end, and gives up what has grown too old without a check.
CONTRADICTED = "decided, and an end that says otherwise came later: it was not applied, the first one counts"
GIVEN_UP_EXPIRED = "given up when it grew older than the reserved time: nobody decided it"
UNDECIDED = (names.PENDING, names.DISCARDED, names.EXPIRED_UNSEEN)
DECIDING = ("check_answer", "manual_decision", "broker_request", "end_transaction", "end_outcome")


@dataclass(frozen=True)
class Advice:
    """A verdict in words; `why` only of what is undecided, `to_do` in lines."""

    meaning: str
    why: str | None
    to_do: tuple[str, ...]


def advice(events: Sequence[Event]) -> Advice | None:
    """What the events of one transaction, in time order, call for; None where nothing is to be done."""
    row = next((event.row for event in events if event.event == "verdict"), None)
    if row is None or row["verdict"] not in TO_DO:
        return None
    verdict = row["verdict"]
    is_expired = any(event.row["reason"] == names.GIVEN_UP_EXPIRED for event in events if event.event == "given_up")
    meaning, to_do = MEANING[verdict], TO_DO[verdict]
    if verdict == names.CONFLICT and row["op_count"] < 2:
        meaning = CONTRADICTED
    elif verdict == names.DISCARDED and is_expired:
        meaning, to_do = GIVEN_UP_EXPIRED, f"ask the database of record, then {SETTLE}"
    named = {"id": shlex.quote(row["transaction_id"]), "group": row["producer_group"] or "its group"}
    lines = tuple(line.format(**named) for line in to_do.split("\n"))
    return Advice(meaning, _why(events) if verdict in UNDECIDED else None, lines)


def _why(events: Sequence[Event]) -> str:
    by_txmq = sum(event.event == "check_asked" for event in events)
    by_broker = max(
        (event.row["broker_check_times"] or 0 for event in events if event.table == "half_message"), default=0
    )
    askers = ((by_broker, "a broker"), (by_txmq, "txmq"))
    asked = [f"asked {counted(count, 'time')} by {who}" for count, who in askers if count]
    last = next((event.text for event in reversed(events) if event.table in DECIDING), None)
    told = "no answer and no end has landed" if last is None else f"last came: {last}"
    return f"{', '.join(asked) or 'never asked about'}; {told}"
