"""What pages, comments and ARCHITECTURE cite is there: rules and formats by number, files, functions, tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import PAGES, ROOT

RULES = (PAGES / "rules.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
CITING = ("txmq_lib", "schemas", "conf", "jobs", "docs")
TEXTS = {".py", ".yaml", ".md", ".sql"}
CITED_FILE = re.compile(r"(?<![\w/.])[\w.]+/[\w/.-]*\w\.(?:py|yaml|sql)\b")
CITED_NAMES = re.compile(r"([\w/]+/\w+\.py)`?((?:,? `\w+`)+)")
CITED_RULE = re.compile(r"\b(?:R\d{1,3}|[EF]\d)\b")


def sections() -> Iterator[tuple[str, str]]:
    """The number of every rule of the page, and what stands under it."""
    parts = re.split(r"^### ([REF]\d+)\n", RULES, flags=re.MULTILINE)[1:]
    yield from zip(parts[::2], parts[1::2], strict=True)


def found(path: str) -> Path | None:
    """The file that a text names, from the top of the checkout or below `txmq_lib`."""
    return next((file for base in ("", "txmq_lib") if (file := ROOT / base / path).is_file()), None)


def test_every_rule_stands_once_and_says_where_it_is():
    numbers = [number for number, _ in sections()]
    assert numbers == [*(f"R{n}" for n in range(1, 136)), "E1", "E2", *(f"F{n}" for n in range(1, 7))]
    assert [number for number, text in sections() if text.count("*In txmq:* ") != 1] == []


def test_every_rule_that_is_in_the_code_has_a_test():
    untested = {number for number, text in sections() if "Judged by" not in text}
    left_out = {number for number, text in sections() if "*In txmq:* left out" in text}
    assert untested - left_out == set()


@pytest.mark.parametrize("text", [ARCHITECTURE, RULES], ids=["ARCHITECTURE", "rules"])
def test_every_file_and_function_that_is_named_exists(text):
    without_sources = text.partition("## Sources in RocketMQ")[0]
    files = {path for path in CITED_FILE.findall(without_sources) if not path.startswith("broker/")}
    assert sorted(path for path in files if found(path) is None) == []
    for path, listed in CITED_NAMES.findall(without_sources):
        file = found(path)
        assert file is not None, path
        for name in re.findall(r"`(\w+)`", listed):
            defined = rf"^(?:def|class) {name}\b"
            assert re.search(defined, file.read_text(encoding="utf-8"), re.MULTILINE), f"{path} has no {name}"


def test_every_rule_that_is_cited_is_on_the_page():
    known = {number for number, _ in sections()}
    for top in CITING:
        for file in (ROOT / top).rglob("*"):
            if file.suffix in TEXTS and "captures" not in file.parts:
                text = file.read_text(encoding="utf-8")
                assert set(CITED_RULE.findall(text)) <= known, file
                assert not re.search(r"\bsemantics \d|\bdesign(?: section)? \d", text), file
