"""A report as one HTML file that needs nothing else. The only importer of jinja2. What it shows is hostile: escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
from markupsafe import Markup

from txmq_lib.escaping import page_words
from txmq_lib.report.chart import NARROW, WIDE, Chart
from txmq_lib.report.parts import Hint, Link, Section, StoryPart

HERE = Path(__file__).parent
SMALL = 400


@dataclass(frozen=True)
class Tile:
    """One figure of the first look, and where in the page more is told."""

    label: str
    figure: str
    target: str
    is_bad: bool = False


@dataclass(frozen=True)
class Finding:
    """Something to look at, with the command that shows more."""

    text: str
    command: str
    is_past_limit: bool


@dataclass(frozen=True)
class Report:
    """Everything a page shows."""

    warehouse: str
    made: str
    period: str
    tiles: Sequence[Tile]
    findings: Sequence[Finding]
    sections: Sequence[Section]
    is_empty: bool = False


def html(report: Report, hint: Callable[[str], str] = str) -> str:
    """The page. A policy in it lets no script run but its own, whatever a message may hold.

    hint  puts what names the warehouse into the commands that are shown
    """
    return _rendered("page.html.j2", hint, report=report)


def transaction_html(
    warehouse: str,
    made: str,
    transaction_id: str,
    stories: Sequence[StoryPart],
    hint: Callable[[str], str] = str,
) -> str:
    """The page of one transaction id, under the same policy."""
    return _rendered(
        "transaction.html.j2", hint, warehouse=warehouse, made=made, transaction_id=transaction_id, stories=stories
    )


def policy() -> str:
    """What browsers may do with a page: nothing but its own style and script."""
    digest = base64.b64encode(hashlib.sha256(_script().encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:; base-uri 'none';"
        " form-action 'none'"
    )


def _rendered(template: str, hint: Callable[[str], str], **shown: object) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        # Of every text that is put in, before it is escaped.
        finalize=lambda put_in: page_words(put_in) if type(put_in) is str else put_in,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["link"] = lambda cell: isinstance(cell, Link)
    environment.tests["hint"] = lambda cell: isinstance(cell, Hint)
    environment.filters["pasteable"] = hint
    environment.globals["drawings"] = _drawings
    # All three are txmq's own.
    own = {
        "style": (HERE / "page.css").read_text(encoding="utf-8"),
        "script": _script(),
        "policy": policy(),
    }
    return environment.get_template(template).render(**shown, **{name: Markup(text) for name, text in own.items()})


def _script() -> str:
    return (HERE / "page.js").read_text(encoding="utf-8")


def _drawings(chart: Chart, is_small: bool) -> list[tuple[str, Markup]]:
    """The drawings of a chart with the class that says where each is shown; vl_convert escapes the texts in them."""
    widths = [("any", SMALL)] if is_small else [("wide", WIDE), ("narrow", NARROW)]
    return [(shown, Markup(chart.svg(width))) for shown, width in widths]
