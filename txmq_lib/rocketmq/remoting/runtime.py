"""What a broker says of its process (F6)."""

from __future__ import annotations

from typing import Final, NamedTuple

from txmq_lib.rocketmq.lenient_json import json_object
from txmq_lib.rocketmq.remoting.connection import SUCCESS, Connection
from txmq_lib.rocketmq.remoting.frame import Command

GET_BROKER_RUNTIME_INFO: Final = 28
LONGEST_VERSION: Final = 64
LONGEST_MOMENT: Final = 15  # in ms; more is none that Spark can hold
LONGEST_OFFSET: Final = 18  # digits of a log that no disk can hold
RUNTIME_FIELDS: Final = ("brokerVersionDesc", "bootTimestamp", "commitLogMaxOffset")


class Runtime(NamedTuple):
    """What a broker says of its process: the version (`V5_5_0`), when its store was opened (ms), and at which physical
    offset its commit log ends now; None: it does not say."""

    version: str | None = None
    booted_ms: int | None = None
    log_end: int | None = None


def broker_runtime(connection: Connection) -> Runtime:
    """What the broker says of its process."""
    answer = connection.ask(Command(GET_BROKER_RUNTIME_INFO))
    document = json_object(answer.body) if answer.code == SUCCESS else None
    table = None if document is None else document.get("table")
    version, booted, log_end = (table.get(name) if isinstance(table, dict) else None for name in RUNTIME_FIELDS)
    return Runtime(
        version[:LONGEST_VERSION] if isinstance(version, str) else None,
        _natural(booted, LONGEST_MOMENT),
        _natural(log_end, LONGEST_OFFSET),
    )


def _natural(text: object, longest: int) -> int | None:
    if not isinstance(text, str) or len(text) > longest or not (text.isascii() and text.isdecimal()):
        return None
    return int(text)
