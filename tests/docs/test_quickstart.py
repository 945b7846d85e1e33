"""The quickstarts, run as the page has them, and a broker of one's own as the README has it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
import truth
from captured import unpack_store
from pages import PAGES, README, Ran, blocks, checkout, environment, follow
from truth import VERDICT_COUNTS

pytestmark = pytest.mark.jobs
QUICKSTART = blocks((PAGES / "quickstart.md").read_text(encoding="utf-8"))
OWN_BROKER = [block for block in blocks(README) if block.heading == "Your own broker in five commands"]


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Every command of the quickstarts, run in a directory that looks like the top of a checkout."""
    directory = checkout(tmp_path_factory.mktemp("checkout"))
    return follow(QUICKSTART, directory, environment(directory))


def rows_of(path: Path) -> list[dict[str, object]]:
    """The objects of a JSON lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_audit_quickstart_runs_and_finds_what_the_broker_did(quickstart):
    verdicts = rows_of(quickstart.directory / "verdicts.jsonl")
    assert Counter(row["verdict"] for row in verdicts) == VERDICT_COUNTS["basic"]
    given_up = rows_of(quickstart.directory / "given-up.jsonl")
    assert len(given_up) == len(truth.rows("basic", "max_time"))
    assert {row["broker_check_times"] for row in given_up} == {3}
    assert {(row["broker_name"], row["origin"]) for row in given_up} == {("oracle-a", "landed")}


def test_the_trace_on_the_page_is_what_the_command_prints(quickstart):
    printed = next(text for command, text in quickstart.told.items() if " trace " in command)
    shown = next(block.text for block in QUICKSTART if block.language == "text")
    assert [line.rstrip() for line in printed.splitlines()] == shown.splitlines()


def test_the_engine_quickstart_decides_each_transaction_once(quickstart):
    ends = rows_of(quickstart.directory / "ends.jsonl")
    assert len(ends) == len(truth.rows("basic", "ends")) + len(truth.rows("basic", "ends_crafted"))
    firsts = Counter(row["first_accepted_end"] for row in truth.rows("basic", "verdicts"))
    undecided = firsts.pop(None)
    assert Counter(row["decision"] for row in ends if row["is_effective"]) == firsts
    # The engine takes one end; where the broker took two that contradict, the second is told.
    by_broker = VERDICT_COUNTS["basic"]
    assert Counter(row["outcome"] for row in ends)["contradicting"] == by_broker["CONFLICT"]
    verdicts = rows_of(quickstart.directory / "engine-verdicts.jsonl")
    assert Counter(row["verdict"] for row in verdicts) == {
        "COMMITTED": firsts.total() - by_broker["ROLLED_BACK"] - by_broker["CONFLICT"],
        "ROLLED_BACK": by_broker["ROLLED_BACK"],
        "CONFLICT": by_broker["CONFLICT"],
        "PENDING": undecided,
    }


def test_the_views_of_the_quickstarts_start_no_jvm(quickstart):
    views = {command: taken for command, taken in quickstart.seconds.items() if command.startswith("txmq")}
    slowest = {command: taken for command, taken in views.items() if " run " not in command and taken > 10}
    assert not slowest


@pytest.mark.long  # the quickstart above is the same on the same store
def test_the_five_commands_of_the_readme_take_a_broker_of_ones_own(tmp_path):
    directory = checkout(tmp_path)
    store = unpack_store("basic", tmp_path)
    own = [block._replace(text=block.text.replace("/data/rocketmq/store", str(store))) for block in OWN_BROKER]
    ran = follow(own, directory, environment(directory))
    assert len(ran.told) == 5
    assert sum("DISCARDED" in line for printed in ran.told.values() for line in printed.splitlines()) >= 11
    assert (directory / "report.html").stat().st_size > 100_000
