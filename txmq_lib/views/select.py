"""Rows of a read view: filters, order and limit put into one query. Must not know how rows are shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from txmq_lib.errors import UsageError
from txmq_lib.schemas import table_spec
from txmq_lib.views.catalogue import View
from txmq_lib.views.columns import BASE64, BodyForm, output, quoted
from txmq_lib.views.reader import Scan, Span, WarehouseReader

# Option of the view to the values any of which will do.
Filters = Mapping[str, Sequence[str]]
# KEYS of a message are words. Looking for the text is cheaper than splitting, and few rows have it.
HAS_KEY = "({contained}) AND list_has_any(string_split(v.{column}, ' '), ?)"
# Tables whose rows carry KEYS beside the transaction id.
KEYED_TABLES = ("half_message", "message", "trans_check_max_time")


@dataclass(frozen=True)
class Asked:
    """What was asked of a view: rows that match every filter, at or after `since`, before `before`, with any of `keys`
    among the words of KEYS; ordered by `sort` (column and direction) before the view's own order; `limit` at most."""

    filters: Filters = field(default_factory=dict)
    since: datetime | None = None
    before: datetime | None = None
    keys: tuple[str, ...] = ()
    sort: tuple[str, ...] = ()
    limit: int | None = None


def view_rows(
    reader: WarehouseReader, view: View, asked: Asked, *, columns: Sequence[str], bodies: BodyForm = BASE64
) -> Iterator[tuple[Any, ...]]:
    """The view's rows that were asked for, as values JSON can hold (see `output`)."""
    fields = view.fields
    shown = ", ".join(f"{output(f'v.{quoted(name)}', fields[name].type, bodies)} AS {quoted(name)}" for name in columns)
    found = _resolved(reader, view, asked)
    condition, parameters = _condition(view, found)
    order = _order(view, asked.sort)
    rows = f"SELECT * FROM {view.relation} AS v WHERE {condition}"
    if asked.limit is not None:
        # Limited before values are converted: a large table is then read once and not turned into text.
        rows, parameters = f"{rows} ORDER BY {order} LIMIT ?", [*parameters, asked.limit]
    sql = f"SELECT {shown} FROM ({rows}) AS v ORDER BY {order}"
    needed = [*columns, *_compared(view, found), *(name.split()[0] for name in _order_columns(view, asked.sort))]
    return reader.query(sql, parameters, _scans(view, needed, found))


def row_count(reader: WarehouseReader, view: View, asked: Asked) -> int:
    """How many rows were asked for, without the limit."""
    found = _resolved(reader, view, asked)
    condition, parameters = _condition(view, found)
    needed = [table_spec(view.table).key[0], *_compared(view, found)]
    sql = f"SELECT count(*) FROM {view.relation} AS v WHERE {condition}"
    return int(next(reader.query(sql, parameters, _scans(view, needed, found)))[0])


def checked_states(view: View, given: Sequence[str]) -> list[str]:
    """`given` as the view spells its states, whatever the case; UsageError names those it does not have."""
    known = {state.casefold(): state for state in view.states}
    strangers = [state for state in given if state.casefold() not in known]
    if strangers:
        raise UsageError(f"{view.command} has no state {', '.join(strangers)}; there are {', '.join(view.states)}")
    return [known[state.casefold()] for state in given]


def checked_sort(view: View, given: Sequence[str]) -> tuple[str, ...]:
    """`column` or `column:desc` as the view's columns with a direction; UsageError where there is no such column."""
    parts = [text.partition(":") for text in given]
    wrong = [
        text
        for text, (name, colon, direction) in zip(given, parts, strict=True)
        if name not in view.fields or direction not in (("asc", "desc") if colon else ("",))
    ]
    if wrong:
        raise UsageError(
            f"{view.command} cannot be sorted by {', '.join(wrong)}: give a column, or column:desc;"
            f" columns are {', '.join(view.columns)}"
        )
    return tuple(f"{name} {direction or 'asc'}" for name, _, direction in parts)


def transactions_with_keys(reader: WarehouseReader, keys: Sequence[str]) -> list[str]:
    """Ids of the transactions whose half, visible or given-up message has any of `keys` among the words of KEYS."""
    condition, parameters = _has_key("keys", keys)
    sql = f"SELECT DISTINCT v.transaction_id FROM base AS v WHERE {condition}"
    found: set[str] = set()
    for table in KEYED_TABLES:
        rows = reader.query(sql, parameters, {"base": Scan(table, ("transaction_id", "keys"))})
        found.update(row[0] for row in rows if row[0] is not None)
    return sorted(found)


def _has_key(column: str, keys: Sequence[str]) -> tuple[str, list[Any]]:
    contained = " OR ".join(f"contains(v.{quoted(column)}, ?)" for _ in keys)
    return HAS_KEY.format(contained=contained, column=quoted(column)), [*keys, list(keys)]


@dataclass(frozen=True)
class _Found:
    """`Asked` with keys looked up where the view's table has none of its own."""

    filters: Mapping[str, tuple[tuple[str, ...], Sequence[str]]]
    span: Span | None
    key_column: str | None
    keys: tuple[str, ...]


def _resolved(reader: WarehouseReader, view: View, asked: Asked) -> _Found:
    filters = {option: (view.filters[option], values) for option, values in asked.filters.items()}
    has_own_keys = view.keys == "keys"
    if asked.keys and not has_own_keys:
        assert view.keys is not None
        filters["key"] = ((view.keys,), transactions_with_keys(reader, asked.keys))
    span = Span(view.time, asked.since, asked.before) if asked.since or asked.before else None
    return _Found(filters, span, view.keys if asked.keys and has_own_keys else None, asked.keys)


def _condition(view: View, found: _Found) -> tuple[str, list[Any]]:
    terms = [_term(columns, len(values)) for columns, values in found.filters.values()]
    parameters: list[Any] = [value for _, values in found.filters.values() for value in values]
    if found.span is not None:
        for comparison, moment in found.span.bounds():
            terms.append(f"v.{quoted(view.time)} {comparison} ?")
            parameters.append(moment)
    if found.key_column is not None:
        condition, values = _has_key(found.key_column, found.keys)
        terms.append(condition)
        parameters += values
    return " AND ".join(terms) or "true", parameters


def _term(columns: Sequence[str], value_count: int) -> str:
    if not value_count:
        return "false"
    return f"coalesce({', '.join(f'v.{quoted(name)}' for name in columns)}) IN ({', '.join('?' * value_count)})"


def _compared(view: View, found: _Found) -> list[str]:
    names = [name for columns, _ in found.filters.values() for name in columns]
    return [*names, *([view.time] if found.span else []), *([found.key_column] if found.key_column else [])]


def _order_columns(view: View, sort: Sequence[str]) -> list[str]:
    wanted = [*sort, *view.order, *table_spec(view.table).key]
    first = {column.split()[0]: column for column in reversed(wanted)}
    return [column for column in dict.fromkeys(wanted) if first[column.split()[0]] == column]


def _order(view: View, sort: Sequence[str]) -> str:
    parts = [column.partition(" ") for column in _order_columns(view, sort)]
    return ", ".join(f"v.{quoted(name)} {direction or 'asc'} NULLS LAST" for name, _, direction in parts)


def _scans(view: View, needed: Sequence[str], found: _Found) -> dict[str, Scan]:
    stored = table_spec(view.table).columns
    wanted = {*needed, *view.needs}
    # A relation that picks among rows must see all of them: there only what they share may narrow the scan.
    spec = table_spec(view.table)
    safe = spec.columns if view.relation == "base" else (*spec.key, *view.fixed)
    equal = {
        columns[0]: values
        for columns, values in found.filters.values()
        if len(columns) == 1 and columns[0] in safe and values
    }
    base = Scan(
        view.table,
        tuple(name for name in stored if name in wanted),
        where=(equal,) if equal else (),
        span=found.span if view.time in safe else None,
    )
    return {"base": base, **{name: Scan(table, columns) for name, (table, columns) in view.joined.items()}}
