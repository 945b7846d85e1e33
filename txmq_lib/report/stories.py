"""Stories of transactions for the report: what happened, what it means, why, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Any
from urllib.parse import quote

from txmq_lib import names
from txmq_lib.report.parts import Link, StoryPart, Table, group_text
from txmq_lib.views.advice import advice
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.trace import Story, traces

STORIES_TOLD = 50
TRANSACTION_PATH = "/transaction/"


class Links(Enum):
    """Where a listed transaction leads: to its story below the list, or to its page on the server."""

    STORIES = auto()
    PAGES = auto()


def link_to(row: Mapping[str, Any], place: int, prefix: str, links: Links) -> Link:
    """From a listed transaction to its story, the `place`-th under `prefix`."""
    page = f"{TRANSACTION_PATH}{quote(row['transaction_id'], safe='')}"
    return Link(row["transaction_id"], page if links is Links.PAGES else f"#{prefix}-{place}")


def told_stories(reader: WarehouseReader, rows: Sequence[Mapping[str, Any]], prefix: str) -> list[StoryPart]:
    """The story of each row, which has the columns of a transaction's key and `verdict`."""
    known = traces(reader, sorted({row["transaction_id"] for row in rows}))
    parts = []
    for place, row in enumerate(rows, start=1):
        key = {name: row[name] for name in names.TRANSACTION_KEY}
        found = next((story for story in known.get(row["transaction_id"], ()) if story.key == key), Story(key, ()))
        parts.append(story_part(found, f"{prefix}-{place}", row["transaction_id"], row.get("verdict")))
    return parts


def story_part(story: Story, anchor: str, transaction_id: str, verdict: str | None = None) -> StoryPart:
    """A story as the page shows it."""
    key = story.key or {}
    parts = [transaction_id, *([verdict] if verdict else []), group_text(key.get("producer_group"))]
    caption = f"born {key['born_timestamp']}, broker {key['broker_name']}" if key else "named by ends only"
    events = [(event.time or "-", event.event, event.text) for event in story.events]
    table = Table(caption, ("time", "event", "what happened"), events)
    return StoryPart(anchor, ", ".join(parts), table, advice(story.events, story.role))
