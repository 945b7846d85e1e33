"""Tells what upkeep is about to do. Only command bodies import it: it needs rich."""

from __future__ import annotations

from collections.abc import Sequence

from txmq_lib.cli.output.tables import write_table
from txmq_lib.pipeline.upkeep_plan import TableUpkeep

COLUMNS = (
    "table",
    "files",
    "mib",
    "small_files",
    "compact_files",
    "compact_mib",
    "remove_files",
    "remove_mib",
    "remark",
)


def tell_upkeep(planned: Sequence[TableUpkeep]) -> None:
    """One line per table on stdout: what is there and what will be done."""
    write_table(COLUMNS, [_cells(table) for table in planned])


def _cells(table: TableUpkeep) -> tuple[object, ...]:
    return (
        table.table,
        table.files,
        _mib(table.bytes),
        table.small_files,
        table.compacted_files,
        _mib(table.compacted_bytes),
        table.expired_files,
        _mib(table.expired_bytes),
        table.remark,
    )


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f}"
