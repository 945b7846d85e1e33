"""The views of transactions: undecided, given up, their messages and ends."""

from __future__ import annotations

from txmq_lib import names
from txmq_lib.config.table_specs import Field
from txmq_lib.views.declared import reasons
from txmq_lib.views.declared.filters import TRANSACTION
from txmq_lib.views.view import Part, View

# A held end keeps its held row in the log of outcomes when its final one comes. Few are held.
ENDS_RELATION = """(
    SELECT * FROM base WHERE NOT is_held
    UNION ALL BY NAME
    SELECT * FROM held AS h WHERE is_held AND NOT EXISTS (
        FROM judged AS j WHERE NOT j.is_held AND j.broker_name = h.broker_name AND j.origin = h.origin
            AND j.landed_pass = h.landed_pass AND j.landing_order = h.landing_order))"""


# Of a broker that was asked about every group, one without a row has no client connected.
PENDING_RELATION = """(
    SELECT base.*, coalesce(c.clients, CASE WHEN e.broker_name IS NOT NULL THEN 0 END) AS clients
    FROM base LEFT JOIN (SELECT broker_name FROM every WHERE producer_group = '*') AS e USING (broker_name)
    LEFT JOIN connected AS c ON c.broker_name = base.broker_name AND c.producer_group = base.producer_group)"""
CONNECTED = ("broker_name", "producer_group", "clients")


PENDING = View(
    command="pending",
    doc="Undecided transactions, the oldest first: how often asked, when next due.",
    table="pending_half",
    elsewhere="txmq verdicts --state stuck lists what was given up, too",
    narrow=(
        "transaction_id",
        "check_times",
        "next_check_timestamp",
        "producer_group",
        "real_topic",
        "born_timestamp",
        "broker_check_times",
        "queue_offset",
        "broker_name",
        "clients",
    ),
    order=("first_store_timestamp",),
    time="first_store_timestamp",
    keys="transaction_id",
    filters=TRANSACTION,
    relation=PENDING_RELATION,
    needs=("broker_name", "producer_group"),
    joined={
        "every": Part("connected_producer", ("broker_name", "producer_group"), may_be_missing=True),
        "connected": Part("connected_producer", CONNECTED, may_be_missing=True),
    },
    extra=(
        Field(
            "clients",
            "integer",
            True,
            "clients of its group connected to its broker as it last landed live; null: not known",
        ),
    ),
)
GIVEN_UP = View(
    command="given-up",
    doc="Messages given up (TRANS_CHECK_MAX_TIME_TOPIC), the newest first.",
    table="trans_check_max_time",
    narrow=(
        "transaction_id",
        "given_up_timestamp",
        "producer_group",
        "real_topic",
        "check_times",
        "broker_check_times",
        "reason",
        "origin",
        "broker_name",
    ),
    order=("given_up_timestamp desc",),
    time="given_up_timestamp",
    keys="keys",
    filters={**TRANSACTION, "reason": ("reason",)},
    reasons=reasons.GIVEN_UP,
)
MESSAGES = View(
    command="messages",
    doc="Visible messages, the newest first.",
    table="message",
    narrow=(
        "transaction_id",
        "topic",
        "queue_id",
        "queue_offset",
        "store_timestamp",
        "tags",
        "keys",
        "producer_group",
        "broker_name",
    ),
    order=("store_timestamp desc",),
    time="store_timestamp",
    keys="keys",
    filters={**TRANSACTION, "topic": ("topic",)},
    has_queues=True,
)
ENDS = View(
    command="ends",
    doc="What became of every END_TRANSACTION, the newest first: accepted, repeated, contradicting, refused, held.",
    table="end_outcome",
    narrow=(
        "transaction_id",
        "outcome",
        "decision",
        "reason",
        "ts",
        "producer_group",
        "from_transaction_check",
        "end_transaction_id",
        "commit_log_offset",
        "broker_name",
    ),
    order=("ts desc",),
    time="ts",
    keys="transaction_id",
    filters={
        **TRANSACTION,
        "transaction-id": ("transaction_id", "end_transaction_id"),
        "state": ("outcome",),
        "reason": ("reason",),
    },
    states=(
        names.OUTCOME_ACCEPTED,
        names.OUTCOME_REPEATED,
        names.OUTCOME_CONTRADICTING,
        names.OUTCOME_REFUSED,
        names.OUTCOME_HELD,
    ),
    reasons=reasons.REFUSALS,
    relation=ENDS_RELATION,
    needs=("broker_name", "origin", "landed_pass", "landing_order", "is_held"),
    files="is_held = false",
    joined={
        "held": Part("end_outcome", files="is_held = true"),
        "judged": Part(
            "end_outcome",
            ("broker_name", "origin", "landed_pass", "landing_order", "is_held"),
            files="is_held = false",
            like=("landed_pass", "held"),
        ),
    },
)
END_TRACES = View(
    command="end-traces",
    doc="Ends that clients say they sent (the trace topic), the newest first; whether a broker got them, none tells.",
    table="end_trace",
    narrow=(
        "transaction_id",
        "state",
        "is_from_check",
        "ended_timestamp",
        "client",
        "producer_group",
        "real_topic",
        "store_host",
        "broker_name",
    ),
    order=("ended_timestamp desc",),
    time="ended_timestamp",
    keys="transaction_id",
    filters={**TRANSACTION, "state": ("state",)},
    states=(names.COMMIT, names.ROLLBACK, names.UNKNOWN),
)
