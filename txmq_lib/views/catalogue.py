"""The read views: which table each shows, what may be asked of it, in which order its rows come. Reads nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from txmq_lib import names
from txmq_lib.schemas import Field, table_spec

OFFSET_OK, OFFSET_BEYOND_END, OFFSET_BELOW_OLDEST, OFFSET_UNKNOWN = "ok", "beyond_end", "below_oldest", "unknown"

OFFSETS_RELATION = f"""(
    SELECT base.*, f.next_offset AS highest_offset, f.lowest_kept_offset,
        CASE WHEN f.next_offset IS NOT NULL THEN greatest(f.next_offset - base.next_offset, 0) END AS lag,
        CASE WHEN f.next_offset IS NULL THEN '{OFFSET_UNKNOWN}'
             WHEN base.next_offset > f.next_offset THEN '{OFFSET_BEYOND_END}'
             WHEN base.next_offset < f.lowest_kept_offset THEN '{OFFSET_BELOW_OLDEST}'
             ELSE '{OFFSET_OK}' END AS state
    FROM base LEFT JOIN frontier AS f USING (broker_name, topic, queue_id))"""

# A held end keeps its held row in the log of outcomes when its final one comes.
ENDS_RELATION = """(
    SELECT * FROM base
    QUALIFY row_number() OVER (PARTITION BY broker_name, origin, landed_pass, landing_order ORDER BY is_held) = 1)"""


@dataclass(frozen=True)
class View:
    """One read view.

    `narrow`   columns of the table format, the most telling first
    `order`    columns with their direction; the table's key makes it total
    `filters`  option to columns it is compared with, the first that is not null
    `states`   values that `--state` may take
    `relation` what rows are taken from, over `base` (the table, for which it needs the columns `needs`) and `joined`
    """

    command: str
    table: str
    narrow: tuple[str, ...]
    order: tuple[str, ...]
    filters: Mapping[str, tuple[str, ...]]
    states: tuple[str, ...] = ()
    relation: str = "base"
    needs: tuple[str, ...] = ()
    joined: Mapping[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    extra: tuple[Field, ...] = ()

    @property
    def fields(self) -> dict[str, Field]:
        """Every column it can show, by name, in the order of the table."""
        return {column.name: column for column in (*table_spec(self.table).fields, *self.extra)}

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of every column it can show."""
        return tuple(self.fields)


BROKER = {"broker": ("broker_name",)}
TRANSACTION = {
    **BROKER,
    "group": ("producer_group",),
    "topic": ("real_topic",),
    "transaction-id": ("transaction_id",),
}

PENDING = View(
    command="pending",
    table="pending_half",
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
    ),
    order=("first_store_timestamp",),
    filters=TRANSACTION,
)
CHECKS = View(
    command="checks",
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
    filters=TRANSACTION,
)
GIVEN_UP = View(
    command="given-up",
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
    filters={**TRANSACTION, "reason": ("reason",)},
)
MESSAGES = View(
    command="messages",
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
    filters={**TRANSACTION, "topic": ("topic",)},
)
ENDS = View(
    command="ends",
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
)
OFFSETS = View(
    command="offsets",
    table="consumer_offset",
    narrow=(
        "consumer_group",
        "topic",
        "queue_id",
        "next_offset",
        "lag",
        "state",
        "highest_offset",
        "rewind_count",
        "redelivery_count",
        "updated_timestamp",
        "broker_name",
    ),
    order=("broker_name", "consumer_group", "topic", "queue_id"),
    filters={**BROKER, "group": ("consumer_group",), "topic": ("topic",), "state": ("state",)},
    states=(OFFSET_OK, OFFSET_BEYOND_END, OFFSET_BELOW_OLDEST, OFFSET_UNKNOWN),
    relation=OFFSETS_RELATION,
    needs=("broker_name", "topic", "queue_id", "next_offset"),
    joined={
        "frontier": ("landing_frontier", ("broker_name", "topic", "queue_id", "next_offset", "lowest_kept_offset"))
    },
    extra=(
        Field("highest_offset", "long", True, "offset after the last message known in the queue; null: not known"),
        Field("lowest_kept_offset", "long", True, "lowest offset still kept at the source; null: not known"),
        Field("lag", "long", True, "messages not consumed yet, never negative; null: highest not known"),
        Field("state", "string", False, "ok, beyond_end, below_oldest or unknown"),
    ),
)
ANSWERS = View(
    command="answers",
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
    filters={**TRANSACTION, "state": ("answer",), "reason": ("reason",), "asked-for": ("asked_for",)},
    states=(names.COMMIT, names.ROLLBACK, names.UNKNOWN),
)
DECISIONS = View(
    command="decisions",
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
    filters={**TRANSACTION, "state": ("action",)},
    states=(names.COMMIT, names.ROLLBACK, names.ACTION_RESUME),
)
VERDICTS = View(
    command="verdicts",
    table="verdict",
    narrow=(
        "transaction_id",
        "verdict",
        "producer_group",
        "real_topic",
        "visible_count",
        "op_count",
        "check_times",
        "broker_check_times",
        "last_timestamp",
        "broker_name",
    ),
    order=("last_timestamp desc",),
    filters={**TRANSACTION, "state": ("verdict",)},
    states=names.VERDICTS,
)
PASSES = View(
    command="passes",
    table="pass",
    narrow=("job", "pass_number", "state", "now", "wall_timestamp", "settings_fingerprint", "counts"),
    order=("wall_timestamp desc", "job", "pass_number desc", "state"),
    filters={"job": ("job",), "state": ("state",)},
    states=("started", "committed", "abandoned"),
)
QUARANTINE = View(
    command="quarantine",
    table="quarantine",
    narrow=("kind", "reason", "detail", "source", "quarantined_timestamp", "job", "pass_number", "broker_name"),
    order=("quarantined_timestamp desc", "kind", "reason", "source"),
    filters={**BROKER, "reason": ("reason",)},
)

VIEWS = (PENDING, CHECKS, ANSWERS, GIVEN_UP, DECISIONS, MESSAGES, ENDS, OFFSETS, VERDICTS, PASSES, QUARANTINE)
