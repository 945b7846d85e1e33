"""`txmq report`: one file that needs nothing else, runs nothing of what messages hold, and can be read without its charts."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from moment import NOW
from views.report_rows import HOSTILE, rows

from txmq_lib.cli import main

LARGEST = 3 * 1024 * 1024
UNITS = (", transactions", ", checks", ", messages", ", seconds", ", transactions per class")
VOID = {"meta", "link", "img", "br", "hr", "input"}


class Page(HTMLParser):
    """The elements of a page, each with its attributes and the text right within it."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self._open: list[list[str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), []))
        if tag not in VOID:
            self._open.append(self.elements[-1][2])

    def handle_endtag(self, tag):
        if self._open:
            self._open.pop()

    def handle_data(self, data):
        if self._open:
            self._open[-1].append(data)

    def all(self, tag):
        return [(attributes, "".join(texts)) for name, attributes, texts in self.elements if name == tag]

    def values(self, attribute):
        return [attributes[attribute] for _, attributes, _ in self.elements if attributes.get(attribute) is not None]


@pytest.fixture
def made(warehouse, tmp_path, capfd):
    def make(content, *arguments: str) -> tuple[Path, str]:
        out = tmp_path / "report.html"
        code = main(
            ["--warehouse", warehouse(content), "report", "--out", str(out), "--now", NOW.isoformat(), *arguments]
        )
        # What draws the charts complains there, and goes on.
        err = capfd.readouterr().err
        assert (code, err.count("\n")) == (0, 1), err
        return out, out.read_text(encoding="utf-8")

    return make


def test_the_report_has_every_section_and_a_figure_for_each(made):
    _, text = made(rows("GID_PAY"))
    page = Page(text)
    titles = [title for _, title in page.all("h2")]
    assert titles == [
        "First look", "Stuck transactions, and what to do", "Undecided transactions", "Verdicts", "Duplicated and contradicted transactions", "Given up",
        "Checks", "Time from half to decision", "Consumer offsets", "Passes and their cost", "Landing and quarantine",
    ]  # fmt: skip
    figures = [attributes["aria-labelledby"] for attributes, _ in page.all("figure")]
    assert Counter(name.rsplit("-chart", 1)[0] for name in figures) == {
        "pending": 2, "verdicts": 2, "given-up": 1, "checks": 1, "decisions": 1, "offsets": 2, "passes": 1,
    }  # fmt: skip
    assert re.search(r'class="figure">3</span> <span>undecided', text)


def test_it_needs_nothing_from_outside_and_is_small(made):
    _, text = made(rows("GID_PAY"))
    assert len(text.encode()) < LARGEST
    page = Page(text)
    assert page.all("link") == [({"rel": "icon", "href": "data:,"}, "")]
    assert page.values("src") == []
    fetched = [
        value for value in (*page.values("href"), *page.values("xlink:href")) if not value.startswith(("#", "data:"))
    ]
    assert fetched == []
    assert re.findall(r"@import|url\((?!#)", text) == []


def test_what_messages_hold_is_text_and_only_the_pages_own_script_may_run(made):
    _, text = made(rows(HOSTILE))
    page = Page(text)
    assert page.all("img") == []
    (script,) = page.all("script")
    assert HOSTILE not in script[1]
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    (policy,) = [attributes["content"] for attributes, _ in page.all("meta") if "http-equiv" in attributes]
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert not [name for _, attributes, _ in page.elements for name in attributes if name.startswith("on")]
    assert HOSTILE in [words for _, words in page.all("td")]
    assert any(HOSTILE[:8] in words for _, words in page.all("text")), "no drawing shows the group"
    assert "49" not in [words for _, words in page.all("td")]


def test_every_chart_has_a_title_with_its_unit_words_and_a_table_of_its_figures(made):
    _, text = made(rows("GID_PAY"))
    page = Page(text)
    figures = re.findall(r"<figure.*?</figure>", text, re.DOTALL)
    assert len(figures) == len(page.all("figure")) == 10
    for figure in figures:
        inner = Page(figure)
        ((_, title),) = inner.all("h3")
        assert title.endswith(UNITS), title
        charts = [attributes for attributes, _ in inner.all("div") if attributes.get("role") == "img"]
        assert charts
        assert all(title in attributes["aria-label"] for attributes in charts)
        assert all(attributes["aria-hidden"] == "true" for attributes, _ in inner.all("svg"))
        assert len(inner.all("caption")) == 1
        assert len(inner.all("tr")) > 1, f"no rows beside {title}"
        axes = {words for _, words in inner.all("text")}
        assert axes & {"transactions", "checks", "messages", "seconds", "messages behind"}, f"{title}: no unit drawn"
    assert all(attributes.get("scope") == "col" for attributes, _ in page.all("th"))


def test_links_lead_somewhere_ids_are_unique_and_stories_can_be_reached(made):
    _, text = made(rows("GID_PAY"))
    page = Page(text)
    ids = page.values("id")
    assert [each for each, count in Counter(ids).items() if count > 1] == []
    targets = {value.removeprefix("#") for value in page.values("href") if value.startswith("#")}
    assert targets <= set(ids)
    assert {"story-1", "story-2"} <= targets
    story = re.search(r'<details class="story" id="story-1">.*?</details>', text, re.DOTALL).group()
    assert [words for _, words in Page(story).all("td")][1::3] == ["half_stored", "verdict"]
    assert [svg for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL) if re.search(r"\sid=|url\(#", svg)] == []


def test_an_empty_warehouse_makes_a_report_that_says_so(made):
    _, text = made({})
    page = Page(text)
    assert page.all("figure") == []
    said = {words for attributes, words in page.all("p") if attributes.get("class") == "empty"}
    assert said == {
        "No transaction is undecided or given up.", "Nothing is undecided.", "No verdicts yet: txmq audit gives them.",
        "No transaction is visible twice or contradicted.", "No message was given up.",
        "Nothing was decided in this period.", "No consumer offsets have landed.",
        "No pass has been committed in this period.", "Nothing has landed.",
    }  # fmt: skip
    assert "No problem found." not in text
    assert "Nothing has landed yet" in text
    assert "<dt>Period shown</dt><dd>-</dd>" in text


def test_thresholds_are_told_first_and_since_narrows_the_period(made):
    _, text = made(rows("GID_PAY"), "--set", "thresholds.pending=1", "--since", "1h")
    first = re.search(r'<ul class="findings">\s*<li class="bad">(.*?)</li>', text, re.DOTALL).group(1)
    assert "Past a threshold:</strong> 3 transactions undecided" in first
    assert "<dd>2026-11-21 10:59:59Z to" in text


def test_a_hundred_thousand_pending_make_no_larger_page(made):
    small, _ = made(rows("GID_PAY"))
    small_size = small.stat().st_size
    large, text = made(rows("GID_PAY", pending=100_000))
    assert "100,000" in text
    assert large.stat().st_size < small_size + 45_000  # a list of fifty with their stories, each with what to do


def test_a_report_that_cannot_be_written_is_a_usage_error_and_leaves_nothing(warehouse, txmq, tmp_path):
    code, _, err = txmq("--warehouse", warehouse({}), "report", "--out", str(tmp_path / "absent" / "r.html"))
    assert (code, err.count("error USAGE: --out")) == (2, 1)
    assert list(tmp_path.glob("**/.r.html*")) == []
