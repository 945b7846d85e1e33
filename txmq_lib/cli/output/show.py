"""Prints views, traces and settings. Imported by command bodies only: it needs deltalake and DuckDB, but no JVM."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import typer

from txmq_lib.cli.options import Options, location, settings_of
from txmq_lib.cli.output.formats import TABLE_LIMIT, OutputFormat
from txmq_lib.cli.output.hints import pasteable
from txmq_lib.cli.output.pipe import while_read
from txmq_lib.cli.output.render import write_csv, write_json
from txmq_lib.cli.output.said import say, say_json
from txmq_lib.config.secrets import is_secret
from txmq_lib.errors import EXIT_FINDINGS, UsageError
from txmq_lib.escaping import line
from txmq_lib.views.advice import advice
from txmq_lib.views.column_sql import BASE64, BodyForm
from txmq_lib.views.known_names import near_names, unknown_names
from txmq_lib.views.lag import LagWindow
from txmq_lib.views.lookup import transactions_at_half, transactions_of_message, transactions_with_keys
from txmq_lib.views.mask import NOTHING_MASKED, Mask
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.select import ViewQuery, row_count, view_rows
from txmq_lib.views.story import Row
from txmq_lib.views.trace import Story, trace
from txmq_lib.views.view import View

MOST_TRACED = 100  # of the transactions that have one key, which producers choose


@dataclass(frozen=True)
class Shown:
    """How rows are shown: the format, every column in a table, the form of bodies (None: base64, in no table), and
    what of them is masked."""

    format_: OutputFormat
    is_wide: bool = False
    body: BodyForm | None = None
    mask: Mask = NOTHING_MASKED


def show_view(options: Options, view: View, query: ViewQuery, now: datetime, shown: Shown) -> None:
    """The rows of one view that were asked for; status 1 where there are none since a name is in no landed row."""
    settings = settings_of(options)
    reader = WarehouseReader(location(settings.warehouse))
    shown = replace(shown, mask=Mask(settings.mask.bodies, settings.mask.properties))
    query = replace(query, lag_window=LagWindow(now, settings.lag_window_ms))
    with while_read():
        if shown.format_ is OutputFormat.table:
            count = _show_table(reader, view, query, shown)
        else:
            rows = view_rows(reader, view, query, columns=view.columns, bodies=shown.body or BASE64, mask=shown.mask)
            count = write_rows(shown.format_, view.columns, rows)
    if not count:
        elsewhere = pasteable(options)(f"; {view.elsewhere}") if view.elsewhere else ""
        say(f"no rows in {view.command}{elsewhere}", err=True)
        if unknown := unknown_names(reader, view, query.filters):
            for each in unknown:
                say(str(each), err=True)
            raise typer.Exit(EXIT_FINDINGS)


def write_rows(format_: OutputFormat, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    """Rows on stdout in the format asked for; how many."""
    if format_ is not OutputFormat.table:
        write = write_json if format_ is OutputFormat.json else write_csv
        return write(columns, rows, sys.stdout)
    from txmq_lib.cli.output.tables import write_table

    listed = list(rows)
    write_table(columns, listed)
    return len(listed)


def _show_table(reader: WarehouseReader, view: View, query: ViewQuery, shown: Shown) -> int:
    limit = query.limit or TABLE_LIMIT
    hidden = () if shown.body else view.bodies
    columns = [name for name in (view.columns if shown.is_wide else view.narrow) if name not in hidden]
    columns += [name for name in view.bodies if shown.body and name not in columns]
    query = replace(query, limit=limit)
    rows = view_rows(reader, view, query, columns=columns, bodies=shown.body or BASE64, mask=shown.mask)
    listed = list(rows)
    from txmq_lib.cli.output.tables import write_table

    write_table(columns, listed, is_whole=shown.is_wide)
    if len(listed) == limit and (total := row_count(reader, view, query)) > limit:
        say(f"{total - limit} more; --limit {total} or --format json shows them", err=True)
    return len(listed)


@dataclass(frozen=True)
class TraceQuery:
    """What a transaction is looked for by; exactly one is given."""

    message_id: str | None = None
    keys: tuple[str, ...] = ()
    half_offset: int | None = None

    def __str__(self) -> str:
        if self.message_id is not None:
            return f"transaction {self.message_id}"
        return f"message key {', '.join(self.keys)}" if self.keys else f"half offset {self.half_offset}"


def show_trace(options: Options, query: TraceQuery, *, brokers: Sequence[str], format_: OutputFormat) -> None:
    """Every story of the transactions looked for, status 1 for none; UsageError where not one way to look is given."""
    if sum((query.message_id is not None, bool(query.keys), query.half_offset is not None)) != 1:
        raise UsageError("trace takes one of: an id, --key, --half-offset")
    settings = settings_of(options)
    reader = WarehouseReader(location(settings.warehouse))
    stories = found_stories(reader, query, brokers)
    if not stories:
        near = near_names(reader, "transaction_id", query.message_id) if query.message_id is not None else ()
        hint = f"; there is {', '.join(near)}" if near else ""
        say(f"nothing is known of {query} in {location(settings.warehouse)}{hint}", err=True)
        raise typer.Exit(EXIT_FINDINGS)
    with while_read():
        if format_ is OutputFormat.json:
            write_events([story for _, story in stories])
        else:
            write_stories(stories, pasteable(options))


def found_stories(reader: WarehouseReader, query: TraceQuery, brokers: Sequence[str]) -> list[tuple[str, Story]]:
    """Stories with the transaction id each was found by."""
    if query.keys:
        ids = transactions_with_keys(reader, query.keys)
    elif query.half_offset is not None:
        ids = transactions_at_half(reader, query.half_offset, brokers)
    else:
        assert query.message_id is not None
        if stories := trace(reader, query.message_id, brokers=brokers):
            return [(query.message_id, story) for story in stories]
        ids = transactions_of_message(reader, query.message_id)
    if len(ids) > MOST_TRACED:
        say(
            f"{len(ids):,} transactions have it, and the first {MOST_TRACED} are told: trace others by their ids",
            err=True,
        )
    return [(found, story) for found in ids[:MOST_TRACED] for story in trace(reader, found, brokers=brokers)]


def write_events(stories: Sequence[Story]) -> None:
    """One JSON object per event: time, event, table, the transaction's key, the row's columns, and its words."""
    for story in stories:
        for event in story.events:
            key = story.key or {}
            found = {"time": event.time, "event": event.event, "table": event.table, **key, **event.row, **key}
            say_json({**found, "text": event.text})


def write_stories(stories: Sequence[tuple[str, Story]], hint: Callable[[str], str] = str) -> None:
    """Each story under a line that names its transaction by the id it was found by; `hint` completes commands."""
    for place, (transaction_id, story) in enumerate(stories):
        if place:
            say()
        say(_heading(transaction_id, story.key))
        events = [(event.time, event.event, line(event.text)) for event in story.events]
        write_rows(OutputFormat.table, ("time", "event", "text"), events)
        if found := advice(story.events, story.role):
            why = [] if found.why is None else [f"why:   {found.why}"]
            first, *rest = map(hint, found.to_do)
            lines = [f"means: {found.meaning}", *why, f"do:    {first}", *(f"       {each}" for each in rest)]
            for each in lines:
                say(each)


def _heading(transaction_id: str, key: Row | None) -> str:
    if key is None:
        return f"transaction {transaction_id}, named by ends only"
    group = key["producer_group"] or "no producer group"
    return f"transaction {transaction_id}, {group}, born {key['born_timestamp']}, broker {key['broker_name']}"


def show_settings(options: Options, format_: OutputFormat) -> None:
    """Every setting in force and the layer it comes from; what looks like a secret is hidden."""
    settings = settings_of(options)
    rows = [
        # Where nothing is set there is nothing to hide, and that much may be known.
        (key, value if value is None or not is_secret(key, value) else "(hidden)", layer)
        for key, value, layer in settings.rows()
    ]
    with while_read():
        write_rows(format_, ("key", "value", "from"), rows)
