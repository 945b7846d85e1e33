"""The section that is acted on: undecided and given-up transactions, each with its age, reason and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from txmq_lib import names
from txmq_lib.report.parts import Hint, Section, StoryPart, Table, count_text, group_text
from txmq_lib.report.shared import left_out
from txmq_lib.report.stories import STORIES_TOLD, Links, link_to, told_stories
from txmq_lib.views.declared.transactions import PENDING
from txmq_lib.views.declared.verdicts import VERDICTS
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.select import ViewQuery, row_count, state_options, view_rows
from txmq_lib.views.status import span_text
from txmq_lib.views.view import View

KEY = ("transaction_id", "producer_group", "born_timestamp", "broker_name", "real_topic")
UNJUDGED = "txmq audit says why and what to do"
HEAD = ("transaction", "producer group", "topic", "age", "asked", "why", "do")


def stuck_section(reader: WarehouseReader, now: datetime, links: Links) -> Section:
    """The undecided, the oldest first, and the given-up that nobody has decided, the newest first."""
    waiting = _Listed(
        reader, now, PENDING, ViewQuery(limit=STORIES_TOLD), "first_store_timestamp", "undecided", "txmq pending"
    )
    given_up = _Listed(
        reader,
        now,
        VERDICTS,
        ViewQuery(filters={"state": names.NOT_ASKED_ABOUT}, limit=STORIES_TOLD),
        "first_timestamp",
        "given-up",
        f"txmq verdicts {state_options(names.NOT_ASKED_ABOUT)}",
    )
    tables = [each.table(f"{title} {count_text(each.total)}", links) for each, title in (
        (waiting, "Undecided, the oldest of"), (given_up, "Asked about no more and decided by nobody, the newest of")
    ) if each.rows]  # fmt: skip
    stories = [*waiting.stories, *given_up.stories] if links is Links.STORIES else []
    words = ("Only the producer's database knows whether a local transaction committed: ask it before you decide.",)
    return Section(
        "stuck",
        "Stuck transactions, and what to do",
        words if tables else (),
        tables=tables,
        stories=stories,
        empty="No transaction is undecided or given up.",
    )


class _Listed:
    """The first rows of a view with their stories."""

    def __init__(
        self, reader: WarehouseReader, now: datetime, view: View, query: ViewQuery, born: str, name: str, command: str
    ) -> None:
        columns = (*KEY, born, "check_times", "broker_check_times", *(["verdict"] if "verdict" in view.columns else []))
        found = view_rows(reader, view, query, columns=columns)
        self.rows: list[Mapping[str, Any]] = [dict(zip(columns, row, strict=True)) for row in found]
        self.total = row_count(reader, view, query) if self.rows else 0
        self.stories: Sequence[StoryPart] = told_stories(reader, self.rows, f"{name}-story") if self.rows else ()
        self._now, self._born, self._name, self._command = now, born, name, command

    def table(self, title: str, links: Links) -> Table:
        """The list, each row with what its story calls for."""
        rows = [
            (
                link_to(row, place, f"{self._name}-story", links),
                group_text(row["producer_group"]),
                row["real_topic"] or "-",
                span_text(self._now - datetime.fromisoformat(row[self._born])) if row[self._born] else "-",
                count_text(max(row["check_times"], row["broker_check_times"])),
                (story.advice.why or story.advice.meaning) if story.advice else "-",
                Hint(story.advice.to_do[0] if story.advice else UNJUDGED),
            )
            for place, (row, story) in enumerate(zip(self.rows, self.stories, strict=True), start=1)
        ]
        note = left_out(self.total, "transactions", f"{self._command} --format csv", STORIES_TOLD)
        return Table(title, HEAD, rows, numbers=(3, 4), note=note)
