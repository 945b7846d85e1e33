"""`txmq doctor`: what is wrong with the installation before anything runs. Leaves no file behind."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from datetime import datetime

import typer

from txmq_lib.cli.options import Options, location, settings_of
from txmq_lib.cli.output.formats import OutputFormat
from txmq_lib.cli.output.pipe import while_read
from txmq_lib.cli.output.said import say
from txmq_lib.cli.output.show import write_rows
from txmq_lib.cli.run.findings import (
    FAIL,
    OK,
    WARN,
    Finding,
    connector_finding,
    host_finding,
    jars_finding,
    java_finding,
    locale_finding,
    memory_finding,
    package_findings,
    scratch_findings,
    spark_home_finding,
)
from txmq_lib.cli.run.source_findings import secret_findings, source_findings
from txmq_lib.cli.run.warehouse_findings import role_findings, warehouse_findings
from txmq_lib.errors import EXIT_FAILED, SettingsError

COLUMNS = ("check", "state", "found", "to do")


def run_doctor(options: Options, format_: OutputFormat, now: Callable[[], datetime]) -> None:
    """Every finding; status 3 where something fails."""
    findings = list(findings_of(options, now))
    rows = [(each.check, each.state, each.found, each.to_do) for each in findings]
    with while_read():
        if format_ is OutputFormat.table:
            for each in findings:
                say(f"{each.state:<5} {each.check:<12} {each.found}")
                if each.to_do:
                    say(f"{'':19}{each.to_do}")
        else:
            write_rows(format_, COLUMNS, rows)
    failed = sum(each.state == FAIL for each in findings)
    warned = sum(each.state == WARN for each in findings)
    say(f"{failed} failed, {warned} to look at, {len(findings) - failed - warned} ok", err=True)
    if failed:
        raise typer.Exit(EXIT_FAILED)


def findings_of(options: Options, now: Callable[[], datetime]) -> Iterator[Finding]:
    """The checks, those that others rest on first."""
    yield Finding("python", OK, f"{sys.version.split()[0]} at {sys.executable}")
    yield from package_findings()
    yield java_finding()
    yield jars_finding()
    yield from spark_home_finding()
    yield host_finding()
    yield locale_finding()
    yield memory_finding()
    yield from scratch_findings()
    try:
        settings = settings_of(options)
    except SettingsError as error:
        for fault in error.faults:
            yield Finding("settings", FAIL, fault, "mend it; nothing runs before")
        return
    yield Finding("settings", OK, f"no fault; fingerprint {settings.fingerprint()}")
    yield from secret_findings(settings, os.environ)
    yield from source_findings(settings, os.environ)
    yield from connector_finding(location(settings.warehouse), settings.spark)
    of_warehouse = list(warehouse_findings(location(settings.warehouse), now(), settings.spark))
    if not any(each.check == "warehouse" and each.state == FAIL for each in of_warehouse):
        yield from role_findings(settings)  # which it keeps
    yield from of_warehouse
