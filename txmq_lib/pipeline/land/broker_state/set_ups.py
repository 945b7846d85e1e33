"""What a landing found out of how its broker is set up, kept where it differs from what was known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from txmq_lib.config.sections import BrokerPolicy
from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.conform import struct_type
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.land.broker_state.broker_settings import limit_differences
from txmq_lib.spark.local_frame import local_frame

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


def land(current: Pass) -> None:
    """Keep what the plan found out, where it is not known yet."""
    set_up = current.arguments.get(TABLE)
    if set_up is None or TABLE not in current.input_versions:
        return  # planned by an older version
    broker_name = current.arguments["broker_name"]
    known = [row for row in current.warehouse.materialized_rows(TABLE) if row["broker_name"] == broker_name]
    if any(all(row[name] == set_up.get(name) for name in FOUND) for row in known):  # older plans have less
        return
    row = {"broker_name": broker_name, **set_up, "recorded_timestamp": current.now, "pass_number": current.number}
    frame = local_frame(current.warehouse.spark, [row], struct_type(table_spec(TABLE)))
    current.upsert(TABLE, frame, step=STEP, count=1)
    del current.counts[STEP]  # of what landed it tells nothing
