"""The report as it is now, and a page per transaction, for browsers: read only, made when they are asked for."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from threading import Lock
from time import monotonic
from urllib.parse import unquote, urlsplit

from txmq_lib.cli.options import location
from txmq_lib.cli.run.clock import wall_clock
from txmq_lib.cli.run.status import limits
from txmq_lib.config.settings import Settings
from txmq_lib.config.source_steps import steps_of_sources
from txmq_lib.report.build import built_report
from txmq_lib.report.page import html, transaction_html
from txmq_lib.report.parts import time_text
from txmq_lib.report.stories import TRANSACTION_PATH, Links, story_part
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.trace import trace

# A page that many look at, again and again, is made once in so long.
FRESH_SECONDS = 10.0
LONGEST_ID = 512


class Pages:
    """The pages of one warehouse, one of them made at a time. `hint` completes the commands that they show."""

    def __init__(self, settings: Settings, hint: Callable[[str], str] = str) -> None:
        self._settings, self._hint = settings, hint
        self._warehouse = location(settings.warehouse)
        self._lock = Lock()
        self._report, self._made = "", -FRESH_SECONDS

    def has(self, path: str) -> bool:
        """Whether there is a page at this path."""
        try:
            place = urlsplit(path).path
        except ValueError:  # brackets where an address would stand
            return False
        return place == "/" or (place.startswith(TRANSACTION_PATH) and 0 < len(_id_of(place)) <= LONGEST_ID)

    def page(self, path: str) -> str:
        """The page at a path that there is. Raises what reading the tables raises."""
        place = urlsplit(path).path
        with self._lock:
            return self._of_report() if place == "/" else self._of_transaction(_id_of(place))

    def _of_report(self) -> str:
        if monotonic() - self._made >= FRESH_SECONDS:
            report = built_report(
                WarehouseReader(self._warehouse),
                wall_clock(),
                since=None,
                limits=limits(self._settings),
                lag_window_ms=self._settings.lag_window_ms,
                source_steps=steps_of_sources(self._settings.sources),
                links=Links.PAGES,
            )
            self._report, self._made = html(report, self._hint), monotonic()
        return self._report

    def _of_transaction(self, transaction_id: str) -> str:
        stories = trace(WarehouseReader(self._warehouse), transaction_id)
        parts = [story_part(story, f"story-{place}", transaction_id) for place, story in enumerate(stories, start=1)]
        return transaction_html(self._warehouse, time_text(wall_clock()), transaction_id, parts, self._hint)


def is_own_name(host: str, listens_at: str) -> bool:
    """Whether a request's Host is an address, `localhost`, or what `--listen` names, as it was typed.

    A page of elsewhere can make its own name lead to this machine, and then read what it is answered; it can make no
    address its own.
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name in ("localhost", listens_at.lower()) or bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def _id_of(place: str) -> str:
    return unquote(place.removeprefix(TRANSACTION_PATH))
