"""The report in a real headless Chromium (Debian's): it draws, says nothing to the console, fits, and can be used by keyboard."""

from __future__ import annotations

import itertools
import re
import shutil
from pathlib import Path

import pytest
from moment import NOW
from playwright.sync_api import Browser, expect, sync_playwright
from views.report_rows import HOSTILE, rows
from views.test_live_pages import served

from txmq_lib import names

CHROMIUM = shutil.which("chromium")
WIDE, NARROW = 1280, 400

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def browser():
    assert CHROMIUM, "no chromium here: as root, apt-get install chromium"
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def report(warehouse, txmq, tmp_path):
    def make(content) -> str:
        out = tmp_path / "report.html"
        assert txmq("--warehouse", warehouse(content), "report", "--out", str(out), "--now", NOW.isoformat())[0] == 0
        return out.as_uri()

    return make


@pytest.fixture
def opened(browser: Browser, tmp_path: Path):
    """A page at a width in a theme, and everything the console and the network said."""
    contexts = []

    def open_(uri: str, *, width: int = WIDE, theme: str = "light"):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
        contexts.append(context)
        page, said = context.new_page(), []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: None if request.url.startswith((uri, "data:")) else said.append(request.url))
        page.goto(uri)
        return page, said

    yield open_
    for context in contexts:
        context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_it_draws_every_chart_within_the_window_and_says_nothing(report, opened, width, theme):
    page, said = opened(report(rows(HOSTILE)), width=width, theme=theme)
    charts = [chart for chart in page.locator(".chart").all() if chart.is_visible()]
    assert len(charts) == 10
    for chart in charts:
        box = chart.locator("svg").bounding_box()
        assert box["width"] > 200
        assert box["height"] > 80
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        # Something but text and axes: a bar, an area or a line, in a colour that the theme gives.
        marks = chart.locator("svg [class^='mark-'] path, svg [class^='mark-'] line").all()
        fills = {
            mark.evaluate("each => [getComputedStyle(each).fill, getComputedStyle(each).stroke].join()")
            for mark in marks
        }
        assert any("rgb(" in fill for fill in fills), fills
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert said == []


def test_a_legend_of_every_verdict_fits_a_narrow_window(report, opened):
    first = rows("G")["verdict"][0]
    rows_of_every_verdict = [{**first, "transaction_id": name, "verdict": name} for name in names.VERDICTS]
    page, _ = opened(report({"verdict": rows_of_every_verdict}), width=NARROW)
    beyond = page.locator(".chart svg text").evaluate_all(
        "each => each.filter(text => text.getBoundingClientRect().right > innerWidth).map(text => text.textContent)"
    )
    assert beyond == []


def test_texts_of_a_drawing_do_not_overlap(report, opened):
    for width in (WIDE, NARROW):
        page, _ = opened(report(rows("GID_PAYMENTS_OF_ORDERS")), width=width)
        overlapping = page.evaluate(
            """() => [...document.querySelectorAll('.chart svg')].flatMap(svg => {
                const boxes = [...svg.querySelectorAll('text')].filter(each => each.textContent
                    && +getComputedStyle(each).opacity && each.getAttribute('opacity') !== '0')
                    .map(each => [each.textContent, each.getBoundingClientRect()]).filter(([, box]) => box.width);
                return boxes.flatMap(([one, a], i) => boxes.slice(i + 1).filter(([, b]) =>
                    a.left < b.right - 2 && b.left < a.right - 2 && a.top < b.bottom - 2 && b.top < a.bottom - 2)
                    .map(([other]) => one + ' / ' + other));
            })"""
        )
        assert overlapping == []


def test_the_theme_follows_the_system_until_the_button_says_otherwise(report, opened):
    page, said = opened(report({}), theme="dark")
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(paper)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.locator("#theme").inner_text() == "Theme: light"
    assert page.evaluate(paper) != dark
    page.keyboard.press("Enter")
    assert page.evaluate(paper) == dark
    page.emulate_media(color_scheme="light")
    assert page.evaluate(paper) == dark
    assert said == []


def test_a_link_opens_the_story_it_leads_to(report, opened):
    page, said = opened(report(rows("GID_PAY")))
    story = page.locator("#story-1")
    assert story.get_attribute("open") is None
    page.locator("a[href='#story-1']").focus()
    page.keyboard.press("Enter")
    expect(story).to_have_attribute("open", "")
    assert story.get_by_text("half message stored").is_visible()
    assert said == []


STUCK = "section#stuck .scrolled >> nth=0"


def listed(page) -> list[str]:
    """The ids in the first list that can be acted on, as shown."""
    cells = page.locator(f"{STUCK} >> tbody tr:not([hidden]) td:first-child")
    return cells.all_inner_texts()


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_a_list_is_filtered_sorted_and_copied_in_the_page(report, opened, width):
    page, said = opened(report(rows("GID_PAY", pending=20)), width=width)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    # The oldest first; by age, in which 9m comes before 19m, the youngest first at the second click.
    assert listed(page)[:2] == ["P19", "P18"]
    age = page.locator(f"{STUCK} >> th button", has_text="age")
    age.click()
    assert listed(page)[:2] == ["P19", "P18"]
    age.click()
    assert listed(page)[:3] == ["P0", "P1", "P2"]
    assert page.locator(f"{STUCK} >> th[aria-sort=ascending]").inner_text().startswith("age")
    field = page.get_by_label("Filter: Undecided, the oldest of 20")
    field.fill("gid_pay P1")
    assert sorted(listed(page)) == sorted(["P1", *(f"P{number}" for number in range(10, 20))])
    assert page.locator("section#stuck .tools [role=status]").first.inner_text() == "11 of 20"
    field.fill("P7")
    page.get_by_label("Copy: Undecided, the oldest of 20").click()
    expect(page.locator("#stuck .tools [role=status]").first).to_have_text("1 rows copied")
    head, row = page.evaluate("navigator.clipboard.readText()").rstrip("\n").split("\n")
    assert head.split("\t") == ["transaction", "producer group", "topic", "age", "asked", "why", "do"]
    assert row.split("\t")[:4] == ["P7", "GID_PAY", "-", "7m"]
    field.fill("")
    assert len(listed(page)) == 20
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert said == []


def test_no_cell_that_is_copied_is_a_formula(report, opened):
    page, said = opened(report(rows("=1+1", pending=3)), width=NARROW)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_label("Copy: Undecided").first.click()
    expect(page.locator("#stuck .tools [role=status]").first).to_have_text(re.compile("copied$"))
    _, *copied = page.evaluate("navigator.clipboard.readText()").rstrip("\n").split("\n")
    assert {row.split("\t")[1] for row in copied} == {"'=1+1"}
    assert page.evaluate("['-', '-5', '-3m', '@a', '\uff1d1', '-x'].map(defused)") == [
        "-", "-5", "-3m", "'@a", "'\uff1d1", "'-x",
    ]  # fmt: skip
    assert said == []


def test_a_story_says_what_it_means_why_and_what_to_do(report, opened):
    page, said = opened(report(rows("GID_PAY")), width=NARROW)
    page.locator("a[href='#given-up-story-1']").click()
    expect(page.locator("#given-up-story-1")).to_have_attribute("open", "")
    words = page.locator("#given-up-story-1 .advice").inner_text()
    assert "given up after the last check: nobody decided it" in words
    assert "look in the producer's database" in words
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW
    assert said == []


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_the_live_page_and_the_page_of_a_transaction(warehouse, opened, tmp_path, width):
    with served(warehouse(rows(HOSTILE)), tmp_path) as (host, port):
        page, said = opened(f"http://{host}:{port}/", width=width)
        assert page.locator("h1").inner_text() == "txmq report"
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.locator("a[href='/transaction/DISCARDED1']").first.click()
        page.wait_for_url("**/transaction/DISCARDED1")
        assert page.get_by_text("given up after the last check: nobody decided it").is_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.get_by_role("link", name="Back to the report").click()
        page.wait_for_url(f"http://{host}:{port}/")
        assert said == []


def test_on_paper_everything_is_open_and_light(report, opened, tmp_path):
    page, said = opened(report(rows("GID_PAY")), theme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert len(page.pdf()) > 10_000
    assert said == []


def test_headings_and_names_are_there_for_a_screen_reader(report, opened):
    page, _ = opened(report(rows("GID_PAY")))
    levels = page.locator("h1, h2, h3").evaluate_all("all => all.map(each => +each.tagName[1])")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    unnamed = page.locator("[role=img], [role=region], nav, figure, section").evaluate_all(
        "all => all.filter(each => !each.getAttribute('aria-label') && !each.getAttribute('aria-labelledby')).length"
    )
    assert unnamed == 0
    tree = page.locator("main").aria_snapshot()
    assert "Undecided now by producer group and age, transactions" in tree
