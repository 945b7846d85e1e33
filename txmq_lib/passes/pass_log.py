"""What the pass log and the notes of commits tell of passes: what is open, what a job knows already. Reads only."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Row
from pyspark.sql import functions as F

from txmq_lib.config.table_specs import table_specs
from txmq_lib.delta.log_view import COMMITS_LOOKED_BACK, DeltaLogView
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import PassReplayed
from txmq_lib.names import JOB_MAINTAIN, JOB_TAKE_BACK

STARTED, COMMITTED, ABANDONED = "started", "committed", "abandoned"
# What becomes of a plan whose own process fails while another one may have it in hand: the first to claim it decides.
# The words are those of commits that are there.
CLAIM, CARRIED_ON, DROPPED = "fate", "carried on", "given up"
OCCUPIED = "taken"  # note of a commit that has a step's number and no rows
# The step by which a take-back gives a broker a new role, and where a job's note keeps the last of these it knows.
ROLE_GIVEN = "role_given"
# What plans and committed rows note with their commits.
INPUT_VERSIONS, OWN_VERSIONS, BOOT = "input_versions", "own_versions", "boot"
# What upkeep notes of tables on an object store: by which versions it compacted them, and the marks of these entries.
COMPACTIONS = "compactions"
PLANNED = re.compile(rf"txmq/([^/]+)/pass/{STARTED}")
_COMMITTED = re.compile(rf"txmq/([^/]+)/pass/{COMMITTED}")


def app_id(job: str, table: str, step: str) -> str:
    """The transaction name under which a step of a job writes a table, pass after pass."""
    return f"txmq/{job}/{table}/{step}"


def app_prefix(job: str) -> str:
    """What the transaction names of all writes of a job begin with."""
    return f"txmq/{job}/"


def pass_tag(job: str, number: int, step: str) -> str:
    """What the userMetadata of a commit of a pass begins with."""
    return f"txmq {job} pass {number} {step}"


def last_ended(log: DeltaLogView, job: str) -> int:
    """The newest pass of a job that was committed or abandoned; 0 where there is none."""
    return max(log.txn_version(app_id(job, "pass", state)) for state in (COMMITTED, ABANDONED))


def last_take_back(warehouse: Warehouse, log: DeltaLogView, *, looks: bool) -> int:
    """The newest take-back that was committed or has deleted anything; 0 where there is none.

    looks  at all tables; else what is known of them counts
    """
    if not log.txn_version(app_id(JOB_TAKE_BACK, "pass", STARTED)):
        return 0
    logs = {name: warehouse.log(name) if looks else warehouse.log_upto(name, 0) for name in table_specs()}
    deleted = (of_table.txn_version(app_id(JOB_TAKE_BACK, name, name)) for name, of_table in logs.items())
    return max(log.txn_version(app_id(JOB_TAKE_BACK, "pass", COMMITTED)), *deleted)


def last_role_given(warehouse: Warehouse) -> int:
    """The newest take-back that gave a broker a new role: what landed of it is judged anew. 0 where there is none."""
    return warehouse.log_upto("broker", 0).txn_version(app_id(JOB_TAKE_BACK, "broker", ROLE_GIVEN))


def plan_row(warehouse: Warehouse, job: str, number: int) -> Row:
    """The started row of a pass, with its clock in microseconds as `now_us`."""
    rows = warehouse.read("pass").where(f"job = '{job}' and pass_number = {number} and state = '{STARTED}'")
    # Spark hands times over in the local zone, where an hour may come twice.
    return rows.withColumn("now_us", F.unix_micros("now")).collect()[0]


def last_note(warehouse: Warehouse, log: DeltaLogView, job: str) -> dict[str, Any]:
    """What the last committed pass of a job left for the next; empty where there is none.

    The note of its commit while the `log` of `pass` holds that, and what upkeep noted since; else what its row tells.
    """
    number = log.txn_version(app_id(job, "pass", COMMITTED))
    if number == 0:
        return {}
    commit = log.tagged_commit(pass_tag(job, number, COMMITTED))
    if commit is None:
        return {INPUT_VERSIONS: dict(plan_row(warehouse, job, number)["input_versions"])}
    return dict(json.loads(commit.note)) | {COMPACTIONS: _compactions_behind(log, commit.version)}


def _compactions_behind(log: DeltaLogView, version: int) -> dict[str, dict[str, str]]:
    """What the newest upkeep noted behind a version of `pass`. Who asks has read the entries behind it already."""
    number = log.txn_version(app_id(JOB_MAINTAIN, "pass", COMMITTED))
    commit = log.tagged_commit(pass_tag(JOB_MAINTAIN, number, COMMITTED), after=version) if number else None
    return {} if commit is None else dict(json.loads(commit.note).get(COMPACTIONS, {}))


def durable_versions(warehouse: Warehouse) -> dict[str, int]:
    """Up to which version each table is on the disk for sure: what the last passes knew and wrote was put there first.

    The pass log itself: up to the newest plan of these passes.
    """
    if not warehouse.is_on_disk:
        return {}
    log, durable = warehouse.log("pass"), dict[str, int]()
    for writer, number in log.txn_versions().items():
        found = _COMMITTED.fullmatch(writer)
        commit = log.tagged_commit(pass_tag(found[1], number, COMMITTED)) if found else None
        if found is None or commit is None:
            continue
        note = json.loads(commit.note)
        for name, version in note.get(INPUT_VERSIONS, {}).items():
            durable[name] = max(durable.get(name, -1), int(version), *note.get(OWN_VERSIONS, {}).get(name, ()))
        plan = log.tagged_commit(pass_tag(found[1], number, STARTED))
        if plan is not None:
            durable["pass"] = max(durable.get("pass", -1), plan.version)
    # Where nobody tells, no further back than this: else all of a long log would be put there.
    untold = (name for name in table_specs() if name not in durable)
    return durable | {name: max(warehouse.log(name).version - COMMITS_LOOKED_BACK, -1) for name in untold}


def require_one_moment(job: str, note: Mapping[str, Any], versions: Mapping[str, int]) -> None:
    """PassReplayed where a table is older than the pass that left `note` knew it: the tables are not of one moment."""
    own = note.get(OWN_VERSIONS, {})
    known = {name: max([version, *own.get(name, ())]) for name, version in note.get(INPUT_VERSIONS, {}).items()}
    # Of other tables nobody reads what is new.
    feeds = {name for name, spec in table_specs().items() if spec.has_feed}
    older = [name for name, version in known.items() if name in feeds and version > versions.get(name, version)]
    if older:
        raise PassReplayed(
            f"{', '.join(sorted(older))} is older than what the last pass of {job} saw; what lands there would never"
            " be read; restore all of the warehouse to the same moment"
        )


def known_since(warehouse: Warehouse, note: Mapping[str, Any], upto: Mapping[str, int]) -> dict[str, int]:
    """The versions up to which the pass that left `note` knew all: its inputs, what it wrote on top, and upkeep.

    A table is left out where its log no longer tells what came next, up to its version in `upto`: it is read whole. So
    are all where a broker was given another role since.
    """
    if note.get(ROLE_GIVEN, 0) != last_role_given(warehouse):
        return {}
    own, compactions = note.get(OWN_VERSIONS, {}), note.get(COMPACTIONS, {})
    found: dict[str, int] = {}
    for name, version in note.get(INPUT_VERSIONS, {}).items():
        if name in upto:
            log = warehouse.log_upto(name, upto[name])
            passed_over = {*own.get(name, ()), *_still_there(log, compactions.get(name, {}))}
            known = log.all_known_to(int(version), upto[name], passed_over)
            if known is not None:
                found[name] = known
    return found


def _still_there(log: DeltaLogView, marks: Mapping[str, str]) -> list[int]:
    # A version may be another by now: of a table that was restored, or that a power cut has shortened.
    return [int(version) for version, mark in marks.items() if log.mark(int(version)) == mark]


def lost_feeds(warehouse: Warehouse, row: Row) -> frozenset[str]:
    """Tables whose log no longer tells what came behind the since version of a plan."""
    upto = row["input_versions"]
    since = dict(row["since_versions"])
    return frozenset(
        name
        for name, version in since.items()
        if warehouse.log_upto(name, upto[name]).all_known_to(version, upto[name]) is None
    )


def unfinished(log: DeltaLogView) -> dict[str, int]:
    """The unfinished pass of each job that has one."""
    planned = {PLANNED.fullmatch(writer): number for writer, number in log.txn_versions().items()}
    return {found[1]: number for found, number in planned.items() if found and number > last_ended(log, found[1])}


def taken_back(log: DeltaLogView, table: str, after: int, upto: int) -> list[tuple[int, str]]:
    """Versions in the range that took rows back, each with its broker."""
    if not log.txn_version(app_id(JOB_TAKE_BACK, table, table)):
        return []
    tags = ((version, log.tag(version)) for version in range(after + 1, upto + 1))
    begins = f"txmq {JOB_TAKE_BACK} "
    notes = [(version, tag.partition("\n")[2]) for version, tag in tags if tag.startswith(begins)]
    named = [(version, json.loads(note)) for version, note in notes if note != OCCUPIED]
    return [(version, note["broker_name"]) for version, note in named if "broker_name" in note]


@dataclass(frozen=True)
class Standing:
    """Where a job stands: its unfinished pass (None: it has none), what that one reads, and what the job knows."""

    job: str
    open_number: int | None
    input_versions: dict[str, int]
    since_versions: dict[str, int]


def standings(warehouse: Warehouse) -> list[Standing]:
    """Where every job stands that ever planned a pass."""
    log = warehouse.log("pass")
    started = [PLANNED.fullmatch(app_id) for app_id in log.txn_versions()]
    return [_standing(warehouse, log, found[1]) for found in started if found]


def _standing(warehouse: Warehouse, log: DeltaLogView, job: str) -> Standing:
    planned = log.txn_version(app_id(job, "pass", STARTED))
    if planned > last_ended(log, job):
        row = plan_row(warehouse, job, planned)
        return Standing(job, planned, dict(row["input_versions"]), dict(row["since_versions"]))
    note = last_note(warehouse, log, job)
    newest = {name: warehouse.log(name).version for name in note.get(INPUT_VERSIONS, {})}
    return Standing(job, None, {}, known_since(warehouse, note, newest))
