"""What `txmq doctor` finds of the warehouse: its place, its tables, the roles and the times in them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from txmq_lib.cli.options import location
from txmq_lib.cli.run.findings import FAIL, OK, WARN, Finding, directory_finding
from txmq_lib.config.settings import Settings
from txmq_lib.config.table_specs import table_specs
from txmq_lib.errors import TxmqError
from txmq_lib.files.object_stores import fault_of
from txmq_lib.passes.damage import examined
from txmq_lib.views.landing_figures import landed, last_passes
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.recorded_roles import recorded_roles
from txmq_lib.views.status import span_text

# What clocks of one machine and its disk may differ by, and those of a broker and this machine.
CLOCK_FAIL, CLOCK_WARN = timedelta(seconds=60), timedelta(seconds=5)
SAY_ROLE = "say `audit` or `engine`: no store and no live broker lands without"


def warehouse_findings(uri: str, now: datetime, spark: Mapping[str, str]) -> Iterator[Finding]:
    """The warehouse can be written, its tables are whole and as `schemas/` has them, and its times are not ahead.

    spark  Spark's settings as the user has them
    """
    if fault := fault_of(uri, spark):
        yield Finding("warehouse", FAIL, fault, "every job refuses before that")
        return
    reader = WarehouseReader(uri)
    local = None if "://" in uri.removeprefix("file://") else Path("/" + uri.removeprefix("file:").lstrip("/"))
    if local is None:
        reach = reach_finding(reader)
        yield reach
        if reach.state == FAIL:
            return
        if not reader.is_made():
            yield _none_yet(uri)
            return
    else:
        directory = next(each for each in (local, *local.parents) if each.exists())
        yield directory_finding("warehouse", directory, "let this user write there, or name another with --warehouse")
        yield clock_finding(directory, now)
        if not (local / "pass").exists():
            yield _none_yet(uri)
            return
        damaged = list(damage_findings(local))
        yield from damaged
        if damaged:
            return
    reader.open_ahead(table_specs())
    yield from table_findings(reader)
    yield from time_findings(reader, now)


def _none_yet(uri: str) -> Finding:
    return Finding("tables", OK, f"none yet in {uri}: the first pass makes them")


def damage_findings(place: Path) -> Iterator[Finding]:
    """The newest commits of every table are whole, and the files they name."""
    found = examined(place)
    advice = "the next pass mends it by itself" if found.is_of_open_plans else "txmq mend tells what can be done"
    for line in found.damaged:
        yield Finding("tables", WARN if found.is_of_open_plans else FAIL, line, found.refusal or advice)


def reach_finding(reader: WarehouseReader) -> Finding:
    """The store of the warehouse answers, and takes the credentials."""
    try:
        reader.require_reached()
        reader.is_made()
        is_store = reader.options() is not None
    except TxmqError as error:
        return Finding("warehouse", FAIL, error.message, "mend it; every command but this one needs the store")
    if not is_store:
        advice = "its room and permissions are not looked at"
        return Finding("warehouse", WARN, f"{reader.uri} is not on this machine", advice)
    return Finding("warehouse", OK, f"{reader.uri} answers")


def clock_finding(directory: Path, now: datetime) -> Finding:
    """The clock of the disk is the clock of this machine: file times decide what Delta may remove."""
    try:
        with tempfile.NamedTemporaryFile(dir=directory, prefix=".txmq-doctor-") as file:
            apart = datetime.fromtimestamp(os.stat(file.name).st_mtime, UTC) - now
    except OSError:
        return Finding("clock", WARN, f"no file can be written in {directory} to compare with", "mend that first")
    words = f"{now:%Y-%m-%dT%H:%M:%SZ}; the disk's differs by {span_text(abs(apart))}"
    if abs(apart) > CLOCK_WARN:
        state = FAIL if abs(apart) > CLOCK_FAIL else WARN
        return Finding("clock", state, words, "set both by NTP: ages and due checks are counted by the clock")
    return Finding("clock", OK, words)


def role_findings(settings: Settings) -> Iterator[Finding]:
    """Each broker that has rows has the role they were made under; each whose store lands, or itself, has one."""
    recorded = recorded_roles(location(settings.warehouse))
    reads_itself = {source.broker: source.kind in ("store", "rocketmq") for source in settings.sources}
    for name in sorted({*recorded, *settings.brokers, *filter(None, reads_itself)}):
        role, origin = settings.for_broker(name).role, settings.role_origin(name)
        words = f"{name}: {role}, says {origin}" if origin else f"{name}: nobody has said its role"
        if recorded.get(name, role) != role:
            words += f"; its rows were made in the role {recorded[name]}"
            advice = f"say role: {recorded[name]}, or see txmq take-back --decisions; every job refuses before that"
            yield Finding("role", FAIL, words, advice)
        elif not origin and reads_itself.get(name):
            yield Finding("role", FAIL, words, SAY_ROLE)
        else:
            yield Finding("role", OK, words + (f"; its rows were made as {role}" if name in recorded else ""))


def table_findings(reader: WarehouseReader) -> Iterator[Finding]:
    """Every table can be opened and has the columns of its YAML."""
    faults = []
    for name in table_specs():
        try:
            difference = reader.schema_difference(name)
        except TxmqError as error:
            faults.append(Finding("tables", FAIL, error.message, "txmq init makes tables that are missing"))
            continue
        if difference:
            words = f"{name}: {difference}"
            faults.append(Finding("tables", FAIL, words, f"compare with schemas/{name}.yaml: another version wrote it"))
    yield from faults or [Finding("tables", OK, f"{len(table_specs())} in {reader.uri}")]


def time_findings(reader: WarehouseReader, now: datetime) -> Iterator[Finding]:
    """No pass was written, and no message stored, later than now."""
    try:
        written = [(f"{each.job} pass", each.committed_timestamp) for each in last_passes(reader)]
        stored = [(f"a message of {each.broker_name}", each.read_to_timestamp) for each in landed(reader)]
    except TxmqError:
        return  # told by `table_findings`
    for what, moment in (*written, *stored):
        if moment is not None and moment - now > CLOCK_WARN:
            words = f"{what} is {span_text(moment - now)} ahead of this clock"
            state = FAIL if moment - now > CLOCK_FAIL else WARN
            yield Finding("clock", state, words, "set the clocks of brokers and of this machine by NTP")
