"""The take-back job: all rows of a broker out of every table, as if nothing had ever landed under its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from pyspark.sql import functions as F

from txmq_lib.errors import UsageError
from txmq_lib.names import JOB_TAKE_BACK
from txmq_lib.schemas import table_specs
from txmq_lib.settings import Settings
from txmq_lib.tables.pass_log import unfinished
from txmq_lib.tables.passes import Pass, PassReport
from txmq_lib.tables.running import run_passes
from txmq_lib.tables.warehouse import Warehouse

# Whatever a table says, it says of one broker: offsets, transactions and queues of brokers never meet.
TABLES = tuple(name for name, spec in table_specs().items() if "broker_name" in spec.columns)


def run_take_back(
    warehouse: Warehouse,
    settings: Settings,
    *,
    broker_name: str,
    now: datetime,
    wall_clock: Callable[[], datetime],
    tell: Callable[[Mapping[str, int]], None],
    apply: bool,
) -> PassReport:
    """Delete what landed for a broker and what was made of it; without `apply` only tell how many rows that are.

    UsageError where there are none, with the brokers there are; PassConflict while any job has an unfinished pass.
    """
    warehouse.ensure()
    rows = rows_of(warehouse, broker_name)
    is_unfinished = JOB_TAKE_BACK in unfinished(warehouse.log("pass"))
    if not any(rows.values()) and not is_unfinished:
        known = ", ".join(_brokers(warehouse)) or "none"
        raise UsageError(f"no table has a row of broker {broker_name}; brokers there are: {known}")
    tell(rows)
    if not apply:
        return PassReport(JOB_TAKE_BACK, 0, {}, {})
    return run_passes(
        warehouse,
        JOB_TAKE_BACK,
        _take_back,
        now=now,
        settings=settings,
        wall_clock=wall_clock,
        arguments=lambda: {"broker_name": broker_name},
        lands_again=True,
        is_idle=lambda current: not any(rows_of(warehouse, broker_name).values()),
    )


def rows_of(warehouse: Warehouse, broker_name: str) -> dict[str, int]:
    """How many rows each table has of a broker."""
    of_broker = F.col("broker_name") == broker_name
    return {table: warehouse.read(table).where(of_broker).count() for table in TABLES}


def _brokers(warehouse: Warehouse) -> list[str]:
    named = [warehouse.read(table).select("broker_name") for table in TABLES]
    found = {row["broker_name"] for rows in named for row in rows.distinct().collect()}  # a table has many of each
    return sorted(name for name in found if name is not None)


def _take_back(current: Pass) -> PassReport:
    for table in TABLES:
        current.delete(table, current.arguments["broker_name"], step=table)
    return current.commit()
