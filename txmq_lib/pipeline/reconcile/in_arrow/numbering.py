"""Where many restored messages go, numbered here: rows of a few numbers, sorted in files of this machine.

They are those that rules.effects.restored_destinations gives of frames. Rows go to files of whole queues first, where
they are put in the order of their ends and numbered; then to files by stretches of the log, as message_files.py
looks them up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from txmq_lib.names import COMMIT
from txmq_lib.pipeline.reconcile.in_arrow.message_files import ROWS_IN_A_PART, DestinationFiles
from txmq_lib.spark.arrays import Numbers

Queue = tuple[str, str, int]  # broker, real topic, real queue

# Of whole queues, sorted at once; a queue that has more is left to Spark.
MOST_IN_A_FILE: Final = 4_000_000
SAMPLED: Final = 1000  # one of so many destinations tells where those of the log lie
# The last one tells those apart that a rebuilt broker had at one place.
_ORDER: Final = (
    *("queue", "ts", "commit_or_rollback", "landed_pass", "landing_order"),
    *("commit_log_offset", "half_queue_offset"),
)
_END: Final = np.dtype(
    [
        *(("queue", "i4"), ("ts", "i8"), ("commit_or_rollback", "i4"), ("landed_pass", "i8"), ("landing_order", "i8")),
        *(("commit_log_offset", "i8"), ("half_queue_id", "i4"), ("half_queue_offset", "i8")),
    ]
)
_DESTINATION: Final = np.dtype(
    [
        ("queue", "i4"),
        ("commit_log_offset", "i8"),
        ("half_queue_id", "i4"),
        ("half_queue_offset", "i8"),
        ("queue_offset", "i8"),
    ]
)
_READ: Final = (
    *("broker_name", "real_topic", "real_queue_id", "decision", "is_effective"),
    *(name for name in _END.names or () if name != "queue"),
)


@dataclass(frozen=True)
class NumberedDestinations(DestinationFiles):
    """Rows of `_DESTINATION` in files, ascending by their offset in the commit log."""

    queues: tuple[Queue, ...] = ()

    def between(self, low: int, high: int) -> pa.Table:
        """Those at `low` up to `high`."""
        found = [np.empty(0, _DESTINATION)]
        for path, least, greatest in self.parts:
            if least <= high and low <= greatest:
                part = np.memmap(path, _DESTINATION, "r")
                first, last = np.searchsorted(part[self.offset], (low, high + 1))
                found.append(np.asarray(part[first:last]))
        rows = np.concatenate(found)
        of_queue = pa.array(rows["queue"])
        brokers, topics, queue_ids = zip(*self.queues, strict=True)
        return pa.table(
            {
                "broker_name": pa.array(brokers, pa.string()).take(of_queue),
                "topic": pa.array(topics, pa.string()).take(of_queue),
                "queue_id": pa.array(queue_ids, pa.int32()).take(of_queue),
                "queue_offset": rows["queue_offset"],
                **{name: rows[name] for name in ("commit_log_offset", "half_queue_id", "half_queue_offset")},
            }
        )


def numbered_destinations(
    files: Sequence[str],
    directory: str,
    *,
    row_counts: Mapping[Queue, int],
    starts: Mapping[Queue, int],
    threads: int,
) -> NumberedDestinations | None:
    """Where the messages of the effective commits in `files` of end_outcome go; None where a queue has too many.

    directory   where the destinations lie
    row_counts  how many of them each queue gets; only queues of brokers where txmq decides
    starts      the first free offset of queues; 0 of others
    """
    if max(row_counts.values()) > MOST_IN_A_FILE:
        return None
    queues = tuple(row_counts)
    work = _Work(Path(directory), queues, {queue: number for number, queue in enumerate(queues)}, _Appended())
    firsts = np.array([starts.get(queue, 0) for queue in queues])
    bucket_of = _buckets(list(row_counts.values()))
    count = sum(row_counts.values())
    with ThreadPoolExecutor(threads, thread_name_prefix="number") as pool:
        sampled = np.sort(np.concatenate(list(pool.map(lambda file: work.spread(file, bucket_of), files))))
        parts = -(-count // ROWS_IN_A_PART)
        borders = np.unique(sampled[np.arange(1, parts) * len(sampled) // parts]) if len(sampled) else sampled
        for _ in pool.map(lambda bucket: work.number(bucket, firsts, borders), range(int(bucket_of.max()) + 1)):
            pass
        found = [part for part in pool.map(work.sorted_part, range(len(borders) + 1)) if part is not None]
    return NumberedDestinations("commit_log_offset", tuple(found), queues)


class _Appended:
    """Files of rows that several threads append to."""

    def __init__(self) -> None:
        self._lock = Lock()

    def add(self, path: Path, rows: Numbers) -> None:
        with self._lock, path.open("ab") as file:
            file.write(np.ascontiguousarray(rows).data)


@dataclass(frozen=True)
class _Work:
    directory: Path
    queues: tuple[Queue, ...]
    numbers: Mapping[Queue, int]
    files: _Appended

    def spread(self, file: str, bucket_of: Numbers) -> Numbers:
        """Lay the commits of a file of end_outcome down by queue; a few of their offsets in the commit log."""
        sampled = [np.empty(0, np.int64)]
        with pq.ParquetFile(file) as outcomes:
            for group in range(outcomes.num_row_groups):
                found = outcomes.read_row_group(group, columns=list(_READ), use_threads=False)
                rows = self._ends(found.combine_chunks())
                buckets = bucket_of[rows["queue"]]
                for bucket in np.unique(buckets):
                    self.files.add(self.directory / f"queues-{bucket}", rows[buckets == bucket])
                sampled.append(rows["commit_log_offset"][::SAMPLED].copy())
        return np.concatenate(sampled)

    def _ends(self, outcomes: pa.Table) -> Numbers:
        is_commit = pc.and_(outcomes["is_effective"], pc.equal(outcomes["decision"], COMMIT))
        commits = outcomes.filter(is_commit).combine_chunks()
        if not len(commits):
            return np.empty(0, _END)
        rows = np.empty(len(commits), _END)
        rows["queue"] = self._queues_of(commits)
        for name in _END.names or ():
            if name != "queue":
                rows[name] = commits[name].cast(pa.int64()).to_numpy()
        rows = rows[rows["queue"] >= 0]
        return rows

    def _queues_of(self, commits: pa.Table) -> Numbers:
        """The number of each row's queue; -1 for queues that get none of txmq's messages."""
        brokers, topics = (_encoded(commits[name]) for name in ("broker_name", "real_topic"))
        queue_ids, ids = np.unique(commits["real_queue_id"].to_numpy(), return_inverse=True)
        sizes = (len(brokers[1]), len(topics[1]), len(queue_ids))
        codes, of_row = np.unique(np.ravel_multi_index((brokers[0], topics[0], ids), sizes), return_inverse=True)
        found = [
            self.numbers.get((brokers[1][broker], topics[1][topic], int(queue_ids[queue])), -1)
            for broker, topic, queue in zip(*np.unravel_index(codes, sizes), strict=True)
        ]
        return np.array(found, np.int32)[of_row] if found else np.empty(0, np.int32)

    def number(self, bucket: int, firsts: Numbers, borders: Numbers) -> None:
        """Number the rows of whole queues, and lay them down by stretches of the commit log."""
        path = self.directory / f"queues-{bucket}"
        rows = np.fromfile(path, _END)
        path.unlink()
        rows = rows[np.lexsort([rows[name] for name in reversed(_ORDER)])]
        of_queue, first = np.unique(rows["queue"], return_index=True)
        # A row gets the first free offset of its queue, and one more for each row of the queue before it.
        begin = np.zeros(len(firsts), np.int64)
        begin[of_queue] = firsts[of_queue] - first
        destinations = np.empty(len(rows), _DESTINATION)
        for name in set(_DESTINATION.names or ()) - {"queue_offset"}:
            destinations[name] = rows[name]
        destinations["queue_offset"] = np.arange(len(rows)) + begin[rows["queue"]]
        parts = np.searchsorted(borders, destinations["commit_log_offset"], "right")
        for part in np.unique(parts):
            self.files.add(self.directory / f"destinations-{part}", destinations[parts == part])

    def sorted_part(self, part: int) -> tuple[str, int, int] | None:
        """The destinations of a stretch, sorted, with the least and the greatest; None where it has none."""
        path = self.directory / f"destinations-{part}"
        if not path.exists():
            return None
        destinations = np.fromfile(path, _DESTINATION)
        destinations = destinations[np.argsort(destinations["commit_log_offset"], kind="stable")]
        destinations.tofile(path)
        return str(path), int(destinations["commit_log_offset"][0]), int(destinations["commit_log_offset"][-1])


def _encoded(texts: pa.ChunkedArray) -> tuple[Numbers, list[str]]:
    encoded = texts.combine_chunks().dictionary_encode()
    encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    return encoded.indices.to_numpy(), encoded.dictionary.to_pylist()


def _buckets(rows: Sequence[int]) -> Numbers:
    """In which file each queue is: one after the other, as long as together they are not too many."""
    found, bucket, held = [], 0, 0
    for count in rows:
        if held and held + count > ROWS_IN_A_PART:
            bucket, held = bucket + 1, 0
        found.append(bucket)
        held += count
    return np.array(found)
