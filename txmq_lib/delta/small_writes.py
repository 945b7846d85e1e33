"""Writes of a small pass by deltalake, a hundredth of the time Spark takes for a commit: here, or on an object store.

The protocol is that of Delta: a commit carries the transaction number of its step, and loses against another one that
carries it too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock

import pyarrow as pa
from deltalake import (
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    Schema,
    Transaction,
    write_deltalake,
)
from deltalake.exceptions import DeltaError

from txmq_lib.config.table_specs import TableSpec
from txmq_lib.files.object_stores import storage_options

# deltalake takes a table's path for the host of a URL in one place, and panics at these (1.6.6, logstore/mod.rs).
_IN_NO_HOST = re.compile(r"[\[\]^|\\\x00-\x1f\x7f]")


def can_write(path: str) -> bool:
    """Whether deltalake can write a table that lies at `path`; else Spark has to."""
    return not _IN_NO_HOST.search(path)


# Beyond so many log entries behind its last one a table is due a checkpoint. Each costs as much as the table has files.
CHECKPOINT_EVERY = 10
# Else one pass would wait for many checkpoints (short_logs.py), and each commit would list the log.
HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
# Tables on object stores, brought up to date by their newest entries only.
_OPEN: dict[str, DeltaTable] = {}
# Whose a table is while one thread looks at it and writes: had another brought it up to date in between, what a third
# process has landed since the look would be no conflict.
_OWNED: dict[str, RLock] = {}


def table_properties(spec: TableSpec) -> dict[str, str]:
    """The properties a table is made with: the views use deltalake, which refuses deletion vectors as a dataset."""
    properties = {
        "delta.enableDeletionVectors": "false",
        "delta.checkpointInterval": str(CHECKPOINT_EVERY),
        "delta.dataSkippingStatsColumns": ",".join(spec.skipping_columns),
    }
    return properties | ({"delta.enableChangeDataFeed": "true"} if spec.has_feed else {})


def open_table(path: str) -> DeltaTable:
    """The table as it is now; where another thread writes it, once that has."""
    options = storage_options(path)
    if options is None:
        return DeltaTable(path)
    with _lock(path):
        if path in _OPEN:
            _OPEN[path].update_incremental()
        else:
            _OPEN[path] = DeltaTable(path, storage_options=options)
        return _OPEN[path]


def _lock(path: str) -> RLock:
    return _OWNED.setdefault(path, RLock())


@contextmanager
def _own_table(path: str) -> Iterator[DeltaTable]:
    """The table as it is now, to look at and to write: `open_table` of another thread waits."""
    with _lock(path):
        yield open_table(path)


def create_table(path: str, spec: TableSpec, properties: Mapping[str, str]) -> None:
    """Create an empty table, unless it is there already."""
    schema = Schema.from_json(json.dumps(spec.to_json()))
    try:
        DeltaTable.create(
            path,
            schema,
            mode="ignore",
            partition_by=list(spec.partition_by),
            description=spec.doc,
            configuration=dict(properties),
            storage_options=storage_options(path),
        )
    except DeltaError:
        if not DeltaTable.is_deltatable(path, storage_options(path)):  # else somebody else has just created it
            raise


def with_own_arrays(rows: pa.Table) -> pa.Table:
    """The same rows in arrays of their own: Spark leaves out the offsets of nested arrays that are empty, and deltalake
    reads them all the same."""
    return rows.take(pa.array(range(rows.num_rows), pa.int64())) if rows.num_rows else rows.schema.empty_table()


@dataclass(frozen=True)
class SmallWrite:
    """What the commit of one write carries: whose step it is, the number of its pass, and its tag.

    highest  the highest number of this step that has landed by now; without it deltalake reads the log for that
    """

    app_id: str
    number: int
    tag: str
    highest: Callable[[], int] | None = None

    def append(self, path: str, rows: pa.Table) -> bool:
        """Append rows, once; whether they were not there. CommitFailedError where somebody else did it meanwhile."""
        with _own_table(path) as table:
            is_new = not self._has_landed(table)
            if is_new:
                write_deltalake(
                    table,
                    rows,
                    mode="append",
                    commit_properties=self._properties(),
                    post_commithook_properties=HOOKS,
                )
        return is_new

    def overwrite(self, path: str, rows: pa.Table, *, where: str | None) -> None:
        """Put rows in the place of all there are (of those that satisfy `where`), once."""
        with _own_table(path) as table:
            if not self._has_landed(table):
                write_deltalake(
                    table,
                    rows,
                    mode="overwrite",
                    predicate=where,
                    commit_properties=self._properties(),
                    post_commithook_properties=HOOKS,
                )

    def upsert(self, path: str, rows: pa.Table, *, key: Sequence[str], only_if: str | None) -> None:
        """MERGE rows (s) into the table (t) on its key, once; `only_if` lets a match be updated."""
        on = " and ".join(f"(t.{name} is not distinct from s.{name})" for name in key)
        with _own_table(path) as table:
            if self._has_landed(table):
                return
            merge = table.merge(
                rows,
                predicate=on,
                source_alias="s",
                target_alias="t",
                commit_properties=self._properties(),
                post_commithook_properties=HOOKS,
            )
            merge.when_matched_update_all(only_if).when_not_matched_insert_all().execute()

    def _has_landed(self, table: DeltaTable) -> bool:
        # Asked behind the look at the table: what lands in between is a conflict.
        highest = self.highest() if self.highest is not None else table.transaction_version(self.app_id)
        return (highest or 0) >= self.number

    def _properties(self) -> CommitProperties:
        return CommitProperties(
            custom_metadata={"userMetadata": self.tag},
            app_transactions=[Transaction(app_id=self.app_id, version=self.number)],
        )
