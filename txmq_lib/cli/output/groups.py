"""Prints consumer and producer groups. Imported by command bodies only: it needs deltalake and DuckDB, but no JVM."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import typer

from txmq_lib.cli.options import Options, location, settings_of
from txmq_lib.cli.output.formats import OutputFormat
from txmq_lib.cli.output.pipe import while_read
from txmq_lib.cli.output.said import say
from txmq_lib.cli.output.show import write_rows
from txmq_lib.errors import EXIT_FINDINGS
from txmq_lib.views.declared.consumer_offsets import OFFSETS
from txmq_lib.views.declared.verdicts import VERDICTS
from txmq_lib.views.groups import CONSUMER_COLUMNS, PRODUCER_COLUMNS, consumer_groups, producer_groups
from txmq_lib.views.known_names import unknown_names
from txmq_lib.views.lag import LagWindow
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.view import View


def show_consumer_groups(
    options: Options, groups: Sequence[str], brokers: Sequence[str], now: datetime, format_: OutputFormat
) -> None:
    """Every consumer group asked for; status 1 where a name is in no landed row."""
    settings = settings_of(options)
    reader = WarehouseReader(location(settings.warehouse))
    window = LagWindow(now, settings.lag_window_ms)
    rows = consumer_groups(reader, window, groups=groups, brokers=brokers)
    _show(reader, OFFSETS, "consumer", CONSUMER_COLUMNS, rows, (groups, brokers), format_)


def show_producer_groups(
    options: Options, groups: Sequence[str], brokers: Sequence[str], format_: OutputFormat
) -> None:
    """Every producer group asked for; status 1 where a name is in no landed row."""
    reader = WarehouseReader(location(settings_of(options).warehouse))
    rows = producer_groups(reader, groups=groups, brokers=brokers)
    _show(reader, VERDICTS, "producer", PRODUCER_COLUMNS, rows, (groups, brokers), format_)


def _show(
    reader: WarehouseReader,
    view: View,
    kind: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    names: tuple[Sequence[str], Sequence[str]],
    format_: OutputFormat,
) -> None:
    with while_read():
        count = write_rows(format_, columns, rows)
    if count:
        return
    say(f"no {kind} groups", err=True)
    filters = {name: values for name, values in zip(("group", "broker"), names, strict=True) if values}
    if unknown := unknown_names(reader, view, filters):
        for each in unknown:
            say(str(each), err=True)
        raise typer.Exit(EXIT_FINDINGS)
