"""What `--help` tells: values of choices, global options with every command; one way to plan and to do."""

from __future__ import annotations

import pytest
import typer

from txmq_lib import names
from txmq_lib.cli import main
from txmq_lib.cli.app import app
from txmq_lib.views.catalogue import VIEWS


def leaves(group, path=()):
    for name, command in group.commands.items():
        yield from leaves(command, (*path, name)) if hasattr(command, "commands") else [((*path, name), command)]


COMMANDS = dict(leaves(typer.main.get_command(app)))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_global_options_stand_in_the_help_of_each_command(path):
    for option in ("--conf FILE", "--set KEY=VALUE", "--warehouse URI", "--verbose"):
        assert option in COMMANDS[path].epilog


@pytest.mark.parametrize("words", ["-h", "help", "settle -h", "help settle", "help land half"])
def test_help_is_asked_for_as_people_do(capsys, words):
    assert main(words.split()) == 0
    named = " ".join(word for word in words.split() if word not in ("-h", "help"))
    assert f"Usage: txmq {named}".strip() in capsys.readouterr().out


def test_help_says_how_to_begin_and_lists_first_what_is_used_daily(capsys):
    main(["--help"])
    out = capsys.readouterr().out
    assert "txmq init-config audit" in out
    places = [
        out.index(f"│ {name} ") for name in ("run", "reconcile", "settle", "resume", "status", "trace", "quarantine")
    ]
    assert places == sorted(places)


def test_the_values_of_a_choice_stand_in_its_help():
    for view in VIEWS:
        helps = {option: each.help or "" for each in COMMANDS[(view.command,)].params for option in each.opts}
        if "state" in view.filters:
            assert [state for state in view.states if state.lower() not in helps["--state"]] == [], view.command
        if "lag-state" in view.filters:
            assert [state for state in names.LAG_STATES if state not in helps["--lag-state"]] == []
        if "asked-for" in view.filters:
            assert "check, given_up" in helps["--asked-for"]


@pytest.mark.parametrize(
    ("words", "completed"),
    [("txmq ver", ["verdicts"]), ("txmq verdicts --state con", ["conflict"]), ("txmq groups --format ", ["table", "json", "csv"])],
)  # fmt: skip
def test_a_shell_completes_commands_and_the_values_of_a_choice(capsys, monkeypatch, words, completed):
    monkeypatch.setenv("_TXMQ_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    main([])
    assert capsys.readouterr().out.split() == completed


@pytest.mark.parametrize(
    "command",
    [
        ["settle", "T1", "--commit", "--reason", "paid"],
        ["resume", "--all"],
        ["take-back", "--broker", "a"],
        ["hold", "T1", "--reason", "asked"],
        ["release", "T1"],
        ["upgrade"],
    ],
    ids=lambda command: command[0],
)
def test_dry_run_is_what_is_done_without_apply_and_contradicts_it(capsys, tmp_path, command):
    where = ("--warehouse", str(tmp_path / "none"))
    ended = [(main([*where, *command, *more]), capsys.readouterr().err) for more in ([], ["--dry-run"])]
    assert ended[0] == ended[1]
    assert main([*where, *command, "--apply", "--dry-run"]) == 2
    assert "give one of them" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("pendng", "No such command 'pendng'. Did you mean 'pending', "),
        ("pending --nope", "No such option: --nope"),
        ("pending --limit x", "Invalid value for '--limit': "),
        ("pending --format xml", "'xml' is not one of 'table', 'json', 'csv'"),
        ("settle", "Missing argument 'TRANSACTION_ID'"),
        ("settle T1 --commit", "Missing option '--reason'"),
        ("land half", "Missing argument 'PATH...'"),
        ("--now", "No such option: --now"),
        ("init-config nope", "'nope' is not one of 'audit', 'engine', 'live'"),
    ],
)
def test_what_is_typed_wrongly_is_said_in_one_line(capsys, words, said):
    status = main(words.split())
    out, err = capsys.readouterr()
    assert (status, out, err.count("\n")) == (2, "", 1), err
    assert err.startswith("error USAGE: ")
    assert said in err
    assert "--help tells more" in err
