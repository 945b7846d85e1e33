"""What each row of a table means as an event in the life of a transaction. Reads nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from txmq_lib import names
from txmq_lib.views.connected import Connected
from txmq_lib.views.cursors import PassedOver, StoppedChecks

Row = Mapping[str, Any]
Key = tuple[Any, ...]  # a transaction: the values of TRANSACTION_KEY
# Event and words of what was decided by hand, but for ends.
DECIDED_AS = {
    names.ACTION_RESUME: ("resumed", "put back under check"),
    names.ACTION_HOLD: ("held", "held: nobody is asked about it"),
    names.ACTION_RELEASE: ("released", "released: it is asked about again"),
}


@dataclass(frozen=True)
class Event:
    """One line of a trace: when (ISO 8601, UTC), what, from which table; `text` says it in words."""

    time: str | None
    event: str
    table: str
    text: str
    row: Row


# Events, each with the transaction that it is of; without one it only names an id.
Events: TypeAlias = list[tuple[Key | None, Event]]


def key_of(row: Row) -> Key:
    """The transaction that a row is of."""
    return tuple(row[name] for name in names.TRANSACTION_KEY)


def half_event(row: Row) -> Event:
    """A half message or a copy of it: R44, R55, R56 and R73 tell them apart by TRANSACTION_CHECK_TIMES."""
    is_of_rocksdb = row["queue_id"] == names.ROCKSDB_QUEUE_ID
    queue = "queue 0 of the RocksDB pair" if is_of_rocksdb else f"queue {row['queue_id']}"
    place = f"{queue} offset {row['queue_offset']} (physical {row['commit_log_offset']})"
    match row["broker_check_times"]:
        case None:
            target = f"{row['real_topic']} queue {row['real_queue_id']}"
            if row["real_topic"] and row["producer_group"] == row["real_topic"]:
                target += "; its group is the topic's name: a producer over gRPC (R127)"
            event, text = "half_stored", f"half message stored at {place} for {target}"
        case 0:
            event, text = "half_resumed", f"put back under check at {place}"
        case times:
            event, text = "half_copied", f"copy {times} put back by the broker at {place}"
    return Event(row["store_timestamp"], event, "half_message", text, row)


def check_event(row: Row) -> Event:
    """A CHECK_TRANSACTION_STATE raised by txmq."""
    text = f"check {row['check_times']} asked of {row['producer_group']} (half offset {row['tran_state_table_offset']})"
    return Event(row["check_timestamp"], "check_asked", "check_request", text, row)


def answer_event(row: Row) -> Event:
    """What a resolver said, or that it said nothing."""
    subject = f"check {row['check_times']}" if row["asked_for"] == names.ASKED_FOR_CHECK else "the given-up transaction"
    said = f" ({row['state']})" if row["state"] else ""
    why = f", {row['reason']}" if row["reason"] else ""
    text = f"{row['resolver']} answers {subject}: {row['answer'] or 'no answer'}{said}{why}"
    planned = "; planned for the broker" if row["is_planned_for_broker"] else ""
    return Event(row["answered_timestamp"], "check_answered", "check_answer", text + planned, row)


def decision_event(row: Row) -> Event:
    """What somebody decided by hand."""
    event, what = DECIDED_AS.get(row["action"], ("settled", f"settled as {row['action']}"))
    why = f": {row['reason']}" if row["reason"] else ""
    planned = "; planned for the broker" if row["is_planned_for_broker"] else ""
    text = f"{what} by {row['decided_by']}, was {row['former_verdict']}{why}{planned}"
    return Event(row["decided_timestamp"], event, "manual_decision", text, row)


def request_event(row: Row) -> Event:
    """A request to a live broker, or what became of it."""
    state = row["state"] + (f" (code {row['code']})" if row["code"] is not None else "")
    words = f", {row['remark']}" if row["remark"] else ""
    text = f"{row['action']} to {row['address'] or 'no known address'} by {row['requested_by']}: {state}{words}"
    return Event(row["requested_timestamp"], f"request_{row['state']}", "broker_request", text, row)


def outcome_event(row: Row) -> Event:
    """A judged END_TRANSACTION."""
    text = f"{_end_words(row, row['decision'])}: {row['outcome']}"
    if row["reason"] is not None:
        text += f", {row['reason']}" + (f" (code {row['code']}: {row['remark']})" if row["remark"] else "")
    named, found = row["end_transaction_id"], row["transaction_id"]
    if named is not None and found is not None and named != found:
        text += f"; it named transaction {named}, the half there is of {found}"
    return Event(row["ts"], f"end_{row['outcome']}", "end_outcome", text, row)


def end_event(row: Row) -> Event:
    """An END_TRANSACTION that no reconcile pass has judged."""
    decision = {names.END_COMMIT: "commit", names.END_ROLLBACK: "rollback", names.END_UNKNOWN: "unknown"}.get(
        row["commit_or_rollback"]
    )
    text = f"{_end_words(row, decision)}: received, not judged yet"
    return Event(row["ts"], "end_received", "end_transaction", text, row)


def client_end_event(row: Row) -> Event:
    """An end that a client says it sent (R129); whether its broker got it, no trace tells."""
    to = f" to {row['store_host']}" if row["store_host"] else ""
    text = f"{_end_words(row, row['state'])}: sent{to}, says its client {row['client'] or 'of unknown address'}"
    return Event(row["ended_timestamp"], "end_traced", "end_trace", text, row)


def op_event(row: Row) -> Event:
    """An op message naming a half offset; it does not say commit or rollback (R25)."""
    kind = "physical" if row["queue_id"] == names.ROCKSDB_QUEUE_ID else "half"
    text = f"op message {row['queue_offset']} names {kind} offset {row['half_queue_offset']}"
    return Event(row["store_timestamp"], "op_written", "op_message", text, row)


def message_event(row: Row, *, is_visible: bool) -> Event:
    """A message of this transaction: the visible one, or another row that carries its id (a retry, a diverted half)."""
    place = f"{row['topic']} queue {row['queue_id']} offset {row['queue_offset']}"
    if is_visible:
        return Event(row["store_timestamp"], "message_visible", "message", f"visible as {place}", row)
    return Event(row["store_timestamp"], "message_stored", "message", f"stored as {place}, not counted as visible", row)


def given_up_event(row: Row) -> Event:
    """A row of TRANS_CHECK_MAX_TIME_TOPIC; giving up is no rollback (R72)."""
    times = row["check_times"] if row["check_times"] is not None else row["broker_check_times"]
    why = f" ({row['reason']})" if row["reason"] else ""
    place = f"{row['topic']} queue {row['queue_id']} offset {row['queue_offset']}"
    text = f"given up after {counted(times or 0, 'check')}{why}, kept as {place}"
    return Event(row["given_up_timestamp"], "given_up", "trans_check_max_time", text, row)


def pending_event(row: Row) -> Event:
    """Still undecided; its time is when the next check, or giving up, is due."""
    due = row["next_check_timestamp"]
    rest = "held, so nothing is due" if row.get("is_held") else "nothing more is due"
    text = f"pending, asked {counted(row['check_times'], 'time')}; " + (f"next due {due}" if due else rest)
    return Event(due, "pending", "pending_half", text, row)


def stopped_event(half: Row, queue: StoppedChecks) -> Event:
    """That the broker checks this half no more: its cursor stands before it. The time is when that was seen last."""
    row = {name: half[name] for name in names.TRANSACTION_KEY} | {
        "queue_id": queue.queue_id,
        "half_offset": queue.half_offset,
        "waiting": queue.waiting,
        "first_seen_timestamp": _iso(queue.first_seen_timestamp),
        "last_seen_timestamp": _iso(queue.last_seen_timestamp),
    }
    place = "has never moved" if queue.half_offset is None else f"stands at offset {queue.half_offset}"
    text = (
        f"not checked any more: the broker's cursor of queue {queue.queue_id} {place}, seen from"
        f" {_iso(queue.first_seen_timestamp)} on; {counted(queue.waiting, 'half message')} behind it,"
        f" this one at offset {half['queue_offset']}"
    )
    return Event(_iso(queue.last_seen_timestamp), "checks_stopped", "check_cursor", text, row)


def passed_over_event(key: Row, queue: PassedOver) -> Event:
    """That the broker's checks have passed this half over; the time is when its queue's first such half was stored."""
    row = {**key, "queue_id": queue.queue_id, "passed_offset": queue.passed_offset, "count": queue.count}
    text = (
        f"passed over by the broker's checks: they are at offset {queue.passed_offset} of queue {queue.queue_id}, and"
        f" neither put it back nor gave it up; {counted(queue.count, 'such half message')} in this queue"
    )
    return Event(_iso(queue.oldest_timestamp), "passed_over", "check_cursor", text, row)


def left_in_rocksdb_event(half: Row, since: str) -> Event:
    """That the broker looks no more where this half lies; the time is that of the landing that found it so."""
    row = {name: half[name] for name in names.TRANSACTION_KEY} | {"recorded_timestamp": since}
    text = "not checked any more: it lies in RocksDB, and its broker landed with transRocksDBEnable off"
    return Event(since, "left_in_rocksdb", "broker_set_up", text, row)


def connected_event(key: Row, found: Connected) -> Event:
    """Whether a client could answer a check as the broker last landed live (R130); the time is that landing's."""
    row = {**key, "clients": found.clients, "client_ids": found.client_ids, "since_timestamp": found.since}
    group = key["producer_group"]
    if found.clients:
        text = f"{counted(found.clients, 'client')} of {group} connected as its broker landed: {found.client_ids}"
        return Event(found.asked, "producer_connected", "connected_producer", text, row)
    until = f"; the last one went before the landing of {found.since}" if found.since else ""
    text = f"no client of {group} connected as its broker landed{until}"
    return Event(found.asked, "producer_gone", "connected_producer", text, row)


def verdict_event(row: Row) -> Event:
    """The verdict with the figures it follows from; its time is that of the last row seen."""
    why = f" ({row['reason']})" if row["reason"] else ""
    text = (
        f"{row['verdict']}{why}: visible {row['visible_count']}, ops {row['op_count']}, half rows {row['half_count']},"
        f" given up {row['given_up_count']}, contradicting ends {row['contradicting_count']}"
    )
    return Event(row["last_timestamp"], "verdict", "verdict", text, row)


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def counted(count: int, thing: str) -> str:
    """`1 check`, `3 checks`."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def _end_words(row: Row, decision: str | None) -> str:
    said = decision or f"end with code {row['commit_or_rollback']}"
    is_from_check = row["is_from_check"] if "is_from_check" in row else row["from_transaction_check"]
    suffix = ", answering a check" if is_from_check else ""
    return f"{said} from {row['producer_group']}{suffix}"
