"""The views of what was asked and answered, decided by hand, and sent to brokers."""

from __future__ import annotations

from txmq_lib import names
from txmq_lib.views.declared import reasons
from txmq_lib.views.declared.filters import TRANSACTION
from txmq_lib.views.view import Part, View

# A request is recorded before it goes out; once its outcome is known that row says it all.
SENT_RELATION = f"""(
    SELECT * FROM base AS b WHERE state <> '{names.REQUEST_SENDING}' OR NOT EXISTS (
        FROM told AS t WHERE t.state <> '{names.REQUEST_SENDING}' AND t.broker_name = b.broker_name
            AND t.transaction_id = b.transaction_id AND t.action = b.action
            AND t.commit_log_offset = b.commit_log_offset AND t.pass_number = b.pass_number))"""
CHECKS = View(
    command="checks",
    doc="CHECK_TRANSACTION_STATE requests raised, the newest first.",
    table="check_request",
    narrow=(
        "transaction_id",
        "check_times",
        "check_timestamp",
        "producer_group",
        "real_topic",
        "tran_state_table_offset",
        "broker_name",
    ),
    order=("check_timestamp desc",),
    time="check_timestamp",
    keys="transaction_id",
    filters=TRANSACTION,
)
ANSWERS = View(
    command="answers",
    doc="What `resolve` was told, the newest first: commit, rollback, unknown; or why there was no answer.",
    table="check_answer",
    narrow=(
        "transaction_id",
        "answer",
        "reason",
        "state",
        "producer_group",
        "check_times",
        "answered_timestamp",
        "asked_for",
        "resolver",
        "detail",
        "broker_name",
    ),
    order=("answered_timestamp desc",),
    time="answered_timestamp",
    keys="transaction_id",
    filters={**TRANSACTION, "state": ("answer",), "reason": ("reason",), "asked-for": ("asked_for",)},
    states=(names.COMMIT, names.ROLLBACK, names.UNKNOWN),
    reasons=reasons.ANSWERS,
)
DECISIONS = View(
    command="decisions",
    doc="What was decided by hand, the newest first: who, when, why.",
    table="manual_decision",
    narrow=(
        "transaction_id",
        "action",
        "reason",
        "decided_by",
        "decided_timestamp",
        "former_verdict",
        "producer_group",
        "real_topic",
        "broker_name",
    ),
    order=("decided_timestamp desc",),
    time="decided_timestamp",
    keys="transaction_id",
    filters={**TRANSACTION, "state": ("action",)},
    states=(names.COMMIT, names.ROLLBACK, names.ACTION_RESUME, names.ACTION_HOLD, names.ACTION_RELEASE),
)
SENT = View(
    command="sent",
    doc="Requests sent to live brokers, the newest first, and what they answered; sending: it may have arrived.",
    table="broker_request",
    narrow=(
        "transaction_id",
        "action",
        "state",
        "code",
        "remark",
        "requested_timestamp",
        "requested_for",
        "requested_by",
        "producer_group",
        "real_topic",
        "broker_name",
    ),
    order=("requested_timestamp desc",),
    time="requested_timestamp",
    keys="transaction_id",
    filters={**TRANSACTION, "state": ("state",)},
    states=(
        names.REQUEST_SENDING,
        names.REQUEST_ACCEPTED,
        names.REQUEST_REFUSED,
        names.REQUEST_UNANSWERED,
        names.REQUEST_NOT_SENT,
    ),
    relation=SENT_RELATION,
    needs=("broker_name", "transaction_id", "action", "commit_log_offset", "pass_number", "state"),
    joined={
        "told": Part(
            "broker_request",
            ("broker_name", "transaction_id", "action", "commit_log_offset", "pass_number", "state"),
        )
    },
)
