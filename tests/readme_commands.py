"""Commands and settings as the README shows them, with names of a test put in where the reader's own would stand."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from pages import blocks

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")


def in_readme(command: str, names: Mapping[str, str]) -> list[str]:
    """The arguments of a command that stands in the README on a line of its own, some words of it replaced.

    names  word of the README -> what it is in the test
    """
    assert command in README.splitlines(), f"the README does not show: {command}"
    program, *words = shlex.split(command)
    assert program == "txmq"
    return [names.get(word, word) for word in words]


def readme_settings(heading: str) -> str:
    """The first YAML of a section of the README."""
    section = README.partition(f"## {heading}\n")[2]
    found = next((block.text for block in blocks(section) if block.language == "yaml"), None)
    assert found is not None, f"the README shows no settings under {heading}"
    return found
