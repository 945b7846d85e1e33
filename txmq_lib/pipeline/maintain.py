"""The maintain job: small files compacted, replaced ones removed, old rows of passes dropped; bounded per run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from txmq_lib.config.sections import Maintain
from txmq_lib.config.settings import Settings
from txmq_lib.config.table_specs import table_spec, table_specs
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import PassConflict
from txmq_lib.names import JOB_MAINTAIN
from txmq_lib.passes import retention
from txmq_lib.passes.current import Pass, PassReport
from txmq_lib.passes.job import job_of_steps
from txmq_lib.passes.pass_log import Standing, standings, unfinished
from txmq_lib.passes.ready import make_ready
from txmq_lib.passes.runner import run_passes
from txmq_lib.pipeline import audit, rollup
from txmq_lib.pipeline.reconcile.inputs import WAKING_TABLES
from txmq_lib.pipeline.reconcile.job import RECONCILE
from txmq_lib.rules.moments import epoch_ms

JOB = JOB_MAINTAIN
MIB = 1 << 20
# Below this, files may go that a pass begun a moment ago still reads.
SHORTEST_BESIDE_PASSES_MS = 86_400_000
TABLES_AT_ONCE = 4
# Tables whose change feed a job reads from where its last pass ended.
FEEDS = {
    RECONCILE.name: WAKING_TABLES,
    rollup.JOB: (rollup.REPORTS, rollup.ACKS),
    audit.JOB: audit.INPUTS,
}


@dataclass(frozen=True)
class Compaction:
    """Which small files one run takes: those below `below_bytes`."""

    below_bytes: int
    files: int
    bytes: int


@dataclass(frozen=True)
class TableUpkeep:
    """What is there of a table and what a run does; sizes in bytes.

    `expired_files` are removed unless somebody still reads them (`held_for`).
    """

    table: str
    files: int
    bytes: int
    small_files: int
    compaction: Compaction | None
    expired_files: int
    expired_bytes: int
    held_for: str = ""
    old_passes: int = 0

    @property
    def compacted_files(self) -> int:
        """Files that are compacted."""
        return self.compaction.files if self.compaction else 0

    @property
    def compacted_bytes(self) -> int:
        """How much is compacted."""
        return self.compaction.bytes if self.compaction else 0

    @property
    def has_work(self) -> bool:
        """Whether anything is done to the table."""
        return self.compaction is not None or self.removes_files or self.old_passes > 0

    @property
    def removes_files(self) -> bool:
        """Whether replaced files are removed."""
        return self.expired_files > 0 and not self.held_for

    @property
    def remark(self) -> str:
        """What else is to be said."""
        words = [f"nothing removed: {self.held_for}"] if self.held_for and self.expired_files else []
        if self.old_passes:
            words.append(f"{self.old_passes} rows of old passes dropped")
        return "; ".join(words)


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
    has_work = any(table.has_work for table in planned) or _has_other_retention(warehouse, upkeep)
    if dry_run:
        return PassReport(JOB, 0, {}, {})
    # No part of a pass: it changes nothing that is read.
    with ThreadPoolExecutor(max_workers=TABLES_AT_ONCE) as pool:
        list(pool.map(partial(retention.tidy_log, warehouse), table_specs()))
    if not (has_work or is_unfinished):
        return PassReport(JOB, 0, {"idle": 1}, {})
    job = job_of_steps(JOB, partial(_maintain, planned=planned, upkeep=upkeep))
    return run_passes(warehouse, job, now=wall_clock(), settings=settings, wall_clock=wall_clock)


def planned_upkeep(warehouse: Warehouse, upkeep: Maintain, *, now: datetime) -> list[TableUpkeep]:
    """What a run would do to each table, those with most small files first in the run's bounds."""
    keep_from = now - timedelta(milliseconds=upkeep.file_retention_ms)
    with ThreadPoolExecutor(max_workers=TABLES_AT_ONCE) as pool:
        found = list(
            pool.map(lambda name: retention.table_files(warehouse, name, removed_before=keep_from), table_specs())
        )
    compactions = bounded_compactions({files.table: files.sizes for files in found}, upkeep)
    readers = _readers(warehouse)
    return [
        TableUpkeep(
            table=files.table,
            files=sum(map(len, files.sizes.values())),
            bytes=sum(map(sum, files.sizes.values())),
            small_files=sum(size < upkeep.small_file_size * MIB for sizes in files.sizes.values() for size in sizes),
            compaction=compactions.get(files.table),
            expired_files=files.expired_files,
            expired_bytes=files.expired_bytes,
            held_for=held_for(warehouse, files.table, readers, keep_from=keep_from),
            old_passes=_old_passes(warehouse, upkeep, now) if files.table == "pass" else 0,
        )
        for files in found
    ]


def bounded_compactions(sizes: Mapping[str, Mapping[str, Sequence[int]]], upkeep: Maintain) -> dict[str, Compaction]:
    """Which files of which tables one run compacts, from the sizes (bytes) of each table's files per partition.

    Tables with most small files come first; of the one that reaches the run's bounds the smallest files are taken.
    A table that every pass writes anew is left out.
    """
    small_below = upkeep.small_file_size * MIB
    files_left, bytes_left = upkeep.files_per_run, upkeep.size_per_run * MIB
    small = {
        table: [[size for size in part if size < small_below] for part in parts.values()]
        for table, parts in sizes.items()
        if not table_spec(table).is_written_anew
    }
    most_first = sorted(small, key=lambda table: (-max(map(len, small[table]), default=0), table))
    taken: dict[str, Compaction] = {}
    for table in most_first:
        if max(map(len, small[table]), default=0) < upkeep.small_files:
            break
        # A single file of a partition has nothing to be compacted with.
        candidates = sorted(size for part in small[table] if len(part) > 1 for size in part)
        compaction = _smallest_first(candidates, small_below, files_left, bytes_left)
        if compaction is not None:
            taken[table] = compaction
            files_left -= compaction.files
            bytes_left -= compaction.bytes
    return taken


def _smallest_first(sizes: Sequence[int], small_below: int, files_left: int, bytes_left: int) -> Compaction | None:
    """The smallest of ascending `sizes` that fit.

    Delta takes one limit, so files of equal size go together: those beyond the bounds with the rest, or if they alone
    are too many, all of them.
    """
    count = total = 0
    for size in sizes:
        if count == files_left or total + size > bytes_left:
            break
        count += 1
        total += size
    if count < 2:
        return None
    below = small_below if count == len(sizes) else max(sizes[count], sizes[0] + 1)
    fitting = [size for size in sizes if size < below]
    return Compaction(below, len(fitting), sum(fitting)) if len(fitting) > 1 else None


def held_for(warehouse: Warehouse, table: str, readers: Sequence[Standing], *, keep_from: datetime) -> str:
    """Who still reads a version of the table so old that removing what was replaced since could take its files.

    Empty where nobody does. A version whose log entry is gone is read by nobody: that job reads the table whole.
    """
    log = warehouse.log(table)
    for job in readers:
        version = _needed(job, table)
        if version is None or version > log.version or (job.open_number and version == log.version):
            continue
        committed_ms = log.committed_ms(version)
        if job.open_number is not None and (committed_ms is None or committed_ms < epoch_ms(keep_from)):
            return f"{job.job} pass {job.open_number} is unfinished and reads version {version}"
        if committed_ms is not None and committed_ms < epoch_ms(keep_from):
            return f"{job.job} has not read what came with version {version}"
    return ""


def _needed(job: Standing, table: str) -> int | None:
    """The oldest version of the table that the job still reads, or the first it has not read."""
    has_feed = table in FEEDS.get(job.job, ()) and table_spec(table).has_feed
    unread = job.since_versions[table] + 1 if has_feed and table in job.since_versions else None
    if job.open_number is None:
        return unread
    pinned = job.input_versions.get(table)
    return min((version for version in (unread, pinned) if version is not None), default=None)


def _require_nothing_open(warehouse: Warehouse, upkeep: Maintain) -> None:
    open_passes = unfinished(warehouse.log("pass")).items()
    others = [f"{job} pass {number}" for job, number in open_passes if job != JOB]
    if others and upkeep.file_retention_ms < SHORTEST_BESIDE_PASSES_MS:
        raise PassConflict(
            f"maintain.file_retention is shorter than a day, and {', '.join(others)} is unfinished: let it end"
            " first, or keep files for a day at least"
        )


def _readers(warehouse: Warehouse) -> list[Standing]:
    return [standing for standing in standings(warehouse) if standing.job != JOB]


def _has_other_retention(warehouse: Warehouse, upkeep: Maintain) -> bool:
    """Whether any table is to keep replaced files or log entries for another span than it was told."""
    return any(retention.is_kept_otherwise(warehouse, table, **_spans(upkeep)) for table in table_specs())


def _spans(upkeep: Maintain) -> dict[str, int]:
    # Delta takes no log entries that are kept for less than the files they name.
    log_retention_ms = max(upkeep.log_retention_ms, upkeep.file_retention_ms)
    return {"file_retention_ms": upkeep.file_retention_ms, "log_retention_ms": log_retention_ms}


def _old_passes(warehouse: Warehouse, upkeep: Maintain, now: datetime) -> int:
    if upkeep.pass_retention_ms is None:
        return 0
    before = now - timedelta(milliseconds=upkeep.pass_retention_ms)
    return warehouse.read("pass").where(retention.old_passes(warehouse, before)).count()


def _maintain(current: Pass, *, planned: Sequence[TableUpkeep], upkeep: Maintain) -> PassReport:
    if not current.is_own:
        # What it had not done yet is part of the next plan.
        current.abandon()
        return PassReport(JOB, current.number, {}, {})
    warehouse = current.warehouse
    counts = dict.fromkeys(("compacted_files", "removed_files", "old_passes", "conflicts"), 0)
    with current.timed("retention"):
        changed = [retention.keep_for(warehouse, table, **_spans(upkeep)) for table in table_specs()]
    counts["retention_set"] = changed.count(True)
    counts["conflicts"] += changed.count(None)
    for table in planned:
        _compact(current, table, upkeep, counts)
        _remove_old_passes(current, table, upkeep, counts)
    _require_nothing_open(warehouse, upkeep)
    readers = _readers(warehouse)
    # What takes the place of files is on the disk before they go.
    current.make_durable()
    for table in planned:
        # Files go by the clock as it is now: what a job had time to read when this was planned may be old by now.
        keep_from = current.wall_clock() - timedelta(milliseconds=upkeep.file_retention_ms)
        if table.removes_files and held_for(warehouse, table.table, readers, keep_from=keep_from):
            counts["held"] = counts.get("held", 0) + 1
        elif table.removes_files:
            with current.timed("remove"):
                retention.remove_expired(warehouse, table.table)
            counts["removed_files"] += table.expired_files
            warehouse.on_write(table.table, "remove")
    return current.commit(counts)


def _compact(current: Pass, table: TableUpkeep, upkeep: Maintain, counts: dict[str, int]) -> None:
    if table.compaction is None:
        return
    with current.timed("compact"):
        files = retention.compact(
            current.warehouse,
            table.table,
            below_bytes=table.compaction.below_bytes,
            file_bytes=upkeep.file_size * MIB,
            tag=current.tag(f"compact_{table.table}"),
        )
    counts["conflicts" if files is None else "compacted_files"] += 1 if files is None else files
    current.warehouse.on_write(table.table, "compact")


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
