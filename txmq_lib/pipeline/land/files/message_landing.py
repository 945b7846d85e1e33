"""Files of halves, ops, messages, given-up ones or traces into their table: by tasks, or by Spark where they cannot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.names import ROLE_ENGINE
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.land.files import line_landing, lines
from txmq_lib.pipeline.land.files.listing import LandingFile
from txmq_lib.pipeline.land.kinds import MESSAGE_TABLES
from txmq_lib.pipeline.land.records import files_of_tasks, messages
from txmq_lib.pipeline.land.records.record_rows import Landing
from txmq_lib.pipeline.shared.watermark import Frontier, reaches
from txmq_lib.rules.frontier import reached
from txmq_lib.rules.half import content_hash
from txmq_lib.rules.landing_contract import message_rows, ordered_properties, quick_message_rows, told_end
from txmq_lib.rules.reach import together

TASK_BYTES = "task_bytes"  # of a plan: how much a task is to read; null where Spark reads


def task_bytes(warehouse: Warehouse, files: Sequence[LandingFile], kind: str) -> int | None:
    """How much of `files` a task is to read; null where tasks cannot write what they read."""
    # Messages of the trace topic are taken apart by Spark.
    is_by_tasks = kind in MESSAGE_TABLES and kind != "trace"
    return line_landing.task_bytes(warehouse, files) if is_by_tasks else None


def can_be_carried_on(current: Pass) -> bool:
    """Whether tasks can write here, where the plan wants them to."""
    return _is_by_spark(current) or files_of_tasks.can_write(current.warehouse)


def land(current: Pass, files: list[LandingFile], kind: str) -> list[LandingFile]:
    """Append what is new in `files`, quarantine what cannot be used; the files that could not be read."""
    unread = None if _is_by_spark(current) else _land_by_tasks(current, files, kind)
    return _land_by_spark(current, files, kind) if unread is None else unread


def _is_by_spark(current: Pass) -> bool:
    # Plans of older versions say nothing of tasks.
    return current.arguments.get(TASK_BYTES) is None


def _land_by_tasks(current: Pass, files: list[LandingFile], kind: str) -> list[LandingFile] | None:
    """As `land`; None, and nothing has landed, where not all records are new."""
    landing = Landing(
        current.arguments["broker_name"], current.number, _is_of_engine(current), table=MESSAGE_TABLES[kind]
    )
    landed = line_landing.land(current, files, landing, partial(_kept, current))
    if landed is None:
        return None
    of_queues, suspects = landed
    unread: list[LandingFile] = []
    if suspects is not None:
        places = messages.land(current, suspects, **_as_landed(current, kind), are_suspects=True)
        of_queues = together([*of_queues, *reaches(reached(places))])
        unread = lines.unread(current, files, lines.Lines(suspects, None), suspects)
    Frontier(current).move(of_queues)
    return unread


def _land_by_spark(current: Pass, files: list[LandingFile], kind: str) -> list[LandingFile]:
    lines_read = lines.lines(current, files)
    with current.timed("decode"):
        quick = _kept(current, quick_message_rows(lines_read.rows))
        stored = _judged(quick, lambda suspects: _kept(current, message_rows(suspects)))
    places = messages.land(current, stored, **_as_landed(current, kind))
    Frontier(current).move(reaches(reached(places)))
    return lines.unread(current, files, lines_read, stored)


def _as_landed(current: Pass, kind: str) -> dict[str, Any]:
    return {
        "kind": kind,
        "broker_name": current.arguments["broker_name"],
        "takes_prepared": _is_of_engine(current) and kind == "half",
    }


def _is_of_engine(current: Pass) -> bool:
    return current.settings.for_broker(current.arguments["broker_name"]).role == ROLE_ENGINE


def _kept(current: Pass, rows: DataFrame) -> DataFrame:
    ordered = rows.withColumn("properties", ordered_properties())
    return current.cached(ordered.withColumns({"content_hash": content_hash(), "told_end": told_end()}))


def _judged(quick: DataFrame, look: Callable[[DataFrame], DataFrame]) -> DataFrame:
    """Rows of message_rows from those of quick_message_rows: `look` is what to do at suspects only."""
    no_text = F.lit(None).cast("string")
    plain = quick.where("suspect_value is null").drop("suspect_value", "fault")
    plain = plain.withColumns({name: no_text for name in ("reason", "detail", "raw")})
    suspects = quick.where("suspect_value is not null").select(
        F.col("suspect_value").alias("value"), "source", "position", "fault", F.col("body").alias("long_body")
    )
    return plain.unionByName(look(suspects)) if suspects.limit(1).count() else plain
