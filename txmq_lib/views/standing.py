"""What transactions are as a person decides about them, from what has landed. Starts no JVM; `--apply` judges anew.

What a transaction is follows from its rows as they are: a visible message or an op decides it, else a given-up row that
nobody has resumed, else it is pending. The verdict of the last audit gives a decided one its name, and tells of an
orphan with its id (RESOLVED_UNKNOWN). It was DIVERTED only as long as no half had landed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from txmq_lib import names
from txmq_lib.views.column_sql import output
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.scan import KeyValues, Scan, sql_literals

KEY = ", ".join(names.TRANSACTION_KEY)
SAME = " AND ".join(f"{{0}}.{name} IS NOT DISTINCT FROM {{1}}.{name}" for name in names.TRANSACTION_KEY)

# Every transaction of `wanted`, where its newest half lies, and what decides it. Named once each: scans may be streams.
STANDING = f"""
WITH halves AS MATERIALIZED (SELECT * FROM half),
lost AS MATERIALIZED (SELECT * FROM given),
ours AS MATERIALIZED (SELECT * FROM decided),
placed AS (
    SELECT {KEY}, arg_max(queue_id, commit_log_offset) AS queue_id, max(commit_log_offset) AS commit_log_offset,
        arg_max(queue_offset, commit_log_offset) AS tran_state_table_offset,
        arg_max(real_topic, commit_log_offset) AS real_topic
    FROM halves GROUP BY ALL),
places AS (
    SELECT {KEY}, commit_log_offset AS place FROM halves UNION SELECT {KEY}, commit_log_offset AS place FROM lost),
seen AS (  -- what the audit counts as visible: committed, of a half that is there, in its real topic
    SELECT {", ".join(f"p.{name}" for name in names.TRANSACTION_KEY)}, count(*) AS visible
    FROM message AS m JOIN places AS t ON {SAME.format("t", "m")} AND t.place = m.prepared_transaction_offset
        JOIN placed AS p ON {SAME.format("p", "m")} AND p.real_topic = m.topic
    WHERE m.sys_flag & {names.SYS_FLAG_TRANSACTION_MASK} = {names.SYS_FLAG_COMMIT} GROUP BY ALL),
closed AS (
    SELECT DISTINCT {", ".join(f"h.{name}" for name in names.TRANSACTION_KEY)}, true AS has_op
    FROM halves AS h JOIN op AS o ON o.broker_name = h.broker_name AND o.queue_id = h.queue_id
        AND o.half_queue_offset = CASE WHEN o.queue_id = {names.ROCKSDB_QUEUE_ID} THEN h.commit_log_offset
            ELSE h.queue_offset END),
resumed AS (
    SELECT {KEY}, max(given_up_queue_offset) AS upto FROM ours WHERE action = '{names.ACTION_RESUME}' GROUP BY ALL),
settled AS (
    SELECT {KEY}, arg_min(action, pass_number) AS settled_as, arg_min(decided_by, pass_number) AS settled_by,
        arg_min(reason, pass_number) AS settled_why
    FROM ours WHERE action IN ('{names.COMMIT}', '{names.ROLLBACK}') GROUP BY ALL),
held AS (
    SELECT {KEY}, arg_max(action, pass_number) = '{names.ACTION_HOLD}' AS is_held
    FROM ours WHERE action IN ('{names.ACTION_HOLD}', '{names.ACTION_RELEASE}') GROUP BY ALL),
given_up AS (
    SELECT {KEY}, max(queue_offset) AS newest, arg_max(commit_log_offset, queue_offset) AS newest_at,
        max(coalesce(half_commit_log_offset, commit_log_offset)) AS last_place
    FROM lost GROUP BY ALL)
SELECT {", ".join(f"p.{name}" for name in names.TRANSACTION_KEY if name != "born_timestamp")},
    {output("p.born_timestamp", "timestamp")} AS born_timestamp,
    p.real_topic, p.tran_state_table_offset, p.commit_log_offset,
    CASE WHEN coalesce(visible, 0) > 0 OR has_op THEN CASE WHEN v.verdict IN ({sql_literals(names.UNDECIDED)}) THEN NULL
            ELSE v.verdict END
        WHEN v.verdict = '{names.RESOLVED_UNKNOWN}' THEN v.verdict
        WHEN newest IS NOT NULL AND (upto IS NULL OR newest > upto)
            AND coalesce(p.commit_log_offset <= last_place, true) THEN '{names.DISCARDED}'  -- no half behind it (R73)
        WHEN v.verdict IN ({sql_literals([*names.WITHOUT_TRACE, *names.STILL_ASKED])}) THEN v.verdict
        ELSE '{names.PENDING}' END AS verdict,
    coalesce(visible, 0) > 0 OR coalesce(has_op, false) AS is_decided, upto IS NOT NULL AS is_resumed,
    settled_as, settled_by, settled_why, epoch_ms(p.born_timestamp) AS born_ms,
    coalesce(is_held, false) AS is_held, newest AS given_up_queue_offset, newest_at AS given_up_commit_log_offset
FROM placed AS p LEFT JOIN seen AS s ON {SAME.format("s", "p")} LEFT JOIN closed AS c ON {SAME.format("c", "p")}
    LEFT JOIN resumed AS r ON {SAME.format("r", "p")} LEFT JOIN settled AS d ON {SAME.format("d", "p")}
    LEFT JOIN held AS k ON {SAME.format("k", "p")}
    LEFT JOIN given_up AS g ON {SAME.format("g", "p")} LEFT JOIN verdict AS v ON {SAME.format("v", "p")}
ORDER BY p.born_timestamp, p.broker_name, p.transaction_id, p.producer_group"""
COLUMNS = (
    *(name for name in names.TRANSACTION_KEY if name != "born_timestamp"),
    *("born_timestamp", "real_topic", "tran_state_table_offset", "commit_log_offset", "verdict", "is_decided"),
    *("is_resumed", "settled_as", "settled_by", "settled_why", "born_ms", "is_held"),
    *("given_up_queue_offset", "given_up_commit_log_offset"),
)
GIVEN_UP = ("queue_offset", "commit_log_offset", "half_commit_log_offset")
OF_MESSAGE = ("topic", "sys_flag", "prepared_transaction_offset")
PLACE = ("queue_id", "queue_offset", "commit_log_offset", "real_topic")

Planned = dict[str, Any]


@dataclass(frozen=True)
class Chosen:
    """Which transactions a person means; () leaves open."""

    transaction_ids: Sequence[str] = ()
    groups: Sequence[str] = ()
    brokers: Sequence[str] = ()
    born_ms: int | None = None

    @property
    def where(self) -> tuple[KeyValues, ...]:
        """As a scan takes it."""
        found = {"transaction_id": self.transaction_ids, "producer_group": self.groups, "broker_name": self.brokers}
        match: dict[str, Sequence[str | int]] = {name: values for name, values in found.items() if values}
        return (match,) if match else ()


@dataclass(frozen=True)
class Limits:
    """What is said of brokers: whether one decides itself, and for how long it keeps a half."""

    is_brokers: Callable[[str], bool]
    reserved_ms: Callable[[str], int]


def standing(reader: WarehouseReader, chosen: Chosen, limits: Limits) -> list[Planned]:
    """The transactions of `chosen` that have a half: a row of COLUMNS and `is_brokers` each, the first born first."""
    where = chosen.where
    ours = (*names.TRANSACTION_KEY, "action", "decided_by", "reason", "given_up_queue_offset", "pass_number")
    scans = {
        "half": Scan("half_message", (*names.TRANSACTION_KEY, *PLACE), where),
        "message": Scan("message", (*names.TRANSACTION_KEY, *OF_MESSAGE), where),
        "op": Scan("op_message", ("broker_name", "queue_id", "half_queue_offset"), _broker_alone(chosen)),
        "given": Scan("trans_check_max_time", (*names.TRANSACTION_KEY, *GIVEN_UP), where),
        "decided": Scan("manual_decision", ours, where, may_be_missing=True),
        "verdict": Scan("verdict", (*names.TRANSACTION_KEY, "verdict"), where),
    }
    rows = reader.query(STANDING, [], scans)
    found = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    kept = [row for row in found if _is_meant(row, chosen)]
    return [{**row, "is_brokers": limits.is_brokers(row["broker_name"])} for row in kept]


def given_up_ids(reader: WarehouseReader, chosen: Chosen) -> list[str]:
    """The ids of all transactions of `chosen` that were ever given up, or, as the last audit says, without a trace."""
    key = ("transaction_id", "producer_group", "broker_name")
    scans = {
        "given": Scan("trans_check_max_time", key, chosen.where),
        "verdict": Scan("verdict", (*key, "verdict"), chosen.where),
    }
    terms = {"transaction_id": chosen.transaction_ids, "producer_group": chosen.groups, "broker_name": chosen.brokers}
    condition = " AND ".join(f"{column} IN ({', '.join('?' * len(of))})" for column, of in terms.items() if of)
    values = [value for of in terms.values() for value in of]
    sql = f"""
        SELECT DISTINCT transaction_id FROM (
            SELECT transaction_id, producer_group, broker_name FROM given
            UNION ALL SELECT transaction_id, producer_group, broker_name FROM verdict
                WHERE verdict IN ({sql_literals(names.GIVEN_UP_VERDICTS)}))
        WHERE {condition or "true"} AND transaction_id IS NOT NULL"""
    return [row[0] for row in reader.query(sql, list(values), scans)]


def is_expired(row: Mapping[str, Any], limits: Limits, now: datetime) -> bool:
    """Whether a row of `standing` is older than its broker keeps halves: given up again at once (R45, R73)."""
    age_ms = now.timestamp() * 1000 - (row["born_ms"] or 0)
    return row["born_ms"] is not None and age_ms > limits.reserved_ms(row["broker_name"])


def _broker_alone(chosen: Chosen) -> tuple[KeyValues, ...]:
    return ({"broker_name": chosen.brokers},) if chosen.brokers else ()


def _is_meant(row: Mapping[str, Any], chosen: Chosen) -> bool:
    """Scans may hold more than what is meant."""
    return (
        (not chosen.transaction_ids or row["transaction_id"] in chosen.transaction_ids)
        and (not chosen.groups or row["producer_group"] in chosen.groups)
        and (not chosen.brokers or row["broker_name"] in chosen.brokers)
        and (chosen.born_ms is None or row["born_ms"] == chosen.born_ms)
    )
