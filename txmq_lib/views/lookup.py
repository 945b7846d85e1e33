"""From what people have in hand (a message id, a message key, a half offset) to the transactions it belongs to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from txmq_lib.views.column_sql import quoted
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.scan import KeyValues, Scan, matching

# Tables whose rows are messages: with a physical place, KEYS, and the transaction id.
MESSAGE_TABLES = ("half_message", "message", "trans_check_max_time")
# An offset message id: the broker's address, then the physical offset in 16 hex digits.
OFFSET_MESSAGE_ID = re.compile(r"(?:[0-9A-F]{16}|[0-9A-F]{40})([0-9A-F]{16})")
# KEYS of a message are words. Looking for the text is cheaper than splitting, and few rows have it.
HAS_KEY = "({contained}) AND list_has_any(string_split({column}, ' '), ?)"
# Offsets are signed, of 64 bits.
BEYOND_OFFSETS = 1 << 63


def key_condition(column: str, keys: Sequence[str]) -> tuple[str, list[Any]]:
    """Whether any of `keys` is a word of the SQL expression `column`, with the bound parameters."""
    contained = " OR ".join(f"contains({column}, ?)" for _ in keys)
    return HAS_KEY.format(contained=contained, column=column), [*keys, list(keys)]


def transactions_with_keys(reader: WarehouseReader, keys: Sequence[str]) -> list[str]:
    """Ids of the transactions whose half, visible or given-up message has any of `keys` among the words of KEYS."""
    condition, parameters = key_condition("keys", keys)
    return _ids(reader, MESSAGE_TABLES, ("keys",), condition, parameters)


def transactions_of_message(reader: WarehouseReader, message_id: str) -> list[str]:
    """Ids of the transactions that have a message of this offset message id; none where it is no such id."""
    form = OFFSET_MESSAGE_ID.fullmatch(message_id.upper())
    if form is None:
        return []
    # The place within the id spares reading: physical offsets ascend from file to file.
    place = int(form[1], 16)
    if place >= BEYOND_OFFSETS:
        return []
    where: KeyValues = {"commit_log_offset": [place], "offset_msg_id": [message_id.upper()]}
    return _ids(reader, MESSAGE_TABLES, tuple(where), *matching((where,)), where=(where,))


def transactions_at_half(reader: WarehouseReader, queue_offset: int, brokers: Sequence[str] = ()) -> list[str]:
    """Ids of the transactions that have a half row at this offset of a half queue."""
    if queue_offset >= BEYOND_OFFSETS:
        return []
    where: KeyValues = {"queue_offset": [queue_offset], **({"broker_name": brokers} if brokers else {})}
    return _ids(reader, ("half_message",), tuple(where), *matching((where,)), where=(where,))


def _ids(
    reader: WarehouseReader,
    tables: Sequence[str],
    columns: tuple[str, ...],
    condition: str,
    parameters: list[Any],
    where: tuple[KeyValues, ...] = (),
) -> list[str]:
    sql = f"SELECT DISTINCT {quoted('transaction_id')} FROM base WHERE ({condition}) AND transaction_id IS NOT NULL"
    found: set[str] = set()
    for table in tables:
        rows = reader.query(sql, parameters, {"base": Scan(table, ("transaction_id", *columns), where)})
        found.update(row[0] for row in rows)
    return sorted(found)
