"""Options that more than one command takes, and how rows are printed."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

TABLE_LIMIT = 50


class OutputFormat(StrEnum):
    """How rows are printed."""

    table = "table"
    json = "json"
    csv = "csv"


TABLE = OutputFormat.table

Format = Annotated[OutputFormat, typer.Option("--format", help="json: one object per line; csv: header and rows.")]
Limit = Annotated[
    int | None, typer.Option("--limit", min=1, metavar="N", help=f"Rows at most; a table shows {TABLE_LIMIT}.")
]
Values = list[str] | None
Brokers = Annotated[Values, typer.Option("--broker", metavar="NAME", help="Only of this broker; may be repeated.")]

# Where the help lists a command.
PASSES_PANEL, DECISIONS_PANEL, VIEWS_PANEL, MORE_PANEL = "Passes", "Decisions", "Read views (no JVM)", "More"
