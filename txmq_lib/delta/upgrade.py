"""Tables of an earlier version made those of this one: missing tables are made, new columns added as null. No JVM."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from deltalake import DeltaTable, Schema
from deltalake.exceptions import TableNotFoundError

from txmq_lib.config.table_specs import RUN_TABLE, TableSpec, table_spec, table_specs
from txmq_lib.delta.small_writes import create_table, table_properties
from txmq_lib.errors import SchemaError, TableMissingError
from txmq_lib.files.object_stores import storage_options

MAKE, ADD, KEEP, REFUSE = "make", "add columns", "as it is", "cannot be upgraded"


@dataclass(frozen=True)
class TableUpgrade:
    """What becomes of one table: `what` in words, and the columns it is about."""

    table: str
    what: str
    columns: tuple[str, ...] = ()


def planned_upgrade(warehouse: str) -> list[TableUpgrade]:
    """What an upgrade would do now, a row per table. TableMissingError where there is no warehouse."""
    specs = [*table_specs().values(), table_spec(RUN_TABLE)]
    plan = [_planned(warehouse, spec) for spec in specs]
    if all(each.what == MAKE for each in plan if each.table != RUN_TABLE):
        raise TableMissingError(f"no tables in {warehouse}: name the warehouse by --conf or --warehouse")
    return plan


def upgrade(warehouse: str, plan: Sequence[TableUpgrade]) -> None:
    """Carry a plan out. SchemaError, and nothing is written, where a table of it cannot be upgraded.

    Each step stands by itself: one that is killed is carried on by planning again.
    """
    if refused := [each for each in plan if each.what == REFUSE]:
        listed = "\n".join(f"  - {each.table}: {', '.join(each.columns)}" for each in refused)
        raise SchemaError(f"columns that no version of txmq has written so; nothing was written:\n{listed}")
    # The pass log last: where it is, all are.
    for each in sorted(plan, key=lambda step: step.table == "pass"):
        spec, path = table_spec(each.table), _path(warehouse, each.table)
        if each.what == MAKE:
            create_table(path, spec, table_properties(spec))
        elif each.what == ADD:
            fields = {field.name: field for field in Schema.from_json(json.dumps(spec.to_json())).fields}
            DeltaTable(path, storage_options=storage_options(path)).alter.add_columns(
                [fields[name] for name in each.columns]
            )


def _planned(warehouse: str, spec: TableSpec) -> TableUpgrade:
    path = _path(warehouse, spec.table)
    try:
        stored = str(DeltaTable(path, storage_options=storage_options(path)).schema().to_json())
    except TableNotFoundError:
        return TableUpgrade(spec.table, MAKE)
    found = spec.differences(stored)
    if not found.can_be_added:
        wrong = (*found.unexpected, *found.mistyped, *found.required)
        return TableUpgrade(spec.table, REFUSE, tuple(dict.fromkeys(wrong)))
    return TableUpgrade(spec.table, ADD, found.missing) if found.missing else TableUpgrade(spec.table, KEEP)


def _path(warehouse: str, table: str) -> str:
    return f"{warehouse.rstrip('/')}/{table}"
