"""`txmq upgrade`: the plan, table by table, and with --apply what it says. It starts no JVM."""

from __future__ import annotations

from txmq_lib.cli.options import Options, location, settings_of
from txmq_lib.cli.output.formats import OutputFormat
from txmq_lib.cli.output.said import say
from txmq_lib.cli.output.show import write_rows
from txmq_lib.cli.run.recorded import recorded
from txmq_lib.delta.upgrade import KEEP, REFUSE, planned_upgrade, upgrade

COLUMNS = ("table", "what", "columns")


def run_upgrade(options: Options, format_: OutputFormat, *, apply: bool) -> None:
    """Show what an upgrade does, and do it with `apply`; the errors of `upgrade`."""
    settings = settings_of(options)
    uri = location(settings.warehouse).removeprefix("file:")
    plan = planned_upgrade(uri)
    write_rows(format_, COLUMNS, [(each.table, each.what, ", ".join(each.columns) or None) for each in plan])
    to_do = [each for each in plan if each.what not in (KEEP, REFUSE)]
    if apply:
        with recorded("upgrade", settings):
            upgrade(uri, plan)
        say(f"{len(to_do)} tables upgraded" if to_do else "nothing to do: the tables are of this version", err=True)
    elif len(to_do) < sum(each.what != KEEP for each in plan):
        say("a table has columns that no version of txmq has written so: --apply would write nothing", err=True)
    else:
        say(f"{len(to_do)} tables to upgrade; nothing was written: --apply does it", err=True)
