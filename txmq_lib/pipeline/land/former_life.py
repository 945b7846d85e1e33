"""What was read of a broker that is found to have been made anew, audited before more of it lands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.names import ROLE_AUDIT, TRANSACTION_TOPICS
from txmq_lib.pipeline.audit import run_audit


def audited_before(
    planned: Mapping[str, Any],
    warehouse: Warehouse,
    settings: Settings,
    *,
    now: datetime,
    wall_clock: Callable[[], datetime],
) -> Mapping[str, Any]:
    """`planned`, the arguments of a landing. Where they say that its broker begins another life, audit first.

    What is read of that one proves nothing of halves from before (rules.frontier.of_another_life). So whether their
    rollbacks are proved would depend on whether an audit happened to run in between.
    """
    if begins_another_life(planned) and settings.for_broker(planned["broker_name"]).role == ROLE_AUDIT:
        run_audit(warehouse, settings, now=now, wall_clock=wall_clock)
    return planned


def begins_another_life(planned: Mapping[str, Any]) -> bool:
    """Whether the plan of a store, or of a live broker, found that another broker wrote what was read before."""
    # Nobody deletes these topics: their broker was made anew. Plans of an older version do not say.
    return bool(planned.get("is_rebuilt")) or any(topic in TRANSACTION_TOPICS for topic, _ in planned.get("anew", ()))
