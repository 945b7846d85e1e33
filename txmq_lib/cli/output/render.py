"""Rows as JSON lines or CSV. Knows no table of the warehouse; values come as JSON would have them."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from txmq_lib.escaping import json_text, spreadsheet_cell


def write_json(columns: Sequence[str], rows: Iterable[Sequence[Any]], out: TextIO) -> int:
    """One object per line, keys in column order; the number of rows."""
    count = 0
    for row in rows:
        out.write(json_text(dict(zip(columns, row, strict=True))) + "\n")
        count += 1
    return count


def write_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]], out: TextIO) -> int:
    """A header and the rows, nested values as JSON text, null as nothing, no text a formula; the number of rows."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    count = 0
    for row in rows:
        writer.writerow([_cell(value) for value in row])
        count += 1
    return count


def _cell(value: object) -> str:
    if value is None:
        return ""
    # A number may begin with a minus.
    return as_text(value) if isinstance(value, int | float) else spreadsheet_cell(as_text(value))


def as_text(value: object) -> str:
    """A value as a cell has it: nested ones as JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
