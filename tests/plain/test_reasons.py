"""Every reason of a verdict says what it means, what is missing, and what would settle it."""

from __future__ import annotations

from pathlib import Path

from txmq_lib import names
from txmq_lib.views import reasons

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "pages" / "verdicts.md").read_text(encoding="utf-8")
EVERY = {reason for of_verdict in names.REASONS.values() for reason in of_verdict}


def test_every_reason_of_the_closed_list_is_told_in_words_and_none_beside_it():
    assert {*reasons.MEANING} == EVERY
    assert {*names.REASONS} == {*names.VERDICTS}


def test_whatever_is_missing_comes_with_what_would_settle_it():
    missing = {*names.UNKNOWN_REASONS, names.REASON_FROM_BEGINNING, names.REASON_FILE_END, names.REASON_OP_UNREAD}
    assert {*reasons.SETTLED_BY} == missing


def test_the_page_of_verdicts_has_a_row_for_every_reason():
    listed = [line.split("|")[1].strip().strip("`") for line in PAGE.splitlines() if line.startswith("| `")]
    assert EVERY - {*listed} == set()
