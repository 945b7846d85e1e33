"""Prints views, traces and settings. Imported by command bodies only: it needs deltalake and DuckDB, but no JVM."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from txmq_lib.cli.formats import TABLE_LIMIT, OutputFormat
from txmq_lib.cli.given import Given, location
from txmq_lib.cli.render import write_csv, write_json
from txmq_lib.errors import EXIT_DONE
from txmq_lib.secrets import is_secret
from txmq_lib.settings import Settings
from txmq_lib.views.catalogue import VIEWS, View
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.select import Filters, checked_states, row_count, view_rows
from txmq_lib.views.story import Row
from txmq_lib.views.trace import Story, trace


@contextmanager
def while_read() -> Iterator[None]:
    """Ends quietly, with status 0, when whoever reads stdout has seen enough (`txmq ... | head`)."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(EXIT_DONE) from None


def show_view(
    options: Given, command: str, asked: dict[str, list[str] | None], format_: OutputFormat, limit: int | None
) -> None:
    """The rows of one view that match every filter."""
    settings = Settings.load(options.conf, options.assignments, options.warehouse)
    view = next(view for view in VIEWS if view.command == command)
    filters = {option: values for option, values in asked.items() if values}
    if "state" in filters:
        filters["state"] = checked_states(view, filters["state"])
    reader = WarehouseReader(location(settings.warehouse))
    with while_read():
        if format_ is OutputFormat.table:
            count = _show_table(reader, view, filters, limit or TABLE_LIMIT)
        else:
            rows = view_rows(reader, view, filters=filters, columns=view.columns, limit=limit)
            count = write_rows(format_, view.columns, rows)
    if not count:
        typer.echo(f"no rows in {command}", err=True)


def write_rows(format_: OutputFormat, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    """Rows on stdout in the format asked for; how many."""
    if format_ is not OutputFormat.table:
        write = write_json if format_ is OutputFormat.json else write_csv
        return write(columns, rows, sys.stdout)
    from txmq_lib.cli.tables import write_table

    listed = list(rows)
    write_table(columns, listed)
    return len(listed)


def _show_table(reader: WarehouseReader, view: View, filters: Filters, limit: int) -> int:
    rows = view_rows(reader, view, filters=filters, columns=view.narrow, limit=limit)
    count = write_rows(OutputFormat.table, view.narrow, rows)
    if count == limit and (total := row_count(reader, view, filters=filters)) > limit:
        typer.echo(f"{total - limit} more; --limit {total} or --format json shows them", err=True)
    return count


def show_trace(options: Given, transaction_id: str, *, brokers: Sequence[str], format_: OutputFormat) -> None:
    """Every story of one transaction id."""
    settings = Settings.load(options.conf, options.assignments, options.warehouse)
    stories = trace(WarehouseReader(location(settings.warehouse)), transaction_id, brokers=brokers)
    if not stories:
        typer.echo(f"nothing is known of transaction {transaction_id} in {location(settings.warehouse)}", err=True)
    with while_read():
        if format_ is OutputFormat.json:
            write_events(stories)
        else:
            write_stories(transaction_id, stories)


def write_events(stories: Sequence[Story]) -> None:
    """One JSON object per event: time, event, table, the transaction's key, the row's columns, and its words."""
    for told in stories:
        for event in told.events:
            key = told.key or {}
            line = {"time": event.time, "event": event.event, "table": event.table, **key, **event.row, **key}
            typer.echo(json.dumps({**line, "text": event.text}, ensure_ascii=False))


def write_stories(transaction_id: str, stories: Sequence[Story]) -> None:
    """Each story under a line that names its transaction."""
    for place, told in enumerate(stories):
        typer.echo(("\n" if place else "") + _heading(transaction_id, told.key))
        events = [(event.time, event.event, event.text) for event in told.events]
        write_rows(OutputFormat.table, ("time", "event", "text"), events)


def _heading(transaction_id: str, key: Row | None) -> str:
    if key is None:
        return f"transaction {transaction_id}, named by ends only"
    group = key["producer_group"] or "no producer group"
    return f"transaction {transaction_id}, {group}, born {key['born_timestamp']}, broker {key['broker_name']}"


def show_settings(options: Given, format_: OutputFormat) -> None:
    """Every setting in force and the layer it comes from; what looks like a secret is hidden."""
    settings = Settings.load(options.conf, options.assignments, options.warehouse)
    rows = [(key, "(hidden)" if is_secret(key, value) else value, layer) for key, value, layer in settings.rows()]
    with while_read():
        write_rows(format_, ("key", "value", "from"), rows)
