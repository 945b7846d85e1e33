"""Rows of a view, in the form that somebody needs them in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from txmq_lib.errors import EnvironmentFault
from txmq_lib.views.mask import Mask
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.select import ViewQuery, row_count, view_rows, view_table
from txmq_lib.views.view import View

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Rows:
    """What was asked of a view. Read anew by each call, from the tables as they were when the first call came."""

    reader: WarehouseReader
    view: View
    query: ViewQuery
    mask: Mask

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
