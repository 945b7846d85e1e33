"""Rows as JSON lines, CSV or a table on stdout. Knows no table; values come as JSON would have them."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from txmq_lib.cli.formats import OutputFormat

NOTHING = "-"
GAP = 2
# Free text may be folded into its column; everything else stays on one line, whole.
FOLDED = ("detail", "source", "counts", "text", "value", "meaning", "remark")
FOLDED_WIDTH = 24
# What would move the cursor or change colours shows as its escape.
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
        writer.writerow(["" if value is None else _text(value) for value in row])
        count += 1
    return count


def write_rows(format_: OutputFormat, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Rows on stdout in the format asked for."""
    match format_:
        case OutputFormat.json:
            write_json(columns, rows, sys.stdout)
        case OutputFormat.csv:
            write_csv(columns, rows, sys.stdout)
        case OutputFormat.table:
            write_table(columns, rows)


def write_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], console: Console | None = None) -> None:
    """An aligned table. A terminal gets the first columns that fit and is told of the others; a pipe gets all of
    them, a row per line. Nothing is cut short."""
    if not rows:
        return
    cells = [[NOTHING if value is None else _text(value).translate(VISIBLE_CONTROLS) for value in row] for row in rows]
    widths = {name: max(cell_len(name), *(cell_len(row[place]) for row in cells)) for place, name in enumerate(columns)}
    console = console or Console(file=sys.stdout, highlight=False)
    if console.is_terminal:
        shown = fitting(widths, console.width)
    else:
        console.width = sum(widths.values()) + GAP * len(columns)
        shown = list(columns)
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold")
    for name in shown:
        table.add_column(Text(name), no_wrap=name not in FOLDED and name != shown[0], overflow="fold")
    for row in cells:
        table.add_row(*(Text(row[place]) for place, name in enumerate(columns) if name in shown))
    console.print(table)
    if left_out := [name for name in columns if name not in shown]:
        sys.stderr.write(f"not shown for want of width: {', '.join(left_out)}\n")


def fitting(widths: dict[str, int], room: int) -> list[str]:
    """The columns that fit into `room` beside each other, in their order; always the first."""
    shown: list[str] = []
    for name, width in widths.items():
        needed = min(width, FOLDED_WIDTH) if name in FOLDED else width
        if shown and needed > room:
            break
        shown.append(name)
        room -= needed + GAP
    return shown


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
