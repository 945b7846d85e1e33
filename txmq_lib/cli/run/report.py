"""`txmq report`: the report as one HTML file, whole or not at all. Needs deltalake, DuckDB and vl_convert, no JVM."""

from __future__ import annotations

from datetime import datetime

from txmq_lib.cli.options import Options, location, settings_of
from txmq_lib.cli.output.hints import pasteable
from txmq_lib.cli.output.out_file import require_place, write_out
from txmq_lib.cli.output.said import say
from txmq_lib.cli.run.status import limits
from txmq_lib.config.source_steps import steps_of_sources
from txmq_lib.report.build import built_report
from txmq_lib.report.page import html
from txmq_lib.views.reader import WarehouseReader


def write_report(options: Options, out: str, now: datetime, since: datetime | None) -> None:
    """Write FILE anew. UsageError where it cannot be written."""
    require_place(out)
    settings = settings_of(options)
    reader = WarehouseReader(location(settings.warehouse))
    report = built_report(
        reader,
        now,
        since=since,
        limits=limits(settings),
        lag_window_ms=settings.lag_window_ms,
        source_steps=steps_of_sources(settings.sources),
    )
    text = html(report, pasteable(options))
    write_out(out, text)
    say(f"{len(text.encode()) / 1024:,.0f} KiB in {out}", err=True)
