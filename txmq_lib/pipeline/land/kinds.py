"""What a landing may be of: a store, a live broker, or files of one kind; and the table of each kind of file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STORE, ROCKETMQ = "store", "rocketmq"
# What consumers tell: it says the same whoever decides, and is rolled up beside all else.
OFFSET_KINDS = ("offset", "ack")
MESSAGE_TABLES = {
    "half": "half_message",
    "op": "op_message",
    "message": "message",
    "max-time": "trans_check_max_time",
    "trace": "end_trace",
}
EVENT_TABLES = {"end": "end_transaction", "offset": "consumer_offset_commit", "ack": "consumer_ack"}


def broker_names(arguments: Mapping[str, Any]) -> list[str]:
    """The brokers that a plan lands: the live ones it lists, else the one it names, as older plans of live ones do."""
    plans = arguments.get("brokers", [arguments])
    return [plan["broker_name"] for plan in plans]
