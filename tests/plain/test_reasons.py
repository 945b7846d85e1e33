"""Every reason of a verdict says what it means, what is missing, and what would settle it."""

from __future__ import annotations

from pathlib import Path

from txmq_lib import names
from txmq_lib.report.decided import HUES_OF_VERDICTS
from txmq_lib.views import advice, reasons

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "pages" / "verdicts.md").read_text(encoding="utf-8")
EVERY = {reason for of_verdict in names.REASONS.values() for reason in of_verdict}


def test_every_reason_of_the_closed_list_is_told_in_words_and_none_beside_it():
    assert {*reasons.MEANING} == EVERY
    assert {*names.REASONS} == {*names.VERDICTS}


def test_every_verdict_is_in_one_of_the_sets_that_views_and_commands_go_by():
    decided = {"DUPLICATED", "CONFLICT", "COMMITTED_AND_DISCARDED", "COMMITTED_OP_LOST", "COMMITTED", "ROLLED_BACK"}
    not_known = {"RESOLVED_UNKNOWN", "DIVERTED"}
    undecided = {"PENDING", *names.NOT_ASKED_ABOUT}
    assert undecided == {*names.UNDECIDED}
    assert {*names.GIVEN_UP_VERDICTS} < {*names.NOT_ASKED_ABOUT}
    assert len(decided) + len(not_known) + len(undecided) == len(names.VERDICTS)
    assert decided | not_known | undecided == {*names.VERDICTS}


def test_whatever_is_missing_comes_with_what_would_settle_it():
    missing = {*names.UNKNOWN_REASONS, names.REASON_FROM_BEGINNING, names.REASON_FILE_END, names.REASON_OP_UNREAD}
    assert {*reasons.SETTLED_BY} == missing


def test_the_page_of_verdicts_has_a_row_for_every_reason():
    listed = [line.split("|")[1].strip().strip("`") for line in PAGE.splitlines() if line.startswith("| `")]
    assert EVERY - {*listed} == set()


def test_of_whatever_nobody_decided_it_is_told_what_to_do():
    assert {*names.UNDECIDED} <= {*advice.TO_DO}


def test_every_verdict_has_a_meaning_and_a_colour_that_the_report_has_in_each_of_its_lights():
    style = (ROOT / "txmq_lib" / "report" / "page.css").read_text(encoding="utf-8")
    assert {*advice.MEANING} == {*HUES_OF_VERDICTS} == {*names.VERDICTS}
    lights = {hue: style.count(hue.removeprefix("var(").removesuffix(")") + ":") for hue in HUES_OF_VERDICTS.values()}
    assert lights == dict.fromkeys(HUES_OF_VERDICTS.values(), 3)
