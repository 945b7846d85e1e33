"""The story of a transaction: everything known about its id, in time order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from txmq_lib import names
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.scan import Scan
from txmq_lib.views.story import Event, Key, Row
from txmq_lib.views.trace_events import MOST_ROWS, found_events

NOT_TOLD = "not_told"
# At one instant a broker stores the half, then the message, then the op (R23).
ORDER_AT_ONE_TIME = (
    "half_message",
    "check_request",
    "check_answer",
    "manual_decision",
    "broker_request",
    "end_trace",
    "end_transaction",
    "end_outcome",
    "message",
    "op_message",
    "trans_check_max_time",
)
SHOWN_LAST = (NOT_TOLD, "pending_half", "check_cursor", "broker_set_up", "connected_producer", "verdict")


@dataclass(frozen=True)
class Story:
    """The events of one transaction; `key` is its TRANSACTION_KEY, None for ends that only name the id.

    role  that its broker's rows were made under, where it is recorded
    """

    key: Row | None
    events: tuple[Event, ...]
    role: str | None = None


def trace(reader: WarehouseReader, transaction_id: str, *, brokers: Sequence[str] = ()) -> list[Story]:
    """One story per transaction of this id, the oldest first; none where nothing is known."""
    return traces(reader, [transaction_id], brokers=brokers)[transaction_id]


def traces(
    reader: WarehouseReader, transaction_ids: Sequence[str], *, brokers: Sequence[str] = ()
) -> dict[str, list[Story]]:
    """The stories of several ids from as many reads as one takes; an id of which nothing is known has none."""
    events_of = {each: defaultdict[Key | None, list[Event]](list) for each in transaction_ids}
    found = found_events(reader, transaction_ids, brokers)
    recorded = reader.rows(Scan("broker", ("broker_name", "role"), may_be_missing=True))
    roles = {row["broker_name"]: row["role"] for row in recorded}
    for key, event in found:
        events_of[_id_of(key, event, events_of)][key].append(event)
    return {each: _stories(events, roles) for each, events in events_of.items()}


def _id_of(key: Key | None, event: Event, transaction_ids: Container[str]) -> str:
    """The id a row was found by: that of its transaction, else the one an end names."""
    named = (key[1] if key is not None else None, event.row.get("transaction_id"), event.row.get("end_transaction_id"))
    return str(next(each for each in named if each is not None and each in transaction_ids))


def _stories(events: dict[Key | None, list[Event]], roles: Mapping[str, str]) -> list[Story]:
    if None in events and len(events) == 2:
        events[next(key for key in events if key is not None)] += events.pop(None)
    counts = Counter(event.table for of_key in events.values() for event in of_key)
    more = [_not_told(table) for table, count in counts.items() if count >= MOST_ROWS]
    return [_story(key, [*events[key], *more], roles) for key in sorted(events, key=_oldest_first)]


def _not_told(table: str) -> Event:
    text = f"only {MOST_ROWS:,} rows of {table} are told for an id, and there may be more: query the table"
    return Event(None, NOT_TOLD, NOT_TOLD, text, {})


def _story(key: Key | None, events: list[Event], roles: Mapping[str, str]) -> Story:
    ordered = tuple(sorted(events, key=_in_time_order))
    if key is None:
        return Story(None, ordered)
    named = dict(zip(names.TRANSACTION_KEY, key, strict=True))
    return Story(named, ordered, roles.get(named["broker_name"]))


def _oldest_first(key: Key | None) -> tuple[Any, ...]:
    if key is None:
        return (True,)
    broker_name, _, producer_group, born_timestamp = key
    return (False, born_timestamp, broker_name, producer_group or "")


def _in_time_order(event: Event) -> tuple[Any, ...]:
    if event.table in SHOWN_LAST:
        return (True, SHOWN_LAST.index(event.table))
    offset = event.row.get("commit_log_offset")
    rank = ORDER_AT_ONE_TIME.index(event.table)
    return (False, event.time, rank, offset or 0, event.row.get("landed_pass", 0), event.row.get("landing_order", 0))
