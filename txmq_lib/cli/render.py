"""Rows as JSON lines or CSV. Knows no table of the warehouse; values come as JSON would have them."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

# On a screen, what would move the cursor or change colours shows as its escape.
VISIBLE_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}


def write_json(columns: Sequence[str], rows: Iterable[Sequence[Any]], out: TextIO) -> int:
    """One object per line, keys in column order; the number of rows."""
    count = 0
    for row in rows:
        out.write(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) + "\n")
        count += 1
    return count


def write_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]], out: TextIO) -> int:
    """A header and the rows, nested values as JSON text, null as nothing; the number of rows."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    count = 0
    for row in rows:
        writer.writerow(["" if value is None else as_text(value) for value in row])
        count += 1
    return count


def as_text(value: object) -> str:
    """A value as a cell has it: nested ones as JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
