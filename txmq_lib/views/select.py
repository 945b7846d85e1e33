"""Rows of a read view: filters, order and limit put into one query. Must not know how rows are shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

from txmq_lib.config.table_specs import Field, table_spec
from txmq_lib.errors import UsageError
from txmq_lib.names import LAG_STATES, UNDECIDED
from txmq_lib.views.column_sql import BASE64, BodyForm, output, quoted
from txmq_lib.views.lag import LagWindow, lag_relation, lag_scans
from txmq_lib.views.lookup import key_condition, transactions_with_keys
from txmq_lib.views.mask import NOTHING_MASKED, Mask
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.scan import KeyValues, Scan, Span
from txmq_lib.views.view import View

if TYPE_CHECKING:
    import pyarrow as pa

STUCK = "stuck"  # a state of verdicts that stands for several

# Option of the view to the values any of which will do.
Filters = Mapping[str, Sequence[str]]

# How a consumer reads: queue by queue, offsets ascending.
QUEUE_ORDER = ("broker_name", "topic", "queue_id", "queue_offset")

PROPERTIES = "properties"

# Beyond so many values a list of them leaves out few files and is long to compare.
MOST_VALUES = 200


@dataclass(frozen=True)
class ViewQuery:
    """What was asked of a view: rows that match every filter, at or after `since`, before `before`, with any of `keys`
    among the words of KEYS; ordered by `sort` (column and direction) before the view's own order; `limit` at most;
    `lag_window` for a view that is judged over one; of a view of queues only those of the number `queue`, and
    only from `from_offset` on, in the order of queues where either is given."""

    filters: Filters = field(default_factory=dict)
    since: datetime | None = None
    before: datetime | None = None
    keys: tuple[str, ...] = ()
    sort: tuple[str, ...] = ()
    limit: int | None = None
    lag_window: LagWindow | None = None
    queue: int | None = None
    from_offset: int | None = None


def view_rows(
    reader: WarehouseReader,
    view: View,
    query: ViewQuery,
    *,
    columns: Sequence[str],
    bodies: BodyForm = BASE64,
    mask: Mask = NOTHING_MASKED,
) -> Iterator[tuple[Any, ...]]:
    """The view's rows that were asked for, as values JSON can hold (see `output`), what `mask` hides hidden."""
    shown = ", ".join(_shown(view.fields[name], bodies, mask) for name in columns)
    found = _resolved(reader, view, query)
    condition, parameters = _condition(view, found)
    order = _order(view, query)
    rows = f"SELECT * FROM {_relation(view, query)} AS v WHERE {condition}"
    if query.limit is not None:
        # Limited before values are converted: a large table is then read once and not turned into text.
        rows, parameters = f"{rows} ORDER BY {order} LIMIT ?", [*parameters, query.limit]
    sql = f"SELECT {shown} FROM ({rows}) AS v ORDER BY {order}"
    needed = [*columns, *_compared(view, found), *(name.split()[0] for name in _order_columns(view, query))]
    fetched = reader.query(sql, parameters, _scans(reader, view, needed, found, query))
    if not mask.properties or PROPERTIES not in columns:
        return fetched
    at = list(columns).index(PROPERTIES)
    return ((*row[:at], mask.over_properties(row[at]), *row[at + 1 :]) for row in fetched)


def view_table(reader: WarehouseReader, view: View, query: ViewQuery, *, mask: Mask = NOTHING_MASKED) -> pa.Table:
    """The rows that were asked for as an Arrow table of all columns; times in UTC, bytes as bytes, `mask` applied."""
    shown = ", ".join(_stored(view.fields[name], mask) for name in view.columns)
    found = _resolved(reader, view, query)
    condition, parameters = _condition(view, found)
    sql = f"SELECT {shown} FROM {_relation(view, query)} AS v WHERE {condition} ORDER BY {_order(view, query)}"
    if query.limit is not None:
        sql, parameters = f"{sql} LIMIT ?", [*parameters, query.limit]
    table = reader.table(sql, parameters, _scans(reader, view, view.columns, found, query))
    if not mask.properties or PROPERTIES not in view.columns:
        return table
    import pyarrow as pa  # only here: views begin without it

    at = table.column_names.index(PROPERTIES)
    kept = [None if row is None else mask.over_properties(dict(row)) for row in table[PROPERTIES].to_pylist()]
    masked = [None if row is None else list(row.items()) for row in kept]
    return table.set_column(at, PROPERTIES, pa.array(masked, table.schema.field(at).type))


def _stored(column: Field, mask: Mask) -> str:
    expression = f"v.{quoted(column.name)}"
    return f"{mask.over(column, expression, expression)} AS {quoted(column.name)}"


def _shown(column: Field, bodies: BodyForm, mask: Mask) -> str:
    expression = f"v.{quoted(column.name)}"
    return f"{mask.over(column, expression, output(expression, column.type, bodies))} AS {quoted(column.name)}"


def row_count(reader: WarehouseReader, view: View, query: ViewQuery) -> int:
    """How many rows were asked for, without the limit."""
    found = _resolved(reader, view, query)
    condition, parameters = _condition(view, found)
    needed = [table_spec(view.table).key[0], *_compared(view, found)]
    sql = f"SELECT count(*) FROM {_relation(view, query)} AS v WHERE {condition}"
    return int(next(reader.query(sql, parameters, _scans(reader, view, needed, found, query)))[0])


def state_options(states: Sequence[str]) -> str:
    """`states` as a command asks for them: `--state discarded --state discarded_unseen`."""
    return " ".join(f"--state {state.lower()}" for state in states)


def checked_states(view: View, names: Sequence[str], states: Sequence[str]) -> list[str]:
    """`names` as `states` of the view spells them, whatever the case; `stuck` of verdicts is all that nobody decided.

    UsageError names those that there are not.
    """
    known: dict[str, Sequence[str]] = {state.casefold(): (state,) for state in states}
    if set(UNDECIDED) <= set(states):
        known[STUCK] = UNDECIDED
    strangers = [state for state in names if state.casefold() not in known]
    if strangers:
        is_of_lag = "lag-state" in view.filters and all(each.casefold() in LAG_STATES for each in strangers)
        other = "; lag-state has it" if is_of_lag else f", or {STUCK}" if STUCK in known else ""
        raise UsageError(f"{view.command} has no state {', '.join(strangers)}; there are {', '.join(states)}{other}")
    return list(dict.fromkeys(chain.from_iterable(known[state.casefold()] for state in names)))


def checked_sort(view: View, texts: Sequence[str]) -> tuple[str, ...]:
    """`column` or `column:desc` as the view's columns with a direction; UsageError where there is no such column."""
    parts = [text.partition(":") for text in texts]
    wrong = [
        text
        for text, (name, colon, direction) in zip(texts, parts, strict=True)
        if name not in view.fields or direction not in (("asc", "desc") if colon else ("",))
    ]
    if wrong:
        raise UsageError(
            f"{view.command} cannot be sorted by {', '.join(wrong)}: give a column, or column:desc;"
            f" columns are {', '.join(view.columns)}"
        )
    return tuple(f"{name} {direction or 'asc'}" for name, _, direction in parts)


@dataclass(frozen=True)
class _Found:
    """`ViewQuery` with keys looked up where the view's table has none of its own."""

    filters: Mapping[str, tuple[tuple[str, ...], Sequence[str]]]
    span: Span | None
    key_column: str | None
    keys: tuple[str, ...]
    queue: int | None
    from_offset: int | None


def _resolved(reader: WarehouseReader, view: View, query: ViewQuery) -> _Found:
    filters = {option: (view.filters[option], values) for option, values in query.filters.items()}
    has_own_keys = view.keys == "keys"
    if query.keys and not has_own_keys:
        assert view.keys is not None
        filters["key"] = ((view.keys,), transactions_with_keys(reader, query.keys))
    span = Span(view.time, query.since, query.before) if query.since or query.before else None
    key_column = view.keys if query.keys and has_own_keys else None
    return _Found(filters, span, key_column, query.keys, query.queue, query.from_offset)


def _condition(view: View, found: _Found) -> tuple[str, list[Any]]:
    terms = [_term(columns, len(values)) for columns, values in found.filters.values()]
    parameters: list[Any] = [value for _, values in found.filters.values() for value in values]
    if found.span is not None:
        for comparison, moment in found.span.bounds():
            terms.append(f"v.{quoted(view.time)} {comparison} ?")
            parameters.append(moment)
    if found.key_column is not None:
        condition, values = key_condition(f"v.{quoted(found.key_column)}", found.keys)
        terms.append(condition)
        parameters += values
    for condition, number in (("v.queue_id = ?", found.queue), ("v.queue_offset >= ?", found.from_offset)):
        if number is not None:
            terms.append(condition)
            parameters.append(number)
    return " AND ".join(terms) or "true", parameters


def _relation(view: View, query: ViewQuery) -> str:
    return lag_relation(_window(view, query)) if view.is_lag_judged else view.relation


def _window(view: View, query: ViewQuery) -> LagWindow:
    assert query.lag_window is not None, f"{view.command} is judged over a window"
    return query.lag_window


def _term(columns: Sequence[str], value_count: int) -> str:
    if not value_count:
        return "false"
    return f"coalesce({', '.join(f'v.{quoted(name)}' for name in columns)}) IN ({', '.join('?' * value_count)})"


def _compared(view: View, found: _Found) -> list[str]:
    names = [name for columns, _ in found.filters.values() for name in columns]
    place = ["queue_id", "queue_offset"] if view.has_queues else []
    return [*names, *([view.time] if found.span else []), *([found.key_column] if found.key_column else []), *place]


def _order_columns(view: View, query: ViewQuery) -> list[str]:
    as_queue = QUEUE_ORDER if query.queue is not None or query.from_offset is not None else ()
    columns = [*query.sort, *as_queue, *view.order, *table_spec(view.table).key]
    first = {column.split()[0]: column for column in reversed(columns)}
    return [column for column in dict.fromkeys(columns) if first[column.split()[0]] == column]


def _order(view: View, query: ViewQuery) -> str:
    parts = [column.partition(" ") for column in _order_columns(view, query)]
    return ", ".join(f"v.{quoted(name)} {direction or 'asc'} NULLS LAST" for name, _, direction in parts)


def _scans(
    reader: WarehouseReader, view: View, needed: Sequence[str], found: _Found, query: ViewQuery
) -> dict[str, Scan]:
    stored = table_spec(view.table).columns
    read_columns = {*needed, *view.needs}
    equal = {
        columns[0]: values
        for columns, values in found.filters.values()
        if len(columns) == 1 and columns[0] in stored and values
    }
    base = Scan(
        view.table,
        tuple(name for name in stored if name in read_columns),
        where=(equal,) if equal and not view.is_whole else (),
        span=None if view.is_whole else found.span,
        files=_files(view, found),
    )
    if view.is_lag_judged:
        return {"base": base, **lag_scans(reader, _window(view, query))}
    joined = {
        name: Scan(part.table, part.columns, files=part.files, may_be_missing=part.may_be_missing)
        if part.columns
        else replace(base, files=part.files)
        for name, part in view.joined.items()
    }
    for name, part in view.joined.items():
        if part.like is not None:
            joined[name] = replace(joined[name], where=_like(reader, view, *part.like))
    return {"base": base, **joined}


def _files(view: View, found: _Found) -> str | None:
    """Files that may hold rows asked for by their place in a queue, beside those the view may look at."""
    terms = [
        *([view.files] if view.files else []),
        *([f"queue_id = {found.queue}"] if found.queue is not None else []),
        *([f"queue_offset >= {found.from_offset}"] if found.from_offset is not None else []),
    ]
    return " AND ".join(terms) or None


def _like(reader: WarehouseReader, view: View, column: str, other: str) -> tuple[KeyValues, ...]:
    part = view.joined[other]
    scan = Scan(part.table, (column,), files=part.files)
    values = [row[0] for row in reader.query(f"SELECT DISTINCT {quoted(column)} FROM part", [], {"part": scan})]
    return ({column: values},) if 0 < len(values) <= MOST_VALUES else ()
