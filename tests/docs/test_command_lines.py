"""Every command line of the README and of the pages is one that the program takes; those of spark-submit too."""

from __future__ import annotations

import re
import shlex

import pytest
import typer
from pages import PAGES, ROOT, blocks

from txmq_lib.cli.app import app, globals_first, with_values
from txmq_lib.config.settings import Settings

# What each job file is (cluster.md); `tests/jobs` runs them.
JOBS = {"land": "land", "reconcile": "reconcile", "resolve": "resolve", "rollup_offsets": "rollup", "audit": "audit",
        "maintain": "maintain"}  # fmt: skip
PROGRAM = typer.main.get_command(app)
SHELL = {"console", "sh", "", "ini"}
ENDS = re.compile(r"^(\||\|\||&&|&|;|>|>>|2>&1)$")


def command_lines() -> list[str]:
    """Each line of a block that calls txmq, or a job of its."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *sorted(PAGES.rglob("*.md")))]
    lines = [
        line for text in texts for block in blocks(text) if block.language in SHELL for line in block.text.split("\n")
    ]
    crontab = r"^(?:[\d*]+ ){5}"
    called = {re.sub(crontab, "", line.removeprefix("$ ").removeprefix("ExecStart=")) for line in lines}
    return sorted(line for line in called if re.search(r"(^|/)txmq |jobs/\w+\.py", line))


def arguments(line: str) -> list[str]:
    """What the program is given, up to where the shell takes over."""
    words = shlex.split(line)
    begin = next(n for n, word in enumerate(words) if re.fullmatch(r"(.*/)?(txmq|jobs/\w+\.py)", word))
    end = next((n for n, word in enumerate(words) if n > begin and ENDS.match(word)), len(words))
    job = re.fullmatch(r"(?:.*/)?jobs/(\w+)\.py", words[begin])
    return [*([JOBS[job.group(1)]] if job else []), *words[begin + 1 : end]]


def parsed(words: list[str]) -> list[str]:
    """The names of the commands that the words lead to; raises what the program would where they lead nowhere."""
    command = PROGRAM
    context = command.make_context("txmq", globals_first(with_values(words)))
    if context.params["assignments"]:
        Settings.load([], context.params["assignments"])
    names = []
    while hasattr(command, "commands"):
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        names.append(name)
        context = command.make_context(name, rest, parent=context)
    return names


@pytest.mark.parametrize("line", command_lines())
def test_the_program_takes_the_command_line(line):
    assert parsed(arguments(line))


def test_a_wrong_command_line_is_not_taken():
    assert len(command_lines()) > 80
    assert parsed(arguments("txmq --conf a.yaml land store x --broker b > y")) == ["land", "store"]
    for wrong in ("txmq staus", "txmq pending --grop X", "txmq land half x", "txmq settle"):
        with pytest.raises(Exception, match=r"No such|Missing"):
            parsed(arguments(wrong))
