"""What a landing may be of: a store, a live broker, or files of one kind; and the table of each kind of file."""

from __future__ import annotations

STORE, ROCKETMQ = "store", "rocketmq"
MESSAGE_TABLES = {
    "half": "half_message",
    "op": "op_message",
    "message": "message",
    "max-time": "trans_check_max_time",
    "trace": "end_trace",
}
EVENT_TABLES = {"end": "end_transaction", "offset": "consumer_offset_commit", "ack": "consumer_ack"}
