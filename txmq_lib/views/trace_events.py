"""What every table knows of the transactions of some ids: each row as an event, with the transaction that it is of."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

from txmq_lib import names
from txmq_lib.names import END_KEY
from txmq_lib.views import story
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.scan import KeyValues, Scan
from txmq_lib.views.story import Event, Events, Key, Row, key_of
from txmq_lib.views.trace_checks import connected_events, stopped_events


def _split(columns: str) -> tuple[str, ...]:
    return tuple(columns.split())


def _keyed(columns: str) -> tuple[str, ...]:
    return (*names.TRANSACTION_KEY, *columns.split())


# Of one id, or one half, in one table. A producer may give one id to millions of messages.
MOST_ROWS = 1000

# A warehouse of 0.1.0 has none of them.
LATER_TABLES = ("check_answer", "manual_decision", "broker_request", "end_trace")

# Of rows that do not, or not only, name a transaction's id: by what else they are found.
FOUND_BY = {
    "op_message": ("half_queue_offset",),
    "end_outcome": ("commit_log_offset", "end_transaction_id"),
    "end_transaction": ("commit_log_offset", "transaction_id"),
}

COLUMNS = {
    "half_message": _keyed(
        "queue_id queue_offset commit_log_offset store_timestamp real_topic real_queue_id broker_check_times "
        "check_immunity prepared_queue_offset origin"
    ),
    "message": _keyed(
        "topic queue_id queue_offset commit_log_offset store_timestamp sys_flag prepared_transaction_offset origin"
    ),
    "trans_check_max_time": _keyed(
        "topic queue_id queue_offset commit_log_offset given_up_timestamp broker_check_times check_times reason "
        "real_topic origin"
    ),
    "check_request": _keyed(
        "check_times check_timestamp queue_id tran_state_table_offset commit_log_offset pass_number"
    ),
    "check_answer": _keyed(
        "check_times check_timestamp asked_for answer state reason resolver is_planned_for_broker answered_timestamp "
        "commit_log_offset"
    ),
    "manual_decision": _keyed(
        "action reason decided_by decided_timestamp former_verdict is_planned_for_broker commit_log_offset"
    ),
    "broker_request": _keyed(
        "action state code remark requested_for requested_by requested_timestamp address commit_log_offset pass_number"
    ),
    "pending_half": _keyed(
        "half_offsets broker_check_times check_times last_check_timestamp next_check_timestamp is_held"
    ),
    "verdict": _keyed(
        "real_topic verdict reason visible_count op_count half_count given_up_count contradicting_count check_times "
        "broker_check_times first_timestamp last_timestamp"
    ),
    "end_trace": _split(
        "broker_name queue_id queue_offset position transaction_id producer_group real_topic state is_from_check "
        "ended_timestamp client store_host"
    ),
    "op_message": _split("broker_name queue_id queue_offset position half_queue_offset store_timestamp origin"),
    "end_outcome": _split(
        "broker_name ts producer_group tran_state_table_offset commit_log_offset commit_or_rollback "
        "from_transaction_check end_transaction_id transaction_id half_queue_id half_queue_offset outcome "
        "decision code reason remark is_effective origin landed_pass landing_order is_held"
    ),
    "end_transaction": _split(
        "broker_name ts producer_group tran_state_table_offset commit_log_offset commit_or_rollback "
        "from_transaction_check transaction_id origin landed_pass landing_order"
    ),
}

# Those whose rows name the transaction they are of.
KEYED = (
    *("half_message", "message", "trans_check_max_time", "check_request", "check_answer"),
    *("manual_decision", "broker_request", "pending_half", "verdict"),
)


def found_events(
    reader: WarehouseReader, transaction_ids: Sequence[str], brokers: Sequence[str]
) -> Iterator[tuple[Key | None, Event]]:
    """The events of all transactions of these ids, in no order; without a key those that only name an id."""
    where = _named_by(transaction_ids, brokers)
    reader.open_ahead((*COLUMNS, "check_cursor", "connected_producer", "broker"))
    found = dict(zip(where, reader.side_by_side(lambda table: _rows(reader, table, where[table]), where), strict=True))
    found["broker_request"] = _last_told(found["broker_request"])
    parts: list[Callable[[], Events]] = [
        lambda: stopped_events(reader, found),
        lambda: connected_events(reader, found),
        lambda: _op_events(reader, found["half_message"]),
        lambda: _end_events(reader, found),
    ]
    of_parts = reader.side_by_side(_events_of_part, parts)
    return chain(_own_events(found), _client_events(found), *of_parts)


def _named_by(transaction_ids: Sequence[str], brokers: Sequence[str]) -> dict[str, tuple[KeyValues, ...]]:
    """Of each table whose rows name an id, the rows that name one of these.

    What is found only by the place of a half is asked for when that is known.
    """
    of_brokers: KeyValues = {"broker_name": brokers} if brokers else {}
    by_id: KeyValues = {"transaction_id": transaction_ids, **of_brokers}
    by_end_id: KeyValues = {"end_transaction_id": transaction_ids, **of_brokers}
    return {
        **dict.fromkeys((*KEYED, "end_transaction"), (by_id,)),
        "end_outcome": (by_id, by_end_id),
        # Whichever broker kept the record.
        "end_trace": ({"transaction_id": transaction_ids},),
    }


def _events_of_part(part: Callable[[], Events]) -> Events:
    return part()


def _rows(reader: WarehouseReader, table: str, where: tuple[KeyValues, ...]) -> list[dict[str, Any]]:
    scan = Scan(table, COLUMNS[table], where, may_be_missing=table in LATER_TABLES)
    return reader.rows(scan, most_per=(FOUND_BY.get(table, ("transaction_id",)), MOST_ROWS))


def _last_told(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Requests to brokers, without the rows from before they went out where their outcome is known."""

    def place(row: Row) -> Key:
        return (*key_of(row), row["action"], row["commit_log_offset"], row["pass_number"])

    ended = {place(row) for row in requests if row["state"] != names.REQUEST_SENDING}
    return [row for row in requests if row["state"] != names.REQUEST_SENDING or place(row) not in ended]


def _own_events(found: dict[str, list[dict[str, Any]]]) -> Events:
    prepared = [*found["half_message"], *found["trans_check_max_time"]]
    physical = {(key_of(row), row["commit_log_offset"]) for row in prepared}
    # The last told counts: the verdict's, else that of the first half row that has one.
    halves = sorted(found["half_message"], key=lambda row: row["commit_log_offset"], reverse=True)
    told_by = (*found["trans_check_max_time"], *halves, *found["verdict"])
    real_topics = {key_of(row): row["real_topic"] for row in told_by if row["real_topic"]}
    tellers = {
        "half_message": story.half_event,
        "trans_check_max_time": story.given_up_event,
        "check_request": story.check_event,
        "check_answer": story.answer_event,
        "manual_decision": story.decision_event,
        "broker_request": story.request_event,
        "pending_half": story.pending_event,
        "verdict": story.verdict_event,
    }
    events: Events = [(key_of(row), tell(row)) for table, tell in tellers.items() for row in found[table]]
    for row in found["message"]:
        is_visible = (
            row["sys_flag"] & names.SYS_FLAG_TRANSACTION_MASK == names.SYS_FLAG_COMMIT
            and row["topic"] == real_topics.get(key_of(row))
            and (key_of(row), row["prepared_transaction_offset"]) in physical
        )
        events.append((key_of(row), story.message_event(row, is_visible=is_visible)))
    return events


def _client_events(found: dict[str, list[dict[str, Any]]]) -> Events:
    """Ends that clients say they sent: of the transaction of that id and group, whichever broker kept the record.

    Where several have both (R66) they are of none for sure, and belong to the id alone.
    """
    known = sorted({key_of(row) for row in (*found["half_message"], *found["verdict"])}, key=str)
    keys = {(key[1], key[2]): [each for each in known if each[1:3] == key[1:3]] for key in known}
    ids = {key[1] for key in known}
    events: Events = []
    for row in found["end_trace"]:
        those = keys.get((row["transaction_id"], row["producer_group"]), [])
        # One of another group under a known id is of another message.
        if those or row["transaction_id"] not in ids:
            events.append((those[0] if len(those) == 1 else None, story.client_end_event(row)))
    return events


def _named_offset(half: dict[str, Any]) -> int:
    """By which offset an op names the half: its queue offset (R26), or its physical one (R117)."""
    is_of_rocksdb = half["queue_id"] == names.ROCKSDB_QUEUE_ID
    return int(half["commit_log_offset" if is_of_rocksdb else "queue_offset"])


def _op_events(reader: WarehouseReader, halves: list[dict[str, Any]]) -> Events:
    owners = {(row["broker_name"], row["queue_id"], _named_offset(row)): key_of(row) for row in halves}
    offsets: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for broker_name, queue_id, queue_offset in owners:
        offsets[broker_name, queue_id].append(queue_offset)
    if not offsets:
        return []
    where: tuple[KeyValues, ...] = tuple(
        {"broker_name": [broker_name], "queue_id": [queue_id], "half_queue_offset": named}
        for (broker_name, queue_id), named in offsets.items()
    )
    rows = _rows(reader, "op_message", where)
    places = [(row["broker_name"], row["queue_id"], row["half_queue_offset"]) for row in rows]
    return [(owners[place], story.op_event(row)) for place, row in zip(places, rows, strict=True)]


def _end_events(reader: WarehouseReader, found: dict[str, list[dict[str, Any]]]) -> Events:
    """What became of ends that name an id, and of those that only name the place of its half."""
    by_offset: defaultdict[str, dict[int, Key]] = defaultdict(dict)
    for row in found["half_message"]:
        by_offset[row["broker_name"]][row["commit_log_offset"]] = key_of(row)
    at_halves: tuple[KeyValues, ...] = tuple(
        {"broker_name": [name], "commit_log_offset": list(offsets)} for name, offsets in by_offset.items()
    )

    def ends(table: str) -> list[dict[str, Any]]:
        rows = [*found[table], *(_rows(reader, table, at_halves) if at_halves else [])]
        return list({tuple(row.values()): row for row in rows}.values())

    outcomes, received = reader.side_by_side(ends, ("end_outcome", "end_transaction"))
    final: dict[Key, dict[str, Any]] = {}
    for row in sorted(outcomes, key=lambda row: bool(row["is_held"]), reverse=True):
        final[tuple(row[name] for name in END_KEY)] = row
    judged = [(row, story.outcome_event(row)) for row in final.values()]
    # Where there are more outcomes than are read, nobody sees which ends have none.
    read = Counter((row["broker_name"], row["commit_log_offset"]) for row in outcomes)
    named = Counter(row["end_transaction_id"] for row in outcomes)
    waiting = [
        (row, story.end_event(row))
        for row in received
        if tuple(row[name] for name in END_KEY) not in final
        and read[row["broker_name"], row["commit_log_offset"]] < MOST_ROWS
        and (row["transaction_id"] is None or named[row["transaction_id"]] < MOST_ROWS)
    ]
    return [(by_offset[row["broker_name"]].get(row["commit_log_offset"]), event) for row, event in (*judged, *waiting)]
