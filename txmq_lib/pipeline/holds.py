"""What `hold` and `release` mean to do: nobody is asked about a held transaction, and it is not given up."""

from __future__ import annotations

from typing import Any

from txmq_lib.errors import UsageError
from txmq_lib.names import ACTION_HOLD, ACTION_RELEASE, PLAN_HELD_BEFORE, STILL_ASKED, TRANSACTION_KEY
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.shared.standing import collected, requested_rows, standing_now
from txmq_lib.rules.decisions import held
from txmq_lib.rules.transaction_key import transactions_of

HOLDING = (ACTION_HOLD, ACTION_RELEASE)


def hold_plan(current: Pass) -> list[dict[str, Any]]:
    """One row per transaction that the arguments name, with `action`: hold, release, or that it was done before.

    UsageError for one of which no half has landed, that is decided or given up, or that its broker asks about.
    """
    decision = current.arguments["decision"]
    found = collected(standing_now(current, transactions_of(requested_rows(current, "half_message"))))
    if missing := sorted({*current.arguments["transaction_ids"]} - {row["transaction_id"] for row in found}):
        raise UsageError(f"no half message has landed of transaction {', '.join(missing)}: land the half topic first")
    for row in found:
        if row["is_brokers"]:
            raise UsageError(
                f"transaction {row['transaction_id']}: its broker asks about it, and nothing can stop it; txmq"
                " holds what it asks about itself (role engine)"
            )
        if decision == ACTION_HOLD and row["verdict"] not in STILL_ASKED:
            raise UsageError(f"transaction {row['transaction_id']} is {row['verdict']} already: nobody is asked")
    held_ones = {_key(row) for row in held(current.read("manual_decision")).toArrow().to_pylist()}
    is_hold = decision == ACTION_HOLD
    return [{**row, "action": decision if (_key(row) in held_ones) != is_hold else PLAN_HELD_BEFORE} for row in found]


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in TRANSACTION_KEY)
