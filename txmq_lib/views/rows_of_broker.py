"""How many rows tables have of a broker. No JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from txmq_lib.views.column_sql import quoted
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.scan import Scan

BROKER_NAME = "broker_name"


def rows_of_broker(
    reader: WarehouseReader, broker_name: str, tables: Mapping[str, tuple[str, Sequence[str]]]
) -> dict[str, int]:
    """The count by table; of a table that an older warehouse lacks none.

    tables  table -> which of its rows count, as SQL, and the columns that this names
    """
    reader.open_ahead(tables)

    def count(table: str) -> int:
        condition, columns = tables[table]
        scan = Scan(table, (BROKER_NAME, *columns), where=({BROKER_NAME: [broker_name]},), may_be_missing=True)
        sql = f"SELECT count(*) FROM base WHERE {quoted(BROKER_NAME)} = ? AND ({condition})"
        ((found,),) = reader.query(sql, [broker_name], {"base": scan})
        return int(found)

    return dict(zip(tables, reader.side_by_side(count, tables), strict=True))
