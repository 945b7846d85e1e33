"""Checkpoints of tables beside those that Spark makes: whoever opens a table reads what lies behind its newest one."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from deltalake.exceptions import DeltaError

from txmq_lib.delta.durable import sync_commits
from txmq_lib.delta.log_entries import on_disk
from txmq_lib.delta.small_writes import CHECKPOINT_EVERY, open_table
from txmq_lib.delta.warehouse import Warehouse

_LOGGER = logging.getLogger("txmq")


def shorten_longest_log(warehouse: Warehouse, tables: Iterable[str]) -> None:
    """`shorten_log` of that table whose newest checkpoint lies furthest behind; what prevents it is a warning.

    One alone: for a checkpoint deltalake asks a store some thirty times, and a pass is not to wait for many.
    """
    table = max(tables, key=warehouse.entries_behind_checkpoint)
    try:
        shorten_log(warehouse, table)
    except (DeltaError, OSError) as error:
        _LOGGER.warning("no checkpoint of %s was made, a later pass tries again: %s", table, error)


def shorten_log(warehouse: Warehouse, table: str) -> None:
    """Make a checkpoint where the newest lies `CHECKPOINT_EVERY` entries behind. Spark does so by itself."""
    path = warehouse.small_path(table)
    if path is None or warehouse.entries_behind_checkpoint(table) < CHECKPOINT_EVERY:
        return
    if warehouse.entries_behind_checkpoint(table, looks=True) < CHECKPOINT_EVERY:  # another process has made one
        return
    opened = open_table(path)
    opened.create_checkpoint()
    warehouse.entries_behind_checkpoint(table, looks=True)
    if (place := on_disk(path)) is not None:
        # It is on the disk before entries that it tells of may go.
        sync_commits(place, opened.version() - 1, opened.version())
