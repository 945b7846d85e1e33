"""What `--to-broker` and `resend` would send, from what has landed. Starts no JVM; `--apply` judges anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from txmq_lib.names import (
    ACTION_RESEND,
    ACTION_RESUME,
    COMMIT,
    GIVEN_UP_UNSEEN,
    GIVEN_UP_VERDICTS,
    ROLLBACK,
    TRANSACTION_KEY,
    UNDECIDED,
)
from txmq_lib.rules.requests import RECORDED, RESENDABLE, done_before, key_of, may_be_sent, why_not_resent
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.scan import Scan
from txmq_lib.views.standing import Chosen, Limits, Planned, given_up_ids, is_expired, standing

SEND_COLUMNS = (
    *("action", "transaction_id", "former_verdict", "producer_group", "broker_name", "born_timestamp"),
    *("real_topic", "tran_state_table_offset", "commit_log_offset"),
)
# Why a broker is not asked anew (R45, R73).
EXPIRED = (
    "not asked: older than file_reserved_time, so that their broker would give them up again; settle or resend them"
)
SENT_BEFORE = "not asked: what was sent of them before may have reached their broker; txmq sent"
SAID = (*TRANSACTION_KEY, "answer", "is_planned_for_broker", "answered_timestamp", "pass_number")


def ends_by_answers(reader: WarehouseReader, chosen: Chosen, limits: Limits) -> list[Planned]:
    """The ends that resolvers' answers make, where a broker decides and has not (a row of SEND_COLUMNS each)."""
    answers = [
        row
        for row in reader.rows(Scan("check_answer", SAID, chosen.where, may_be_missing=True))
        if row["is_planned_for_broker"] and row["answer"] in (COMMIT, ROLLBACK)
    ]
    answers.sort(key=lambda row: (row["answered_timestamp"], row["pass_number"]))
    last = {key_of(row): row["answer"] for row in answers}
    found = _standing_of(reader, sorted({row["transaction_id"] for row in answers}), chosen, limits)
    # What a person has settled is the person's to send, whatever was answered.
    unsettled = [row for row in found if row["settled_as"] is None and key_of(row) in last]
    return _sendable(
        reader,
        [
            {**row, "action": last[key_of(row)]}
            for row in unsettled
            if row["is_brokers"] and row["verdict"] in UNDECIDED
        ],
    )


def resumes_by_brokers(
    reader: WarehouseReader, chosen: Chosen, limits: Limits, now: datetime
) -> tuple[list[Planned], list[str]]:
    """The questions that brokers would be asked anew, and of how many given-up ones they are not, and why."""
    found = _standing_of(reader, given_up_ids(reader, chosen), chosen, limits)
    given_up = [row for row in found if row["verdict"] in GIVEN_UP_VERDICTS and row["is_brokers"]]
    fresh = [row for row in given_up if not is_expired(row, limits, now)]
    questions = [{**row, "action": ACTION_RESUME, **_asked_about(row)} for row in fresh]
    plan = _sendable(reader, questions)
    left_out = {EXPIRED: len(given_up) - len(fresh), SENT_BEFORE: len(fresh) - len(plan)}
    return plan, [f"{count} {why}" for why, count in left_out.items() if count]


def _asked_about(row: Planned) -> Planned:
    """The given-up row that is resumed; of what was given up without a trace it is the half (R120)."""
    if row["verdict"] in GIVEN_UP_UNSEEN:
        return {}
    return {
        "tran_state_table_offset": row["given_up_queue_offset"],
        "commit_log_offset": row["given_up_commit_log_offset"],
    }


def resends(reader: WarehouseReader, chosen: Chosen, limits: Limits) -> tuple[list[Planned], list[str]]:
    """The bodies that would be sent again, and of each other transaction that is named why it is not."""
    found = standing(reader, chosen, limits)
    fit = [row for row in found if row["is_brokers"] and row["verdict"] in RESENDABLE and row["real_topic"] is not None]
    bodies = [{**row, "action": ACTION_RESEND} for row in fit if row["settled_as"] != ROLLBACK]
    plan = _sendable(reader, bodies)
    sent = {key_of(row) for row in plan}
    why = [
        (row["transaction_id"], why_not_resent(row, is_rolled_back=row["settled_as"] == ROLLBACK))
        for row in found
        if key_of(row) not in sent
    ]
    missing = sorted({*chosen.transaction_ids} - {row["transaction_id"] for row in found})
    why += [(name, "no half message of it has landed") for name in missing]
    return plan, [f"{name}: not sent again: {reason}" for name, reason in why]


def ends_shut_out(reader: WarehouseReader, plan: Sequence[Planned], decision: str) -> list[str]:
    """Of the transactions that `settle` would have a broker end: those to which what was sent before leaves no end."""
    ends = [{**row, "action": decision} for row in plan if row["is_brokers"]]
    open_ones = {key_of(row) for row in _sendable(reader, ends)}
    return [
        f"{row['transaction_id']}: no end is sent: what was sent before may have reached its broker; txmq sent"
        for row in ends
        if key_of(row) not in open_ones
    ]


def _standing_of(reader: WarehouseReader, ids: Sequence[str], chosen: Chosen, limits: Limits) -> list[Planned]:
    return standing(reader, Chosen(ids, chosen.groups, chosen.brokers), limits) if ids else []


def _sendable(reader: WarehouseReader, rows: Sequence[Mapping[str, Any]]) -> list[Planned]:
    """Those of `rows` that nothing sent before shuts out."""
    if not rows:
        return []
    ids = sorted({row["transaction_id"] for row in rows})
    sent_before = Scan("broker_request", RECORDED, ({"transaction_id": ids},), may_be_missing=True)
    done = done_before(reader.rows(sent_before))
    requests = [{**row, "former_verdict": row["verdict"]} for row in rows]
    return [row for row in requests if may_be_sent(row, done)]
