"""What `settle`, `resume`, `hold` and `release` would do, from what has landed. No JVM; `--apply` judges anew."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from txmq_lib import names
from txmq_lib.errors import UsageError
from txmq_lib.names import PLAN_BROKERS, PLAN_EXPIRED, PLAN_RESUMED_BEFORE, PLAN_SETTLED_BEFORE
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.standing import Chosen, Limits, Planned, given_up_ids, is_expired, standing


def settle_plan(reader: WarehouseReader, chosen: Chosen, decision: str, limits: Limits) -> list[Planned]:
    """The one row of what would be settled; UsageError where nothing can be, as `--apply` says it."""
    name = ", ".join(chosen.transaction_ids)
    found = standing(reader, chosen, limits)
    if not found:
        raise UsageError(f"no half message of transaction {name} has landed: land the half topic first")
    undecided = [row for row in found if row["verdict"] in names.UNDECIDED]
    if not undecided:
        verdicts = " and ".join(row["verdict"] or "decided" for row in found)
        raise UsageError(f"transaction {name} is {verdicts} already: only an undecided one can be settled")
    if len(undecided) > 1:
        each = "; ".join(_named(row) for row in undecided)
        raise UsageError(f"{len(undecided)} transactions have the id {name}: {each}; choose by --broker or --born")
    (row,) = undecided
    if row["settled_as"] is None:
        return [{**row, "action": decision}]
    if row["settled_as"] == decision:
        return [{**row, "action": PLAN_SETTLED_BEFORE}]
    by = f"{row['settled_by']} ({row['settled_why']})"
    raise UsageError(f"transaction {name} was settled as {row['settled_as']} by {by}; reconcile applies it")


def resume_plan(reader: WarehouseReader, chosen: Chosen, limits: Limits, now: datetime) -> list[Planned]:
    """A row per given-up transaction that is meant: resumed, or why not; UsageError where one by name is none."""
    ids = given_up_ids(reader, chosen)
    plan = []
    for row in standing(reader, Chosen(ids, chosen.groups, chosen.brokers), limits) if ids else []:
        if row["verdict"] in names.GIVEN_UP_IN_A_ROW:
            plan.append({**row, "action": _resume_action(row, limits, now)})
        elif (
            row["verdict"] in names.STILL_ASKED
            and row["is_resumed"]
            and row["transaction_id"] in chosen.transaction_ids
        ):
            plan.append({**row, "action": PLAN_RESUMED_BEFORE})
    if missing := sorted({*chosen.transaction_ids} - {row["transaction_id"] for row in plan}):
        raise UsageError(f"not given up now, so there is nothing to resume: {', '.join(missing)}")
    return plan


def hold_plan(reader: WarehouseReader, chosen: Chosen, decision: str, limits: Limits) -> list[Planned]:
    """A row per named transaction: held or released, or so before; UsageError where nobody asks about one."""
    found = standing(reader, chosen, limits)
    if missing := sorted({*chosen.transaction_ids} - {row["transaction_id"] for row in found}):
        raise UsageError(f"no half message has landed of transaction {', '.join(missing)}: land the half topic first")
    is_hold = decision == names.ACTION_HOLD
    for row in found:
        if row["is_brokers"]:
            raise UsageError(
                f"transaction {row['transaction_id']}: its broker asks about it, and nothing can stop it; txmq"
                " holds what it asks about itself (role engine)"
            )
        if is_hold and (row["is_decided"] or row["verdict"] not in names.STILL_ASKED):
            raise UsageError(
                f"transaction {row['transaction_id']} is {row['verdict'] or 'decided'} already: nobody is asked"
            )
    return [{**row, "action": decision if row["is_held"] != is_hold else names.PLAN_HELD_BEFORE} for row in found]


def _resume_action(row: Mapping[str, Any], limits: Limits, now: datetime) -> str:
    if row["is_brokers"]:
        return PLAN_BROKERS
    return PLAN_EXPIRED if is_expired(row, limits, now) else names.ACTION_RESUME


def _named(row: Mapping[str, Any]) -> str:
    return f"broker {row['broker_name']}, group {row['producer_group']}, born {row['born_timestamp']}, {row['verdict']}"
