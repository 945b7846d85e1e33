"""`txmq doctor`: what is wrong with the installation before anything runs. Leaves no file behind."""

from __future__ import annotations

import glob
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import typer

from txmq_lib import jars, java
from txmq_lib.cli.formats import OutputFormat
from txmq_lib.cli.given import Given, location
from txmq_lib.cli.pipe import while_read
from txmq_lib.cli.show import write_rows
from txmq_lib.errors import EXIT_FAILED, EnvironmentFault, SettingsError, TxmqError
from txmq_lib.schemas import table_specs
from txmq_lib.settings import Settings, Source
from txmq_lib.views.figures import landed, last_passes
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.status import span_text

OK, WARN, FAIL = "ok", "warn", "fail"
COLUMNS = ("check", "state", "found", "to do")

# A pass writes its tables anew before old files go: with less room it may not end, with little it may soon not.
DISK_FAIL_BYTES, DISK_WARN_BYTES = 200 << 20, 5 << 30
MEMORY_WARN_BYTES = 2 << 30
# What clocks of one machine and its disk may differ by, and those of a broker and this machine.
CLOCK_FAIL, CLOCK_WARN = timedelta(seconds=60), timedelta(seconds=5)


@dataclass(frozen=True)
class Finding:
    """What one check found; `to_do` is empty where all is well."""

    check: str
    state: str
    found: str
    to_do: str = ""


def run_doctor(options: Given, format_: OutputFormat, now: Callable[[], datetime]) -> None:
    """Every finding; status 3 where something fails."""
    findings = list(findings_of(options, now))
    rows = [(each.check, each.state, each.found, each.to_do) for each in findings]
    with while_read():
        if format_ is OutputFormat.table:
            for each in findings:
                typer.echo(
                    f"{each.state:<5} {each.check:<12} {each.found}" + (f"\n{'':19}{each.to_do}" if each.to_do else "")
                )
        else:
            write_rows(format_, COLUMNS, rows)
    failed = sum(each.state == FAIL for each in findings)
    warned = sum(each.state == WARN for each in findings)
    typer.echo(f"{failed} failed, {warned} to look at, {len(findings) - failed - warned} ok", err=True)
    if failed:
        raise typer.Exit(EXIT_FAILED)


def findings_of(options: Given, now: Callable[[], datetime]) -> Iterator[Finding]:
    """The checks, those that others rest on first."""
    yield Finding("python", OK, f"{sys.version.split()[0]} at {sys.executable}")
    yield from package_findings()
    yield java_finding()
    yield jars_finding()
    yield from spark_home_finding()
    yield host_finding()
    yield memory_finding()
    yield directory_finding("scratch", Path(tempfile.gettempdir()), "set TMPDIR to a directory that can be written")
    try:
        settings = Settings.load(options.conf, options.assignments, options.warehouse)
    except SettingsError as error:
        for fault in error.faults:
            yield Finding("settings", FAIL, fault, "mend it; nothing runs before")
        return
    yield Finding("settings", OK, f"no fault; fingerprint {settings.fingerprint()}")
    yield from source_findings(settings.sources)
    yield from warehouse_findings(location(settings.warehouse), now())


def package_findings() -> Iterator[Finding]:
    """The packages are there, in the versions txmq is tested with."""
    try:
        needed = [line.partition("==") for line in requires("txmq") or () if ";" not in line]
    except PackageNotFoundError:
        yield Finding("packages", WARN, "txmq runs from a checkout that is not installed", "make setup")
        return
    wrong = []
    for name, _, wanted in needed:
        try:
            found = version(name)
        except PackageNotFoundError:
            found = "missing"
        if found != wanted:
            wrong.append(f"{name} {found}, tested with {wanted}")
    if wrong:
        state = FAIL if any("missing" in text for text in wrong) else WARN
        yield Finding("packages", state, "; ".join(wrong), "install txmq again, in an environment of its own")
    else:
        yield Finding("packages", OK, f"{len(needed)} in the versions txmq is tested with")


def java_finding() -> Finding:
    """There is a Java that Spark can run on."""
    try:
        return Finding("java", OK, str(java.require_java()))
    except EnvironmentFault as fault:
        told, _, advice = fault.message.partition(": ")
        return Finding("java", FAIL, told, advice)


def jars_finding() -> Finding:
    """Delta's jars lie where Spark takes them from."""
    try:
        if jars.installed():
            return Finding("jars", OK, f"{', '.join(jars.jar_names())} in {jars.jars_dir()}")
        told = f"{' or '.join(jars.jar_names())} is missing in {jars.jars_dir()}"
    except (EnvironmentFault, PackageNotFoundError) as fault:
        return Finding("jars", FAIL, str(fault), "install txmq again")
    return Finding("jars", WARN, told, f"{sys.executable} -m txmq_lib.jars; until then each session fetches them")


def spark_home_finding() -> Iterator[Finding]:
    """No SPARK_HOME leads to another Spark than the package: its scripts would start that one."""
    home = os.environ.get("SPARK_HOME")
    if home and Path(home).resolve() != jars.spark_home().resolve():
        yield Finding("spark", WARN, f"SPARK_HOME={home} is another Spark than {jars.spark_home()}", "unset SPARK_HOME")


def host_finding() -> Finding:
    """This host's name leads to an address: Spark asks for it at every start."""
    name = socket.gethostname()
    if "SPARK_LOCAL_IP" in os.environ:
        return Finding("host", OK, f"SPARK_LOCAL_IP is set, {name} is not asked for")
    try:
        return Finding("host", OK, f"{name} is {socket.gethostbyname(name)}")
    except OSError:
        return Finding("host", FAIL, f"{name} has no address", "add it to /etc/hosts, or set SPARK_LOCAL_IP=127.0.0.1")


def memory_finding() -> Finding:
    """There is memory for a JVM and DuckDB."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if total < MEMORY_WARN_BYTES:
        return Finding(
            "memory", WARN, size_text(total), "give spark.driver.memory less than that, or take a larger machine"
        )
    return Finding("memory", OK, size_text(total))


def directory_finding(check: str, directory: Path, advice: str) -> Finding:
    """A file can be written there, and there is room; as the file system does, not as permission bits say."""
    try:
        with tempfile.NamedTemporaryFile(dir=directory, prefix=".txmq-doctor-"):
            pass
    except OSError as error:
        return Finding(check, FAIL, f"{directory} cannot be written: {error.strerror}", advice)
    free = shutil.disk_usage(directory).free
    told = f"{directory}: {size_text(free)} free"
    if free < DISK_WARN_BYTES:
        return Finding(check, FAIL if free < DISK_FAIL_BYTES else WARN, told, "make room: a pass needs it to end")
    return Finding(check, OK, told)


def source_findings(sources: Sequence[Source]) -> Iterator[Finding]:
    """Every path of `sources` leads to something that can be read."""
    if not sources:
        yield Finding("sources", OK, "none configured: `txmq run` lands nothing, `txmq land` what it is given")
    for source in sources:
        for path in source.paths:
            yield source_finding(source, path)


def source_finding(source: Source, path: str) -> Finding:
    """One path of one source."""
    told = f"{source.kind} of {source.broker}: {path}"
    if "://" in path.removeprefix("file://"):
        return Finding("sources", WARN, f"{told} is not on this machine", "not looked at")
    found = glob.glob(path.removeprefix("file://"))
    if not found:
        return Finding("sources", WARN, f"{told} does not exist", "mend the path, if something should be there by now")
    closed = [each for each in found if not os.access(each, os.R_OK | (os.X_OK if os.path.isdir(each) else 0))]
    if closed:
        return Finding("sources", FAIL, f"{told}: {closed[0]} cannot be read", "let this user read it")
    if source.kind == "store" and not all(Path(each, "commitlog").is_dir() for each in found):
        advice = "name the directory above commitlog (storePathRootDir)"
        return Finding("sources", FAIL, f"{told} has no directory commitlog", advice)
    return Finding("sources", OK, told)


def warehouse_findings(uri: str, now: datetime) -> Iterator[Finding]:
    """The warehouse can be written, its tables are whole and as `schemas/` has them, and its times are not ahead."""
    local = None if "://" in uri.removeprefix("file://") else Path("/" + uri.removeprefix("file:").lstrip("/"))
    if local is None:
        yield Finding("warehouse", WARN, f"{uri} is not on this machine", "its room and permissions are not looked at")
    else:
        directory = next(each for each in (local, *local.parents) if each.exists())
        yield directory_finding("warehouse", directory, "let this user write there, or name another with --warehouse")
        yield clock_finding(directory, now)
        if not (local / "pass").exists():
            yield Finding("tables", OK, f"none yet in {uri}: the first pass makes them")
            return
    reader = WarehouseReader(uri)
    yield from table_findings(reader)
    yield from time_findings(reader, now)


def clock_finding(directory: Path, now: datetime) -> Finding:
    """The clock of the disk is the clock of this machine: file times decide what Delta may remove."""
    try:
        with tempfile.NamedTemporaryFile(dir=directory, prefix=".txmq-doctor-") as file:
            apart = datetime.fromtimestamp(os.stat(file.name).st_mtime, UTC) - now
    except OSError:
        return Finding("clock", WARN, f"no file can be written in {directory} to compare with", "mend that first")
    told = f"{now:%Y-%m-%dT%H:%M:%SZ}; the disk's differs by {span_text(abs(apart))}"
    if abs(apart) > CLOCK_WARN:
        state = FAIL if abs(apart) > CLOCK_FAIL else WARN
        return Finding("clock", state, told, "set both by NTP: ages and due checks are counted by the clock")
    return Finding("clock", OK, told)


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
            told = f"{name}: {difference}"
            faults.append(Finding("tables", FAIL, told, f"compare with schemas/{name}.yaml: another version wrote it"))
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
            told = f"{what} is {span_text(moment - now)} ahead of this clock"
            state = FAIL if moment - now > CLOCK_FAIL else WARN
            yield Finding("clock", state, told, "set the clocks of brokers and of this machine by NTP")


def size_text(count: int) -> str:
    """Bytes in GiB or MiB."""
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count >> 20} MiB"
