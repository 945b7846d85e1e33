"""Rows of a read view: filters, order and limit put into one query. Must not know how rows are shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from txmq_lib.errors import UsageError
from txmq_lib.schemas import table_spec
from txmq_lib.views.catalogue import View
from txmq_lib.views.columns import output, quoted
from txmq_lib.views.reader import Scan, WarehouseReader

# What was asked for: option of the view to the values any of which will do.
Filters = Mapping[str, Sequence[str]]


def view_rows(
    reader: WarehouseReader, view: View, *, filters: Filters, columns: Sequence[str], limit: int | None = None
) -> Iterator[tuple[Any, ...]]:
    """The view's rows that match every filter, in the view's order, as values JSON can hold (see `output`)."""
    fields = view.fields
    shown = ", ".join(f"{output(f'v.{quoted(name)}', fields[name].type)} AS {quoted(name)}" for name in columns)
    condition, parameters = _condition(view, filters)
    rows = f"SELECT * FROM {view.relation} AS v WHERE {condition}"
    if limit is not None:
        # Limited before values are converted: a large table is then read once and not turned into text.
        rows, parameters = f"{rows} ORDER BY {_order(view)} LIMIT ?", [*parameters, limit]
    sql = f"SELECT {shown} FROM ({rows}) AS v ORDER BY {_order(view)}"
    needed = [*columns, *_filtered(view, filters), *(name.split()[0] for name in _order_columns(view))]
    return reader.query(sql, parameters, _scans(view, needed, filters))


def row_count(reader: WarehouseReader, view: View, *, filters: Filters) -> int:
    """How many rows match every filter."""
    condition, parameters = _condition(view, filters)
    needed = [table_spec(view.table).key[0], *_filtered(view, filters)]
    sql = f"SELECT count(*) FROM {view.relation} AS v WHERE {condition}"
    return int(next(reader.query(sql, parameters, _scans(view, needed, filters)))[0])


def checked_states(view: View, given: Sequence[str]) -> list[str]:
    """`given` as the view spells its states, whatever the case; UsageError names those it does not have."""
    known = {state.casefold(): state for state in view.states}
    strangers = [state for state in given if state.casefold() not in known]
    if strangers:
        raise UsageError(f"{view.command} has no state {', '.join(strangers)}; there are {', '.join(view.states)}")
    return [known[state.casefold()] for state in given]


def _condition(view: View, filters: Filters) -> tuple[str, list[Any]]:
    terms = [_term(view.filters[option], len(values)) for option, values in filters.items()]
    return " AND ".join(terms) or "true", [value for values in filters.values() for value in values]


def _term(columns: Sequence[str], value_count: int) -> str:
    return f"coalesce({', '.join(f'v.{quoted(name)}' for name in columns)}) IN ({', '.join('?' * value_count)})"


def _filtered(view: View, filters: Filters) -> list[str]:
    return [name for option in filters for name in view.filters[option]]


def _order_columns(view: View) -> list[str]:
    told = {column.split()[0] for column in view.order}
    return [*view.order, *(name for name in table_spec(view.table).key if name not in told)]


def _order(view: View) -> str:
    parts = [column.partition(" ") for column in _order_columns(view)]
    return ", ".join(f"v.{quoted(name)} {direction or 'asc'} NULLS LAST" for name, _, direction in parts)


def _scans(view: View, needed: Sequence[str], filters: Filters) -> dict[str, Scan]:
    stored = table_spec(view.table).columns
    wanted = {*needed, *view.needs}
    base = Scan(view.table, tuple(name for name in stored if name in wanted), _pushed(view, filters))
    return {"base": base, **{name: Scan(table, columns) for name, (table, columns) in view.joined.items()}}


def _pushed(view: View, filters: Filters) -> tuple[dict[str, Sequence[str]], ...]:
    # A relation that picks among rows must see all of them: there only its key may narrow the scan.
    spec = table_spec(view.table)
    safe = spec.columns if view.relation == "base" else spec.key
    pushed = {
        columns[0]: values
        for option, values in filters.items()
        if len(columns := view.filters[option]) == 1 and columns[0] in safe
    }
    return (pushed,) if pushed else ()
