"""Commands and settings as the pages show them, with names of a test put in where the reader's own would stand."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from pages import PAGES, blocks, steps


def on_page(page: str, command: str, names: Mapping[str, str]) -> list[str]:
    """The arguments of a command that stands on a page, some words of it replaced.

    names  word of the page -> what it is in the test
    """
    shown = [step.command for block in blocks((PAGES / page).read_text(encoding="utf-8")) for step in steps(block)]
    assert command in shown, f"{page} does not show: {command}"
    program, *words = shlex.split(command)
    assert program == "txmq"
    return [names.get(word, word) for word in words]


def settings_under(page: str, heading: str) -> str:
    """The first YAML under a heading of a page."""
    section = (PAGES / page).read_text(encoding="utf-8").partition(f"## {heading}\n")[2]
    found = next((block.text for block in blocks(section) if block.language == "yaml"), None)
    assert found is not None, f"{page} shows no settings under {heading}"
    return found
