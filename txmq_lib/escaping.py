"""Words from outside (names, ids, remarks, errors of others) made fit for each place that shows them. One owner.

A message may hold anything: sequences that move a cursor, a line end and a forged line, marks that turn the reading
direction, a cell that a spreadsheet runs. Each function is for one kind of output; nothing else decides this.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

LONGEST_LINE = 4_000  # of a screen or a log
LONGEST_ON_PAGE = 300  # of a cell or sentence of the report, and of a field of a webhook
LONGEST_IN_CHART = 60

# A spreadsheet takes a cell that begins so for a formula; also by their full-width forms.
_BEGINS_FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20")
# What names of RocketMQ and our own sentences are made of, and no chat program takes for a mention or a link.
_PLAIN_IN_CHAT = frozenset(" _%|.,:;/+-()='")


def visible(text: str, *, kept: str = "") -> str:
    """One line: whatever has no sign of its own (controls, line ends, direction marks, halves of surrogate pairs) as
    its escape, but for characters in `kept`."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in kept else _escape(each) for each in text)


def shortened(text: str, most: int) -> str:
    """At most some `most` characters, and how many there are more."""
    return text if len(text) <= most else f"{text[:most]}… and {len(text) - most:,} more characters"


def line(text: str) -> str:
    """For a screen or a log."""
    return visible(shortened(text, LONGEST_LINE))


def json_text(value: object) -> str:
    """As JSON, exact and in one line; what has no sign of its own as JSON's escape."""
    text = json.dumps(value, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)


def spreadsheet_cell(text: str) -> str:
    """For a cell of CSV, line ends as they are; an apostrophe stands before what would be run."""
    shown = visible(text, kept="\n")
    return f"'{shown}" if shown.lstrip().startswith(_BEGINS_FORMULA) else shown


def page_words(text: str) -> str:
    """For the report, which escapes HTML itself."""
    return visible(shortened(text, LONGEST_ON_PAGE))


def chart_names(names: Iterable[str]) -> dict[str, str]:
    """What a drawing calls each name: another for each.

    Each ends in blanks, which are not drawn: Vega keeps names as keys of JavaScript objects, where `toString` and the
    like are taken already.
    """
    called: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        if name not in called:
            shown = visible(shortened(name, LONGEST_IN_CHART)) + " "
            while shown in taken:
                shown += " "
            taken.add(shown)
            called[name] = shown
    return called


def webhook_words(text: str) -> str:
    """For a field of a webhook."""
    return visible(shortened(text, LONGEST_ON_PAGE))


def chat_words(text: str) -> str:
    """For a sentence that chat programs show: nothing in it is a mention, markup or a link with a scheme."""
    plain = "".join(each if each.isalnum() or each in _PLAIN_IN_CHAT else _escape(each) for each in text)
    return plain.replace("://", ":\\x2f/")


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
