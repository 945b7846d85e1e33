"""Rows of a view, in the form that somebody needs them in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from html import escape
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from txmq_lib.errors import EnvironmentFault
from txmq_lib.escaping import page_words
from txmq_lib.views.mask import Mask
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.select import ViewQuery, row_count, view_rows, view_table
from txmq_lib.views.view import View

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

SHOWN_ROWS = 20  # in a notebook


@dataclass(frozen=True)
class Rows:
    """What was asked of a view. Read anew by each call, from the tables as they were when the first call came."""

    reader: WarehouseReader
    view: View
    query: ViewQuery
    mask: Mask

    def __repr__(self) -> str:
        """What was asked, not what came of it."""
        asked_for = ", ".join(f"{name}={'|'.join(values)}" for name, values in self.query.filters.items())
        return f"<rows of {self.view.command}{': ' if asked_for else ''}{asked_for}; .arrow(), .pandas(), .count()>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the columns that the command line shows, of the first rows."""
        columns = self.view.narrow
        first = replace(self.query, limit=min(self.query.limit or SHOWN_ROWS, SHOWN_ROWS))
        listed = list(view_rows(self.reader, self.view, first, columns=columns, mask=self.mask))
        lines = [_html_row("th", columns), *(_html_row("td", row) for row in listed)]
        return f"<table>{''.join(lines)}</table><p>{len(listed)} of {self.count()} rows</p>"

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Each row by column name, values as the JSON of the command line has them: times as ISO 8601, bytes base64."""
        columns = self.view.columns
        for row in view_rows(self.reader, self.view, self.query, columns=columns, mask=self.mask):
            yield dict(zip(columns, row, strict=True))

    def count(self) -> int:
        """How many rows there are, whatever `limit` was asked for; no column is read that no filter needs."""
        return row_count(self.reader, self.view, self.query)

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table: times with their zone (UTC), bodies as bytes, properties as a map."""
        return view_table(self.reader, self.view, self.query, mask=self.mask)

    def pandas(self) -> Any:  # noqa: ANN401 - a pandas.DataFrame; txmq does not need pandas itself
        """The rows as a pandas frame of Arrow types, so that whole numbers stay so. EnvironmentFault without pandas."""
        pandas = _installed("pandas")
        return self.arrow().to_pandas(types_mapper=pandas.ArrowDtype)

    def polars(self) -> Any:  # noqa: ANN401 - a polars.DataFrame; txmq does not need polars itself
        """The rows as a Polars frame. EnvironmentFault without Polars."""
        return _installed("polars").from_arrow(self.arrow())

    def spark(self, session: SparkSession) -> DataFrame:
        """The rows as a frame of this session. They go through this process; read the tables for millions."""
        return session.createDataFrame(self.arrow())


def _installed(library: str) -> ModuleType:
    try:
        return import_module(library)
    except ImportError as error:
        raise EnvironmentFault(f"{library} is not installed: pip install {library}, or take .arrow()") from error


def _html_row(kind: str, values: Iterable[object]) -> str:
    cells = (escape("" if value is None else page_words(str(value))) for value in values)
    return f"<tr>{''.join(f'<{kind}>{cell}</{kind}>' for cell in cells)}</tr>"
