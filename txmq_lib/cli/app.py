"""The program: every command under its name, global options in front of them, every error with its exit status."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import typer

from txmq_lib.cli import signals
from txmq_lib.cli.commands import config as config_commands
from txmq_lib.cli.commands import decisions, jobs, monitoring, views
from txmq_lib.cli.options import Options, settings_files
from txmq_lib.cli.output.said import say, say_error
from txmq_lib.config.resources import txmq_version
from txmq_lib.errors import EXIT_DONE, EXIT_FAILED, EXIT_USAGE, TxmqError, UsageError, code_and_words

GLOBAL_OPTIONS = {"--conf": "FILE", "--set": "KEY=VALUE", "--warehouse": "URI"}
GLOBAL_FLAGS = ("--verbose", "-v")
# What people type who know the thing and not its name.
OTHER_NAMES = {
    "stuck": "txmq verdicts --state stuck lists what is",
    "lag": "txmq groups tells which group is behind",
    "rewinds": "txmq groups tells of rewinds, txmq offsets --wide of each queue",
    "--failed": "txmq runs --state failed",
}
# Options that may stand without their value, and what they mean then.
VALUE_IF_BARE = {"--watch": "5"}

app = typer.Typer(
    name="txmq",
    help=(
        "Reconciles RocketMQ transactional messages in Spark batch passes over Delta tables.\n\n"
        "To begin: `txmq init-config audit`, name your broker's store in the txmq.yaml it writes, then `txmq run` and"
        " `txmq status`. To look around first: `txmq demo`."
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)
# What people use daily stands first in its panel of `txmq --help`, the rest as it is registered.
FIRST = ("run", "serve", "settle", "status", "verdicts", "trace", "pending", "given-up", "groups", "producers", "runs")


def _tell_version(is_asked: bool) -> None:
    if is_asked:
        say(f"txmq {txmq_version()}")
        raise typer.Exit


# Stands below the options of every command: a group's own help alone lists them.
GLOBAL_HELP = (
    "Global options, before the command or behind it: --conf FILE, --set KEY=VALUE, --warehouse URI, --verbose;"
    " `txmq --help` explains them."
)


@app.callback()
def take_globals(
    ctx: typer.Context,
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="FILE", help="Settings file; later ones win. Else TXMQ_CONF, else ./txmq.yaml."),
    ] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One setting; wins over every file.")
    ] = None,
    warehouse: Annotated[
        str | None, typer.Option("--warehouse", metavar="URI", help="Where the tables are; wins over the setting.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the trace of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Keep what holds for every command."""
    files = tuple(conf or ()) or settings_files(os.environ, Path())
    ctx.obj = Options(files, tuple(assignments or ()), warehouse, are_files_found=not conf)


def _name_of(command: Any) -> str:  # noqa: ANN401 - Typer's own
    return str(command.name or command.callback.__name__)


jobs.add_to(app)
decisions.add_to(app)
views.add_to(app)
monitoring.add_to(app)
config_commands.add_to(app)
app.registered_commands.sort(key=lambda command: (*FIRST, _name_of(command)).index(_name_of(command)))


def _tell_globals(commands: typer.Typer) -> None:
    for command in commands.registered_commands:
        command.epilog = GLOBAL_HELP
    for group in commands.registered_groups:
        if group.typer_instance is not None:
            _tell_globals(group.typer_instance)


_tell_globals(app)


def run(argv: Sequence[str] | None = None) -> int:
    """One command and its exit status. Global options may stand anywhere before `--`."""
    typed = sys.argv[1:] if argv is None else argv
    is_verbose = any(flag in typed for flag in GLOBAL_FLAGS)
    if not is_verbose:
        os.environ.setdefault("RUST_LOG", "off")  # deltalake logs each try to find credentials
    try:
        arguments = globals_first(with_values(as_help(typed)))
        left_with = app(arguments, prog_name="txmq", standalone_mode=False)
        return left_with if isinstance(left_with, int) else EXIT_DONE
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else EXIT_DONE
    except TxmqError as error:
        _tell(error.code, error.message, is_verbose)
        return error.exit_status
    except Exception as error:
        if hasattr(error, "format_message"):  # Typer's own of what was typed: it has no public name
            return _wrongly_typed(error)
        return _failed(error, is_verbose)
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of deltalake: as no Exception it would end with status 1
            raise
        return _failed(error, is_verbose)


def _failed(error: BaseException, is_verbose: bool) -> int:
    code, words = code_and_words(error)
    _tell(code, words if is_verbose else f"{words} (--verbose shows where)", is_verbose)
    return EXIT_FAILED


def _wrongly_typed(error: Any) -> int:  # noqa: ANN401 - see above
    """One line on what was typed; the whole help where nothing was."""
    path = error.ctx.command_path if getattr(error, "ctx", None) else "txmq"
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return EXIT_USAGE
    words = " ".join(error.format_message().split()).replace("Value error, ", "").rstrip(".?")
    (unknown,) = re.findall(r"No such (?:command|option):? '?([\w-]+)", words)[:1] or [""]
    _tell("USAGE", f"{words}; {OTHER_NAMES.get(unknown, f'{path} --help tells more')}", False)
    return EXIT_USAGE


def as_help(arguments: Sequence[str]) -> list[str]:
    """The same arguments; `help` and a command as that command and --help."""
    return [*arguments[1:], "--help"] if arguments[:1] == ["help"] else list(arguments)


def globals_first(arguments: Sequence[str]) -> list[str]:
    """The same arguments with the global options in front, so that they may be given after a command too.

    UsageError where the last of them has no value: it would take the command for one.
    """
    front: list[str] = []
    rest: list[str] = []
    waiting = list(arguments)
    while waiting:
        argument = waiting.pop(0)
        if argument == "--":
            return [*front, *rest, argument, *waiting]
        if argument in GLOBAL_OPTIONS:
            if not waiting:
                raise UsageError(f"{argument} needs a value: {argument} {GLOBAL_OPTIONS[argument]}")
            front += [argument, *waiting[:1]]
            del waiting[:1]
        elif argument in GLOBAL_FLAGS or argument.startswith(tuple(f"{option}=" for option in GLOBAL_OPTIONS)):
            front.append(argument)
        else:
            rest.append(argument)
    return [*front, *rest]


def with_values(arguments: Sequence[str]) -> list[str]:
    """The same arguments, with a value behind each option of VALUE_IF_BARE that has no number."""
    whole: list[str] = []
    for argument, following in zip_longest(arguments, arguments[1:], fillvalue=""):
        is_bare = argument in VALUE_IF_BARE and not following.replace(".", "", 1).isdecimal()
        whole += [argument, VALUE_IF_BARE[argument]] if is_bare else [argument]
    return whole


def _tell(code: str, message: str, is_verbose: bool) -> None:
    signals.settle()
    if is_verbose:
        import traceback

        say_error(traceback.format_exc().rstrip())
    say_error(f"error {code}: {message}")
