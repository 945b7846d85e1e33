"""Everything known about one transaction id, in time order, put together from small reads of every table."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

from txmq_lib import names
from txmq_lib.names import END_KEY
from txmq_lib.views import story
from txmq_lib.views.connected import connected
from txmq_lib.views.cursors import not_looking_into_rocksdb, passed_over, stopped_checks
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.scan import KeyValues, Scan
from txmq_lib.views.story import Event, Row


def _split(columns: str) -> tuple[str, ...]:
    return tuple(columns.split())


def _keyed(columns: str) -> tuple[str, ...]:
    return (*names.TRANSACTION_KEY, *columns.split())


# Of one id, or one half, in one table. A producer may give one id to millions of messages.
MOST_ROWS = 1000
NOT_TOLD = "not_told"

# A warehouse of 0.1.0 has none of them.
LATER_TABLES = ("check_answer", "manual_decision", "broker_request")
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
# Those whose rows name the transaction they are of.
KEYED = (
    *("half_message", "message", "trans_check_max_time", "check_request", "check_answer"),
    *("manual_decision", "broker_request", "pending_half", "verdict"),
)
SHOWN_LAST = (NOT_TOLD, "pending_half", "check_cursor", "broker_set_up", "connected_producer", "verdict")

Key = tuple[Any, ...]
Events: TypeAlias = list[tuple["Key | None", Event]]


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
    by_id: KeyValues = {"transaction_id": transaction_ids, **({"broker_name": brokers} if brokers else {})}
    reader.open_ahead((*COLUMNS, "check_cursor", "connected_producer", "broker"))

    def rows(table: str) -> list[dict[str, Any]]:
        return _rows(reader, Scan(table, COLUMNS[table], (by_id,), may_be_missing=table in LATER_TABLES))

    found = dict(zip(KEYED, reader.side_by_side(rows, KEYED), strict=True))
    found["broker_request"] = _last_told(found["broker_request"])
    halves = found["half_message"]
    owners = {(row["broker_name"], row["queue_id"], _named_offset(row)): _key(row) for row in halves}
    events_of = {each: defaultdict[Key | None, list[Event]](list) for each in transaction_ids}
    parts: list[Callable[[], Events]] = [
        lambda: _stopped_events(reader, found),
        lambda: _connected_events(reader, found),
        lambda: _client_events(reader, transaction_ids, found),
        lambda: _op_events(reader, owners),
        lambda: _end_events(reader, by_id, halves),
    ]
    of_parts = reader.side_by_side(_events_of_part, parts)
    recorded = reader.rows(Scan("broker", ("broker_name", "role"), may_be_missing=True))
    roles = {row["broker_name"]: row["role"] for row in recorded}
    for key, event in (*_own_events(found), *chain.from_iterable(of_parts)):
        events_of[_id_of(key, event, events_of)][key].append(event)
    return {each: _stories(events, roles) for each, events in events_of.items()}


def _events_of_part(part: Callable[[], Events]) -> Events:
    return part()


def _rows(reader: WarehouseReader, scan: Scan, *by: str) -> list[dict[str, Any]]:
    return reader.rows(scan, most_per=(by or ("transaction_id",), MOST_ROWS))


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


def _last_told(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Requests to brokers, without the rows from before they went out where their outcome is known."""

    def place(row: Row) -> Key:
        return (*_key(row), row["action"], row["commit_log_offset"], row["pass_number"])

    ended = {place(row) for row in requests if row["state"] != names.REQUEST_SENDING}
    return [row for row in requests if row["state"] != names.REQUEST_SENDING or place(row) not in ended]


def _key(row: Row) -> Key:
    return tuple(row[name] for name in names.TRANSACTION_KEY)


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


def _own_events(found: dict[str, list[dict[str, Any]]]) -> list[tuple[Key | None, Event]]:
    prepared = [*found["half_message"], *found["trans_check_max_time"]]
    physical = {(_key(row), row["commit_log_offset"]) for row in prepared}
    # The last told counts: the verdict's, else that of the first half row that has one.
    halves = sorted(found["half_message"], key=lambda row: row["commit_log_offset"], reverse=True)
    told_by = (*found["trans_check_max_time"], *halves, *found["verdict"])
    real_topics = {_key(row): row["real_topic"] for row in told_by if row["real_topic"]}
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
    events: list[tuple[Key | None, Event]] = [
        (_key(row), tell(row)) for table, tell in tellers.items() for row in found[table]
    ]
    for row in found["message"]:
        is_visible = (
            row["sys_flag"] & names.SYS_FLAG_TRANSACTION_MASK == names.SYS_FLAG_COMMIT
            and row["topic"] == real_topics.get(_key(row))
            and (_key(row), row["prepared_transaction_offset"]) in physical
        )
        events.append((_key(row), story.message_event(row, is_visible=is_visible)))
    return events


def _stopped_events(reader: WarehouseReader, found: dict[str, list[dict[str, Any]]]) -> list[tuple[Key | None, Event]]:
    """Of undecided transactions, those whose newest half lies behind a check cursor that stands."""
    undecided = {_key(row) for row in found["pending_half"]}
    undecided |= {_key(row) for row in found["verdict"] if row["verdict"] == names.PENDING}
    if not undecided:
        return []
    stopped = {(each.broker_name, each.queue_id): each for each in stopped_checks(reader)}
    newest = {_key(row): row for row in sorted(found["half_message"], key=lambda row: row["commit_log_offset"])}
    events: list[tuple[Key | None, Event]] = []
    for key in sorted(undecided & newest.keys(), key=str):
        half = newest[key]
        queue = stopped.get((half["broker_name"], half["queue_id"]))
        if queue is not None and half["queue_offset"] >= (queue.half_offset or 0):
            events.append((key, story.stopped_event(half, queue)))
    events += _passed_events(reader, undecided)
    events += _left_events(reader, {key: newest[key] for key in undecided & newest.keys()})
    return events


def _passed_events(reader: WarehouseReader, undecided: set[Key]) -> list[tuple[Key | None, Event]]:
    """Of undecided transactions, those that the checks of their broker have passed over."""
    events: list[tuple[Key | None, Event]] = []
    for queue in passed_over(reader, first={str(key[1]) for key in undecided}):
        for values in queue.keys:
            row = dict(zip(names.TRANSACTION_KEY, values, strict=True))
            if _key(row) in undecided:
                events.append((_key(row), story.passed_over_event(row, queue)))
    return events


def _left_events(reader: WarehouseReader, halves: Mapping[Key, Row]) -> list[tuple[Key | None, Event]]:
    """Of undecided transactions, those whose half lies in RocksDB, where their broker looks no more."""
    in_rocksdb = {key: half for key, half in halves.items() if half["queue_id"] == names.ROCKSDB_QUEUE_ID}
    brokers = not_looking_into_rocksdb(reader) if in_rocksdb else {}
    return [
        (key, story.left_in_rocksdb_event(half, brokers[half["broker_name"]]))
        for key, half in sorted(in_rocksdb.items(), key=str)
        if half["broker_name"] in brokers
    ]


def _connected_events(
    reader: WarehouseReader, found: dict[str, list[dict[str, Any]]]
) -> list[tuple[Key | None, Event]]:
    """Of undecided transactions, whether anybody of their group could be asked."""
    undecided = {_key(row) for row in found["verdict"] if row["verdict"] in names.UNDECIDED}
    undecided |= {_key(row) for row in found["pending_half"]}
    if not undecided:
        return []
    keys = [dict(zip(names.TRANSACTION_KEY, key, strict=True)) for key in sorted(undecided, key=str)]
    known = connected(reader, [(key["broker_name"], key["producer_group"]) for key in keys])
    places = [(key, known.get((key["broker_name"], key["producer_group"]))) for key in keys]
    return [(_key(key), story.connected_event(key, each)) for key, each in places if each is not None]


def _client_events(
    reader: WarehouseReader, transaction_ids: Sequence[str], found: dict[str, list[dict[str, Any]]]
) -> list[tuple[Key | None, Event]]:
    """Ends that clients say they sent: of the transaction of that id and group, whichever broker kept the record.

    Where several have both (R66) they are of none for sure, and belong to the id alone.
    """
    where: KeyValues = {"transaction_id": transaction_ids}
    rows = _rows(reader, Scan("end_trace", COLUMNS["end_trace"], (where,), may_be_missing=True))
    known = sorted({_key(row) for row in (*found["half_message"], *found["verdict"])}, key=str)
    keys = {(key[1], key[2]): [each for each in known if each[1:3] == key[1:3]] for key in known}
    ids = {key[1] for key in known}
    events: list[tuple[Key | None, Event]] = []
    for row in rows:
        those = keys.get((row["transaction_id"], row["producer_group"]), [])
        # One of another group under a known id is of another message.
        if those or row["transaction_id"] not in ids:
            events.append((those[0] if len(those) == 1 else None, story.client_end_event(row)))
    return events


def _named_offset(half: dict[str, Any]) -> int:
    """By which offset an op names the half: its queue offset (R26), or its physical one (R117)."""
    is_of_rocksdb = half["queue_id"] == names.ROCKSDB_QUEUE_ID
    return int(half["commit_log_offset" if is_of_rocksdb else "queue_offset"])


def _op_events(reader: WarehouseReader, owners: dict[Key, Key]) -> list[tuple[Key | None, Event]]:
    offsets: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for broker_name, queue_id, queue_offset in owners:
        offsets[broker_name, queue_id].append(queue_offset)
    if not offsets:
        return []
    where: tuple[KeyValues, ...] = tuple(
        {"broker_name": [broker_name], "queue_id": [queue_id], "half_queue_offset": named}
        for (broker_name, queue_id), named in offsets.items()
    )
    rows = _rows(reader, Scan("op_message", COLUMNS["op_message"], where), "half_queue_offset")
    places = [(row["broker_name"], row["queue_id"], row["half_queue_offset"]) for row in rows]
    return [(owners[place], story.op_event(row)) for place, row in zip(places, rows, strict=True)]


def _end_events(
    reader: WarehouseReader, by_id: KeyValues, halves: list[dict[str, Any]]
) -> list[tuple[Key | None, Event]]:
    by_offset: defaultdict[str, dict[int, Key]] = defaultdict(dict)
    for row in halves:
        by_offset[row["broker_name"]][row["commit_log_offset"]] = _key(row)
    at_halves: tuple[KeyValues, ...] = tuple(
        {"broker_name": [name], "commit_log_offset": list(named)} for name, named in by_offset.items()
    )
    by_end_id = {"end_transaction_id" if name == "transaction_id" else name: by_id[name] for name in by_id}
    found_by = (by_id, by_end_id, *at_halves)
    outcomes = _rows(
        reader, Scan("end_outcome", COLUMNS["end_outcome"], found_by), "commit_log_offset", "end_transaction_id"
    )
    ends = Scan("end_transaction", COLUMNS["end_transaction"], (by_id, *at_halves))
    received = _rows(reader, ends, "commit_log_offset", "transaction_id")
    final: dict[Key, dict[str, Any]] = {}
    for row in sorted(outcomes, key=lambda row: bool(row["is_held"]), reverse=True):
        final[tuple(row[name] for name in END_KEY)] = row
    judged = [(row, story.outcome_event(row)) for row in final.values()]
    waiting = [(row, story.end_event(row)) for row in received if tuple(row[name] for name in END_KEY) not in final]
    return [(by_offset[row["broker_name"]].get(row["commit_log_offset"]), event) for row, event in (*judged, *waiting)]
