"""What a landing found out of how its broker is set up, kept where it differs from what was known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import Row

from txmq_lib.config.sections import BrokerPolicy
from txmq_lib.delta.conform import rows_at_hand
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.land.broker_state.broker_settings import limit_differences

TABLE = STEP = "broker_set_up"
LONGEST_WORD = 64  # of what a broker says of itself
FOUND = ("kind", "source", "version", "store_type", "broker_role", "set_ups", "differences", "booted_ms")


def found(
    kind: str,
    source: str,
    config: Mapping[str, str],
    set_ups: Iterable[str],
    policy: BrokerPolicy,
    version: str | None = None,
    booted_ms: int | None = None,
) -> dict[str, Any]:
    """What a plan keeps of a broker's set-up; `config` is its own settings, empty where nobody told them."""
    return {
        "kind": kind,
        "source": source,
        "version": version,
        "store_type": _word(config.get("storeType")),
        "broker_role": _word(config.get("brokerRole")),
        "set_ups": ", ".join(sorted(set(set_ups))),
        "differences": "; ".join(limit_differences(config, policy)),
        "booted_ms": booted_ms,
    }


def _word(said: str | None) -> str | None:
    return None if said is None else said[:LONGEST_WORD]


def land(current: Pass, plans: Iterable[Mapping[str, Any]]) -> None:
    """Keep what plans found out of their brokers, where it is not known yet."""
    if TABLE not in current.input_versions:
        return  # planned by an older version
    known = {row["broker_name"]: row for row in current.warehouse.materialized_rows(TABLE)}
    common = {"recorded_timestamp": current.now, "pass_number": current.number}
    rows = [
        {"broker_name": plan["broker_name"], **plan[TABLE], **common}
        for plan in plans
        if plan.get(TABLE) is not None and not _is_known(known.get(plan["broker_name"]), plan[TABLE])
    ]
    if rows:
        current.upsert(TABLE, rows_at_hand(TABLE, rows), step=STEP)
        del current.counts[STEP]  # of what landed it tells nothing


def _is_known(row: Row | None, set_up: Mapping[str, Any]) -> bool:
    return row is not None and all(row[name] == set_up.get(name) for name in FOUND)  # older plans have less
