"""Files that tasks have written become rows of their tables: where they may lie, and the commits that name them."""

from __future__ import annotations

from collections.abc import Sequence

from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.land.kinds import MESSAGE_TABLES
from txmq_lib.pipeline.land.records.record_files import Written

# Each makes a file per table, and costs a quarter of a second besides what it reads, most of it Python's collection of
# garbage behind it.
TASKS_PER_CORE = 1


def tasks(warehouse: Warehouse) -> int:
    """How many tasks share what is to be read, where it is enough for so many."""
    return TASKS_PER_CORE * warehouse.spark.sparkContext.defaultParallelism


def can_write(warehouse: Warehouse) -> bool:
    """Whether tasks can write files of all tables that records land in."""
    return len(paths(warehouse)) == len(MESSAGE_TABLES)


def paths(warehouse: Warehouse) -> dict[str, str]:
    """Where tasks can write files of tables that records land in."""
    found = {table: warehouse.local_path(table) for table in MESSAGE_TABLES.values()}
    return {table: path for table, path in found.items() if path is not None}


def append_files(current: Pass, written: Sequence[Written]) -> None:
    """Commit what tasks have written, one commit per table."""
    current.counts.setdefault("already_there", 0)
    for kind, table in MESSAGE_TABLES.items():
        files = [file for each in written for file in each.files.get(table, ())]
        if files:
            current.append_files(table, files, step=kind)
