"""A pass as a recorded plan: pinned inputs, each write exactly once, the committed row last (design section 4)."""

from __future__ import annotations

import getpass
import hashlib
import json
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property, partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txmq_lib.errors import PassConflict, PassReplayed
from txmq_lib.schemas import table_spec
from txmq_lib.settings import Settings
from txmq_lib.tables.conflicts import CONFLICTS, WRITE_ATTEMPTS
from txmq_lib.tables.conform import conform, struct_type
from txmq_lib.tables.delta_log import TaggedCommit
from txmq_lib.tables.local_frame import arrow_rows, at_hand, local_frame
from txmq_lib.tables.pass_log import (
    ABANDONED,
    COMMITTED,
    FATE,
    ROLE_GIVEN,
    app_id,
    last_role_given,
    pass_tag,
    taken_back,
)
from txmq_lib.tables.small_writes import SmallWrite, with_own_arrays
from txmq_lib.tables.spark_writes import SparkWrite
from txmq_lib.tables.warehouse import Warehouse

# What these say of a plan that was given up stands all the same: nothing was decided by it.
NOT_DECIDING = frozenset({"broker"})
TAKEN = "taken"  # note of a commit that takes a step's number without rows
# As many rows without bodies take less time from here than a commit of Spark does.
FEW_ROWS = 20_000
# Rows of a few numbers that may be sent whole to every task: some 300 MiB of memory.
FEW_FOR_TASKS = 3_000_000


@dataclass(frozen=True)
class PassReport:
    """What one pass did: rows written per step, other counts, wall seconds per step; sentences people should read."""

    job: str
    number: int
    counts: dict[str, int]
    seconds: dict[str, float]
    findings: tuple[str, ...] = ()


@dataclass
class Pass:
    """One planned pass of one job. Everything it writes must be a pure function of what is recorded here."""

    warehouse: Warehouse
    job: str
    number: int
    now: datetime
    input_versions: dict[str, int]
    since_versions: dict[str, int]
    arguments: dict[str, Any]
    settings: Settings
    is_own: bool
    wall_clock: Callable[[], datetime]
    plan_id: str = ""
    last_note: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    _kept: list[DataFrame] = field(default_factory=list)
    _own_versions: dict[str, list[int]] = field(default_factory=dict)
    # Whether so little is to be done that rows are better written from here than by Spark.
    is_small: bool = False
    _open_at_version: int = -1
    _lost_feeds: frozenset[str] = frozenset()

    def read(self, table: str) -> DataFrame:
        """All rows of the table as the plan saw it."""
        return self.warehouse.read(table, self.input_versions[table])

    def has_few_rows(self, table: str) -> bool:
        """Whether the table, as the plan saw it, is read whole as cheaply as in part."""
        return self.warehouse.is_few(table, self.input_versions[table])

    def new_rows(self, table: str) -> DataFrame:
        """Rows landed since the last committed pass of this job and not taken back, as the plan saw them."""
        since, upto = self.known_to(table), self.input_versions[table]
        gone: list[tuple[int, str]] = []
        if since is not None and since < upto:
            gone = taken_back(self.warehouse.log(table), table, since, upto)
        return self.warehouse.rows_between(table, since, upto, taken_back=gone)

    def known_to(self, table: str) -> int | None:
        """The version up to which the last committed pass of this job knew the table; None: it is read whole."""
        return None if table in self._lost_feeds else self.since_versions.get(table)

    def has_new_rows(self, table: str) -> bool:
        """False where the table has not moved since the last committed pass of this job."""
        return (self.known_to(table) or 0) < self.input_versions[table]

    def new_bytes(self, tables: Iterable[str]) -> int | None:
        """Bytes that landed in `tables` since the last committed pass of this job; None where the logs do not tell."""
        sizes = [
            self.warehouse.log(table).bytes_between(self.known_to(table) or 0, self.input_versions[table])
            for table in tables
            if self.has_new_rows(table)
        ]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None

    def cached(self, frame: DataFrame) -> DataFrame:
        """`frame`, computed once and kept until the pass ends: what several steps read is planned and read once."""
        if self.is_small and self.warehouse.is_on_one_machine:
            # Cuts the plan as well, which is what a small pass spends its time on.
            return at_hand(frame)[0]
        # By columns, so that whoever reads some of them reads only those.
        self._kept.append(frame.persist())
        return self._kept[-1]

    def cached_if_small(self, frame: DataFrame) -> DataFrame:
        """`frame` as `cached` keeps it in a small pass; elsewhere a plan, cheaper to read than to keep."""
        return self.cached(frame) if self.is_small else frame

    def if_few(self, frame: DataFrame, *, most: int = FEW_FOR_TASKS) -> DataFrame | None:
        """`frame`, computed and kept, where it has at most `most` rows and so can be sent to every task; else None."""
        kept = self.cached(frame)
        if kept.count() <= most:
            return kept
        kept.unpersist()
        return None

    def release(self) -> None:
        """Let go of what `cached` kept."""
        while self._kept:
            self._kept.pop().unpersist()

    def append(
        self,
        table: str,
        frame: DataFrame,
        *,
        step: str,
        count: int | None = None,
        even_if_empty: bool = False,
        even_if_given_up: bool = False,
    ) -> int:
        """Append `frame` once; the rows written. An empty frame makes no commit, unless it is to tell that it was.

        count             how many rows there are, where that is known: it spares looking, and few are written from here
        even_if_given_up  write also where another process has given the plan up: what the rows tell has happened
        """
        write = self._write_of(table, frame, step, count)
        return self._write_once(
            table,
            step,
            lambda: write.by.append(write.path, write.rows()),
            is_empty=None if even_if_empty else write.emptiness(count),
            must_be_open=not even_if_given_up,
        )

    def take(self, table: str, step: str) -> None:
        """Take the number of a step without rows: whoever carries this plan on and has not made the write must not.

        Theirs ends with PassConflict, before anything tells that its rows have landed.
        """
        write = self._write_of(table, self.warehouse.empty(table), step, 0, note=TAKEN)
        self._write_once(table, step, lambda: write.by.append(write.path, write.rows()), may_be_taken=True)

    def is_taken(self, table: str, step: str) -> bool:
        """Whether a step's number was taken without rows, by a process that was giving the plan up."""
        return self.has_landed(table, step) and _is_taken(self._landed_commit(table, step))

    def overwrite(
        self, table: str, frame: DataFrame, *, step: str, where: str | None = None, count: int | None = None
    ) -> int:
        """Replace the table's rows (those that satisfy `where`, a partition condition) by `frame`, once."""
        write = self._write_of(table, frame, step, count)
        return self._write_once(table, step, lambda: write.by.overwrite(write.path, write.rows(), where=where))

    def upsert(
        self,
        table: str,
        frame: DataFrame,
        *,
        step: str,
        only_if: str | None = None,
        within: Column | None = None,
        count: int | None = None,
    ) -> int:
        """MERGE `frame` on the table's key (null-safe), once.

        only_if  (on target t and source s) lets a match be updated
        within   (on t) true for all rows that can match: a table of many files is not searched whole
        """
        write = self._write_of(table, frame, step, count, merges=True)
        merge = partial(write.by.upsert, write.path, key=table_spec(table).key, only_if=only_if)
        if isinstance(write.by, SparkWrite):
            merge = partial(merge, within=within)
        return self._write_once(table, step, lambda: merge(rows=write.rows()), is_empty=write.emptiness(count))

    def delete(self, table: str, broker_name: str, *, step: str, only: str | None = None) -> int:
        """Delete the rows of a broker, all or `only` some (SQL), once; the rows deleted. No rows make no commit."""
        rows = F.col("broker_name") == broker_name
        rows = rows if only is None else rows & F.expr(only)
        # The commit names the broker: a change feed still gives the rows that came before it. Where some rows stay,
        # nobody follows the feed over it.
        tag = self.tag(step) + "\n" + json.dumps({"broker_name": broker_name} if only is None else {})
        by = SparkWrite(app_id(self.job, table, step), self.number, tag)
        return self._write_once(
            table,
            step,
            lambda: by.delete(self.warehouse.spark, self.warehouse.path(table), rows),
            is_empty=lambda: self.warehouse.read(table).where(rows).isEmpty(),
        )

    def _write_of(
        self, table: str, frame: DataFrame, step: str, count: int | None, *, merges: bool = False, note: str = ""
    ) -> _Write:
        stamp = (app_id(self.job, table, step), self.number, f"{self.tag(step)}\n{note}" if note else self.tag(step))
        rows = partial(conform, frame, table_spec(table))
        is_small = self.is_small or (count is not None and count <= FEW_ROWS and not table_spec(table).has_bodies)
        path = self.warehouse.local_path(table) if is_small else None
        # For a MERGE deltalake reads the whole table.
        if path is not None and not (merges and not self.warehouse.is_few(table)):
            return _Write(SmallWrite(*stamp), path, cache(lambda: with_own_arrays(rows().toArrow())))
        return _Write(SparkWrite(*stamp), self.warehouse.path(table), cache(rows))

    def is_settled(self, tables: Iterable[str]) -> bool:
        """True where none of `tables` has moved since the last committed pass of this job, nor a setting."""
        is_same = self.last_note.get("settings_fingerprint") == self.settings.fingerprint()
        return is_same and not any(self.has_new_rows(table) for table in tables)

    @property
    def has_written(self) -> bool:
        """Whether anything of this plan may be in a table, as far as this process knows."""
        return not self.is_own or not self._own_versions.keys() <= NOT_DECIDING

    def has_landed(self, table: str, step: str) -> bool:
        """Whether this write of the plan is in the table already."""
        return self.warehouse.log(table).txn_version(app_id(self.job, table, step)) >= self.number

    def commit(
        self,
        counts: Mapping[str, int] | None = None,
        checkpoints: Mapping[str, int] | None = None,
        next_due_ms: int | None = None,
        note: Mapping[str, Any] | None = None,
    ) -> PassReport:
        """Write the committed row, last of all.

        next_due_ms  tells the next pass when time alone gives it work
        note         what else the next pass of this job is to know
        """
        self.require_open()
        self.counts.update(counts or {})
        # Kept in the commit's note: the next pass of this job reads it without a Spark job.
        left = {
            "input_versions": self.input_versions,
            "own_versions": self._own_versions,
            "settings_fingerprint": self.settings.fingerprint(),
            "next_due_ms": next_due_ms,
            ROLE_GIVEN: last_role_given(self.warehouse),
        }
        self.append_row(COMMITTED, {**(note or {}), **left}, checkpoints)
        return PassReport(self.job, self.number, dict(self.counts), dict(self.seconds))

    def gone_inputs(self) -> list[str]:
        """Tables that can no longer be read as the plan saw them."""
        logs = {name: self.warehouse.log(name) for name in self.input_versions}
        return [name for name, log in logs.items() if not log.is_readable(self.input_versions[name])]

    def has_landed_nothing(self) -> bool:
        """True where no write of this plan, by whatever process, is in a table."""
        ours = app_id(self.job, "", "").removesuffix("/")
        written = [self.warehouse.log(name).txn_versions() for name in self.input_versions if name not in NOT_DECIDING]
        return not any(
            writer.startswith(ours) and version >= self.number
            for versions in written
            for writer, version in versions.items()
        )

    def written_rows(self, table: str, step: str) -> DataFrame:
        """The rows that a step of this plan has put into a table; none where it had none."""
        commit = self._landed_commit(table, step)
        if commit is None:
            return self.warehouse.empty(table)
        return self.warehouse.rows_between(table, commit.version - 1, commit.version)

    def withdraw(self, table: str, which: Column, *, of_step: str) -> None:
        """Delete what a step of this plan has put into a table, if it has, and give the plan up for good."""
        step = "withdrawn"
        by = SparkWrite(app_id(self.job, table, step), self.number, self.tag(step))
        self._write_once(
            table,
            step,
            lambda: by.delete(self.warehouse.spark, self.warehouse.path(table), which),
            is_empty=lambda: not self.has_landed(table, of_step),
        )
        self.abandon()

    def abandon(self) -> None:
        """Give the plan up for good: its inputs are gone, or it must not be. What it wrote stays."""
        if self.warehouse.log("pass").txn_version(app_id(self.job, "pass", ABANDONED)) < self.number:
            self.append_row(ABANDONED, {})

    def has_fate(self, fate: str) -> bool:
        """Whether `fate` is what becomes of this plan: of processes that disagree the first to say so decides.

        fate  CARRIED_ON or GIVEN_UP of pass_log; told by a commit without rows
        """
        tag = pass_tag(self.job, self.number, FATE)
        with suppress(*CONFLICTS):  # somebody else has just said it
            self._append_to_log(FATE, [], tag + "\n" + fate)
        commit = self.warehouse.log("pass").tagged_commit(tag, after=-1)
        return commit is not None and commit.note == fate

    @property
    def is_given_up(self) -> bool:
        """Whether the plan has been given up by now, by whatever process."""
        log = self.warehouse.log("pass")
        if log.version == self._open_at_version:
            return False
        if log.txn_version(app_id(self.job, "pass", ABANDONED)) >= self.number:
            return True
        self._open_at_version = log.version
        return False

    def require_open(self) -> None:
        """PassConflict where the plan has been given up: what another process landed instead must not land twice."""
        if self.is_given_up:
            raise self._given_up_by_another()

    def _given_up_by_another(self) -> PassConflict:
        return PassConflict(f"{self.job} pass {self.number} was given up by another process; run it again")

    def append_row(self, state: str, note: Mapping[str, Any], checkpoints: Mapping[str, int] | None = None) -> None:
        """Append the row of a state to the pass log, once; `note` goes with its commit."""
        warehouse = self.warehouse
        row = {
            "job": self.job,
            "pass_number": self.number,
            "state": state,
            "now": self.now,
            "input_versions": self.input_versions,
            "since_versions": self.since_versions,
            "plan_id": self.plan_id,
            "arguments": json.dumps(self.arguments, sort_keys=True),
            "settings": self.settings.to_json(),
            "settings_fingerprint": self.settings.fingerprint(),
            "counts": dict(self.counts),
            "seconds": {step: round(taken, 3) for step, taken in self.seconds.items()},
            "checkpoints": dict(checkpoints or {}),
            "wall_timestamp": self.wall_clock(),
            "started_by": f"{getpass.getuser()}@{socket.gethostname()}",
            "txmq_version": _txmq_version(),
        }
        tag = pass_tag(self.job, self.number, state) + "\n" + json.dumps(note)
        try:
            self._append_to_log(state, [row], tag)
        except CONFLICTS:
            # The same row by another process carrying the plan on: theirs stands.
            if warehouse.log("pass").txn_version(app_id(self.job, "pass", state)) < self.number:
                raise PassConflict(f"{self.job} pass {self.number} could not be {state}; try again") from None
        warehouse.on_write("pass", state)

    def _append_to_log(self, state: str, rows: list[dict[str, Any]], tag: str) -> None:
        warehouse, schema = self.warehouse, struct_type(table_spec("pass"))
        stamp = (app_id(self.job, "pass", state), self.number, tag)
        path = warehouse.local_path("pass")
        if path is not None:
            SmallWrite(*stamp).append(path, arrow_rows(rows, schema))
        else:
            SparkWrite(*stamp).append(warehouse.path("pass"), local_frame(warehouse.spark, rows, schema))

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Wall seconds of a step, into the pass log."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.seconds[step] = self.seconds.get(step, 0.0) + time.monotonic() - begun

    def tag(self, step: str) -> str:
        """What the commit of a step carries: whose it is, and by which plan."""
        return f"{pass_tag(self.job, self.number, step)} {self._plan_digest}"

    @cached_property
    def _plan_digest(self) -> str:
        plan = [
            str(self.now.astimezone(UTC)),
            sorted(self.input_versions.items()),
            sorted(self.since_versions.items()),
            json.dumps(self.arguments, sort_keys=True),
            self.settings.to_json(),
            self.plan_id,
        ]
        return hashlib.sha256(json.dumps(plan).encode()).hexdigest()[:16]

    def _write_once(
        self,
        table: str,
        step: str,
        write: Callable[[], None],
        is_empty: Callable[[], bool] | None = None,
        *,
        must_be_open: bool = True,
        may_be_taken: bool = False,
    ) -> int:
        with self.timed(step):
            if must_be_open:
                self.require_open()
            # Nothing of a plan of our own can have landed; should another process carry it on, Delta's check decides.
            if self.is_own or not self.has_landed(table, step):
                if is_empty is not None and is_empty():
                    self.counts[step] = 0
                    return 0
                self._write_through_conflicts(table, step, write)
            commit = self._landed_commit(table, step)
        if _is_taken(commit) and not may_be_taken:
            raise self._given_up_by_another()
        self.counts[step] = commit.rows if commit is not None else 0
        if commit is not None:
            self._own_versions.setdefault(table, []).append(commit.version)
        self.warehouse.on_write(table, step)
        return self.counts[step]

    def _landed_commit(self, table: str, step: str) -> TaggedCommit | None:
        """The commit of a step by this plan, or None where the step had nothing to write.

        Delta skips a number it knows without a word: were that number another plan's, rows would be lost in silence.
        """
        log = self.warehouse.log(table)
        commit = log.tagged_commit(self.tag(step), after=self.input_versions[table])
        if commit is None and log.txn_version(app_id(self.job, table, step)) >= self.number:
            raise PassReplayed(
                f"{self.job} pass {self.number}: {table} holds step {step} of a pass {self.number} with another plan;"
                " the tables and the pass log are not of one moment: restore all of the warehouse to the same one"
            )
        return commit

    def _write_through_conflicts(self, table: str, step: str, write: Callable[[], None]) -> None:
        for _ in range(WRITE_ATTEMPTS):
            try:
                return write()
            except CONFLICTS:
                # Somebody carries the same plan on, or another job wrote the table: look, then try again.
                if self.has_landed(table, step):
                    return None
        raise PassConflict(
            f"{self.job} pass {self.number}: {table} was written by others {WRITE_ATTEMPTS} times; try again"
        )


class _Write(NamedTuple):
    """One write of a pass: by whom, where, and the rows, an Arrow table or a frame, made when first asked for."""

    by: SmallWrite | SparkWrite
    path: str
    rows: Callable[[], Any]

    def emptiness(self, count: int | None) -> Callable[[], bool]:
        """Tells whether there are no rows, without a look where their count is known."""
        return self._is_empty if count is None else lambda: count == 0

    def _is_empty(self) -> bool:
        rows = self.rows()
        return bool(rows.isEmpty() if isinstance(rows, DataFrame) else rows.num_rows == 0)


def _is_taken(commit: TaggedCommit | None) -> bool:
    return commit is not None and commit.note == TAKEN


def _txmq_version() -> str:
    try:
        return version("txmq")
    except PackageNotFoundError:
        return "unknown"
