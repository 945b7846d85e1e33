"""`txmq take-back`: how many rows of each table would go, by the views' reader; `--apply` alone needs Spark."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from txmq_lib.cli.options import Options, location, settings_of
from txmq_lib.cli.output.said import say
from txmq_lib.cli.output.tables import write_table
from txmq_lib.cli.run.before_spark import require_landed
from txmq_lib.cli.run.clock import wall_clock
from txmq_lib.config.settings import Settings
from txmq_lib.pipeline.taken_tables import DECISIONS, TABLES
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.rows_of_broker import rows_of_broker


def run_take_back(options: Options, broker_name: str, *, of_decisions: bool, apply: bool) -> None:
    """Tell how many rows of a broker go, and with `apply` let them go."""
    settings = settings_of(options)
    if of_decisions:
        _require_role(settings, broker_name)
    if not apply:
        _show_plan(settings, broker_name, of_decisions=of_decisions)
        return
    from txmq_lib.cli.run.passes import run_job
    from txmq_lib.pipeline import take_back

    job = partial(take_back.run_take_back, broker_name=broker_name, decisions=of_decisions)
    run_job("take-back", options, partial(job, now=wall_clock(), wall_clock=wall_clock, tell=_tell))


def _require_role(settings: Settings, broker_name: str) -> None:
    if settings.said_role(broker_name) is None:
        from txmq_lib.pipeline.shared.roles import require_said_role

        require_said_role(settings, [broker_name])


def _show_plan(settings: Settings, broker_name: str, *, of_decisions: bool) -> None:
    reader = WarehouseReader(location(settings.warehouse))
    rows = rows_of_broker(reader, broker_name, TABLES)
    if not any(rows.values()):
        require_landed(settings, "broker_name", [broker_name], "no row of broker")
    _tell(rows_of_broker(reader, broker_name, DECISIONS) if of_decisions else rows)
    say("nothing was done; --apply does it", err=True)


def _tell(rows: Mapping[str, int]) -> None:
    """One line per table on stdout: how many rows go."""
    write_table(("table", "rows"), list(rows.items()))
