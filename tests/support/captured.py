"""The stores of the captures unpacked, and their message rows in the words of the store reader."""

from __future__ import annotations

import base64
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from truth import CAPTURES

CAPTURE_NAMES = ("basic", "consumer")
MESSAGE_KINDS = ("half", "op", "visible", "max_time")
ADDED_ON_READING = ("MIN_OFFSET", "MAX_OFFSET")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def unpack_store(capture: str, into: Path) -> Path:
    """The capture's store directory, sparse as the broker left it."""
    with tarfile.open(CAPTURES / capture / "store.tar.xz") as archive:
        archive.extractall(into, filter="data")
    return into / "store"


def as_stored(row: dict[str, Any]) -> dict[str, Any]:
    """What the store reader must give for a message row of a jsonl file."""
    return {
        "topic": row["topic"],
        "queue_id": row["queueId"],
        "queue_offset": row["queueOffset"],
        "commit_log_offset": row["commitLogOffset"],
        "sys_flag": row["sysFlag"],
        "flag": row["flag"],
        "born_timestamp": EPOCH + timedelta(milliseconds=row["bornTimestamp"]),
        "store_timestamp": EPOCH + timedelta(milliseconds=row["storeTimestamp"]),
        "born_host": row["bornHost"],
        "store_host": row["storeHost"],
        "offset_msg_id": row["offsetMsgId"],
        "reconsume_times": row["reconsumeTimes"],
        "prepared_transaction_offset": row["preparedTransactionOffset"],
        "properties": {name: value for name, value in row["properties"].items() if name not in ADDED_ON_READING},
        "body": base64.b64decode(row["bodyBase64"]),
        "reason": None,
        "raw": None,
        "position": row["commitLogOffset"],
    }
