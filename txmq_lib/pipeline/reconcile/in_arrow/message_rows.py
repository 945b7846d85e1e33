"""What a decision makes of rows of half_message in Arrow: restored messages (R20), given-up ones (R70). Pure.

The same rows that txmq_lib/rules/effects.py makes of frames; bodies are passed on as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txmq_lib.names import (
    ORIGIN_TXMQ,
    PROPERTY_CHECK_TIMES,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_TRAN_MSG,
    SYS_FLAG_COMMIT,
    SYS_FLAG_TRANSACTION_MASK,
)

CLEARED: Final = (PROPERTY_REAL_TOPIC, PROPERTY_REAL_QUEUE_ID, PROPERTY_TRAN_MSG)
DESTINATION: Final = ("topic", "queue_id", "queue_offset")


def restored(
    halves: pa.RecordBatch, destinations: pa.Table, schema: pa.Schema, *, now: datetime, pass_number: int
) -> pa.RecordBatch:
    """Rows of `message` (`schema`): each half in its real topic, committed, without REAL_TOPIC, REAL_QID and TRAN_MSG.

    destinations  DESTINATION of each half, in the same order
    """
    type_cleared = pc.bit_wise_and(halves["sys_flag"], pa.scalar(~SYS_FLAG_TRANSACTION_MASK, pa.int32()))
    changed = {
        **{name: _whole(destinations[name]) for name in DESTINATION},
        "sys_flag": pc.bit_wise_or(type_cleared, pa.scalar(SYS_FLAG_COMMIT, pa.int32())),
        "prepared_transaction_offset": halves["commit_log_offset"],
        "properties": _without(halves["properties"], CLEARED),
        "offset_msg_id": None,
        **_written_by_us(now, pass_number),
    }
    return _rows(halves, changed, schema)


def given_up(
    halves: pa.RecordBatch,
    destinations: pa.Table,
    schema: pa.Schema,
    *,
    now: datetime,
    pass_number: int,
    rolls_back: bool,
) -> pa.RecordBatch:
    """Rows of `trans_check_max_time` (`schema`): each half in that topic, with TRANSACTION_CHECK_TIMES as asked.

    destinations  DESTINATION, check_times and reason of each half, in the same order
    """
    check_times = _whole(destinations["check_times"])
    changed = {
        **{name: _whole(destinations[name]) for name in DESTINATION},
        "properties": _with_one(
            _without(halves["properties"], (PROPERTY_CHECK_TIMES,)), PROPERTY_CHECK_TIMES, check_times
        ),
        "half_queue_offset": halves["queue_offset"],
        "half_commit_log_offset": halves["commit_log_offset"],
        "check_times": check_times,
        "reason": _whole(destinations["reason"]),
        "given_up_timestamp": now,
        "is_rolled_back": rolls_back,
        **_written_by_us(now, pass_number),
    }
    return _rows(halves, changed, schema)


def _written_by_us(now: datetime, pass_number: int) -> dict[str, Any]:
    # A place in a commit log is a broker's to give.
    return {
        "commit_log_offset": None,
        "store_timestamp": now,
        "content_hash": None,
        "origin": ORIGIN_TXMQ,
        "landed_pass": pass_number,
    }


def _rows(halves: pa.RecordBatch, changed: Mapping[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    """Columns of `schema`: those `changed`, an array or one value for all rows; the others as the halves have them."""
    columns = []
    for field in schema:
        # A file of an older version has no column that came since.
        landed = halves[field.name] if field.name in halves.schema.names else None
        value = changed.get(field.name, landed)
        if not isinstance(value, pa.Array):
            value = pa.repeat(pa.scalar(value, field.type), halves.num_rows)
        columns.append(value if value.type == field.type else value.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """All chunks of a column as one array."""
    whole = column.combine_chunks()
    return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)


def _without(properties: pa.MapArray, names: Sequence[str]) -> pa.MapArray:
    """`properties` without those of `names`; none of them is null."""
    # A slice has offsets into the keys of the whole.
    offsets = properties.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    keys, items = (part.slice(first, last - first) for part in (properties.keys, properties.items))
    is_kept = pc.invert(pc.is_in(keys, pa.array(names)))
    kept_before = np.concatenate(([0], np.cumsum(is_kept.to_numpy(zero_copy_only=False), dtype=np.int32)))
    kept = pa.array(kept_before[offsets - first].astype(np.int32))
    return pa.MapArray.from_arrays(kept, keys.filter(is_kept), items.filter(is_kept))


def _with_one(properties: pa.MapArray, name: str, values: pa.Array) -> pa.MapArray:
    """`properties`, which do not have `name`, with it, last; numbers become texts. Their offsets begin at 0."""
    count = len(properties)
    offsets = properties.offsets.to_numpy()
    ends = offsets[1:] + np.arange(1, count + 1)
    # Where each entry comes from: those there are first, then one for each row.
    source = np.zeros(len(properties.keys) + count, np.int64)
    is_new = np.zeros(len(source), bool)
    is_new[ends - 1] = True
    source[is_new] = np.arange(len(properties.keys), len(source))
    source[~is_new] = np.arange(len(properties.keys))
    keys = pa.concat_arrays([properties.keys, pa.repeat(pa.scalar(name), count)]).take(pa.array(source))
    items = pa.concat_arrays([properties.items, values.cast(pa.string())]).take(pa.array(source))
    return pa.MapArray.from_arrays(pa.array(np.concatenate(([0], ends)).astype(np.int32)), keys, items)
