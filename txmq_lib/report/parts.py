"""What a report is made of: sections of figures and tables, in words. Knows no table and no HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from txmq_lib.report.chart import Chart
from txmq_lib.views.advice import Advice


@dataclass(frozen=True)
class Link:
    """Words that lead to a place: `#name` in the same page, or a path on the server that gave it."""

    text: str
    target: str


@dataclass(frozen=True)
class Hint:
    """Words with commands in them, which are completed so that they can be pasted."""

    text: str


Cell: TypeAlias = str | Link | Hint


@dataclass(frozen=True)
class Table:
    """Rows under a caption; columns of `numbers` (by place) stand to the right."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    numbers: Sequence[int] = ()
    note: str = ""


@dataclass(frozen=True)
class Figure:
    """A chart and the table of what it shows."""

    chart: Chart
    table: Table
    is_small: bool = False


@dataclass(frozen=True)
class StoryPart:
    """One transaction's story: its anchor, what it is called, its events, and what they call for."""

    anchor: str
    title: str
    events: Table
    advice: Advice | None = None


@dataclass(frozen=True)
class Section:
    """A part of the report under its own heading; `words` come first, `empty` stands where there is nothing else."""

    anchor: str
    title: str
    words: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    stories: Sequence[StoryPart] = ()
    empty: str = ""


def count_text(number: float) -> str:
    """A count with its thousands apart; what is no whole number with at most three digits behind the point."""
    if float(number).is_integer():
        return f"{int(number):,}"
    return f"{number:,.3f}".rstrip("0").rstrip(".")


def counted(number: int, thing: str, things: str | None = None) -> str:
    """A number of things, in the singular or the plural."""
    return f"{count_text(number)} {thing if number == 1 else things or thing + 's'}"


def time_text(moment: datetime | None) -> str:
    """A time to the second, in UTC."""
    return "-" if moment is None else moment.isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z")


def group_text(producer_group: str | None) -> str:
    """A producer group, or that there is none."""
    return producer_group or "(none)"
