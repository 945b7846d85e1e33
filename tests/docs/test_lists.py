"""What the pages list is what the code has: views, options, metrics, verdicts, exit codes, reasons of the quarantine."""

from __future__ import annotations

import json
import re

import typer
from pages import PAGES, ROOT, blocks

from txmq_lib import errors, names
from txmq_lib.cli import signals
from txmq_lib.cli.app import app
from txmq_lib.rules.end import REFUSALS
from txmq_lib.rules.landing_contract import MESSAGE_FIELDS
from txmq_lib.views.catalogue import VIEWS
from txmq_lib.views.metric_names import FAMILIES

GLOBAL_OPTIONS = {"--conf", "--set", "--warehouse", "--verbose", "-v", "--help"}
VIEWS_PAGE = "reference/views.md"
PLACE = {"--queue", "--from-offset"}
VIEW = {view.command: view for view in VIEWS}
CODE_LITERAL = re.compile(r'"([A-Z]+(?:_[A-Z0-9]+)+)"')
CODE = re.compile(r"`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)`")


def table_rows(page: str, heading: str) -> list[list[str]]:
    """The cells of every table row under one heading of a page."""
    text = (PAGES / page).read_text(encoding="utf-8")
    assert f"# {heading}\n" in text, f"{page} has no heading {heading}"
    section = re.split(r"^#+ ", text.partition(f"# {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("|") and not line.startswith("|--")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def first_cells(page: str, heading: str) -> set[str]:
    """The words in backticks of the first cell of every row under one heading."""
    return {word for row in table_rows(page, heading) for word in re.findall(r"`([^`]+)`", row[0])}


def test_every_view_is_in_the_pages_with_its_table_filters_and_states():
    documented = {row[0].strip("`"): row[1:] for row in table_rows(VIEWS_PAGE, "Views and the JSON contract")}
    for view in VIEWS:
        table, filters, states, moment = documented[view.command]
        assert table == f"`{view.table}`"
        assert {f"--{option}" for option in view.filters} | (PLACE if view.has_queues else set()) == set(
            filters.strip("`").split()
        ), view.command
        assert moment == f"`{view.time}`"
        if view.command != "verdicts":
            assert set(view.states) == set(states.strip("`").split()), view.command


def test_every_option_that_views_share_is_in_the_pages():
    documented = {
        cell.split()[0] for cell in first_cells(VIEWS_PAGE, "Views and the JSON contract") if cell.startswith("--")
    }
    program = typer.main.get_command(app)
    for view in VIEWS:
        parameters = program.commands[view.command].params
        options = {option for parameter in parameters for option in parameter.opts if option.startswith("--")}
        shared = options - {f"--{option}" for option in view.filters} - PLACE - GLOBAL_OPTIONS
        assert shared <= documented, view.command
        assert documented - shared <= {"--key", "--body"}, view.command


def test_every_metric_is_in_the_pages_with_its_labels():
    endings = {"counter": "_total"}
    documented = {}
    for row in table_rows(VIEWS_PAGE, "Metrics"):
        for name in re.findall(r"`(\w+)`", row[0]):
            documented[name] = row[1]
    assert set(documented) == {family.name + endings.get(family.kind, "") for family in FAMILIES}
    for family in FAMILIES:
        labels = documented[family.name + endings.get(family.kind, "")]
        if labels != "the same":
            shown = set(re.findall(r"`(\w+)`", labels)) | ({"node_type", "node_id"} if "node" in labels else set())
            assert shown == set(family.labels), family.name


def test_every_verdict_and_exit_code_is_in_the_pages():
    assert first_cells("verdicts.md", "The verdicts") == set(names.VERDICTS)
    for page in (VIEWS_PAGE, "differences.md"):
        words_of_page = set(re.findall(r"[A-Z_]+", (PAGES / page).read_text(encoding="utf-8")))
        assert set(names.VERDICTS) - {names.COMMITTED, names.ROLLED_BACK, names.PENDING} <= words_of_page, page
    codes = {str(value) for name, value in vars(errors).items() if name.startswith("EXIT_")}
    by_signal = ", ".join(str(128 + ending) for ending in signals.ENDING)
    assert {row[0] for row in table_rows("cron.md", "Exit codes")} == codes | {by_signal, "code"}


def test_every_reason_of_the_quarantine_is_in_the_pages_and_no_other():
    judging = [path for room in ("rules", "pipeline") for path in (ROOT / "txmq_lib" / room).rglob("*.py")]
    known = {code for path in judging for code in CODE_LITERAL.findall(path.read_text(encoding="utf-8"))}
    # Reasons that sources give are spelt like the names that hold them; verdicts are so too, and topics are not.
    stored = {value for name, value in vars(names).items() if name == value} - set(names.VERDICTS)
    documented = {
        code for row in table_rows("troubleshooting.md", "By reason in quarantine") for code in CODE.findall(row[0])
    }
    assert documented == known | stored == set(VIEW["quarantine"].reasons)


def test_every_reason_that_a_view_can_filter_by_is_one_that_its_rows_have():
    assert set(VIEW["ends"].reasons) == set(REFUSALS)
    assert set(VIEW["answers"].reasons) == first_cells("resolvers.md", "What to know before it runs every minute")
    assert set(VIEW["verdicts"].reasons) == {reason for of_one in names.REASONS.values() for reason in of_one}
    assert set(VIEW["runs"].reasons) == first_cells("troubleshooting.md", "By error code")
    assert {view.command for view in VIEWS if view.reasons} == {
        view.command for view in VIEWS if "reason" in view.filters
    }


def test_the_examples_of_the_landing_contract_can_be_read():
    text = (PAGES / "reference" / "landing.md").read_text(encoding="utf-8")
    examples = [
        json.loads(line) for block in blocks(text) if block.language == "json" for line in block.text.split("\n")
    ]
    assert len(examples) == 7
    assert set(examples[0]) == set(MESSAGE_FIELDS)


def test_the_request_to_a_producer_can_be_read():
    text = (PAGES / "resolvers.md").read_text(encoding="utf-8")
    (example,) = [json.loads(block.text) for block in blocks(text) if block.language == "json"]
    assert {"producerGroup", "header", "message"} == set(example)
    assert set(example["message"]) <= set(MESSAGE_FIELDS)
