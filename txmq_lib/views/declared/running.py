"""The views of brokers, of what landed from them, and of what ran."""

from __future__ import annotations

from txmq_lib import names
from txmq_lib.config.table_specs import RUN_TABLE, Field
from txmq_lib.views.declared import reasons
from txmq_lib.views.declared.filters import BROKER
from txmq_lib.views.view import Part, View

# A landing is told by the row that ended it, while there is one; one of several live brokers for each of them.
LANDED_RELATION = """(
    SELECT *, unnest(CASE WHEN json_exists(arguments, '$.brokers')
            THEN json_extract_string(arguments, '$.brokers[*].broker_name')
            ELSE [json_extract_string(arguments, '$.broker_name')] END) AS broker_name,
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
    reasons=reasons.RUNS,
    elsewhere="txmq passes lists every pass, whatever made it",
)
LANDED = View(
    command="landed",
    doc="What was landed, the newest first: for which broker, from which files or store, how many rows.",
    table="pass",
    narrow=("pass_number", "broker_name", "kind", "state", "source", "wall_timestamp", "counts"),
    order=("pass_number desc", "broker_name"),
    time="wall_timestamp",
    filters={"broker": ("broker_name",)},
    relation=LANDED_RELATION,
    is_whole=True,
    needs=("job", "pass_number", "state", "arguments"),
    extra=(
        Field(
            "broker_name",
            "string",
            True,
            "broker the rows were landed for; a pass over several live ones has a row for each, with the counts of all",
        ),
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
    reasons=reasons.QUARANTINE,
)
