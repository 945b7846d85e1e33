"""The messages of live brokers' queues into their tables: pulled and written by tasks where all of them are new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from txmq_lib.names import TRANSACTION_TOPICS
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.land.kinds import ROCKETMQ
from txmq_lib.pipeline.land.live.broker_reading import BrokerReading
from txmq_lib.pipeline.land.live.live_reports import Plan, frontier_reports, untold_queues, untold_reports
from txmq_lib.pipeline.land.live.live_rows import bytes_held, described, readable, source
from txmq_lib.pipeline.land.live.queue_pulling import facts_of_queues, pulled
from txmq_lib.pipeline.land.live.read_queues import ReadQueues, halves_held_back, queues_of_rows
from txmq_lib.pipeline.land.records import files_of_tasks, messages
from txmq_lib.pipeline.land.records.new_records import new_runs, reached_by
from txmq_lib.pipeline.shared.watermark import Frontier
from txmq_lib.rocketmq.live_source import RANGE_UNREAD
from txmq_lib.rocketmq.remoting.broker import Queue
from txmq_lib.rocketmq.store.message_batch import ARROW_SCHEMA
from txmq_lib.rules.moments import epoch_ms
from txmq_lib.rules.runs import QUEUE

HALVES = "half_message"


class Heard(NamedTuple):
    """What a landing of a broker's queues learned beside their messages.

    unread  why some could not be read to the end
    untold  queues of which the name servers tell no more, or tell nothing though halves name them
    """

    unread: Mapping[Queue, str]
    untold: set[Queue]


def land_queues(current: Pass, plans: Sequence[Plan], readings: Mapping[str, BrokerReading]) -> dict[str, Heard]:
    """Land the messages of all ranges of these plans and move the frontier; what was heard of each broker."""
    to_read = [plan for plan in plans if plan["queues"]]
    if not to_read:
        untold = {name: {*reading.queues.gone} for name, reading in readings.items()}
        if any(untold.values()):
            Frontier(current).move(untold_reports(untold))
        return {name: Heard({}, queues) for name, queues in untold.items()}
    read = _by_tasks(current, to_read, readings) if files_of_tasks.can_write(current.warehouse) else None
    if read is None:
        return _land_by_spark(current, to_read, readings)
    return _moved(current, to_read, read, readings)


def _moved(
    current: Pass, plans: Sequence[Plan], read: ReadQueues, readings: Mapping[str, BrokerReading]
) -> dict[str, Heard]:
    """Move the frontier by what was read."""
    named = read.real_queues()
    patterns = current.settings.land.topics
    untold = {name: untold_queues(patterns, named.get(name, ()), reading.queues) for name, reading in readings.items()}
    frontier = Frontier(current)
    frontier.move(frontier_reports(current, frontier, plans, read, untold))
    return {name: Heard(read.unread.get(name, {}), queues) for name, queues in untold.items()}


def _by_tasks(current: Pass, plans: Sequence[Plan], readings: Mapping[str, BrokerReading]) -> ReadQueues | None:
    """Pull, write and commit, with suspects beside; None, and nothing committed, where Spark has to do it all anew."""
    with current.timed("read"):
        found = pulled(current, plans, readings)
    with current.timed("judge"):
        runs = new_runs(current, {name: [each.runs for each in own.written] for name, own in found.items()})
    if runs is None or not all(own.can_stand for own in found.values()):
        return None
    held_back = {name: own.held_back for name, own in found.items()}
    for name, topics in held_back.items():
        is_held = pc.and_(pc.equal(runs["broker_name"], name), pc.is_in(runs["topic"], pa.array(topics, pa.string())))
        runs = runs.filter(pc.invert(is_held))
        for each in found[name].written if topics else ():
            each.files.pop(HALVES, None)
    files_of_tasks.append_files(current, [each for own in found.values() for each in own.written])
    _land_suspects(current, plans, {name: own.suspects for name, own in found.items()}, held_back)
    return ReadQueues(
        facts_of_queues(found),
        {one.key: one.runs or () for one in reached_by(runs)},
        _newest_ms(runs),
        lambda: {name: own.heard.real_queues for name, own in found.items()},
        {name: own.heard.unread for name, own in found.items()},
    )


def _land_suspects(
    current: Pass,
    plans: Sequence[Plan],
    suspects: Mapping[str, Sequence[pa.RecordBatch]],
    held_back: Mapping[str, Sequence[str]],
) -> None:
    if not any(suspects.values()):
        current.counts |= {"never_visible": 0, f"quarantine_{ROCKETMQ}": 0}
        return
    spark = current.warehouse.spark
    tables = {name: pa.Table.from_batches(batches, ARROW_SCHEMA) for name, batches in suspects.items() if batches}
    frames = {name: spark.createDataFrame(table, from_arrow_schema(ARROW_SCHEMA)) for name, table in tables.items()}
    rows = current.cached(readable(described(plans, frames), held_back))
    messages.land_every_kind(current, rows, broker_names=[*frames], source=ROCKETMQ, are_suspects=True)


def _newest_ms(runs: pa.Table) -> dict[str, int | None]:
    own = runs.filter(pc.is_in(runs["topic"], pa.array(TRANSACTION_TOPICS)))
    newest = own.group_by("broker_name").aggregate([("highest_store_timestamp", "max")]).to_pylist()
    times = {one["broker_name"]: one["highest_store_timestamp_max"] for one in newest}
    return {name: None if time is None else epoch_ms(time) for name, time in times.items()}


def _land_by_spark(current: Pass, plans: Sequence[Plan], readings: Mapping[str, BrokerReading]) -> dict[str, Heard]:
    """Pull by Spark's reader, judge every row by its key, append those that are new, and move the frontier."""
    with current.timed("read"):
        sources = {plan["broker_name"]: source(current, plan) for plan in plans}
        stored = described(plans, sources).localCheckpoint(eager=True)
        lost = stored.where(F.col("reason") == RANGE_UNREAD).select(*QUEUE, F.unbase64("raw").alias("why"))
        unread: dict[str, dict[Queue, str]] = {name: {} for name in sources}
        for row in lost.collect():
            unread[row["broker_name"]][Queue(row["topic"], row["queue_id"])] = bytes(row["why"]).decode()
        held_bytes = bytes_held(stored)
    held_back = {name: halves_held_back(own) for name, own in unread.items()}
    rows = readable(stored.where(~F.col("reason").eqNullSafe(RANGE_UNREAD)), held_back)
    with current.planned_for(held_bytes):
        landed = messages.land_every_kind(current, rows, broker_names=[*sources], source=ROCKETMQ)
        good = messages.without_place(landed.rows.where("reason is null"), landed.rivals)
        return _moved(current, plans, queues_of_rows(current, rows, good, unread), readings)
