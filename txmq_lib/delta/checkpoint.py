"""A checkpoint of a table's Delta log: what all entries up to its version come to. Reads the classic, single file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import pyarrow.parquet as pq

from txmq_lib.delta.log_actions import DataFile, Metadata, file_of, metadata_of

LAST_CHECKPOINT = "_last_checkpoint"
# What is read of one: statistics of columns may be most of it.
_COLUMNS = ("txn", "add", "metaData")


@dataclass(frozen=True)
class Checkpoint:
    """A table as it was at a version: transaction numbers by app id, files by path, metadata."""

    version: int
    txns: Mapping[str, int]
    files: Mapping[str, DataFile]
    metadata: Metadata


def named_version(last_checkpoint: bytes | None) -> int:
    """The version that the file _last_checkpoint names; -1 where it names none, or one of several files."""
    try:
        named = json.loads(last_checkpoint or b"{}")
        return -1 if named.get("parts") or "v2Checkpoint" in named else int(named.get("version", -1))
    except (ValueError, AttributeError, TypeError):
        return -1  # it is a hint only


def file_name(version: int) -> str:
    """What the checkpoint of a version is called."""
    return f"{version:020d}.checkpoint.parquet"


def checkpoint_of(version: int, content: bytes) -> Checkpoint | None:
    """The checkpoint that `content` holds; None where it is none that is read here."""
    try:
        file = pq.ParquetFile(BytesIO(content))
        rows = file.read([name for name in _COLUMNS if name in file.schema_arrow.names])
    except (OSError, ValueError):
        return None
    actions: dict[str, list[dict[str, Any]]] = {
        name: rows[name].drop_null().to_pylist() for name in _COLUMNS if name in rows.column_names
    }
    if len(actions.get("metaData", ())) != 1:
        return None  # part of one
    files = [file_of(_plain(action)) for action in actions.get("add", ())]
    return Checkpoint(
        version=version,
        txns={action["appId"]: int(action["version"]) for action in actions.get("txn", ())},
        files={file.path: file for file in files},
        metadata=metadata_of(_plain(actions["metaData"][0])),
    )


def _plain(action: Mapping[str, Any]) -> dict[str, Any]:
    """An action as an entry has it: Arrow gives a map as pairs."""
    maps = ("partitionValues", "configuration")
    return {name: dict(value or ()) if name in maps else value for name, value in action.items()}
