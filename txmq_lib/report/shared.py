"""What several sections share: figures over time, and notes on what is not drawn or listed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from txmq_lib.report import charts
from txmq_lib.report.chart import Chart
from txmq_lib.report.parts import Figure, Table, count_text, time_text
from txmq_lib.report.period import Period
from txmq_lib.views.status import span_text

BARS_DRAWN = 12
ROWS_LISTED = 60


def figure_over_time(
    title: str,
    summary: str,
    lines: Mapping[str, Sequence[int]],
    period: Period,
    hues: Sequence[str],
    *,
    are_bars: bool = False,
) -> Figure:
    """Transactions over time per series: bars of what came within a part, or areas of what there was at its end."""
    ends = period.ends()
    draw = charts.stacked_bars if are_bars else charts.stacked_areas
    chart = Chart(title, summary, draw(lines, ends, "transactions", hues))
    first = "from" if are_bars else "at"
    rows = [
        (time_text(at - period.step if are_bars else at), *(count_text(line[place]) for line in lines.values()))
        for place, at in enumerate(ends)
        if any(line[place] for line in lines.values())
    ]
    return Figure(chart, Table(title, (first, *lines), rows, numbers=range(1, len(lines) + 1)))


def drawn_note(count: int, things: str) -> str:
    """How many of the things a chart draws, where it leaves some out."""
    return f" The first {BARS_DRAWN} of {count_text(count)} {things} are drawn." if count > BARS_DRAWN else ""


def left_out(count: int, things: str, command: str, listed: int = ROWS_LISTED) -> str:
    """How many more there are than a table lists, and the command that shows them."""
    return f"{count_text(count - listed)} more {things}: {command}" if count > listed else ""


def ago(now: datetime, moment: datetime | None) -> str:
    """How long before `now`, in words."""
    return "-" if moment is None else f"{span_text(now - moment)} ago"
