"""Rows as an aligned table, apart from `render` because rich takes its time to load. Knows no table's columns."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from txmq_lib.cli.output.render import as_text
from txmq_lib.cli.output.said import say
from txmq_lib.escaping import visible

NOTHING = "-"
GAP = 2
# Free text may be folded into its column; everything else stays on one line, whole.
FOLDED = ("detail", "source", "counts", "text", "value", "meaning", "remark")
FOLDED_WIDTH = 24


def write_table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], console: Console | None = None, *, is_whole: bool = False
) -> None:
    """An aligned table. A terminal gets the first columns that fit and is told of the others, or all of them where
    `is_whole`; a pipe gets all, a row per line. Nothing is cut short."""
    if not rows:
        return
    cells = [[NOTHING if value is None else visible(as_text(value)) for value in row] for row in rows]
    widths = {name: max(cell_len(name), *(cell_len(row[place]) for row in cells)) for place, name in enumerate(columns)}
    console = console or Console(file=sys.stdout, highlight=False)
    if console.is_terminal and not is_whole:
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
        say(f"not shown for want of width: {', '.join(left_out)}", err=True)


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
