"""What a pass writes: each step once, whichever process carries the plan on and however often it is killed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.arrow_files import WrittenFile
from txmq_lib.delta.arrow_writes import ArrowWrite
from txmq_lib.delta.conflicts import CONFLICTS, WRITE_ATTEMPTS
from txmq_lib.delta.conform import conform, struct_type
from txmq_lib.delta.log_actions import real_path
from txmq_lib.delta.log_view import TaggedCommit
from txmq_lib.delta.short_logs import shorten_longest_log
from txmq_lib.delta.small_writes import CHECKPOINT_EVERY, SmallWrite, with_own_arrays
from txmq_lib.delta.spark_writes import SparkWrite
from txmq_lib.errors import InvariantViolation, PassConflict, PassReplayed
from txmq_lib.passes.claims import Claims
from txmq_lib.passes.pass_log import OCCUPIED, app_id, app_prefix
from txmq_lib.spark.local_frame import arrow_rows

# What these say of a plan that was abandoned stands all the same: nothing was decided by it.
NOT_DECIDING = frozenset({"broker"})
WITHDRAWN = "withdrawn"  # the step that deletes what another step has put into a table
# A frame, or what `rows_at_hand` makes of rows that are here already.
ToWrite: TypeAlias = DataFrame | pa.Table
# As many rows without bodies take less time from here than a commit of Spark does.
FEW_ROWS = 100_000


@dataclass(kw_only=True)
class Writer(Claims):
    """Steps of a plan: each commit carries the number of its pass, and Delta lets one of two with one number fail."""

    _own_versions: dict[str, list[int]] = field(default_factory=dict)
    _written_ahead: set[str] = field(default_factory=set)
    # Writes that were begun, and of which nobody has looked whether they landed.
    _in_doubt: set[tuple[str, str]] = field(default_factory=set)

    def append(
        self,
        table: str,
        rows: ToWrite,
        *,
        step: str,
        count: int | None = None,
        even_if_empty: bool = False,
        even_if_abandoned: bool = False,
    ) -> int:
        """Append `rows` once; how many were written. None make no commit, unless it is to tell that there were none.

        Nothing is done where `append_ahead` or `append_files` wrote the step before its turn.
        count             how many rows there are, where that is known: it spares looking, and few are written from here
        even_if_abandoned  write also where another process has abandoned the plan: what the rows tell has happened

        InvariantViolation where other than `count` rows are to be written from here: one was lost, or made twice.
        """
        if step in self._written_ahead:
            return self.counts[step]
        _require_stated(table, "append")
        write = self._write_of(table, rows, step, count)
        return self._write_once(
            table,
            step,
            lambda: write.by.append(write.path, write.rows()),
            is_empty=None if even_if_empty else write.emptiness(count),
            must_be_open=not even_if_abandoned,
        )

    def append_files(self, table: str, files: Sequence[WrittenFile], *, step: str, is_ahead: bool = False) -> int:
        """Append the rows of files that were written from Arrow (`Warehouse.local_path` is where), once; how many.

        is_ahead  before its turn: the `append` of the step, when it comes, writes nothing

        No files make no commit. Files that no commit names, as where another process made the write, VACUUM takes.
        """
        _require_stated(table, "append")
        path = self.warehouse.local_path(table)
        if path is None:
            raise InvariantViolation(f"{self.warehouse.path(table)} cannot be written from Arrow: Spark has to")
        by = ArrowWrite(app_id(self.job, table, step), self.number, self.tag(step))
        rows = self._write_once(table, step, lambda: by.append(path, files), is_empty=lambda: not files)
        if is_ahead:
            self._written_ahead.add(step)
        return rows

    def append_ahead(self, table: str, frame: DataFrame, *, step: str, even_if_empty: bool = False) -> DataFrame | None:
        """Where rows are many, `append` them before their turn, and give them as they are in the table then.

        Rows that are joined are worth more disk than memory, and what is written once is read by column. None where
        rows are few, and where nothing is to be written: the `append` of the step writes them in its turn.
        """
        if self.is_small or self.is_dry:
            return None
        self.append(table, frame, step=step, even_if_empty=even_if_empty)
        self._written_ahead.add(step)
        return self.written_rows(table, step)

    def overwrite(
        self, table: str, frame: DataFrame, *, step: str, where: str | None = None, count: int | None = None
    ) -> int:
        """Replace the table's rows (those that satisfy `where`, a partition condition) by `frame`, once."""
        _require_stated(table, "overwrite")
        write = self._write_of(table, frame, step, count)
        return self._write_once(table, step, lambda: write.by.overwrite(write.path, write.rows(), where=where))

    def upsert(
        self,
        table: str,
        rows: ToWrite,
        *,
        step: str,
        only_if: str | None = None,
        within: Callable[[], Column] | None = None,
        count: int | None = None,
    ) -> int:
        """MERGE `rows` on the table's key (null-safe), once.

        only_if  (on target t and source s) lets a match be updated
        within   gives what (on t) is true for all rows that can match: a table of many files is not searched whole
        """
        _require_stated(table, "upsert")
        write = self._write_of(table, rows, step, count, merges=True)
        merge = partial(write.by.upsert, write.path, key=table_spec(table).key, only_if=only_if)
        if isinstance(write.by, SparkWrite) and within is not None:
            is_few = self.warehouse.is_few(table, self.input_versions[table])
            merge = partial(merge, within=None if is_few else within())
        return self._write_once(
            table,
            step,
            lambda: merge(rows=write.rows()),
            is_empty=write.emptiness(count),
            may_change_nothing=only_if is not None,
        )

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
            may_change_nothing=True,
        )

    def occupy(self, table: str, step: str) -> None:
        """Occupy the number of a step without rows: whoever carries this plan on and has not made the write must not.

        Theirs ends with PassConflict, before anything tells that its rows have landed.
        """
        nothing = arrow_rows([], struct_type(table_spec(table)))
        write = self._write_of(table, nothing, step, 0, note=OCCUPIED)
        self._write_once(table, step, lambda: write.by.append(write.path, write.rows()), may_be_occupied=True)

    def occupy_begun(self) -> bool:
        """Occupy the step whose write this process began and saw fail; whether nothing of it has landed, or can.

        A store may carry out what it failed to answer, long after. Of several such writes, as of one that has landed,
        the plan is better carried on.
        """
        if len(self._in_doubt) > 1:
            return False
        for table, step in tuple(self._in_doubt):
            self.occupy(table, step)
            return _is_occupied(self._landed_commit(table, step))
        return True

    def withdraw(self, table: str, which: Column, *, of_step: str) -> None:
        """Delete what a step of this plan has put into a table, if it has, and abandon the plan."""
        by = SparkWrite(app_id(self.job, table, WITHDRAWN), self.number, self.tag(WITHDRAWN))
        self._write_once(
            table,
            WITHDRAWN,
            lambda: by.delete(self.warehouse.spark, self.warehouse.path(table), which),
            is_empty=lambda: not self.has_landed(table, of_step),
            may_change_nothing=True,
        )
        self.abandon()

    @property
    def is_withdrawn(self) -> bool:
        """Whether a step of this plan was deleted again: its process died before it abandoned the plan."""
        return any(self.has_landed(table, WITHDRAWN) for table in self.input_versions)

    @property
    def has_occupied_step(self) -> bool:
        """Whether a step of this plan is occupied: whoever did so died before the plan was abandoned."""
        for table, version in self.input_versions.items():
            log, ours = self.warehouse.log(table), app_id(self.job, table, "")
            landed = [name for name, number in log.txn_versions().items() if number == self.number]
            steps = [name.removeprefix(ours) for name in landed if name.startswith(ours)]
            if any(_is_occupied(log.tagged_commit(self.tag(step), after=version)) for step in steps):
                return True
        return False

    @property
    def has_written(self) -> bool:
        """Whether anything of this plan may be in a table, as far as this process knows."""
        return not self.is_own or not self._own_versions.keys() <= NOT_DECIDING

    def has_landed(self, table: str, step: str) -> bool:
        """Whether this write of the plan is in the table already."""
        return self.warehouse.log(table).txn_version(app_id(self.job, table, step)) >= self.number

    def has_landed_nothing(self) -> bool:
        """True where no write of this plan, by whatever process, is in a table."""
        ours = app_prefix(self.job)
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

    def written_files(self, table: str, step: str) -> list[str] | None:
        """Files of this machine with those rows; None where Spark has to find them."""
        commit, path = self._landed_commit(table, step), self.warehouse.local_path(table)
        if commit is None or path is None:
            return None if path is None else []
        files = self.warehouse.log_upto(table, commit.version).inserted_files(commit.version - 1, commit.version)
        return None if files is None else [os.path.join(path, real_path(file)) for file in files]

    def as_stored(self, table: str, frame: DataFrame) -> DataFrame:
        """`frame`, all that the table holds now: where rows are many its newest version, not what the plan saw."""
        return frame if self.is_small else self.warehouse.read(table)

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Wall seconds of a step, into the pass log."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.seconds[step] = self.seconds.get(step, 0.0) + time.monotonic() - begun

    def _write_of(
        self, table: str, rows: ToWrite, step: str, count: int | None, *, merges: bool = False, note: str = ""
    ) -> _Write:
        stamp = (app_id(self.job, table, step), self.number, f"{self.tag(step)}\n{note}" if note else self.tag(step))
        few = rows.num_rows if isinstance(rows, pa.Table) else count
        is_small = self.is_small or (few is not None and few <= FEW_ROWS and not table_spec(table).has_bodies)
        path = self.warehouse.small_path(table) if is_small else None
        # For a MERGE deltalake reads the whole table.
        if path is not None and not (merges and not self.warehouse.is_few(table)):
            highest = partial(self.warehouse.highest_number, table, stamp[0])
            return _Write(SmallWrite(*stamp, highest), path, cache(partial(self._in_arrow, table, rows, step, count)))
        in_spark = cache(partial(_in_spark, self.warehouse.spark, table, rows))
        return _Write(SparkWrite(*stamp), self.warehouse.path(table), in_spark)

    def _in_arrow(self, table: str, rows: ToWrite, step: str, count: int | None) -> pa.Table:
        here = rows if isinstance(rows, pa.Table) else with_own_arrays(conform(rows, table_spec(table)).toArrow())
        if count is not None:
            self.require_count(count, here.num_rows, table, step)
        return here

    def require_count(self, count: int, made: int, table: str, step: str) -> None:
        """InvariantViolation where a step made another number of rows than the pass has counted."""
        if made != count:
            what = f"{table} was to get {count} rows in step {step}, and {made} were made"
            raise InvariantViolation(f"{self.job} pass {self.number}: {what}; the pass is not committed")

    def _write_once(
        self,
        table: str,
        step: str,
        write: Callable[[], object],
        is_empty: Callable[[], bool] | None = None,
        *,
        must_be_open: bool = True,
        may_be_occupied: bool = False,
        may_change_nothing: bool = False,
    ) -> int:
        """The gate of all writes; rows written.

        is_empty            looked at before the write, which is left out then; None: an empty commit is made as well
        may_change_nothing  there may be no commit where no row of the table is touched

        InvariantViolation where a write ended well and its commit is not there.
        """
        with self.timed(step):
            if must_be_open:
                self.require_open()
            # Of our own plan nothing lies there before. Should another process carry it on, Delta lets one land.
            is_to_be_written = self.is_own or not self.has_landed(table, step)
            if is_to_be_written:
                if is_empty is not None and is_empty():
                    self.counts[step] = 0
                    return 0
                self._in_doubt.add((table, step))
                self._write_through_conflicts(table, step, write)
            commit = self._landed_commit(table, step)
        if commit is None and not may_change_nothing:
            raise self._unseen(table, step)
        self._in_doubt.discard((table, step))
        if _is_occupied(commit) and not may_be_occupied:
            raise self._abandoned_by_another()
        self.counts[step] = commit.rows if commit is not None else 0
        if commit is not None:
            if is_to_be_written:
                self.warehouse.wrote(table)
            versions = self._own_versions.setdefault(table, [])
            versions.append(commit.version)
            if len(versions) % CHECKPOINT_EVERY == 0:  # a pass may write answers or requests in many parts
                shorten_longest_log(self.warehouse, [table])
        self.warehouse.on_write(table, step)
        return self.counts[step]

    def _write_through_conflicts(self, table: str, step: str, write: Callable[[], object]) -> None:
        for _ in range(WRITE_ATTEMPTS):
            try:
                write()
            except CONFLICTS:
                # Somebody carries the same plan on, or another job wrote the table: look, then try again.
                if not self.has_landed(table, step):
                    continue
            return
        raise PassConflict(
            f"{self.job} pass {self.number}: {table} was written by others {WRITE_ATTEMPTS} times; try again"
        )

    def _unseen(self, table: str, step: str) -> InvariantViolation:
        return InvariantViolation(
            f"{self.job} pass {self.number}: step {step} was written, and its commit is not in the log of {table}, as"
            " where a store lets another writer take its place; the pass is not committed"
        )

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


def _in_spark(spark: SparkSession, table: str, rows: ToWrite) -> DataFrame:
    spec = table_spec(table)
    return conform(spark.createDataFrame(rows, struct_type(spec)) if isinstance(rows, pa.Table) else rows, spec)


def _require_stated(table: str, write: str) -> None:
    # Jobs follow the feed of a table that is appended to, and upkeep leaves out one that is written anew.
    if write not in table_spec(table).writes:
        raise InvariantViolation(f"{table} is not written by {write}: see schemas/{table}.yaml")


def _is_occupied(commit: TaggedCommit | None) -> bool:
    return commit is not None and commit.note == OCCUPIED
