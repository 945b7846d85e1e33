"""Which rows `take-back` takes: all of a broker, or what was decided of it and what follows. Needs no Spark."""

from __future__ import annotations

from typing import Final, NamedTuple

from txmq_lib.config.table_specs import table_specs
from txmq_lib.names import KEY_CONFLICT, MET_TXMQ, ORIGIN_LANDED


class Which(NamedTuple):
    """Rows of a table: a condition in SQL that Spark and DuckDB read alike, and the columns that it names."""

    condition: str
    columns: tuple[str, ...] = ()


ALL: Final = Which("true")
MET_TXMQ_THERE: Final = f"reason = '{KEY_CONFLICT}' and coalesce(detail, '') like '{MET_TXMQ}%'"
WRITTEN_HERE: Final = Which(f"origin <> '{ORIGIN_LANDED}'", ("origin",))
# Whatever a table says, it says of one broker: offsets, transactions and queues of brokers never meet.
TABLES: Final = dict.fromkeys((name for name, spec in table_specs().items() if "broker_name" in spec.columns), ALL)
# What was decided of a broker, and what follows: which rows of which table. What was sent to it cannot be taken back.
DECISIONS: Final = {
    "check_answer": ALL,
    "check_request": ALL,
    "end_outcome": ALL,
    "end_transaction": WRITTEN_HERE,
    "landing_frontier": ALL,
    "manual_decision": ALL,
    "message": WRITTEN_HERE,
    "op_message": WRITTEN_HERE,
    "orphan": ALL,
    "pending_half": ALL,
    # A broker's own rows, where txmq's lay, and ends refused.
    "quarantine": Which(f"({MET_TXMQ_THERE}) or job = 'reconcile'", ("reason", "detail", "job")),
    "trans_check_max_time": WRITTEN_HERE,
    "verdict": ALL,
}
