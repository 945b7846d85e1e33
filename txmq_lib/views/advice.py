"""What a verdict means, why a transaction is undecided, and what to do about it. Reads nothing."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from txmq_lib import names
from txmq_lib.views import reasons
from txmq_lib.views.client_ends import client_ends, contradicts, said_states
from txmq_lib.views.decision_progress import decided
from txmq_lib.views.story import Event, Row, counted

MEANING = {
    names.DUPLICATED: "visible more than once: an end was accepted twice",
    names.CONFLICT: "visible, with a second end accepted: most likely a commit and a rollback",
    names.COMMITTED_AND_DISCARDED: "visible, and given up as well: the commit came late",
    names.COMMITTED_OP_LOST: "visible, but its op was lost: the broker will ask again",
    names.COMMITTED: "visible once",
    names.ROLLED_BACK: "rolled back, never visible",
    names.RESOLVED_UNKNOWN: "decided; commit or rollback is not known",
    names.DISCARDED: "given up after the last check: nobody decided it",
    names.DISCARDED_UNSEEN: "given up without a trace: its broker keeps halves in RocksDB, and only txmq knows",
    names.DIVERTED: "its half went to the schedule or timer topic and never was under check",
    names.EXPIRED_UNSEEN: "too old to be checked, and never given up",
    names.PENDING: "undecided",
}
SETTLE = "txmq settle {id} --commit --reason TEXT\nor, where it rolled back: txmq settle {id} --rollback --reason TEXT"
OF_ITS_HALF = "with --to-broker: the broker takes either as long as its commit log has the half"
TO_DO = {
    names.DUPLICATED: "consumers must drop repeats by transaction id (UNIQ_KEY)",
    names.CONFLICT: "compare with the producer's database",
    names.COMMITTED_AND_DISCARDED: "nothing to resend",
    names.COMMITTED_OP_LOST: "expect a second delivery",
    names.RESOLVED_UNKNOWN: "land more of the real topic; else look in the producer's database",
    names.DISCARDED: f"look in the producer's database, then {SETTLE}\n"
    "or, while younger than file_reserved_time, have it asked again: txmq resume {id}\n"
    "where a broker decides, both with --to-broker",
    names.DISCARDED_UNSEEN: f"look in the producer's database, then {SETTLE}\n"
    "or, while younger than file_reserved_time, have it asked again: txmq resume {id}\n"
    f"{OF_ITS_HALF}",
    names.DIVERTED: "fix the producer: a delay or timer property took the half away; it is lost for its topic",
    names.EXPIRED_UNSEEN: f"look in the producer's database, then {SETTLE}\n"
    "with --to-broker, while the broker still keeps its half; and check the broker's retention",
    names.PENDING: "wait for the next check, or configure a resolver for {group}\n"
    f"or look in the producer's database, then {SETTLE}\n"
    "where a broker decides, with --to-broker",
}
# A timer property on a half overwrote its real topic (R8): a commit would put the message into the half topic again.
WITHOUT_TOPIC = (
    "a timer property took its real topic away: no consumer gets it, whatever is answered\n"
    "do not commit it; where the producer's database did, let the application send the message anew\n"
    "then end it: txmq settle {id} --rollback --reason TEXT\n"
    "where a broker decides, with --to-broker"
)
# Where it is known whether a client of the group was connected, what comes first.
CONNECTED_TO_DO = {
    names.PENDING: "wait for the next check: as its broker last landed, a client of {group} was there to answer it\n"
    f"or look in the producer's database, then {SETTLE}\n"
    "where a broker decides, with --to-broker",
    names.DISCARDED: "as its broker last landed, a client of {group} was there: have it asked again: txmq resume {id}\n"
    f"or look in the producer's database, then {SETTLE}\n"
    "where a broker decides, both with --to-broker",
    names.DISCARDED_UNSEEN: "as its broker last landed, a client of {group} was there: have it asked again: "
    "txmq resume {id}\n"
    f"or look in the producer's database, then {SETTLE}\n"
    f"{OF_ITS_HALF}",
}
GONE_TO_DO = {
    names.PENDING: "as its broker last landed, no client of {group} was there: start one, "
    "or configure a resolver for it\n"
    f"or look in the producer's database, then {SETTLE}\n"
    "where a broker decides, with --to-broker",
    names.DISCARDED: f"look in the producer's database, then {SETTLE}\n"
    "or let a resolver for {group} do it: txmq resolve --given-up\n"
    "where a broker decides, with --to-broker",
    names.DISCARDED_UNSEEN: f"look in the producer's database, then {SETTLE}\n"
    "or let a resolver for {group} do it: txmq resolve --given-up\n"
    "with --to-broker: the broker takes an end as long as its commit log has the half",
}
# Where the role of the broker is known, each command is given whole.
BY_BROKER = "where a broker decides, "
SENDING = re.compile("^with --to-broker(?:: |, )")
MOVING = re.compile(r"txmq (?:settle|resume|resolve) .*")
TO_BROKER = " --to-broker --namesrv HOST:PORT"
# Why a transaction is visible more than once.
ONE_HALF_TWICE = "they name one half: its commit was accepted more than once"
A_COPY_AS_WELL = "one names a copy of the half: a check was answered with a commit when the half was committed already"
AN_OP_IS_MISSING = "an op was lost with its broker, which then asked again, or it has not landed"
BOTH_SENT = "visible, with a second end accepted: its clients sent a commit and a rollback"
CLIENTS_UNKNOWN = "where clients trace, the setting land.trace_topic tells which ends they sent"
CONTRADICTED_BY_CLIENTS = "compare with the producer's database: evidence contradicts, and none of it is left out"
HELD = "somebody holds it, so nobody is asked: txmq release {id}"
CHECKS_STOPPED = "do not wait for a check: look for an exception of each round in the broker's transaction.log"
PASSED_OVER = "do not wait for a check: no round of the broker comes back to it"
LEFT_IN_ROCKSDB = "do not wait for a check: its broker looks into RocksDB no more (transRocksDBEnable)"
# What txmq itself decided reads otherwise: it applies one end, and gives up what has grown too old without a check.
ENDED_OTHERWISE = "decided, and an end that says otherwise came later: it was not applied, the first one counts"
GIVEN_UP_EXPIRED = "given up when it grew older than the reserved time: nobody decided it"
# How often an event was there when the verdict was given.
FIGURE_OF = {
    "half": "half_count",
    "op_written": "op_count",
    "message_visible": "visible_count",
    "given_up": "given_up_count",
    "end_contradicting": "contradicting_count",
}
OVERTAKEN = "more has happened since: what is above counts, not the verdict"
AUDIT = "txmq audit gives it anew"
IN_THE_WAY = ("check_cursor", "broker_set_up", "connected_producer")
DECIDING = ("check_answer", "manual_decision", "broker_request", "end_transaction", "end_outcome")


@dataclass(frozen=True)
class Advice:
    """A verdict in words; `why` only of what is undecided, not proved or visible twice; `to_do` in lines."""

    meaning: str
    why: str | None
    to_do: tuple[str, ...]


def advice(events: Sequence[Event], role: str | None = None) -> Advice | None:
    """What the events of one transaction, in time order, call for; None where nothing is to be done.

    What its clients say they sent stands beside what was proved, and contradicts it where it does.

    role  that of its broker, where it is known
    """
    found = _by_verdict(events, role)
    verdict = next((event.row["verdict"] for event in events if event.event == "verdict"), None)
    said = client_ends(events)
    if verdict is None or (found is not None and found.why == OVERTAKEN):
        return found
    if said is None:
        is_asked = found is not None and found.meaning == MEANING[names.CONFLICT]
        return replace(found, to_do=(*found.to_do, CLIENTS_UNKNOWN)) if found and is_asked else found
    if contradicts(verdict, events):
        others = () if found is None else found.to_do
        return Advice(MEANING[verdict], f"contradicted: {said}", (CONTRADICTED_BY_CLIENTS, *others))
    if found is None:
        return None
    is_fact = found.meaning == MEANING[names.CONFLICT] and said_states(events) == {names.COMMIT, names.ROLLBACK}
    why = said if found.why is None else f"{found.why}; {said}"
    return replace(found, meaning=BOTH_SENT if is_fact else found.meaning, why=why)


def _by_verdict(events: Sequence[Event], role: str | None) -> Advice | None:
    row = next((event.row for event in events if event.event == "verdict"), None)
    if row is None:
        return None
    verdict, reason = row["verdict"], row["reason"]
    if _is_overtaken(row, events):
        return Advice(MEANING[verdict], OVERTAKEN, (AUDIT,))
    if verdict in names.UNDECIDED and (stands := decided(verdict, events)) is not None:
        return Advice(MEANING[verdict].partition(":")[0], stands.stands, _filled([stands.to_do], row))
    settled_by = reasons.SETTLED_BY.get(reason)
    if verdict not in TO_DO and settled_by is None:
        return None
    is_expired = any(event.row["reason"] == names.GIVEN_UP_EXPIRED for event in events if event.event == "given_up")
    meaning = MEANING[verdict]
    to_do = "\n".join(settled_by) if settled_by else _to_do(row, events)
    if verdict == names.CONFLICT and row["op_count"] < 2:
        meaning = ENDED_OTHERWISE
    elif verdict == names.DISCARDED and is_expired:
        meaning, to_do = GIVEN_UP_EXPIRED, f"look in the producer's database, then {SETTLE}"
    first, *others = to_do.split("\n")
    if verdict in names.STILL_ASKED:
        first = _instead_of_waiting(events) or first
    lines = _filled(_by_role([first, *others], role), row)
    if verdict in names.UNDECIDED:
        # Somebody may have decided it where nobody has read.
        unread = [reasons.MEANING[reason]] if settled_by else []
        meaning = meaning.partition(":")[0] if settled_by else meaning
        return Advice(meaning, "; ".join([*unread, _why(events), *_standing_in_the_way(events)]), lines)
    if verdict == names.DUPLICATED:
        return Advice(meaning, _why_twice(events), lines)
    return Advice(meaning, reasons.MEANING[reason] if settled_by else None, lines)


def _by_role(lines: Sequence[str], role: str | None) -> list[str]:
    """Lines whose commands do what they say of a broker in this role; all of them where it is not known."""
    if role is None:
        return [*lines]
    of_role = [line for line in lines if not line.startswith(BY_BROKER)]
    if not any(MOVING.search(line) for line in of_role):
        return of_role
    if role == names.ROLE_ENGINE:
        return [*of_role, "each shows a plan; --apply does it"]
    whole = [MOVING.sub(lambda command: command[0] + TO_BROKER, SENDING.sub("", line)) for line in of_role]
    return [*whole, "each shows a plan; --apply sends it"]


def _filled(lines: Sequence[str], row: Row) -> tuple[str, ...]:
    """Lines with the names of this transaction. Its producer chose the id, which may look like an option."""
    named = {
        "id": shlex.quote(row["transaction_id"]),
        "group": row["producer_group"] or "its group",
        "topic": row["real_topic"] or "its real topic",
    }
    if not named["id"].startswith("-") or not any("{id}" in line for line in lines):
        return tuple(line.format(**named) for line in lines)
    behind = f"where ID stands: leave it out, and end the command with -- {named['id']}"
    return (*(line.format(**{**named, "id": "ID"}) for line in lines), behind)


def _to_do(row: Row, events: Sequence[Event]) -> str:
    """What to do, in lines, by what became of its topic, and by whether a client could answer, where that is known."""
    verdict = row["verdict"]
    if verdict in names.UNDECIDED and row["real_topic"] in names.TRANSACTION_TOPICS:
        return WITHOUT_TOPIC
    there = next((event for event in events if event.table == "connected_producer"), None)
    if there is None:
        return TO_DO[verdict]
    return (CONNECTED_TO_DO if there.row["clients"] else GONE_TO_DO).get(verdict, TO_DO[verdict])


def _instead_of_waiting(events: Sequence[Event]) -> str | None:
    if any(event.event == "checks_stopped" for event in events):
        return CHECKS_STOPPED
    if any(event.event == "passed_over" for event in events):
        return PASSED_OVER
    if any(event.event == "left_in_rocksdb" for event in events):
        return LEFT_IN_ROCKSDB
    is_held = any(event.row["is_held"] for event in events if event.event == "pending")
    return HELD if is_held else None


def _standing_in_the_way(events: Sequence[Event]) -> list[str]:
    return [event.text for event in events if event.table in IN_THE_WAY]


def _is_overtaken(verdict: Row, events: Sequence[Event]) -> bool:
    """Whether the story tells of more than the figures that the verdict follows from."""
    kinds = Counter(event.event if event.table != "half_message" else "half" for event in events)
    is_resumed = any(
        event.event == "resumed" and (event.time or "") >= (verdict["last_timestamp"] or "") for event in events
    )
    return (
        any(kinds[event] > verdict[figure] for event, figure in FIGURE_OF.items())
        or any(event.row["check_times"] > verdict["check_times"] for event in events if event.event == "check_asked")
        or (verdict["verdict"] in names.GIVEN_UP_IN_A_ROW and is_resumed and kinds["pending"] > 0)
    )


def _why_twice(events: Sequence[Event]) -> str:
    """How a transaction came to be visible more than once, as far as its ops tell (R18, R64, R76, R78)."""
    ops = [event.row["half_queue_offset"] for event in events if event.event == "op_written"]
    visible = sum(event.event == "message_visible" for event in events)
    if len(ops) < visible:
        return f"{counted(visible, 'message')}, {counted(len(ops), 'op')}: {AN_OP_IS_MISSING}"
    return f"{counted(len(ops), 'op')}: {ONE_HALF_TWICE if len(set(ops)) == 1 else A_COPY_AS_WELL}"


def _why(events: Sequence[Event]) -> str:
    by_txmq = sum(event.event == "check_asked" for event in events)
    by_broker = max(
        (event.row["broker_check_times"] or 0 for event in events if event.table == "half_message"), default=0
    )
    askers = ((by_broker, "a broker"), (by_txmq, "txmq"))
    askers_told = [f"asked {counted(count, 'time')} by {who}" for count, who in askers if count]
    last = next((event.text for event in reversed(events) if event.table in DECIDING), None)
    last_word = "no answer and no end has landed" if last is None else f"last came: {last}"
    return f"{', '.join(askers_told) or 'never asked about'}; {last_word}"
