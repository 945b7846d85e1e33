"""The views of verdicts, and of committed messages whose half never landed."""

from __future__ import annotations

from txmq_lib import names
from txmq_lib.config.table_specs import Field
from txmq_lib.views.declared import reasons
from txmq_lib.views.declared.filters import TRANSACTION
from txmq_lib.views.scan import sql_literals
from txmq_lib.views.view import Part, View

# What was decided by hand of a transaction whose verdict is undecided still, and how far that has come.
UNDECIDED = sql_literals(names.UNDECIDED)
GIVEN_UP = sql_literals(names.GIVEN_UP_VERDICTS)
KEY = ", ".join(names.TRANSACTION_KEY)
HOLDING = f"'{names.ACTION_HOLD}', '{names.ACTION_RELEASE}'"


def _last(table: str, column: str, at: str, number: str) -> str:
    lasts = ", ".join(
        f"arg_max({what}, {number}) AS {name}" for name, what in {"action": "action", "told": column}.items()
    )
    return f"SELECT {KEY}, {lasts}, max({at}) AS at FROM {table} WHERE action NOT IN ({HOLDING}) GROUP BY ALL"


def _same(name: str) -> str:
    return " AND ".join(f"{name}.{column} IS NOT DISTINCT FROM b.{column}" for column in names.TRANSACTION_KEY)


def _standing(name: str) -> str:
    # A resume is used up by its copy of the half, or the next giving up. Not in the join: DuckDB would compare every
    # row with every other.
    is_used_up = f"b.verdict NOT IN ({GIVEN_UP}) OR {name}.at < b.last_timestamp"
    return f"CASE WHEN NOT ({name}.action = '{names.ACTION_RESUME}' AND ({is_used_up})) THEN {name}.told END"


RECORDED = "action || CASE WHEN is_planned_for_broker THEN ' to be sent' ELSE ' recorded' END"
OUTCOME_LAST = f"2 * pass_number + (state <> '{names.REQUEST_SENDING}')::INT"
VERDICTS_RELATION = f"""(
    SELECT b.*, CASE WHEN b.verdict IN ({UNDECIDED}) THEN coalesce({_standing("s")}, {_standing("d")}) END AS decision,
        t.client_ends
    FROM base AS b
    LEFT JOIN (
        WITH said AS MATERIALIZED (
            SELECT transaction_id, producer_group,
                string_agg(state || CASE WHEN is_from_check THEN ' to a check' ELSE '' END, ', ' ORDER BY first)
                    AS client_ends
            FROM (SELECT transaction_id, producer_group, state, is_from_check, min(ended_timestamp) AS first
                FROM traced GROUP BY ALL) GROUP BY ALL)
        SELECT transaction_id, producer_group, any_value(client_ends) AS client_ends
        FROM said JOIN alike USING (transaction_id, producer_group)
        GROUP BY ALL HAVING count(*) = 1) AS t  -- of those that share id and group (R66), they are of none for sure
        ON t.transaction_id = b.transaction_id AND t.producer_group = b.producer_group
    LEFT JOIN ({_last("sent", "action || ' ' || state", "requested_timestamp", OUTCOME_LAST)}) AS s ON {_same("s")}
    LEFT JOIN ({_last("decided", RECORDED, "decided_timestamp", "pass_number")}) AS d ON {_same("d")})"""
VERDICTS = View(
    command="verdicts",
    doc="The verdict of every transaction, the newest first.",
    table="verdict",
    narrow=(
        "transaction_id",
        "verdict",
        "reason",
        "producer_group",
        "broker_check_times",
        "real_topic",
        "decision",
        "last_timestamp",
        "visible_count",
        "op_count",
        "check_times",
        "broker_name",
        "client_ends",
    ),
    order=("last_timestamp desc",),
    time="last_timestamp",
    keys="transaction_id",
    filters={**TRANSACTION, "state": ("verdict",), "reason": ("reason",)},
    states=names.VERDICTS,
    reasons=reasons.VERDICTS,
    relation=VERDICTS_RELATION,
    needs=(*names.TRANSACTION_KEY, "verdict", "last_timestamp"),
    joined={
        "decided": Part(
            "manual_decision",
            (*names.TRANSACTION_KEY, "action", "is_planned_for_broker", "decided_timestamp", "pass_number"),
            may_be_missing=True,
        ),
        "sent": Part(
            "broker_request",
            (*names.TRANSACTION_KEY, "action", "state", "requested_timestamp", "pass_number"),
            may_be_missing=True,
        ),
        "traced": Part(
            "end_trace",
            ("transaction_id", "producer_group", "state", "is_from_check", "ended_timestamp"),
            may_be_missing=True,
        ),
        "alike": Part("verdict", ("transaction_id", "producer_group")),
    },
    extra=(
        Field(
            "decision",
            "string",
            True,
            "decided by hand and not shown by the verdict yet: commit, rollback or resume, and how far it has come: "
            "recorded, to be sent, or what became of the request",
        ),
        Field("client_ends", "string", True, "ends that its clients say they sent, each kind once (land.trace_topic)"),
    ),
)
ORPHANS = View(
    command="orphans",
    doc="Committed messages whose half has never landed: something was not read. The newest first.",
    table="orphan",
    narrow=(
        "transaction_id",
        "state",
        "topic",
        "queue_id",
        "queue_offset",
        "prepared_transaction_offset",
        "store_timestamp",
        "producer_group",
        "broker_name",
    ),
    order=("store_timestamp desc",),
    time="store_timestamp",
    keys="transaction_id",
    filters={**TRANSACTION, "topic": ("topic",), "state": ("state",)},
    states=(names.ORPHAN, names.ORPHAN_BEFORE_FIRST),
    relation=f"(SELECT * FROM base WHERE state <> '{names.ORPHAN_HALF_LANDED}')",
    needs=("state",),
)
