"""Every command of the site's pages runs, in the order of its page, as a newcomer would type it."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest
from pages import PAGES, README, ROOT, blocks, checkout, environment, follow, missing, steps

DEMO = "demo-warehouse"
TEXTS = {str(path.relative_to(PAGES)): path.read_text(encoding="utf-8") for path in sorted(PAGES.rglob("*.md"))}
BLOCKS = {page: blocks(text) for page, text in TEXTS.items()}
OWN = {page: [block for block in page_blocks if block.run_by is None] for page, page_blocks in BLOCKS.items()}
WITH_COMMANDS = {page for page, page_blocks in OWN.items() if any(steps(block) for block in page_blocks)}
# Pages that only look at the demo's tables; the others run passes, and take minutes.
LOOKING = {"verdicts.md", "offsets.md", "twice.md", "troubleshooting.md"}
OF_OTHERS = {"quickstart.md"}  # run in test_quickstart.py
STUCK = [block for block in blocks(README) if block.heading.startswith("Which messages are stuck")]
MARKED = [(page, block) for page, page_blocks in BLOCKS.items() for block in page_blocks if block.run_by is not None]
SHELL = {"sh", "bash", "shell"}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that looks like the top of a checkout after `make demo`."""
    directory = checkout(tmp_path_factory.mktemp("demo"))
    demo_blocks = blocks("```console\n$ txmq demo > demo.txt\n```")
    follow(demo_blocks, directory, environment(directory))
    return directory


@pytest.mark.jobs
@pytest.mark.parametrize("page", sorted(LOOKING))
def test_a_page_that_looks_at_the_demo_runs_as_written(demo, page):
    assert follow(OWN[page], demo, environment(demo)).told


@pytest.mark.jobs
def test_the_readme_shows_what_the_demo_prints_and_which_of_its_messages_are_stuck(demo):
    shown = next(block.text for block in blocks(README) if block.language == "text")
    assert missing(shown.splitlines(), (demo / "demo.txt").read_text(encoding="utf-8")) == []
    listed, story = follow(STUCK, demo, environment(demo)).told.values()
    assert [line.split()[1] for line in listed.splitlines()[1:]] == ["DISCARDED"] * 3
    assert story


@pytest.mark.jobs
def test_the_demo_leaves_its_settings_so_that_later_commands_know_that_a_broker_decides(demo):
    config_blocks = blocks(f"```console\n$ txmq --conf {DEMO}/txmq.yaml config show --format csv\n```")
    shown = next(iter(follow(config_blocks, demo, environment(demo)).told.values())).splitlines()
    assert f"role,audit,{DEMO}/txmq.yaml" in shown
    assert f"warehouse,{demo / DEMO},{DEMO}/txmq.yaml" in shown


@pytest.mark.jobs
def test_the_demo_shows_consumer_groups_one_of_which_was_set_back_twice(demo):
    groups_blocks = blocks(f"```console\n$ txmq --conf {DEMO}/txmq.yaml groups --format json\n```")
    (shown,) = follow(groups_blocks, demo, environment(demo)).told.values()
    rows = {
        row["consumer_group"]: row for row in map(json.loads, shown.splitlines()) if row["broker_name"] != "oracle-a"
    }
    assert {"CG_CLUSTER", "CG_RESET", "CG_TAG"} <= rows.keys()
    # 107 to 27, later to 50, in one queue, and likewise in the other (README of the captures).
    assert rows["CG_RESET"]["rewinds"] == 4
    assert rows["CG_CLUSTER"]["lag"] == 0


@pytest.mark.jobs
def test_the_demo_leaves_a_row_per_job_among_the_runs(demo):
    runs_blocks = blocks(f"```console\n$ txmq --conf {DEMO}/txmq.yaml runs --since 12h --format json\n```")
    (shown,) = follow(runs_blocks, demo, environment(demo)).told.values()
    rows = [json.loads(line) for line in shown.splitlines()]
    assert [(row["command"], row["outcome"]) for row in reversed(rows)] == [
        (command, "done") for command in ("land store", "land store", "land offset", "reconcile", "rollup", "audit")
    ]
    assert rows[0]["passes"] == {"audit": 1}
    assert rows[-1]["brokers"] == ["oracle-a"]


@pytest.mark.jobs
@pytest.mark.long
@pytest.mark.parametrize("page", sorted(WITH_COMMANDS - LOOKING - OF_OTHERS))
def test_a_page_that_runs_passes_runs_as_written(request, tmp_path, page):
    directory = checkout(tmp_path)
    if DEMO in TEXTS[page]:
        shutil.copytree(request.getfixturevalue("demo") / DEMO, directory / DEMO)
    assert follow(OWN[page], directory, environment(directory)).told


def test_pages_that_look_are_pages_with_commands():
    assert LOOKING <= WITH_COMMANDS
    assert len(WITH_COMMANDS) > 10


def test_what_a_page_leaves_running_ends_with_it(tmp_path):
    directory = checkout(tmp_path)
    waiting_blocks = blocks(
        "```console\n$ export FILE=left\n$ (echo $BASHPID > $FILE; exec sleep 600) > /dev/null 2>&1 &\n"
        "$ until test -s $FILE; do sleep 0.1; done\n```"
    )
    follow(waiting_blocks, directory, environment(directory))
    left = Path("/proc", (directory / "left").read_text(encoding="utf-8").strip(), "exe")
    deadline = time.monotonic() + 10
    while left.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_command_that_fails_or_does_not_tell_what_is_shown_is_a_failure(tmp_path):
    directory = checkout(tmp_path)
    for page in ("```console\n$ false\n```", "```console\n$ echo a\nb\n```"):
        with pytest.raises(AssertionError):
            follow(blocks(page), directory, environment(directory))


def test_what_a_page_shows_below_a_command_must_be_told_in_that_order():
    assert missing(["a", "...", "c"], "a  \nb\nc\n") == []
    assert missing(["c", "a"], "a\nb\nc\n") == ["a"]
    assert missing(["d"], "a\n") == ["d"]
    assert missing(["on stderr", "on stdout"], "on stdout\n", "on stderr\n") == []


@pytest.mark.parametrize(("page", "block"), MARKED, ids=[f"{page}-{number}" for number, (page, _) in enumerate(MARKED)])
def test_a_block_that_needs_a_server_is_run_by_the_test_it_names(page, block):
    assert steps(block)
    path, name = block.run_by
    text = (ROOT / path).read_text(encoding="utf-8")
    body = re.search(rf"^def {name}\(.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    assert body, f"{path} has no {name}"
    assert "pytest.mark.real" in text
    # It takes its commands from the page itself: all of the block, or each by its words.
    if f'marked("{page}", "{name}")' not in text:
        assert f'"{page}"' in text
        assert "on_page(" in text
        words = re.sub(r"['\"]\s*['\"]", "", text)
        assert [step.command for step in steps(block) if re.sub(r"['\"]\s*['\"]", "", step.command) not in words] == []


def test_no_command_hides_in_a_block_that_nobody_runs():
    hidden = [
        (page, line)
        for page, page_blocks in BLOCKS.items()
        for block in page_blocks
        if not steps(block) and block.language in SHELL and block.not_run is None
        for line in block.text.splitlines()
    ]
    assert hidden == []
    assert {block.language for page_blocks in BLOCKS.values() for block in page_blocks} <= {
        *("console", "yaml", "python", "text", "ini", "json", "sh", "sql"),
    }


def test_few_blocks_are_not_run_and_each_says_why():
    not_run = Counter(block.not_run for blocks_ in BLOCKS.values() for block in blocks_ if block.not_run)
    assert not_run == {
        "needs YARN": 1,
        "needs Kubernetes": 1,
        "the jobs run in tests/jobs/test_spark_submit.py, by other paths": 1,
    }
