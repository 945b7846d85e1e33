"""The report of a warehouse at one moment: figures into sections. Clock, limits and period are given."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from txmq_lib import names
from txmq_lib.report import decided, running, undecided
from txmq_lib.report.page import Finding, Report, Tile
from txmq_lib.report.parts import Section, count_text, time_text
from txmq_lib.report.period import pass_period, reported_period
from txmq_lib.report.stories import Links
from txmq_lib.report.stuck import stuck_section
from txmq_lib.views.lag import LagWindow
from txmq_lib.views.limits import Limits
from txmq_lib.views.problems import problems
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.status import Status, read_status, span_text


def built_report(
    reader: WarehouseReader,
    now: datetime,
    *,
    since: datetime | None,
    limits: Limits,
    lag_window_ms: int,
    source_steps: Collection[str] = (),
    links: Links = Links.STORIES,
) -> Report:
    """Everything the page shows.

    since  where its charts over time begin, else where what is known does
    source_steps  the steps of the configured sources (`run_figures`)
    links  where a listed transaction leads: to its story in the page, or to a page of its own
    """
    status = read_status(reader, now, lag_window_ms=lag_window_ms, source_steps=source_steps)
    period = reported_period(reader, now, since)
    sections: list[Section] = [
        stuck_section(reader, now, links),
        undecided.pending_section(reader, period, status),
        decided.verdict_section(reader, period, status),
        decided.contradiction_section(reader, links),
        undecided.given_up_section(reader),
        undecided.checks_section(reader, status),
        decided.decision_section(reader, period),
        running.offset_section(reader, period, status, LagWindow(now, lag_window_ms)),
        running.pass_section(reader, pass_period(reader, now, since), status),
        running.intake_section(status),
    ]
    return Report(
        warehouse=reader.uri,
        made=time_text(now),
        period="-" if status.is_empty else f"{time_text(period.begin)} to {time_text(period.end)}",
        tiles=_tiles(status),
        findings=[Finding(each.text, each.command, each.limit is not None) for each in problems(status, limits)],
        sections=sections,
        is_empty=status.is_empty,
    )


def _tiles(status: Status) -> list[Tile]:
    oldest = status.oldest
    contradicted = status.with_verdict(*names.ENDED_TWICE)
    discarded = status.with_verdict(*names.GIVEN_UP_VERDICTS)
    return [
        Tile("undecided", count_text(status.pending_count), "stuck"),
        Tile("age of the oldest", span_text(status.now - oldest.oldest_timestamp) if oldest else "-", "stuck"),
        Tile("duplicated or contradicted", count_text(contradicted), "contradictions", contradicted > 0),
        Tile("given up, nobody decided", count_text(discarded), "stuck", discarded > 0),
        Tile("messages behind, all groups", count_text(sum(group.lag for group in status.offsets)), "offsets"),
        Tile("records in quarantine", count_text(sum(row.count for row in status.quarantine)), "intake"),
    ]
