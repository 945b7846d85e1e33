"""What clients say they sent, beside what a verdict says: it is shown with it and changes none. Reads nothing."""

from __future__ import annotations

from collections.abc import Sequence

from txmq_lib import names
from txmq_lib.views.story import Event, Row

MOST_NAMED = 4
# The end that each of these verdicts shows to have been taken.
TAKEN = {
    names.DUPLICATED: names.COMMIT,
    names.COMMITTED: names.COMMIT,
    names.COMMITTED_AND_DISCARDED: names.COMMIT,
    names.COMMITTED_OP_LOST: names.COMMIT,
    names.ROLLED_BACK: names.ROLLBACK,
}


def client_ends(events: Sequence[Event]) -> str | None:
    """The ends of a story that clients put into the trace topic, in words; None where there is none."""
    said = [_words(event.row) for event in events if event.table == "end_trace"]
    more = f" and {len(said) - MOST_NAMED} more" if len(said) > MOST_NAMED else ""
    return f"its clients say they sent {'; '.join(said[:MOST_NAMED])}{more}" if said else None


def said_states(events: Sequence[Event]) -> frozenset[str]:
    """`commit`, `rollback`, both or none: what clients say they decided."""
    states = {str(event.row["state"]) for event in events if event.table == "end_trace"}
    return frozenset(states & {names.COMMIT, names.ROLLBACK})


def contradicts(verdict: str, events: Sequence[Event]) -> bool:
    """Whether a verdict shows an end that no client says it sent, while they say they sent the other one."""
    states = said_states(events)
    return bool(states) and verdict in TAKEN and TAKEN[verdict] not in states


def _words(row: Row) -> str:
    to_check = " to a check" if row["is_from_check"] else ""
    return f"{row['state']}{to_check} at {row['ended_timestamp']} from {row['client'] or 'an unknown address'}"
