"""How a store stands to what was read of its broker's log: the same log, an older copy of it, or another one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial, reduce
from typing import NamedTuple

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.names import DAMAGES, RECORD_TORN, SYS_FLAG_PREPARED, SYS_FLAG_ROLLBACK, SYS_FLAG_TRANSACTION_MASK
from txmq_lib.pipeline.land.topics import is_every_topic, is_landed_topic
from txmq_lib.rocketmq.store.commit_log import (
    LogFile,
    LogFiles,
    RecordIdentity,
    file_at,
    open_log,
    record_at,
    record_end,
    walk,
)
from txmq_lib.rocketmq.store.message_batch import decode_batches
from txmq_lib.rocketmq.store.records import BORN_HOST_END, END, START, TOPIC, TOPIC_END, Records
from txmq_lib.rules.frontier import WHOLE_LOG_TOPIC, WHOLE_QUEUE_ID
from txmq_lib.rules.run_lists import MOST_RUNS

TABLES_OF_RECORDS = ("half_message", "op_message", "message", "trans_check_max_time")
UNSEEN = (SYS_FLAG_PREPARED, SYS_FLAG_ROLLBACK)
LOOKED_AT = 64  # of the records with which an older copy of a store ends


class Standing(NamedTuple):
    """How a store stands to the log that was read before under the same `land.topics`.

    start        from which place on it is to be read
    landed_to    up to where that log was read; 0 where none was, or that of a former life
    last         the record that was read last; null where none was, or one of a former life
    former_logs  what landing_frontier has of a former life of the broker, by the topics that were taken (their names)
    """

    start: int
    landed_to: int
    last: RecordIdentity | None
    former_logs: frozenset[str]


def standing(warehouse: Warehouse, found: LogFiles, broker_name: str, topics: Sequence[str]) -> Standing:
    """How the files of a store stand to the log of which the same topics were taken (patterns of land.topics)."""
    files = found.files
    log = whole_log_topic(topics)
    logs = _logs(warehouse, broker_name)
    others = [known for known in logs.values() if not _shows(files, _last(known))]
    former_logs = frozenset(known["topic"] for known in others if not _is_older_copy(warehouse, files, known))
    if former_logs or log not in logs:
        return Standing(files[0].base_offset, 0, None, former_logs)
    known = logs[log]
    unread = min(_unread_from(warehouse, files, known), _mended_from(warehouse, files, known), known["next_offset"])
    # Files that are missing lie behind what is read anew.
    lowest = max([files[0].base_offset, *(high for _, high in found.gaps if high <= known["next_offset"])])
    return Standing(max(unread, lowest), known["next_offset"], _last(known), former_logs)


def whole_log_topic(topics: Sequence[str]) -> str:
    """The frontier's name for a log of which these topics are read."""
    return WHOLE_LOG_TOPIC if is_every_topic(topics) else f"[{', '.join(sorted(topics))}]"


def _topics_of_log(name: str) -> list[str]:
    """The topics that are read of a log with this name in the frontier."""
    return ["*"] if name == WHOLE_LOG_TOPIC else name[1:-1].split(", ")


def _logs(warehouse: Warehouse, broker_name: str) -> Mapping[str, Row]:
    rows = warehouse.read("landing_frontier").where(
        (F.col("broker_name") == broker_name)
        & (F.col("queue_id") == WHOLE_QUEUE_ID)
        & F.col("source_identity").isNotNull()
    )
    return {row["topic"]: row for row in rows.collect()}


def _last(known: Row) -> RecordIdentity:
    return RecordIdentity(*(int(part) for part in known["source_identity"].split(":")))


def _shows(files: Sequence[LogFile], last: RecordIdentity) -> bool:
    """Whether the record read last is what it was, or retention has removed it: the log goes on behind it."""
    return last.offset < files[0].base_offset or record_at(files, last.offset) == last


def _unread_from(warehouse: Warehouse, files: Sequence[LogFile], known: Row) -> int:
    """The first place that was not read, or the first of all of a copy that ends before what was.

    A bad record leaves a hole in the runs (store_landing), which reading the same again would not fill: of one byte, or
    where bytes are torn up to behind them.
    """
    place = files[0].base_offset
    if not _shows(files, _last(known)):
        return place
    runs = known["runs"] or ()
    if not runs or len(runs) >= MOST_RUNS:  # nobody knows any more
        return place if place < known["lowest_kept_offset"] else int(known["next_offset"])
    torn = cache(lambda: _torn_places(warehouse, known["broker_name"]))
    for run in runs:
        if run["first_offset"] > place + 1 and place not in torn():
            break
        place = max(place, run["end_offset"])
    return place


def _torn_places(warehouse: Warehouse, broker_name: str) -> frozenset[int]:
    is_torn = (F.col("broker_name") == broker_name) & (F.col("reason") == RECORD_TORN)
    places = warehouse.read("quarantine").where(is_torn).select("commit_log_offset").distinct().dropna()
    found = places.orderBy(F.col("commit_log_offset").desc()).limit(MOST_RUNS).collect()
    return frozenset(row["commit_log_offset"] for row in found)


def _mended_from(warehouse: Warehouse, files: Sequence[LogFile], known: Row) -> int:
    """The first place where a damaged record was read before, and none that is whole, and which this copy has whole.

    Where there is none, the end of what was read.
    """
    runs = known["runs"] or ()
    has_hole = len(runs) > 1 or any(run["first_offset"] > files[0].base_offset for run in runs)
    if has_hole and len(runs) < MOST_RUNS:
        of_broker = warehouse.read("quarantine").where(F.col("broker_name") == known["broker_name"])
        # What another record of its key keeps out leaves its hole, however often it is read.
        is_mendable = F.every(F.col("reason").isin(*DAMAGES)).alias("is_mendable")
        places = of_broker.groupBy("commit_log_offset").agg(is_mendable).where("is_mendable").dropna()
        found = places.orderBy("commit_log_offset").limit(MOST_RUNS).collect()
        for place in (row["commit_log_offset"] for row in found):
            if not any(run["first_offset"] <= place < run["end_offset"] for run in runs) and _is_whole(files, place):
                return int(place)
    return int(known["next_offset"])


def _is_whole(files: Sequence[LogFile], place: int) -> bool:
    """Whether the record that begins there can be used, and enters a queue (R10)."""
    if (file := file_at(files, place)) is None:
        return False
    end = record_end(file, place)
    with open_log(file, place, end) as log:
        stretch = next(walk(log, place, end), None)
        if not isinstance(stretch, Records) or stretch.offsets[0] != place:
            return False
        (record,) = next(decode_batches(stretch.between(0, 1))).to_pylist()
    return record["reason"] is None and record["sys_flag"] & SYS_FLAG_TRANSACTION_MASK not in UNSEEN


def _is_older_copy(warehouse: Warehouse, files: Sequence[LogFile], known: Row) -> bool:
    """Whether a store that ends before the record read last ends in what has landed, or before all that was read.

    A broker made anew begins its places again: its log meets what was read, and has other records there. So does one
    that was cut back by a crash, as soon as it goes on.
    """
    last, taken = _last_records(files, _topics_of_log(known["topic"]))
    if last is None or last.offset >= _last(known).offset:
        return False
    if last.store_timestamp_ms > _last(known).store_timestamp_ms:
        return False  # a broker made anew that has not got as far
    runs = known["runs"] or ()
    first, end = files[0].base_offset, last.offset + last.size
    is_met = any(run["first_offset"] < end and first < run["end_offset"] for run in runs)
    return (bool(runs) and not is_met) or _has_landed(warehouse, known["broker_name"], taken)


def _last_records(
    files: Sequence[LogFile], topics: Sequence[str]
) -> tuple[RecordIdentity | None, list[RecordIdentity]]:
    """The record with which a log ends, and the last ones of these topics, of the last file that has some."""
    last: RecordIdentity | None = None
    is_taken = cache(partial(is_landed_topic, patterns=topics))
    for file in reversed(files):
        taken: list[RecordIdentity] = []
        newest: RecordIdentity | None = None
        with open_log(file, file.base_offset, file.end_offset) as log:
            for stretch in walk(log, file.base_offset, file.end_offset):
                if isinstance(stretch, Records):
                    taken = [*taken, *_last_of(stretch, is_taken)][-LOOKED_AT:]
                    (newest,) = _last_of(stretch.between(len(stretch) - 1, len(stretch)), lambda _: True)
        last = last or newest
        if taken:
            return last, taken
    return last, []


def _last_of(records: Records, fits: Callable[[str], bool]) -> list[RecordIdentity]:
    """The last LOOKED_AT records whose topic fits."""
    offsets, stored = records.offsets, records.longs(BORN_HOST_END, 0)
    places = records.bounds[:, [START, END, TOPIC, TOPIC_END]].tolist()
    found: list[RecordIdentity] = []
    for number in range(len(records) - 1, -1, -1):
        start, end, topic, topic_end = places[number]
        if fits(records.data[topic:topic_end].decode(errors="replace")):
            found.append(RecordIdentity(int(offsets[number]), int(stored[number]), end - start))
            if len(found) == LOOKED_AT:
                break
    return found[::-1]


def _has_landed(warehouse: Warehouse, broker_name: str, records: Sequence[RecordIdentity]) -> bool:
    """Whether the last of these records has landed, and nothing else where they are; damaged ones aside."""
    places = [each.offset for each in records]
    is_there = (F.col("broker_name") == broker_name) & F.col("commit_log_offset").isin(places)
    at = F.unix_millis("store_timestamp").alias("at")
    landed = [warehouse.read(table).where(is_there).select("commit_log_offset", at) for table in TABLES_OF_RECORDS]
    found = {(row["commit_log_offset"], row["at"]) for row in reduce(DataFrame.unionByName, landed).collect()}
    damaged = warehouse.read("quarantine").where(is_there & F.col("reason").isin(*DAMAGES)).select("commit_log_offset")
    lacking = {row["commit_log_offset"] for row in damaged.collect()}
    whole = [(each.offset, each.store_timestamp_ms) for each in records if each.offset not in lacking]
    return bool(whole) and whole[-1] in found and found <= {(each.offset, each.store_timestamp_ms) for each in records}
