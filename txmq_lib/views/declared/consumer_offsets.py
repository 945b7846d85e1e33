"""The view of consumer offsets."""

from __future__ import annotations

from txmq_lib import names
from txmq_lib.config.table_specs import Field
from txmq_lib.views.declared.filters import BROKER
from txmq_lib.views.view import View

OFFSETS = View(
    command="offsets",
    doc="Next offset, lag and state of every consumer queue, and what its group does with it over the last window.",
    table="consumer_offset",
    narrow=(
        "consumer_group",
        "topic",
        "queue_id",
        "next_offset",
        "lag",
        "lag_ms",
        "lag_state",
        "state",
        "highest_offset",
        "rewind_count",
        "redelivery_count",
        "updated_timestamp",
        "broker_name",
    ),
    order=("broker_name", "consumer_group", "topic", "queue_id"),
    time="updated_timestamp",
    filters={
        **BROKER,
        "group": ("consumer_group",),
        "topic": ("topic",),
        "state": ("state",),
        "lag-state": ("lag_state",),
    },
    states=(names.OFFSET_OK, names.OFFSET_BEYOND_END, names.OFFSET_BELOW_OLDEST, names.OFFSET_UNKNOWN),
    needs=(
        "broker_name",
        "consumer_group",
        "topic",
        "queue_id",
        "next_offset",
        "updated_timestamp",
        "last_report_timestamp",
        "rewind_count",
        "rewinds",
    ),
    is_lag_judged=True,
    extra=(
        Field("highest_offset", "long", True, "offset after the last message known in the queue; null: not known"),
        Field("lowest_kept_offset", "long", True, "lowest offset still kept at the source; null: not known"),
        Field("lag", "long", True, "messages not consumed yet, never negative; null: highest not known"),
        Field("state", "string", False, "ok, beyond_end, below_oldest or unknown"),
        Field("lag_ms", "long", True, "how long the next message has been stored; null: it has not landed"),
        Field("lag_state", "string", False, "fine, falling_behind, stalled, stopped, rewound, ... (views/lag.py)"),
        Field("judged_timestamp", "timestamp", True, "lag_ms and lag_state are as of this: the newest thing landed"),
        Field("is_broadcast", "boolean", False, "true where the broker keeps the group's offsets as a broadcast one's"),
    ),
)
