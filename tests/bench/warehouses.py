"""Warehouses for benchmarks: opened as a command opens one, copied by links, read by file list."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from deltalake import DeltaTable

from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.spark.session import build_session

RESERVED = "file_reserved_time=240h"  # nothing expires while a benchmark looks at old halves


def wall_clock() -> datetime:
    """The time of day, for the pass log."""
    return datetime.now(UTC)


def opened(path: str | Path, *assignments: str) -> tuple[Warehouse, Settings]:
    """The warehouse at `path` on txmq's own session with default settings."""
    settings = Settings.load(assignments=list(assignments), warehouse=str(path))
    return Warehouse(build_session("txmq bench", settings), str(path)), settings


def create(path: str) -> None:
    """Make all tables at `path`."""
    opened(path)[0].create_missing()


def copied(origin: Path, target: Path) -> Path:
    """A copy of a warehouse that shares its data files: Delta never writes one twice."""
    return Path(shutil.copytree(origin, target, copy_function=_link_data))


def _link_data(source: str, target: str) -> None:
    if source.endswith(".parquet"):
        os.link(source, target)
    else:
        shutil.copy2(source, target)


def data_files(table: Path) -> list[str]:
    """The data files of a Delta table's newest version, or the Parquet files of a plain directory."""
    if (table / "_delta_log").is_dir():
        return [uri.removeprefix("file://") for uri in DeltaTable(str(table)).file_uris()]
    return sorted(str(file) for file in table.glob("*.parquet"))


@contextmanager
def timed(steps: dict[str, float], name: str) -> Iterator[None]:
    """Wall seconds of a block, into `steps`."""
    begun = time.monotonic()
    yield
    steps[name] = round(time.monotonic() - begun, 3)
