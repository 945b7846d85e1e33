"""What commands say on stdout and stderr. The only place that writes there: every line is made fit for a screen."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from txmq_lib.config.secrets import scrubbed
from txmq_lib.escaping import json_text, line


def say(words: str = "", *, err: bool = False) -> None:
    """One line, whatever the words hold; on stderr without what looks like a secret."""
    typer.echo(line(scrubbed(words) if err else words), err=err)


def say_error(words: str) -> None:
    """Words of an error on stderr; further lines of it are indented, so that none looks like another error."""
    first, *rest = words.split("\n")
    say(first, err=True)
    for each in rest:
        say(each if each.startswith(" ") else f"  {each}", err=True)


def say_json(value: object) -> None:
    """A value as one line of JSON, exact and whole."""
    sys.stdout.write(json_text(value) + "\n")


def say_screen(lines: Sequence[str]) -> None:
    """Lines at once, with sequences of our own among them; whatever came from outside was made fit for a line."""
    typer.echo("\n".join(lines))
