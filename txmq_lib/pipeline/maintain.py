"""The maintain job: small files compacted, replaced ones removed, old rows of passes dropped; bounded per run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial

from txmq_lib.config.sections import Maintain
from txmq_lib.config.settings import Settings
from txmq_lib.config.table_specs import table_specs
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import PassConflict
from txmq_lib.passes import retention
from txmq_lib.passes.current import Pass, PassReport
from txmq_lib.passes.job import job_of_steps
from txmq_lib.passes.pass_log import COMPACTIONS, unfinished
from txmq_lib.passes.ready import make_ready
from txmq_lib.passes.runner import run_passes
from txmq_lib.pipeline.upkeep_plan import (
    JOB,
    MIB,
    SHORTEST_BESIDE_PASSES_MS,
    TABLES_AT_ONCE,
    Compaction,
    TableUpkeep,
    has_other_retention,
    held_for,
    jobs_that_read,
    planned_upkeep,
    retention_spans,
)


def run_maintain(
    warehouse: Warehouse,
    settings: Settings,
    *,
    wall_clock: Callable[[], datetime],
    tell: Callable[[Sequence[TableUpkeep]], None],
    dry_run: bool = False,
) -> PassReport:
    """One run of upkeep, told through `tell` before anything is done; with `dry_run` that is all.

    PassConflict where files are kept for less than a day and a pass is unfinished.
    """
    make_ready(warehouse)
    upkeep = settings.maintain
    _require_nothing_open(warehouse, upkeep)
    planned = planned_upkeep(warehouse, upkeep, now=wall_clock())
    tell(planned)
    # One that was killed behind its last work is ended, too.
    is_unfinished = JOB in unfinished(warehouse.log("pass"))
    has_work = any(table.has_work for table in planned) or has_other_retention(warehouse, upkeep)
    if dry_run:
        return PassReport(JOB, 0, {}, {})
    # No part of a pass: it changes nothing that is read.
    with ThreadPoolExecutor(max_workers=TABLES_AT_ONCE) as pool:
        list(pool.map(partial(retention.tidy_log, warehouse), table_specs()))
    if not (has_work or is_unfinished):
        return PassReport(JOB, 0, {"idle": 1}, {})
    job = job_of_steps(JOB, partial(_maintain, planned=planned, upkeep=upkeep))
    return run_passes(warehouse, job, now=wall_clock(), settings=settings, wall_clock=wall_clock)


def run_due_maintain(warehouse: Warehouse, settings: Settings, *, wall_clock: Callable[[], datetime]) -> PassReport:
    """A run of upkeep behind the passes of a cycle, which is not to fail for it.

    Where a pass of another process is in the way one conflict is counted and told, and the next cycle does it.
    """
    try:
        return run_maintain(warehouse, settings, wall_clock=wall_clock, tell=lambda _: None)
    except PassConflict as conflict:
        return PassReport(JOB, 0, {"conflicts": 1}, {}, (f"{JOB}: left to the next cycle: {conflict}",))


def _require_nothing_open(warehouse: Warehouse, upkeep: Maintain) -> None:
    if others := _in_the_way(warehouse, upkeep):
        raise PassConflict(
            f"maintain.file_retention is shorter than a day, and {', '.join(others)} is unfinished: let it end"
            " first, or keep files for a day at least"
        )


def _in_the_way(warehouse: Warehouse, upkeep: Maintain) -> list[str]:
    """Unfinished passes that may read what was replaced a moment ago, where files are not kept for a day."""
    if upkeep.file_retention_ms >= SHORTEST_BESIDE_PASSES_MS:
        return []
    return [f"{job} pass {number}" for job, number in unfinished(warehouse.log("pass")).items() if job != JOB]


def _maintain(current: Pass, *, planned: Sequence[TableUpkeep], upkeep: Maintain) -> PassReport:
    if not current.is_own:
        # What it had not done yet is part of the next plan.
        current.abandon()
        return PassReport(JOB, current.number, {}, {})
    warehouse = current.warehouse
    counts = dict.fromkeys(("compacted_files", "removed_files", "old_passes", "conflicts"), 0)
    with current.timed("retention"):
        changed = [retention.keep_for(warehouse, table, **retention_spans(upkeep)) for table in table_specs()]
    counts["retention_set"] = changed.count(True)
    counts["conflicts"] += changed.count(None)
    # Who finds nothing else behind its last pass need not read that these changed no row.
    compactions: dict[str, dict[int, str]] = {}
    for table in planned:
        if table.compaction is not None:
            compactions[table.table] = _compact(current, table.table, table.compaction, upkeep, counts)
        _remove_old_passes(current, table, upkeep, counts)
    is_held = bool(_in_the_way(warehouse, upkeep))
    readers = jobs_that_read(warehouse)
    # What takes the place of files is on the disk before they go.
    current.make_durable()
    for table in planned:
        # Files go by the clock as it is now: what a job had time to read when this was planned may be old by now.
        keep_from = current.wall_clock() - timedelta(milliseconds=upkeep.file_retention_ms)
        if table.removes_files and (is_held or held_for(warehouse, table.table, readers, keep_from=keep_from)):
            counts["held"] = counts.get("held", 0) + 1
        elif table.removes_files:
            with current.timed("remove"):
                retention.remove_expired(warehouse, table.table)
            counts["removed_files"] += table.expired_files
            warehouse.on_write(table.table, "remove")
    return current.commit(counts, note={COMPACTIONS: compactions})


def _compact(
    current: Pass, table: str, compaction: Compaction, upkeep: Maintain, counts: dict[str, int]
) -> dict[int, str]:
    """Compact a table; on an object store the version that did it, and the mark of its entry."""
    warehouse, tag = current.warehouse, current.tag(f"compact_{table}")
    with current.timed("compact"):
        files = retention.compact(
            warehouse,
            table,
            below_bytes=compaction.below_bytes,
            file_bytes=upkeep.file_size * MIB,
            tag=tag,
        )
    counts["conflicts" if files is None else "compacted_files"] += 1 if files is None else files
    warehouse.on_write(table, "compact")
    if table not in current.input_versions:  # the pass log, which no job follows
        return {}
    log = warehouse.log(table)
    commit = log.tagged_commit(tag, after=current.input_versions[table])
    mark = "" if commit is None else log.mark(commit.version)
    return {commit.version: mark} if commit is not None and mark else {}


def _remove_old_passes(current: Pass, table: TableUpkeep, upkeep: Maintain, counts: dict[str, int]) -> None:
    if not table.old_passes or upkeep.pass_retention_ms is None:
        return
    warehouse = current.warehouse
    before = current.now - timedelta(milliseconds=upkeep.pass_retention_ms)
    with current.timed("old_passes"):
        old = retention.old_passes(warehouse, before)
        is_done = retention.remove_passes(warehouse, old, tag=current.tag("old_passes"))
    counts["old_passes" if is_done else "conflicts"] += table.old_passes if is_done else 1
    warehouse.on_write(table.table, "old_passes")
