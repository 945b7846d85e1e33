"""Commands that are shown to be pasted: they carry what this command was given to find the warehouse."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

from txmq_lib.cli.options import Options

# What may stand behind `txmq` in a sentence of ours.
COMMANDS = [
    "alert",
    "answers",
    "audit",
    "brokers",
    "checks",
    "decisions",
    "doctor",
    "end-traces",
    "ends",
    "given-up",
    "groups",
    "hold",
    "init",
    "land",
    "landed",
    "maintain",
    "mend",
    "messages",
    "metrics",
    "offsets",
    "orphans",
    "passes",
    "pending",
    "producers",
    "quarantine",
    "reconcile",
    "release",
    "report",
    "resend",
    "resolve",
    "resume",
    "rollup",
    "run",
    "runs",
    "sent",
    "serve",
    "settle",
    "status",
    "take-back",
    "trace",
    "upgrade",
    "verdicts",
]
_COMMAND = re.compile(rf"\btxmq (?=(?:{'|'.join(COMMANDS)})\b(?!-))")


def pasteable(options: Options) -> Callable[[str], str]:
    """Puts the global options that name the warehouse behind each `txmq` of a sentence; files that any command would
    find by itself are left out."""
    options_typed = [] if options.are_files_found else [part for file in options.conf for part in ("--conf", file)]
    options_typed += [part for each in options.assignments if each.startswith("warehouse=") for part in ("--set", each)]
    options_typed += [] if options.warehouse is None else ["--warehouse", options.warehouse]
    if not options_typed:
        return str
    words = f"txmq {shlex.join(options_typed)} "
    return lambda sentence: _COMMAND.sub(lambda _: words, sentence)
