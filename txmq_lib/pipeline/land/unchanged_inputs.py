"""Which inputs have landed and have not changed since: files and stores that a cycle passes over.

The commit of each landing notes their states, of a live broker that of its consumer offsets. The note counts under the
same settings, and while no broker was taken back.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.names import JOB_TAKE_BACK
from txmq_lib.passes.current import Pass
from txmq_lib.passes.pass_log import COMMITTED, app_id, last_note
from txmq_lib.pipeline.land.kinds import ROCKETMQ, STORE

NOTE = "landed"
# The note of a commit stays small; what is forgotten lands again, which adds nothing.
REMEMBERED = 500
# Kinds that may bring a broker's own table of consumer offsets.
TABLE_FILE_KINDS = (STORE, "offset")


def known(warehouse: Warehouse, settings: Settings, note: Mapping[str, Any]) -> dict[str, str]:
    """State of each thing landed, by its place, as far as the note of the last landing counts."""
    is_same = note.get("settings_fingerprint") == settings.fingerprint()
    return dict(note.get(NOTE, {})) if is_same and note.get("taken_back") == _taken_back(warehouse) else {}


def note_of(current: Pass, unread: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """What the commit of a landing leaves for the next: all that was known, and what it landed.

    unread  files that were to land and could not be read: they are looked at again
    """
    # A plan of another process comes without the note of the pass before it.
    note = last_note(current.warehouse, current.warehouse.log("pass"), current.job)
    before = known(current.warehouse, current.settings, note)
    arguments = current.arguments
    if unread:
        arguments = {**arguments, "files": [file for file in arguments["files"] if file not in unread]}
    now = remembered(before, arguments)
    return {NOTE: dict(list(now.items())[-REMEMBERED:]), "taken_back": _taken_back(current.warehouse)}


def remembered(before: Mapping[str, str], arguments: Mapping[str, Any]) -> dict[str, str]:
    """`before` and what a landing with these arguments lands, the newest last.

    The offsets of a live broker are forgotten where a table of the same broker lands from a file: the tables now hold
    what the file said, and the broker saying the same as before is news again.
    """
    landed = states(arguments)
    overtaken = {_live_offsets(arguments["broker_name"])} if arguments["kind"] in TABLE_FILE_KINDS else set()
    return {place: state for place, state in before.items() if place not in {*landed, *overtaken}} | landed


def states(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Place and state of each thing that a landing with these arguments lands."""
    if arguments["kind"] == ROCKETMQ:  # the queues are known by the frontier
        return {_live_offsets(plan["broker_name"]): plan["offsets"] for plan in arguments["brokers"] if plan["offsets"]}
    source = (arguments["kind"], arguments["broker_name"])
    if arguments["kind"] == STORE:
        kept = ("to_offset", "lowest_offset", "last", "topics", "offset_table")
        return {digest([*source, arguments["path"]]): digest([arguments.get(name) for name in kept])}
    return {
        digest([*source, file["path"]]): digest([value for name, value in sorted(file.items()) if name != "path"])
        for file in arguments["files"]
    }


def have_landed(known: Mapping[str, str], arguments: Mapping[str, Any]) -> bool:
    """Whether all inputs that a plan names have landed in the state in which they are now."""
    return all(known.get(place) == state for place, state in states(arguments).items())


def _live_offsets(broker_name: str) -> str:
    return digest([ROCKETMQ, broker_name, "offsets"])


def _taken_back(warehouse: Warehouse) -> int:
    return warehouse.log("pass").txn_version(app_id(JOB_TAKE_BACK, "pass", COMMITTED))


def digest(state: object) -> str:
    """A short name for what JSON can hold; equal for equal things."""
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()[:16]
