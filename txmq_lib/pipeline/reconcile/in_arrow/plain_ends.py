"""Plain ends in Arrow: nothing is to be judged of them but whether they commit or roll back (R11-R18). Pure.

Such an end names a half that is alone at its place, by its queue offset and its producer group, and nobody else ends
that transaction. Its row of end_outcome is the one that txmq_lib/rules/end.py makes of it; tests hold both together.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txmq_lib.names import COMMIT, END_COMMIT, END_ROLLBACK, OUTCOME_ACCEPTED, ROLLBACK, TRANSACTION_TOPICS
from txmq_lib.spark.arrays import Numbers

ACCEPTED_CODE: Final = 0
HALF_COLUMNS: Final = (
    *("broker_name", "commit_log_offset", "queue_id", "queue_offset", "transaction_id", "producer_group"),
    *("born_timestamp", "real_topic", "real_queue_id", "check_immunity"),
)


def are_plain(ends: pa.RecordBatch, halves: pa.RecordBatch) -> Numbers:
    """Which of `ends` would be accepted by themselves: each with the only half of its broker there.

    Whether another end is of the same transaction, or it was decided before, is not looked at.

    Columns  END_COLUMNS (rules/end.py), HALF_COLUMNS
    """
    code = ends["commit_or_rollback"]
    conditions = (
        pc.or_(pc.equal(code, END_COMMIT), pc.equal(code, END_ROLLBACK)),
        pc.equal(ends["tran_state_table_offset"], halves["queue_offset"]),
        pc.equal(ends["producer_group"], halves["producer_group"]),
        # A half that carries an immunity may refuse an end (R15).
        pc.is_null(halves["check_immunity"]),
        pc.is_valid(halves["real_topic"]),
        pc.invert(pc.is_in(halves["real_topic"], pa.array(TRANSACTION_TOPICS, pa.string()))),
        pc.greater_equal(halves["real_queue_id"], 0),
    )
    are = np.ones(ends.num_rows, bool)
    for condition in conditions:
        are &= condition.fill_null(False).to_numpy(zero_copy_only=False)
    return are


def outcome_rows(
    ends: pa.RecordBatch, halves: pa.RecordBatch, schema: pa.Schema, *, now: datetime, pass_number: int
) -> pa.RecordBatch:
    """Rows of `end_outcome` (`schema`) of plain `ends`, each with its half."""
    is_commit = pc.equal(ends["commit_or_rollback"], END_COMMIT)
    found = {
        "end_transaction_id": ends["transaction_id"],
        "transaction_id": halves["transaction_id"],
        "born_timestamp": halves["born_timestamp"],
        "half_queue_id": halves["queue_id"],
        "half_queue_offset": halves["queue_offset"],
        "real_topic": halves["real_topic"],
        "real_queue_id": halves["real_queue_id"],
        "outcome": OUTCOME_ACCEPTED,
        "decision": pc.if_else(is_commit, COMMIT, ROLLBACK),
        "code": ACCEPTED_CODE,
        "reason": None,
        "remark": None,
        "is_effective": True,
        "pass_number": pass_number,
        "judged_timestamp": now,
    }
    columns = []
    for field in schema:
        value = found[field.name] if field.name in found else ends[field.name]
        if not isinstance(value, pa.Array):
            value = pa.repeat(pa.scalar(value, field.type), ends.num_rows)
        columns.append(value if value.type == field.type else value.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
