"""What the table of runs tells: how each step of the commands fares, and when each broker landed last. Reads only."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from txmq_lib.config.source_steps import is_step_of_source
from txmq_lib.config.table_specs import RUN_TABLE
from txmq_lib.errors import TableMissingError
from txmq_lib.views.column_sql import in_utc, utc
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.scan import Scan

SERVE, SERVE_ROUNDS = "serve", "serve rounds"
# What these do is in the settings; whoever types another command may type it wrongly.
FROM_SETTINGS = ("run", "land sources", SERVE, SERVE_ROUNDS)
MISTAKES = ("USAGE", "NOTHING_TO_LAND")


@dataclass(frozen=True)
class StepRuns:
    """How a command, or a step of one (a source, a job), fared: when it was done last and when it failed last, with
    what error; `failures` in a row up to now, none where it was done since."""

    step: str
    last_done: datetime | None
    last_failed: datetime | None
    error: str | None
    failures: int


@dataclass(frozen=True)
class LandedRun:
    """When the landing of a broker went well last, also where there was nothing new."""

    broker_name: str
    last_landed: datetime


@dataclass(frozen=True)
class RunFigures:
    """Every step that ever ran, those that fail now first; every broker whose landing ever went well, the one longest
    ago first."""

    steps: tuple[StepRuns, ...] = ()
    landings: tuple[LandedRun, ...] = ()


def run_figures(reader: WarehouseReader, source_steps: Collection[str] = ()) -> RunFigures:
    """Both from one reading of the table; nothing in an older warehouse.

    What somebody typed wrongly says nothing of a step.
    source_steps  the steps of the configured sources: others were taken from the settings and fail no more; without any
        no source is left out
    """
    # A run that ended otherwise than by itself says nothing of steps that it had not come to.
    # Of a killed service only its start is known, so that of the next one is what clears it.
    sql = f"""
        WITH kept AS MATERIALIZED (SELECT * FROM run),  -- named once: a scan may be a stream
        told AS (
            SELECT CASE WHEN command = '{SERVE_ROUNDS}' AND s.key = '{SERVE}' THEN started_timestamp
                    ELSE coalesce(ended_timestamp, started_timestamp) END AS seen, s.key AS step,
                CASE WHEN s.value <> '' THEN s.value END AS error
            FROM kept, UNNEST(map_entries(steps)) AS t(s)
            WHERE command IN {FROM_SETTINGS} OR split_part(s.value, ':', 1) NOT IN {MISTAKES}
            UNION ALL
            SELECT coalesce(ended_timestamp, started_timestamp), command, outcome || ': ' || coalesce(error, '')
            FROM kept WHERE outcome = 'killed'),
        ends AS (SELECT *, max(CASE WHEN error IS NULL THEN seen END) OVER (PARTITION BY step) AS done FROM told)
        SELECT true AS is_step, step AS name, {utc("any_value(done)")} AS last,
            {utc("max(seen) FILTER (error IS NOT NULL)")}, arg_max(error, seen) FILTER (error IS NOT NULL),
            count(*) FILTER (error IS NOT NULL AND (done IS NULL OR seen >= done)) AS failures
        FROM ends GROUP BY step
        UNION ALL
        SELECT false, broker, {utc("max(coalesce(ended_timestamp, started_timestamp))")}, NULL, NULL, 0
        FROM kept, UNNEST(brokers) AS t(broker) GROUP BY broker
        ORDER BY is_step, CASE WHEN is_step THEN NULL ELSE last END, failures = 0, name"""
    columns = ("started_timestamp", "ended_timestamp", "command", "outcome", "error", "steps", "brokers")
    try:
        rows = list(reader.query(sql, [], {"run": Scan(RUN_TABLE, columns)}))
    except TableMissingError:
        return RunFigures()
    steps = tuple(
        StepRuns(step, in_utc(done), in_utc(failed), error, failures)
        for is_step, step, done, failed, error, failures in rows
        if is_step and (not source_steps or not is_step_of_source(step) or step in source_steps)
    )
    landings = ((broker, in_utc(last)) for is_step, broker, last, *_ in rows if not is_step)
    return RunFigures(steps, tuple(LandedRun(broker, last) for broker, last in landings if last is not None))
