"""The README's quickstarts are run as written; what README and ARCHITECTURE list is held against the code."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest
import typer
from pages import Ran, blocks, checkout, environment, follow
from truth import VERDICT_COUNTS

from txmq_lib import errors, names
from txmq_lib.cli import signals
from txmq_lib.cli.app import app
from txmq_lib.rules.contract import MESSAGE_FIELDS
from txmq_lib.settings import Settings
from txmq_lib.views.catalogue import VIEWS
from txmq_lib.views.metric_names import FAMILIES

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
GLOBAL_OPTIONS = {"--conf", "--set", "--warehouse", "--verbose", "-v", "--help"}
PLACE = {"--queue", "--from-offset"}
CODE_LITERAL = re.compile(r'"([A-Z]+(?:_[A-Z0-9]+)+)"')
CODE = re.compile(r"`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)`")
CITED = re.compile(
    r"(?:tests|rules|pipeline|sources|answers|remoting|txmq_lib|jobs|conf|schemas)/[\w/.]*\w\.(?:py|yaml)"
)
CITED_NAMES = re.compile(r"((?:txmq_lib/)?(?:rules|pipeline|sources|tables|views|remoting)/\w+\.py)((?:,? `\w+`)+)")


def table_rows(heading: str, text: str = README) -> list[list[str]]:
    """The cells of every table row under one heading."""
    section = re.split(r"^#+ ", text.partition(f"# {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("|") and not line.startswith("|--")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def first_cells(heading: str) -> set[str]:
    """The words in backticks of the first cell of every row under one heading."""
    return {word for row in table_rows(heading) for word in re.findall(r"`([^`]+)`", row[0])}


QUICKSTART = [block for block in blocks(README) if block.heading.startswith("Quickstart")]


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Every command of the quickstarts, run in a directory that looks like the top of a checkout."""
    directory = checkout(tmp_path_factory.mktemp("checkout"))
    return follow(QUICKSTART, directory, environment(directory))


def rows_of(path: Path) -> list[dict[str, object]]:
    """The objects of a JSON lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.jobs
def test_the_audit_quickstart_runs_and_finds_what_the_broker_did(quickstart):
    verdicts = rows_of(quickstart.directory / "verdicts.jsonl")
    assert Counter(row["verdict"] for row in verdicts) == VERDICT_COUNTS["basic"]
    given_up = rows_of(quickstart.directory / "given-up.jsonl")
    assert len(given_up) == 16
    assert {row["broker_check_times"] for row in given_up} == {3}
    assert {(row["broker_name"], row["origin"]) for row in given_up} == {("oracle-a", "landed")}


@pytest.mark.jobs
def test_the_trace_in_the_readme_is_what_the_command_prints(quickstart):
    told = next(text for command, text in quickstart.told.items() if " trace " in command)
    shown = next(block.text for block in QUICKSTART if block.language == "text")
    assert [line.rstrip() for line in told.splitlines()] == shown.splitlines()


@pytest.mark.jobs
def test_the_engine_quickstart_decides_each_transaction_once(quickstart):
    ends = rows_of(quickstart.directory / "ends.jsonl")
    assert Counter(row["outcome"] for row in ends) == {
        "accepted": 452,
        "contradicting": 14,
        "refused": 8,
        "repeated": 2,
    }
    assert Counter(row["decision"] for row in ends if row["is_effective"]) == {"commit": 307, "rollback": 58}
    verdicts = rows_of(quickstart.directory / "engine-verdicts.jsonl")
    assert Counter(row["verdict"] for row in verdicts) == {
        "COMMITTED": 296,
        "ROLLED_BACK": 55,
        "CONFLICT": 14,
        "PENDING": 11,
    }


@pytest.mark.jobs
def test_the_views_of_the_quickstarts_start_no_jvm(quickstart):
    views = {command: taken for command, taken in quickstart.seconds.items() if command.startswith("txmq")}
    slowest = {command: taken for command, taken in views.items() if " run " not in command and taken > 10}
    assert not slowest


def test_the_readme_names_the_two_commands_that_set_everything_up():
    assert "make demo\nmake test" in [block.text for block in blocks(README)]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^demo: setup", makefile, re.MULTILINE)
    assert re.search(r"^test:", makefile, re.MULTILINE)


def test_every_command_with_its_options_is_in_the_readme():
    told: defaultdict[str, str] = defaultdict(str)
    for row in table_rows("Commands"):
        told[row[0].split()[0].strip("`,")] += " ".join(row)
    views = {view.command for view in VIEWS}
    program = typer.main.get_command(app)
    for name, command in program.commands.items():
        assert name in told, f"{name} is not in the README's table of commands"
        leaf = next(iter(command.commands.values())) if hasattr(command, "commands") else command
        options = {option for parameter in leaf.params for option in parameter.opts if option.startswith("-")}
        missing = [] if name in views else [o for o in options - GLOBAL_OPTIONS if o not in told[name]]
        assert not missing, f"{name}: {missing}"
    assert set(told) - set(program.commands) - GLOBAL_OPTIONS == {"command", "global"}


def test_every_view_is_in_the_readme_with_its_table_filters_and_states():
    told = {row[0].strip("`"): row[1:] for row in table_rows("Views and the JSON contract")}
    for view in VIEWS:
        table, filters, states, moment = told[view.command]
        assert table == f"`{view.table}`"
        assert {f"--{option}" for option in view.filters} | (PLACE if view.has_queues else set()) == set(
            filters.strip("`").split()
        ), view.command
        assert moment == f"`{view.time}`"
        if view.command != "verdicts":
            assert set(view.states) == set(states.strip("`").split()), view.command


def test_every_option_that_views_share_is_in_the_readme():
    told = {cell.split()[0] for cell in first_cells("Views and the JSON contract") if cell.startswith("--")}
    program = typer.main.get_command(app)
    for view in VIEWS:
        parameters = program.commands[view.command].params
        options = {option for parameter in parameters for option in parameter.opts if option.startswith("--")}
        shared = options - {f"--{option}" for option in view.filters} - PLACE - GLOBAL_OPTIONS
        assert shared <= told, view.command
        assert told - shared <= {"--key", "--body"}, view.command


def test_every_metric_is_in_the_readme_with_its_labels():
    endings = {"counter": "_total"}
    told = {}
    for row in table_rows("Metrics"):
        for name in re.findall(r"`(\w+)`", row[0]):
            told[name] = row[1]
    assert set(told) == {family.name + endings.get(family.kind, "") for family in FAMILIES}
    for family in FAMILIES:
        labels = told[family.name + endings.get(family.kind, "")]
        if labels != "the same":
            shown = set(re.findall(r"`(\w+)`", labels)) | ({"node_type", "node_id"} if "node" in labels else set())
            assert shown == set(family.labels), family.name


def test_every_verdict_setting_and_exit_code_is_in_the_readme():
    assert first_cells("Verdicts") == set(names.VERDICTS)
    assert first_cells("Settings") == {key for key, _, _ in Settings.load().rows()}
    codes = {str(value) for name, value in vars(errors).items() if name.startswith("EXIT_")}
    by_signal = ", ".join(str(128 + ending) for ending in signals.ENDING)
    assert {row[0] for row in table_rows("Exit codes")} == codes | {by_signal, "code"}


def test_every_reason_of_the_quarantine_is_in_the_readme_and_no_other():
    judging = [path for room in ("rules", "pipeline") for path in (ROOT / "txmq_lib" / room).glob("*.py")]
    known = {code for path in judging for code in CODE_LITERAL.findall(path.read_text(encoding="utf-8"))}
    # Reasons that sources give are spelt like the names that hold them; verdicts are so too, and topics are not.
    stored = {value for name, value in vars(names).items() if name == value} - set(names.VERDICTS)
    told = {code for row in table_rows("Quarantine") for code in CODE.findall(row[0])}
    assert told == known | stored


def test_the_examples_of_the_readme_can_be_read():
    examples = [
        json.loads(line) for block in blocks(README) if block.language == "json" for line in block.text.split("\n")
    ]
    assert len(examples) == 8
    assert set(examples[0]) == set(MESSAGE_FIELDS)


def test_the_settings_files_of_the_readme_have_no_fault(tmp_path):
    files = [block.text for block in blocks(README) if block.language == "yaml"]
    assert len(files) == 5
    for number, text in enumerate(files):
        path = tmp_path / f"{number}.yaml"
        path.write_text(text, encoding="utf-8")
        Settings.load([path])


def test_every_rule_has_its_place_in_the_table_of_the_architecture():
    rows = [line for line in ARCHITECTURE.splitlines() if re.match(r"\| R\d", line)]
    rules = Counter(int(rule) for row in rows for rule in re.findall(r"R(\d+)", row.split("|")[1]))
    assert sorted(rules) == list(range(1, 116))
    assert [rule for rule, count in rules.items() if count > 1] == []


def test_every_file_and_function_the_architecture_names_exists():
    cited = {path.group() for path in CITED.finditer(ARCHITECTURE)}
    absent = sorted(path for path in cited if not any((ROOT / base / path).exists() for base in ("", "txmq_lib")))
    assert absent == []
    for path, listed in CITED_NAMES.findall(ARCHITECTURE):
        text = (ROOT / "txmq_lib" / path.removeprefix("txmq_lib/")).read_text(encoding="utf-8")
        for name in re.findall(r"`(\w+)`", listed):
            assert re.search(rf"^def {name}\(", text, re.MULTILINE), f"{path} has no function {name}"
