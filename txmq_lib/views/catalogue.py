"""The read views: which table each shows, what may be asked of it, in which order its rows come. Reads nothing."""

from __future__ import annotations

from txmq_lib import names
from txmq_lib.config.table_specs import RUN_TABLE, Field
from txmq_lib.views.view import Part, View

# A landing is told by the row that ended it, while there is one.
LANDED_RELATION = """(
    SELECT *, json_extract_string(arguments, '$.broker_name') AS broker_name,
        json_extract_string(arguments, '$.kind') AS kind,
        coalesce(json_extract_string(arguments, '$.path'),
                 array_to_string(json_extract_string(arguments, '$.files[*].path'), ' ')) AS source
    FROM base WHERE job = 'land'
    QUALIFY row_number() OVER (PARTITION BY pass_number ORDER BY state = 'started') = 1)"""

# A pass is told by the row that ended it, while there is one.
PASSES_RELATION = """(
    SELECT *, CASE WHEN state <> 'started' 
        THEN round(epoch(wall_timestamp) - epoch(started_timestamp), 3) END AS duration_s
    FROM (SELECT *, min(wall_timestamp) OVER (PARTITION BY job, pass_number) AS started_timestamp FROM base)
    QUALIFY row_number() OVER (PARTITION BY job, pass_number ORDER BY state = 'started') = 1)"""

# A held end keeps its held row in the log of outcomes when its final one comes. Few are held.
ENDS_RELATION = """(
    SELECT * FROM base WHERE NOT is_held
    UNION ALL BY NAME
    SELECT * FROM held AS h WHERE is_held AND NOT EXISTS (
        FROM judged AS j WHERE NOT j.is_held AND j.broker_name = h.broker_name AND j.origin = h.origin
            AND j.landed_pass = h.landed_pass AND j.landing_order = h.landing_order))"""

# A request is recorded before it goes out; once its outcome is known that row says it all.
SENT_RELATION = f"""(
    SELECT * FROM base AS b WHERE state <> '{names.REQUEST_SENDING}' OR NOT EXISTS (
        FROM told AS t WHERE t.state <> '{names.REQUEST_SENDING}' AND t.broker_name = b.broker_name
            AND t.transaction_id = b.transaction_id AND t.action = b.action
            AND t.commit_log_offset = b.commit_log_offset AND t.pass_number = b.pass_number))"""

# What was decided by hand of a transaction whose verdict is undecided still, and how far that has come.
UNDECIDED = ", ".join(f"'{verdict}'" for verdict in names.UNDECIDED)
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
    # A resume is used up by the next giving up. Not in the join: DuckDB would compare every row with every other.
    is_used_up = f"b.verdict <> '{names.DISCARDED}' OR {name}.at < b.last_timestamp"
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

# Of a broker that was asked, a group without a row has no client connected.
PENDING_RELATION = """(
    SELECT base.*, CASE WHEN e.broker_name IS NOT NULL THEN coalesce(c.clients, 0) END AS clients
    FROM base LEFT JOIN (SELECT broker_name FROM every WHERE producer_group = '*') AS e USING (broker_name)
    LEFT JOIN connected AS c ON c.broker_name = base.broker_name AND c.producer_group = base.producer_group)"""
CONNECTED = ("broker_name", "producer_group", "clients")

BROKERS_RELATION = """(
    SELECT base.*, s.kind, s.source, s.version, s.store_type, s.broker_role, s.set_ups, s.differences,
        f.read_to_timestamp, c.check_cursors
    FROM base LEFT JOIN found AS s USING (broker_name)
    LEFT JOIN (SELECT broker_name, max(highest_store_timestamp) AS read_to_timestamp FROM frontier GROUP BY ALL) AS f
        USING (broker_name)
    LEFT JOIN (
        SELECT broker_name, string_agg(queue_id || ':' || coalesce(half_offset::VARCHAR, 'none'), ' ' ORDER BY queue_id)
            AS check_cursors
        FROM cursors GROUP BY ALL) AS c USING (broker_name))"""

BROKER = {"broker": ("broker_name",)}
TRANSACTION = {
    **BROKER,
    "group": ("producer_group",),
    "topic": ("real_topic",),
    "transaction-id": ("transaction_id",),
}

PENDING = View(
    command="pending",
    doc="Undecided transactions, the oldest first: how often asked, when next due.",
    table="pending_half",
    elsewhere="txmq verdicts --state discarded lists what was given up undecided",
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
OFFSETS = View(
    command="offsets",
    doc="Next offset, lag and state of every consumer queue, and what its group does with it over the last window.",
    table="consumer_offset",
    narrow=(
        "consumer_group",
        "topic",
        "queue_id",
        "next_offset",
        "lag",
        "lag_ms",
        "lag_state",
        "state",
        "highest_offset",
        "rewind_count",
        "redelivery_count",
        "updated_timestamp",
        "broker_name",
    ),
    order=("broker_name", "consumer_group", "topic", "queue_id"),
    time="updated_timestamp",
    filters={
        **BROKER,
        "group": ("consumer_group",),
        "topic": ("topic",),
        "state": ("state",),
        "lag-state": ("lag_state",),
    },
    states=(names.OFFSET_OK, names.OFFSET_BEYOND_END, names.OFFSET_BELOW_OLDEST, names.OFFSET_UNKNOWN),
    needs=(
        "broker_name",
        "consumer_group",
        "topic",
        "queue_id",
        "next_offset",
        "updated_timestamp",
        "last_report_timestamp",
        "rewind_count",
        "rewinds",
    ),
    is_lag_judged=True,
    extra=(
        Field("highest_offset", "long", True, "offset after the last message known in the queue; null: not known"),
        Field("lowest_kept_offset", "long", True, "lowest offset still kept at the source; null: not known"),
        Field("lag", "long", True, "messages not consumed yet, never negative; null: highest not known"),
        Field("state", "string", False, "ok, beyond_end, below_oldest or unknown"),
        Field("lag_ms", "long", True, "how long the next message has been stored; null: it has not landed"),
        Field("lag_state", "string", False, "fine, falling_behind, stalled, stopped, rewound, ... (views/lag.py)"),
        Field("judged_timestamp", "timestamp", True, "lag_ms and lag_state are as of this: the newest thing landed"),
        Field("is_broadcast", "boolean", False, "true where the broker keeps the group's offsets as a broadcast one's"),
    ),
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
VERDICTS = View(
    command="verdicts",
    doc="The verdict of every transaction, the newest first.",
    table="verdict",
    narrow=(
        "transaction_id",
        "verdict",
        "reason",
        "decision",
        "producer_group",
        "real_topic",
        "visible_count",
        "op_count",
        "check_times",
        "broker_check_times",
        "last_timestamp",
        "broker_name",
        "client_ends",
    ),
    order=("last_timestamp desc",),
    time="last_timestamp",
    keys="transaction_id",
    filters={**TRANSACTION, "state": ("verdict",), "reason": ("reason",)},
    states=names.VERDICTS,
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
BROKERS = View(
    command="brokers",
    doc="Every broker: role, version, store, how it is set up, limits that differ from ours, read to, check cursors.",
    table="broker",
    narrow=(
        "broker_name",
        "role",
        "version",
        "broker_role",
        "set_ups",
        "differences",
        "read_to_timestamp",
        "check_cursors",
        "kind",
    ),
    order=("broker_name",),
    time="recorded_timestamp",
    filters=BROKER,
    relation=BROKERS_RELATION,
    needs=("broker_name",),
    joined={
        "found": Part(
            "broker_set_up",
            ("broker_name", "kind", "source", "version", "store_type", "broker_role", "set_ups", "differences"),
        ),
        "frontier": Part("landing_frontier", ("broker_name", "highest_store_timestamp")),
        "cursors": Part("check_cursor", ("broker_name", "queue_id", "half_offset")),
    },
    extra=(
        Field("kind", "string", True, "store or rocketmq (live); null where only files landed"),
        Field("source", "string", True, "the store directory, or the address of the broker"),
        Field("version", "string", True, "of RocketMQ, as a live broker says it"),
        Field("store_type", "string", True, "storeType of its settings"),
        Field("broker_role", "string", True, "brokerRole of its settings: a master or SLAVE"),
        Field("set_ups", "string", True, "in what it is not set up as by default (page of set-ups); empty: in nothing"),
        Field("differences", "string", True, "its limits that txmq counts on otherwise; empty: in none"),
        Field("read_to_timestamp", "timestamp", True, "highest store time landed"),
        Field("check_cursors", "string", True, "where its own checks stand: queue:offset of each half queue"),
    ),
)
PASSES = View(
    command="passes",
    doc="Every pass, the newest first: committed, abandoned or only started, and how long it took.",
    table="pass",
    narrow=("job", "pass_number", "state", "started_timestamp", "duration_s", "now", "settings_fingerprint", "counts"),
    order=("wall_timestamp desc", "job", "pass_number desc", "state"),
    time="wall_timestamp",
    filters={"job": ("job",), "state": ("state",)},
    states=("started", "committed", "abandoned"),
    relation=PASSES_RELATION,
    is_whole=True,
    needs=("job", "pass_number", "state", "wall_timestamp"),
    extra=(
        Field("started_timestamp", "timestamp", False, "wall clock when it was planned"),
        Field("duration_s", "double", True, "seconds from there to its end; null: it has not ended"),
    ),
)
RUNS = View(
    command="runs",
    doc="Every run of a command that makes passes, the newest first: what became of it, and what failed.",
    table=RUN_TABLE,
    narrow=(
        "started_timestamp",
        "command",
        "outcome",
        "error_code",
        "seconds",
        "passes",
        "error",
        "started_by",
    ),
    order=("started_timestamp desc",),
    time="started_timestamp",
    filters={"command": ("command",), "state": ("outcome",), "reason": ("error_code",)},
    states=names.RUN_OUTCOMES,
)
LANDED = View(
    command="landed",
    doc="What was landed, the newest first: for which broker, from which files or store, how many rows.",
    table="pass",
    narrow=("pass_number", "broker_name", "kind", "state", "source", "wall_timestamp", "counts"),
    order=("pass_number desc",),
    time="wall_timestamp",
    filters={"broker": ("broker_name",)},
    relation=LANDED_RELATION,
    is_whole=True,
    needs=("job", "pass_number", "state", "arguments"),
    extra=(
        Field("broker_name", "string", True, "broker the rows were landed for"),
        Field("kind", "string", True, "half, op, message, max-time, end, trace, offset, ack, store or rocketmq"),
        Field("source", "string", True, "files, or the store directory"),
    ),
)
QUARANTINE = View(
    command="quarantine",
    doc="Inputs that could not be used, the newest first, each with its reason.",
    table="quarantine",
    narrow=("kind", "reason", "detail", "source", "quarantined_timestamp", "job", "pass_number", "broker_name"),
    order=("quarantined_timestamp desc", "kind", "reason", "source"),
    time="quarantined_timestamp",
    filters={**BROKER, "reason": ("reason",)},
)

VIEWS = (
    PENDING, CHECKS, ANSWERS, GIVEN_UP, DECISIONS, SENT, MESSAGES, ENDS, END_TRACES, OFFSETS, VERDICTS, ORPHANS,
    BROKERS, RUNS, PASSES, LANDED, QUARANTINE,
)  # fmt: skip
