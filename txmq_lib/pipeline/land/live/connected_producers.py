"""Which producer groups had clients connected to a live broker as it landed, kept where that changed (R130)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from txmq_lib.delta.conform import rows_at_hand
from txmq_lib.names import EVERY_GROUP
from txmq_lib.passes.current import Pass

TABLE = STEP = "connected_producer"
MOST_NAMED = 10
# What a row says of its group.
SAID = ("clients", "client_ids")


class Connected(NamedTuple):
    """Who was connected to one broker.

    producers       group -> ids of its connected clients
    is_every_group  a group that is not among them has none; else nobody asked about it
    """

    producers: Mapping[str, Sequence[str]]
    is_every_group: bool


def land(current: Pass, of_brokers: Mapping[str, Connected]) -> None:
    """Keep the clients of each group where they are not what they were, and that their broker was asked."""
    rows = [row for name, connected in of_brokers.items() for row in _changed(current, name, connected)]
    if rows:
        current.upsert(TABLE, rows_at_hand(TABLE, rows), step=STEP)
        del current.counts[STEP]  # of what landed it tells nothing


def _changed(current: Pass, broker_name: str, connected: Connected) -> list[dict[str, Any]]:
    (producers, is_every_group), now = connected, current.now
    known = {
        row["producer_group"]: row
        for row in current.warehouse.materialized_rows(TABLE)
        if row["broker_name"] == broker_name
    }
    asked_about = {*known, *producers} if is_every_group else {*producers}
    found = {group: _said(producers.get(group, ())) for group in asked_about - {EVERY_GROUP}}
    changed = {
        group: said
        for group, said in found.items()
        if group not in known or any(known[group][name] != said[name] for name in SAID)
    }
    every = known.get(EVERY_GROUP)
    interval = timedelta(milliseconds=current.settings.for_broker(broker_name).transaction_check_interval_ms)
    # Each landing of a busy broker would write else.
    if not changed and not is_every_group:
        return []
    if (
        not changed
        and every is not None
        and now.timestamp() - every["since_timestamp"].timestamp() < interval.total_seconds()
    ):
        return []
    if is_every_group:
        changed[EVERY_GROUP] = {"clients": sum(len(ids) for ids in producers.values()), "client_ids": None}
    common = {"broker_name": broker_name, "since_timestamp": now, "pass_number": current.number}
    return [{**common, "producer_group": group, **said} for group, said in changed.items()]


def _said(ids: Sequence[str]) -> dict[str, Any]:
    return {"clients": len(ids), "client_ids": ", ".join(sorted(ids)[:MOST_NAMED]) or None}
