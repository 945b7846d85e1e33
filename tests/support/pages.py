"""Pages of Markdown, followed as a newcomer would: their files written, their commands run in order."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "pages"
README = (ROOT / "README.md").read_text(encoding="utf-8")
LONGEST_COMMAND_SECONDS = 600
FEW_ROWS = yaml.safe_load((ROOT / "conf" / "few-rows.yaml").read_text(encoding="utf-8"))["spark"]
RUN_BY = re.compile(r"<!-- run by (\S+)::(\w+) -->")
NOT_RUN = re.compile(r"<!-- not run: (.+) -->")
FILE_NAME = re.compile(r"# ([\w-]+\.(?:yaml|py|jsonl))$")
ANYTHING = "..."  # in shown output: what is between is not told


class Block(NamedTuple):
    """A fenced block: the heading above it, its language and text, the test that runs it or why none does, if told."""

    heading: str
    language: str
    text: str
    run_by: tuple[str, str] | None = None
    not_run: str | None = None

    @property
    def file(self) -> str | None:
        """The file that a reader makes of the block, where its first line names one."""
        name = FILE_NAME.match(self.text.partition("\n")[0])
        return name.group(1) if name and self.language != "console" else None


class Step(NamedTuple):
    """A command of a page and what the page shows of its output."""

    command: str
    shown: list[str]


class Ran(NamedTuple):
    """Where a page's commands ran, what each wrote to stdout, and how long it took."""

    directory: Path
    told: dict[str, str]
    seconds: dict[str, float]


def blocks(text: str) -> list[Block]:
    """Every fenced block of a Markdown text, in order."""
    found: list[Block] = []
    heading, language, run_by, not_run = "", "", None, None
    inside: list[str] | None = None
    for line in text.splitlines():
        if inside is not None and line == "```":
            found.append(Block(heading, language, "\n".join(inside), run_by, not_run))
            inside = run_by = not_run = None
        elif inside is not None:
            inside.append(line)
        elif line.startswith("```"):
            language, inside = line.removeprefix("```"), []
        elif line.startswith("#"):
            heading = line.lstrip("# ")
        elif named := RUN_BY.fullmatch(line):
            run_by = named.group(1), named.group(2)
        elif reason := NOT_RUN.fullmatch(line):
            not_run = reason.group(1)
    return found


def steps(block: Block) -> list[Step]:
    """The commands of a console block, each with the output shown below it."""
    found: list[Step] = []
    if block.language == "console":
        for line in block.text.splitlines():
            if line.startswith("$ "):
                found.append(Step(line.removeprefix("$ "), []))
            elif found[-1].command.endswith("\\"):
                found[-1] = Step(f"{found[-1].command}\n{line}", [])
            else:
                found[-1].shown.append(line)
    return found


def follow(
    page_blocks: Sequence[Block],
    directory: Path,
    environment: Mapping[str, str],
    *,
    longest: float = LONGEST_COMMAND_SECONDS,
) -> Ran:
    """Write the files and run the commands; what one command exports the next has. AssertionError where one fails."""
    ran = Ran(directory, {}, {})
    (directory / "bin" / "exported").touch()
    left_running: list[int] = []
    try:
        for block in page_blocks:
            if block.file:
                (directory / block.file).write_text(block.text + "\n", encoding="utf-8")
            for step in steps(block):
                begun = time.monotonic()
                ran.told[step.command] = _run(step, directory, environment, longest, left_running)
                ran.seconds[step.command] = time.monotonic() - begun
    finally:
        for group in left_running:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
    return ran


def _run(step: Step, directory: Path, environment: Mapping[str, str], longest: float, left_running: list[int]) -> str:
    """What a command tells on stdout; the process group of one that ends in `&` is added to `left_running`."""
    exported = directory / "bin" / "exported"
    script = f"set -eo pipefail; . {exported}; {step.command}\nexport -p > {exported}"
    running = subprocess.Popen(
        ["bash", "-c", script], cwd=directory, env=dict(environment), text=True, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        out, err = running.communicate(timeout=longest)
    except subprocess.TimeoutExpired:
        left_running.append(running.pid)
        raise
    if step.command.endswith("&"):
        left_running.append(running.pid)
    assert running.returncode == 0, f"{step.command}\n{out[-2000:]}\n{err[-4000:]}"
    absent = missing(step.shown, out, err)
    assert not absent, f"{step.command}\nshown and not told: {absent}\n{out}\n{err[-4000:]}"
    return out


def missing(shown: Sequence[str], *texts: str) -> list[str]:
    """The shown lines that no stream has, each stream in its order; trailing blanks do not count."""
    rest = [[line.rstrip() for line in stream.splitlines()] for stream in texts]
    absent = []
    for line in shown:
        found = next((stream for stream in rest if line.rstrip() in stream), None)
        if found is not None:
            del found[: found.index(line.rstrip()) + 1]
        elif line != ANYTHING:
            absent.append(line)
    return absent


def checkout(directory: Path) -> Path:
    """The directory made to look like the top of a checkout."""
    for name in ("tests", "conf", "jobs"):
        (directory / name).symlink_to(ROOT / name)
    (directory / "bin").mkdir()
    return directory


def environment(directory: Path) -> dict[str, str]:
    """An environment in which `txmq` is this checkout's, and `python3` the one that runs the tests."""
    tools = directory / "bin"
    tools.mkdir(exist_ok=True)
    entry = "import sys; from txmq_lib.cli import main; sys.exit(main())"
    txmq = tools / "txmq"
    txmq.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "{entry}" "$@"\n', encoding="utf-8")
    txmq.chmod(0o755)
    path = os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    # A few hundred rows: the same commands, in a JVM that warms up sooner.
    small = {key: str(value).lower() if isinstance(value, bool) else value for key, value in FEW_ROWS.items()}
    java_options = small.pop("spark.driver.extraJavaOptions")
    defaults = "".join(f"{key} {value}\n" for key, value in small.items())
    (tools / "spark-defaults.conf").write_text(defaults, encoding="utf-8")
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "SPARK_CONF_DIR": str(tools),
            "JDK_JAVA_OPTIONS": java_options}  # fmt: skip


def marked(page: str, test: str) -> list[Block]:
    """The blocks of a page of the site that name a test as the one that runs them."""
    text = (PAGES / page).read_text(encoding="utf-8")
    return [block for block in blocks(text) if block.run_by is not None and block.run_by[1] == test]


def written(page: str, directory: Path) -> None:
    """Write the files that a reader of the page makes."""
    for block in blocks((PAGES / page).read_text(encoding="utf-8")):
        if block.file:
            (directory / block.file).write_text(block.text + "\n", encoding="utf-8")
