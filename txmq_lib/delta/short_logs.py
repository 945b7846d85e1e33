"""Checkpoints of tables beside those that Spark makes: whoever opens a table reads what lies behind its newest one."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from txmq_lib.delta.durable import sync_commits
from txmq_lib.delta.log_entries import on_disk
from txmq_lib.delta.small_writes import CHECKPOINT_EVERY, open_table
from txmq_lib.delta.warehouse import Warehouse

_LOGGER = logging.getLogger("txmq")


def shorten_longest_log(warehouse: Warehouse, tables: Iterable[str]) -> None:
    """`shorten_log` of that table whose newest checkpoint lies furthest behind; where that fails, of the next one.

    One alone: for a checkpoint deltalake asks a store some thirty times, and a pass is not to wait for many.
    """
    ours = [table for table in tables if warehouse.small_path(table) is not None]
    for table in sorted(ours, key=warehouse.entries_behind_checkpoint, reverse=True):
        try:
            if shorten_log(warehouse, table):
                return
        except Exception as error:
            # Without it all is as right as with it, and slower.
            _LOGGER.warning("no checkpoint of %s was made, a later pass tries again: %s", table, error)


def shorten_log(warehouse: Warehouse, table: str) -> bool:
    """Make a checkpoint where the newest lies `CHECKPOINT_EVERY` entries behind; whether it was made.

    Of tables that only Spark can write Spark makes them.
    """
    path = warehouse.small_path(table)
    if path is None or warehouse.entries_behind_checkpoint(table) < CHECKPOINT_EVERY:
        return False
    if warehouse.entries_behind_checkpoint(table, looks=True) < CHECKPOINT_EVERY:  # another process has made one
        return False
    opened = open_table(path)
    opened.create_checkpoint()
    if (place := on_disk(path)) is not None:
        # It is on the disk before entries that it tells of may go.
        sync_commits(place, opened.version() - 1, opened.version())
    warehouse.entries_behind_checkpoint(table, looks=True)
    return True
