"""Filters that views share."""

from __future__ import annotations

BROKER = {"broker": ("broker_name",)}
TRANSACTION = {
    **BROKER,
    "group": ("producer_group",),
    "topic": ("real_topic",),
    "transaction-id": ("transaction_id",),
}
