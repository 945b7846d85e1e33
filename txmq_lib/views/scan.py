"""What is asked of a table: columns, and which of its rows; that as SQL for DuckDB and for deltalake. Reads nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

from txmq_lib.config.table_specs import table_spec
from txmq_lib.views.column_sql import duckdb_type, quoted

# Values that may stand in what deltalake is asked: it looks at them one within the other, and 10,000 end the process.
MOST_VALUES = 1000


KeyValues: TypeAlias = Mapping[str, Sequence[str | int]]


@dataclass(frozen=True)
class Span:
    """Rows whose `column` is at or after `since` and before `before`; None: no bound."""

    column: str
    since: datetime | None = None
    before: datetime | None = None

    def bounds(self) -> list[tuple[str, datetime]]:
        """The comparisons it stands for."""
        return [(sign, moment) for sign, moment in ((">=", self.since), ("<", self.before)) if moment is not None]


@dataclass(frozen=True)
class Scan:
    """Columns of one table, and which of its rows.

    `where`  those that satisfy any, in each every column one of the values given; none: all
    `span`   and of these, those of a span of time
    `files`  a condition for which files may be left out, where statistics tell; what is asked must not depend on it
    `may_be_missing`  whether an older warehouse may lack the table: it has no rows then
    """

    table: str
    columns: tuple[str, ...]
    where: tuple[KeyValues, ...] = ()
    span: Span | None = None
    files: str | None = None
    may_be_missing: bool = False


def no_row(scan: Scan) -> str:
    """The columns of a scan as nulls of their types."""
    types_of = {field.name: duckdb_type(field.type) for field in table_spec(scan.table).fields}
    return ", ".join(f"NULL::{types_of[name]} AS {quoted(name)}" for name in scan.columns)


def matching(where: Sequence[KeyValues]) -> tuple[str, list[str | int]]:
    """`where` as a DuckDB condition with its bound parameters."""
    parameters = [value for match in where for values in match.values() for value in values]
    any_of = [
        " AND ".join(f"{quoted(name)} IN ({', '.join('?' * len(values))})" for name, values in match.items())
        for match in where
    ]
    return " OR ".join(f"({all_of})" for all_of in any_of) or "true", parameters


def pruning_predicate(scan: Scan, stored: Collection[str]) -> str | None:
    """Which files are read; all where a column is asked that is not among the `stored`."""
    # Only spares reading: what is shown is decided by bound parameters. deltalake takes nothing but SQL text here.
    count = sum(len(values) for match in scan.where for values in match.values())
    among = _one_of if count <= MOST_VALUES else _between
    any_of = [" AND ".join(among(name, values) for name, values in match.items()) for match in scan.where]
    equal = [" OR ".join(f"({term})" for term in any_of)] if 0 < len(any_of) <= MOST_VALUES else []
    bounds = scan.span.bounds() if scan.span else []
    spans = [f"{scan.span.column} {sign} {sql_literal(_iso(moment))}" for sign, moment in bounds] if scan.span else []
    all_of = [*equal, *spans, *([scan.files] if scan.files else [])]
    predicate = " AND ".join(f"({term})" for term in all_of)
    is_lacking = any(name in predicate for name in {*table_spec(scan.table).columns} - {*stored})
    return None if is_lacking else predicate or None


def _one_of(name: str, values: Sequence[str | int]) -> str:
    return f"{name} IN ({sql_literals(values)})"


def _between(name: str, values: Sequence[Any]) -> str:
    """All of them, and what lies between."""
    return f"{name} >= {sql_literal(min(values))} AND {name} <= {sql_literal(max(values))}" if values else "true"


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()


def sql_literals(values: Iterable[str | int]) -> str:
    """Values as a list of SQL literals, for IN (...)."""
    return ", ".join(map(sql_literal, values))


def sql_literal(value: str | int) -> str:
    """A value as SQL text, for what can be bound to no parameter."""
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"
