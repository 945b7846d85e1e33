"""What upkeep has to do for each table: what to compact, within bounds, and what nobody needs any more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta

from txmq_lib.config.sections import Maintain
from txmq_lib.config.table_specs import table_spec, table_specs
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.names import JOB_MAINTAIN
from txmq_lib.passes import retention
from txmq_lib.passes.pass_log import Standing, standings
from txmq_lib.pipeline import audit
from txmq_lib.pipeline.reconcile.inputs import WAKING_TABLES
from txmq_lib.pipeline.reconcile.job import RECONCILE
from txmq_lib.pipeline.rollup.job import ACKS, ROLLUP
from txmq_lib.pipeline.rollup.report_files import REPORTS
from txmq_lib.rules.moments import epoch_ms

JOB = JOB_MAINTAIN
TABLES_AT_ONCE = 4
MIB = 1 << 20
# `run` and `serve` do the upkeep behind so many passes, as far as nobody else does: views read each small file.
DUE_AFTER_PASSES = 125
# Below this, files may go that a pass begun a moment ago still reads.
SHORTEST_BESIDE_PASSES_MS = 86_400_000
# Tables whose change feed a job reads from where its last pass ended.
FEEDS = {
    RECONCILE.name: WAKING_TABLES,
    ROLLUP.name: (REPORTS, ACKS),
    audit.JOB: audit.WAKING_TABLES,
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


def is_due(warehouse: Warehouse, upkeep: Maintain) -> bool:
    """Whether DUE_AFTER_PASSES passes have been made since the last upkeep.

    Each leaves two small files in `pass`, which upkeep compacts; the log tells how many there are. It is never due
    where only Delta can read them, or where the settings let one run take fewer: it would be due for ever.
    """
    log, most = warehouse.log_upto("pass", 0), 2 * DUE_AFTER_PASSES
    files = log.plain_files(log.version) or ()
    small_files = sum(file.size < upkeep.small_file_size * MIB for file in files)
    return small_files >= max(most, upkeep.small_files) and upkeep.files_per_run >= most


def planned_upkeep(warehouse: Warehouse, upkeep: Maintain, *, now: datetime) -> list[TableUpkeep]:
    """What a run would do to each table, those with most small files first in the run's bounds."""
    keep_from = now - timedelta(milliseconds=upkeep.file_retention_ms)
    with ThreadPoolExecutor(max_workers=TABLES_AT_ONCE) as pool:
        found = list(
            pool.map(lambda name: retention.table_files(warehouse, name, removed_before=keep_from), table_specs())
        )
    compactions = bounded_compactions({files.table: files.sizes for files in found}, upkeep)
    readers = jobs_that_read(warehouse)
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
            old_passes=old_passes(warehouse, upkeep, now) if files.table == "pass" else 0,
        )
        for files in found
    ]


def bounded_compactions(sizes: Mapping[str, Mapping[str, Sequence[int]]], upkeep: Maintain) -> dict[str, Compaction]:
    """Which files of which tables one run compacts, from the sizes (bytes) of each table's files per partition.

    The pass log comes first, which every command reads, then tables with most small files; of the one that reaches the
    run's bounds the smallest files are taken. A table that every pass writes anew is left out.
    """
    small_below = upkeep.small_file_size * MIB
    files_left, bytes_left = upkeep.files_per_run, upkeep.size_per_run * MIB
    small = {
        table: [[size for size in part if size < small_below] for part in parts.values()]
        for table, parts in sizes.items()
        if not table_spec(table).is_written_anew
    }
    most = {table: max(map(len, parts), default=0) for table, parts in small.items()}
    taken: dict[str, Compaction] = {}
    for table in sorted(small, key=lambda table: (table != "pass", -most[table], table)):
        if most[table] < upkeep.small_files:
            continue
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


def jobs_that_read(warehouse: Warehouse) -> list[Standing]:
    """The jobs that read change feeds, each with how far."""
    return [standing for standing in standings(warehouse) if standing.job != JOB]


def has_other_retention(warehouse: Warehouse, upkeep: Maintain) -> bool:
    """Whether any table is to keep replaced files or log entries for another span than it was told."""
    return any(retention.is_kept_otherwise(warehouse, table, **retention_spans(upkeep)) for table in table_specs())


def retention_spans(upkeep: Maintain) -> dict[str, int]:
    """How long replaced files and log entries are kept, in ms."""
    # Delta takes no log entries that are kept for less than the files they name.
    log_retention_ms = max(upkeep.log_retention_ms, upkeep.file_retention_ms)
    return {"file_retention_ms": upkeep.file_retention_ms, "log_retention_ms": log_retention_ms}


def old_passes(warehouse: Warehouse, upkeep: Maintain, now: datetime) -> int:
    """How many rows of table `pass` are older than they are kept."""
    if upkeep.pass_retention_ms is None:
        return 0
    before = now - timedelta(milliseconds=upkeep.pass_retention_ms)
    return warehouse.read("pass").where(retention.old_passes(warehouse, before)).count()
