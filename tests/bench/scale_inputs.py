"""Places of scale.py that grow by files, queues and brokers: each made, and what reads it."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

sys.path.append(str(Path(__file__).parents[1] / "support"))

from live_cluster import live_cluster
from small_log import SmallLog

from tests.bench import landing
from tests.bench.data import BROKER, NOW, Stream, append
from tests.bench.digest import ResultsDifferError
from tests.bench.past import reconciled
from tests.bench.store_log import write_store
from tests.bench.taken import taken
from tests.bench.views import seconds_of
from tests.bench.warehouses import RESERVED, opened, wall_clock
from tests.support.record_encoder import encode_record, write_log
from txmq_lib.delta.log_entries import LogEntries
from txmq_lib.delta.log_folder import LocalFolder
from txmq_lib.pipeline.land.job import run_land_files, run_land_rocketmq, run_land_store

LINES = 20_000
ROWS_PER_FILE = 100
QUEUES_PER_TOPIC = 100
QUEUE_FILE_BYTES = 300_000 * 20
LOG_FILE_BYTES = 64 << 20
TRANSACTIONS = 66  # half, message and op of each: 198 messages, and two of no transaction
STATISTICS = {
    "broker_name": BROKER,
    "queue_offset": 1,
    "commit_log_offset": 512,
    "born_timestamp": "2026-11-21T12:00:00.000Z",
}

Taken = dict[str, float]


def nothing(path: str, size: int) -> None:
    """A place that needs but empty tables."""


def lines(path: str, size: int) -> None:
    """LINES halves as JSON lines in so many files."""
    warehouse, _ = opened(Path(path, "w"))
    landing.write_lines(warehouse.spark, 0, LINES, Path(path, "lines"), files=size)


def land_lines(path: str, size: int) -> Taken:
    """Their landing."""
    warehouse, settings = opened(Path(path, "w"))
    with taken() as found:
        report = run_land_files(
            warehouse,
            settings,
            kind="half",
            paths=[f"{path}/lines"],
            broker_name=BROKER,
            now=NOW,
            wall_clock=wall_clock,
        )
    _require(report.counts["half"], LINES)
    return found


def store(path: str, size: int) -> None:
    """The store of a broker with so many records."""
    write_store(Path(path, "store"), size, file_bytes=1 << 30)


def store_of_queues(path: str, size: int) -> None:
    """A store of so many consume queues, each with a file of a broker's length, and a record in each."""
    place, log = Path(path, "store"), bytearray()
    for number in range(size):
        topic, queue_id = f"orders-{number // QUEUES_PER_TOPIC}", number % QUEUES_PER_TOPIC
        record = encode_record(len(log), topic=topic.encode(), queue_id=queue_id)
        queue = place / "consumequeue" / topic / str(queue_id)
        queue.mkdir(parents=True)
        with (queue / f"{0:020d}").open("wb") as file:
            file.write(struct.pack(">qiq", len(log), len(record), 0))
            file.truncate(QUEUE_FILE_BYTES)
        log += record
    write_log(place, [bytes(log)], file_size=LOG_FILE_BYTES)


def land_store(path: str, size: int) -> Taken:
    """The landing of all its records."""
    warehouse, settings = opened(Path(path, "w"), RESERVED, "role=audit")
    with taken() as found:
        report = run_land_store(
            warehouse, settings, path=f"{path}/store", broker_name=BROKER, now=NOW, wall_clock=wall_clock
        )
    _require(sum(report.counts.get(kind, 0) for kind in ("half", "op", "message")), size)
    return found


@contextmanager
def live_brokers(size: int) -> Iterator[dict[str, Any]]:
    """So many brokers, served by this process."""

    def log() -> SmallLog:
        made = SmallLog()
        for number in range(TRANSACTIONS):
            half = made.half(f"{number:032X}")
            made.commit(half)
            made.op(half)
        made.plain()
        made.plain()
        return made

    with live_cluster({f"broker-{number}": log().queues() for number in range(size)}) as cluster:
        yield {"address": cluster.address}


def land_brokers(path: str, size: int, address: str) -> Taken:
    """The landing of all they have."""
    warehouse, settings = opened(Path(path, "w"), RESERVED, "role=audit")
    with taken() as found:
        report = run_land_rocketmq(
            warehouse, settings, name_servers=[address], now=NOW, wall_clock=wall_clock, environ={}
        )
    _require(sum(report.counts.get(kind, 0) for kind in ("half", "op", "message")), size * (3 * TRANSACTIONS + 2))
    return found


def table_log(path: str, size: int) -> None:
    """The log of a table: a checkpoint that names so many files, of which none is there."""
    table = Path(path, "w", "half_message")
    entries = table / "_delta_log"
    statistics = json.dumps(
        {"numRecords": 1, "minValues": STATISTICS, "maxValues": STATISTICS, "nullCount": dict.fromkeys(STATISTICS, 0)}
    )
    version = DeltaTable(table).version() + 1
    with (entries / f"{version:020d}.json").open("w", encoding="ascii") as entry:
        for number in range(size):
            file = {
                "path": f"part-{number:05}-{number * 7919:032x}.snappy.parquet",
                "partitionValues": {},
                "size": 1 << 20,
            }
            add = {**file, "modificationTime": 0, "dataChange": True, "stats": statistics}
            entry.write(json.dumps({"add": add}) + "\n")
    DeltaTable(table).create_checkpoint()


def look_first(path: str, size: int) -> Taken:
    """A first look at the table: its version and its files."""
    with taken() as found:
        entries = LogEntries(LocalFolder(str(Path(path, "w", "half_message"))))
        newest = entries.newest()
        files = entries.plain_files(newest, newest)
    _require(len(files or ()), size)
    return found


def message_files(path: str, size: int) -> None:
    """Messages in so many files of a few rows."""
    warehouse, _ = opened(Path(path, "w"))
    append(warehouse, "message", reconciled(warehouse.spark, Stream(), 0, size * ROWS_PER_FILE, size)["message"])


def view(path: str, size: int) -> Taken:
    """The command that shows the newest of a topic, which all files have."""
    seconds, processor = seconds_of(Path(path, "w"), "messages --topic orders-3")
    return {"seconds": seconds, "processor": processor}


def _require(found: int, expected: int) -> None:
    if found != expected:
        raise ResultsDifferError(f"{expected} should be there, found {found}")
