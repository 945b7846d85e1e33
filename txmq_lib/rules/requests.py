"""Which requests to brokers shut each other out, and what is never sent again. Plain rows; needs no Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from txmq_lib.names import (
    ACTION_RESEND,
    ACTION_RESUME,
    GIVEN_UP_IN_A_ROW,
    NOT_ASKED_ABOUT,
    REQUEST_ACCEPTED,
    REQUEST_NOT_SENT,
    REQUEST_REFUSED,
    TRANSACTION_KEY,
)

AN_END = "end"
# Nobody decided these, and their broker asks no more.
RESENDABLE = NOT_ASKED_ABOUT
# What `done_before` reads of a row of broker_request.
RECORDED = (*TRANSACTION_KEY, "action", "commit_log_offset", "tran_state_table_offset", "state", "pass_number")

Row = Mapping[str, Any]
Done = set[tuple[Any, ...]]


def key_of(row: Row) -> tuple[Any, ...]:
    """Which transaction a row is about."""
    return tuple(row[name] for name in TRANSACTION_KEY)


def may_be_sent(row: Row, done: Done) -> bool:
    """Whether nothing that `done` tells of stands against the request `row`.

    row  of its transaction, action, commit_log_offset, former_verdict, given_up_queue_offset
    """
    return _place(row) not in done and not done & _rivals(row)


def done_before(requests: Iterable[Row]) -> Done:
    """What may have been done by recorded requests (RECORDED): their places, and of ends the transactions.

    A broker takes an end of each copy (R18), so a transaction has one end unless the broker refused it; then another
    copy may have one. Those known not to have left are no part.
    """
    rows = list(requests)
    unsent, refused, accepted = (
        {(_place(row), row["pass_number"]) for row in rows if row["state"] == state}
        for state in (REQUEST_NOT_SENT, REQUEST_REFUSED, REQUEST_ACCEPTED)
    )
    left = [row for row in rows if (_place(row), row["pass_number"]) not in unsent]
    may_be_done = [row for row in left if (_place(row), row["pass_number"]) not in refused]
    taken = [row for row in may_be_done if row["action"] != ACTION_RESUME]
    resumed = [row for row in may_be_done if row["action"] == ACTION_RESUME]
    return (
        {_place(row) for row in left}
        | {_transaction(row) for row in taken}
        | {(*key_of(row), REQUEST_ACCEPTED) for row in taken if (_place(row), row["pass_number"]) in accepted}
        | {(*key_of(row), ACTION_RESEND) for row in taken if row["action"] == ACTION_RESEND}
        | {(*key_of(row), ACTION_RESUME, row["tran_state_table_offset"]) for row in resumed}
        | {_copied(row) for row in resumed}
    )


def why_not_resent(row: Row, *, is_rolled_back: bool) -> str:
    """Why the body of a transaction is not sent again, in words for who named it.

    row  its verdict (None: decided, and not audited since), real_topic, is_brokers
    """
    if not row["is_brokers"]:
        return "txmq decides it itself (role engine): settle or resume it"
    if row["verdict"] not in RESENDABLE:
        return f"{row['verdict'] or 'decided'}: only what its broker has given up is"
    if row["real_topic"] is None:
        return "its real topic is not known"
    if is_rolled_back:
        return "settled as rollback by hand: txmq decisions"
    return "what was sent before may have reached its broker, or this was refused before: txmq sent"


def _place(row: Row) -> tuple[Any, ...]:
    # A half has one end: a broker takes the other one too (R18). Its body and a question are no ends of it.
    kind = row["action"] if row["action"] in (ACTION_RESUME, ACTION_RESEND) else AN_END
    return (*key_of(row), kind, row["commit_log_offset"])


def _transaction(row: Row) -> tuple[Any, ...]:
    return (*key_of(row), row["action"] == ACTION_RESUME)


def _copied(row: Row) -> tuple[Any, ...]:
    # A given-up row has a place of its own in the log, and is never ended there.
    return (*key_of(row), ACTION_RESUME, "copy of", row["commit_log_offset"])


def _rivals(row: Row) -> Done:
    """What of a transaction must not have been done before this is: it would be visible twice."""
    rivals = {_transaction(row)}
    if row["action"] != ACTION_RESUME:
        # Whatever is said of it meanwhile: of a half that was put back under check the copy is ended, once it lands.
        rivals.add(_copied(row))
    if row["action"] == ACTION_RESUME:
        # An end without an answer blocks no resume: where it never arrived, nothing else could go out any more.
        rivals |= {(*key_of(row), ACTION_RESEND), (*key_of(row), REQUEST_ACCEPTED)}
    elif row["action"] == ACTION_RESEND or row["former_verdict"] in GIVEN_UP_IN_A_ROW:
        # A resume of this giving up: who is asked again may commit, and the copy to end has not landed.
        rivals.add((*key_of(row), ACTION_RESUME, row["given_up_queue_offset"]))
    return rivals
