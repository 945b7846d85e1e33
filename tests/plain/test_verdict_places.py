"""A new verdict is missed nowhere: the list in contributing.md is what the code has, and each place takes every verdict."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from txmq_lib import names
from txmq_lib.report.decided import HUES_OF_VERDICTS
from txmq_lib.rules.verdict import UNSETTLED
from txmq_lib.views import advice, problems
from txmq_lib.views.client_ends import TAKEN

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "pages" / "contributing.md").read_text(encoding="utf-8")
LIST = PAGE.partition("## To add a verdict\n")[2].partition("\n#")[0]

# What became of its transaction, as the verdict tells it. A new one is in one of them.
VISIBLE = {"DUPLICATED", "CONFLICT", "COMMITTED_AND_DISCARDED", "COMMITTED_OP_LOST", "COMMITTED"}
ROLLED_BACK = {"ROLLED_BACK"}
NOT_KNOWN = {"RESOLVED_UNKNOWN", "DIVERTED"}
UNDECIDED = {"PENDING", "DISCARDED", "DISCARDED_UNSEEN", "EXPIRED_UNSEEN"}
EVERY = VISIBLE | ROLLED_BACK | NOT_KNOWN | UNDECIDED


def tells_apart(path: Path) -> bool:
    """Whether a module names a verdict of its own, not only the sets of names.py, which a new one joins there."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = [
        (each.module, alias) for each in ast.walk(tree) if isinstance(each, ast.ImportFrom) for alias in each.names
    ]
    modules = {
        alias.asname or alias.name for module, alias in imported if (module, alias.name) == ("txmq_lib", "names")
    }
    by_module = {
        each.attr
        for each in ast.walk(tree)
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id in modules
    }
    by_name = {alias.name for module, alias in imported if module == "txmq_lib.names"}
    in_quotes = {each.value for each in ast.walk(tree) if isinstance(each, ast.Constant) and each.value in EVERY}
    return bool((by_module | by_name | in_quotes) & EVERY)  # their names are what they say


def test_every_verdict_says_what_became_of_its_transaction():
    assert {*names.VERDICTS} == EVERY
    assert len(VISIBLE) + len(ROLLED_BACK) + len(NOT_KNOWN) + len(UNDECIDED) == len(names.VERDICTS)


def test_the_list_of_a_new_verdict_names_each_module_that_tells_verdicts_apart_and_no_other():
    # Other words of these spellings: states of a pass, outcomes of a comparison.
    others = {"passes/pass_log.py", "passes/damage.py", "rules/duplicates.py"}
    modules = {str(path.relative_to(ROOT / "txmq_lib")): path for path in (ROOT / "txmq_lib").rglob("*.py")}
    found = {name for name, path in modules.items() if tells_apart(path)} - others
    listed = {*re.findall(r"`txmq_lib/([\w/]+\.py)`", LIST)}
    no_name = {"views/reasons.py", "rocketmq/set_ups.py"}  # reasons alone; a set-up that leads to a verdict
    assert (found - listed, listed - found - no_name) == (set(), set())


def test_the_list_of_a_new_verdict_names_each_page_that_tells_verdicts_apart():
    marked = EVERY - {"COMMITTED", "PENDING"}  # words of other things, too
    files = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.ipynb")]
    pages = [path for path in files if {*re.findall(r"\w+", path.read_text(encoding="utf-8"))} & marked]
    at_hand = {path: str(path.relative_to(ROOT / "docs" / "pages")) for path in pages if "pages" in path.parts}
    names_of_pages = [
        at_hand.get(path, str(path.relative_to(ROOT))) for path in pages if path.name != "contributing.md"
    ]
    assert [name for name in names_of_pages if f"({name})" not in LIST and f"`{name}`" not in LIST] == []


def test_the_sets_of_names_py_divide_the_verdicts():
    assert {*names.UNDECIDED} == UNDECIDED
    assert {*names.NOT_ASKED_ABOUT} == UNDECIDED - {*names.STILL_ASKED}
    assert {*names.GIVEN_UP_VERDICTS} | {*names.WITHOUT_TRACE} == {*names.NOT_ASKED_ABOUT}
    assert {*names.ENDED_TWICE} < VISIBLE


def test_of_whatever_is_visible_or_rolled_back_it_is_known_which_end_was_taken():
    # Of a CONFLICT two were, and none is the one.
    assert dict.fromkeys(VISIBLE - {"CONFLICT"}, "commit") | dict.fromkeys(ROLLED_BACK, "rollback") == TAKEN


def test_of_whatever_is_not_an_ordinary_end_status_and_trace_say_what_to_do():
    ordinary = {"COMMITTED", "ROLLED_BACK"}
    assert {*advice.TO_DO} == EVERY - ordinary
    # How many are pending, and how many not known for which reason, `status` tells in lines of their own.
    assert {*problems.TROUBLES} == EVERY - ordinary - {
        *names.STILL_ASKED,
        "RESOLVED_UNKNOWN",
        "COMMITTED_AND_DISCARDED",
    }


def test_of_whatever_a_client_can_be_asked_about_it_counts_whether_one_is_there():
    assert {*advice.CONNECTED_TO_DO} == {*advice.GONE_TO_DO} == {*names.STILL_ASKED, *names.GIVEN_UP_VERDICTS}


def test_what_later_evidence_alone_decides_is_judged_again():
    # The others are by role, reason or setting: rules/verdict.py says which.
    assert {*UNSETTLED} == {"PENDING", "RESOLVED_UNKNOWN"}


def test_every_verdict_has_a_meaning_and_a_colour_that_the_report_has_in_each_of_its_lights():
    style = (ROOT / "txmq_lib" / "report" / "page.css").read_text(encoding="utf-8")
    assert {*advice.MEANING} == {*HUES_OF_VERDICTS} == EVERY
    lights = {hue: style.count(hue.removeprefix("var(").removesuffix(")") + ":") for hue in HUES_OF_VERDICTS.values()}
    assert lights == dict.fromkeys(HUES_OF_VERDICTS.values(), 3)
