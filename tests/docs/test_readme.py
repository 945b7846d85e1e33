"""The README is short, names every command once, and shows what the commands print; test_pages runs them on the demo."""

from __future__ import annotations

import re
from collections import Counter

import typer
from pages import README, ROOT, blocks

from txmq_lib.cli.app import app
from txmq_lib.config.settings import Settings

LONGEST_LINES = 220


def test_the_readme_is_read_in_five_minutes():
    assert len(README.splitlines()) <= LONGEST_LINES


def test_the_readme_names_the_two_commands_that_set_everything_up():
    assert "make demo\nmake test" in [block.text for block in blocks(README)]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^demo: setup", makefile, re.MULTILINE)
    assert re.search(r"^test:", makefile, re.MULTILINE)


def test_the_readme_has_a_line_for_every_command():
    section = README.partition("\n## Commands\n")[2].partition("\n## ")[0]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| `")]
    named = Counter(name for row in rows for name in re.findall(r"`([\w-]+)`", row[0]))
    assert named == Counter(list(typer.main.get_command(app).commands))
    assert all(len(row[1]) > 10 for row in rows)


def test_the_settings_of_the_readme_have_no_fault_and_are_a_brokers_own_defaults(tmp_path):
    (text,) = [block.text for block in blocks(README) if block.language == "yaml"]
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    Settings.load([path])
