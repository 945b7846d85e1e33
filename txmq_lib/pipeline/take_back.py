"""The take-back job: all rows of a broker out of every table, or what was decided of it alone, to change its role."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import UsageError
from txmq_lib.names import JOB_TAKE_BACK, KEY_CONFLICT, ORIGIN_LANDED
from txmq_lib.passes.current import Pass, PassReport
from txmq_lib.passes.job import job_of_steps
from txmq_lib.passes.pass_log import ROLE_GIVEN, unfinished
from txmq_lib.passes.ready import make_ready
from txmq_lib.passes.runner import run_passes
from txmq_lib.pipeline.land.kinds import MESSAGE_TABLES
from txmq_lib.pipeline.shared import roles
from txmq_lib.pipeline.shared.watermark import as_rows, reaches
from txmq_lib.pipeline.taken_tables import DECISIONS, MET_TXMQ_THERE, TABLES, Which
from txmq_lib.rules.frontier import reached
from txmq_lib.rules.half import op_topic, stored_queue_id
from txmq_lib.rules.reach import advanced
from txmq_lib.rules.run_lists import highest
from txmq_lib.rules.runs import QUEUE

PLACE = (*QUEUE, "queue_offset", "store_timestamp", "commit_log_offset")


def run_take_back(
    warehouse: Warehouse,
    settings: Settings,
    *,
    broker_name: str,
    now: datetime,
    wall_clock: Callable[[], datetime],
    tell: Callable[[Mapping[str, int]], None],
    decisions: bool = False,
) -> PassReport:
    """Delete what landed for a broker and what was made of it; how many rows that are is told first.

    decisions  delete only what was decided and what follows from that, and record the role that the settings give it
    Errors     UsageError where there are none, with the brokers there are; PassConflict while any job has an unfinished
               pass; SettingsError where decisions are to go and nobody has said the role
    """
    if decisions:
        roles.require_said_role(settings, [broker_name])
    make_ready(warehouse)
    rows = rows_of(warehouse, broker_name)
    is_unfinished = JOB_TAKE_BACK in unfinished(warehouse.log("pass"))
    if not any(rows.values()) and not is_unfinished:
        known = ", ".join(_brokers(warehouse)) or "none"
        raise UsageError(f"no table has a row of broker {broker_name}; brokers there are: {known}")
    tell(rows_of(warehouse, broker_name, DECISIONS) if decisions else rows)
    role = {"role": settings.for_broker(broker_name).role} if decisions else {}
    job = job_of_steps(
        JOB_TAKE_BACK,
        _take_back,
        is_idle=lambda current: not any(rows_of(warehouse, broker_name).values()),
        lands_again=True,
    )
    return run_passes(
        warehouse,
        job,
        now=now,
        settings=settings,
        wall_clock=wall_clock,
        arguments=lambda: {"broker_name": broker_name, **role},
    )


def rows_of(warehouse: Warehouse, broker_name: str, tables: Mapping[str, Which] = TABLES) -> dict[str, int]:
    """How many rows each table has of a broker, of those that `tables` says go."""
    of_broker = F.col("broker_name") == broker_name
    return {
        table: warehouse.read(table).where(of_broker).where(which.condition).count() for table, which in tables.items()
    }


def _brokers(warehouse: Warehouse) -> list[str]:
    named = [warehouse.read(table).select("broker_name") for table in TABLES]
    found = {row["broker_name"] for rows in named for row in rows.distinct().collect()}  # a table has many of each
    return sorted(name for name in found if name is not None)


def _take_back(current: Pass) -> PassReport:
    if (role := current.arguments.get("role")) is not None:
        return _decisions_back(current, role)
    for table in TABLES:
        current.delete(table, current.arguments["broker_name"], step=table)
    return current.commit()


def _decisions_back(current: Pass, role: str) -> PassReport:
    broker_name = current.arguments["broker_name"]
    for table, which in DECISIONS.items():
        current.delete(table, broker_name, step=table, only=which.condition)
    # As if all had landed from files: whoever numbers a queue goes on behind what landed, and a source is read again.
    current.upsert("landing_frontier", _landed_to(current, broker_name), step="landed_to")
    roles.write(current, {broker_name: role}, step=ROLE_GIVEN)
    return current.commit()


def _landed_to(current: Pass, broker_name: str) -> pa.Table:
    """Rows of landing_frontier for what of a broker stays."""
    is_left = (F.col("broker_name") == broker_name) & (F.col("origin") == ORIGIN_LANDED)
    # Of most messages of the trace topic no row is left: it is read again.
    kinds = [kind for kind in MESSAGE_TABLES if kind not in ("op", "trace")]
    landed = [current.read(MESSAGE_TABLES[kind]).where(is_left) for kind in kinds]
    landed.append(
        current.read("op_message").where(is_left).withColumns({"topic": op_topic(), "queue_id": stored_queue_id()})
    )
    # Where a reading client saw the end of a queue is not kept with its rows: it is told when they land again.
    untold = F.lit(None).cast("bigint").alias("told_end")
    placed = [rows.withColumn("queue_id", stored_queue_id()).select(*PLACE, untold) for rows in landed]
    rows = _without_place_behind_rivals(reduce(DataFrame.unionByName, placed), current)
    of_broker = reaches(current.read("landing_frontier").where(F.col("broker_name") == broker_name))
    former = highest(*[row.former_timestamp for row in of_broker])
    left = [one._replace(former_timestamp=former) for one in reaches(reached(rows))]
    # A queue that has begun anew has lost what it held, whoever decides.
    changes = {row.key: row.changes for row in of_broker}
    return as_rows(current, [row._replace(changes=changes.get(row.key)) for row in advanced((), left)])


def _without_place_behind_rivals(rows: DataFrame, current: Pass) -> DataFrame:
    """`rows` where what follows a landed row that kept another out has no place in the log: see land.messages."""
    rivals = current.read("quarantine").where(F.col("reason") == KEY_CONFLICT).where(~F.expr(MET_TXMQ_THERE))
    behind = rivals.select(*QUEUE, (F.col("queue_offset") + 1).alias("queue_offset")).distinct()
    marked = rows.join(behind.withColumn("_is_behind", F.lit(True)), on=[*QUEUE, "queue_offset"], how="left")
    place = F.when(F.col("_is_behind").isNull(), F.col("commit_log_offset"))
    return marked.withColumn("commit_log_offset", place).drop("_is_behind")
