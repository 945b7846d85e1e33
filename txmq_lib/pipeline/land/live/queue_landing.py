"""The messages of a live broker's queues into their tables: pulled and written by tasks where all of them are new."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from txmq_lib.files.materialized import MATERIALIZED_BYTES, PROPERTY_BYTES
from txmq_lib.names import HALF_TOPICS, ROLE_ENGINE, TRANSACTION_TOPICS
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.land.kinds import ROCKETMQ
from txmq_lib.pipeline.land.live.live_reports import (
    BrokerQueues,
    ReadQueues,
    frontier_reports,
    halves_held_back,
    queues_of_rows,
    untold,
)
from txmq_lib.pipeline.land.live.queue_task import Peer, Told, pull_and_write
from txmq_lib.pipeline.land.records import files_of_tasks, messages
from txmq_lib.pipeline.land.records.new_records import frontier_runs, new_runs
from txmq_lib.pipeline.land.records.record_files import RecordReading, Written
from txmq_lib.pipeline.land.records.record_rows import Landing
from txmq_lib.pipeline.shared.watermark import move_frontier
from txmq_lib.rocketmq.live_source import MESSAGES_PER_TASK, RANGE_UNREAD, SOURCE_NAME, Rocketmq, grouped
from txmq_lib.rocketmq.remoting.broker import Queue
from txmq_lib.rocketmq.remoting.connection import Access
from txmq_lib.rocketmq.remoting.queue_reader import QueueRange
from txmq_lib.rocketmq.store.message_batch import ARROW_SCHEMA
from txmq_lib.rules import frontier
from txmq_lib.rules.half import content_hash
from txmq_lib.rules.moments import epoch_ms
from txmq_lib.rules.runs import QUEUE
from txmq_lib.spark.local_frame import local_frame
from txmq_lib.spark.tasks import in_tasks

HALVES = "half_message"
FACTS = (
    "topic string, queue_id int, highest_store_timestamp timestamp, first_offset bigint, first_timestamp timestamp,"
    " identity string"
)


class Heard(NamedTuple):
    """What a landing of queues learned beside their messages.

    unread  why some could not be read to the end
    untold  queues of which the name servers tell no more, or tell nothing though halves name them
    """

    unread: dict[Queue, str]
    untold: set[Queue]


def land_queues(current: Pass, access: Access, of_broker: BrokerQueues) -> Heard:
    """Land the messages of the plan's ranges and move the frontier."""
    unread: dict[Queue, str] = {}
    read = _by_tasks(current, access, unread) if files_of_tasks.can_write(current.warehouse) else None
    if read is not None:
        move_frontier(current, frontier_reports(current, read, of_broker))
        return Heard(unread, untold(current, read, of_broker))
    return Heard(unread, _land_by_spark(current, unread, of_broker))


def _by_tasks(current: Pass, access: Access, unread: dict[Queue, str]) -> ReadQueues | None:
    """Pull, write and commit, with suspects beside; None, and nothing committed, where Spark has to do it all anew."""
    broker_name = current.arguments["broker_name"]
    with current.timed("read"):
        written, heard = _pulled(current, access)
    with current.timed("judge"):
        runs = new_runs(current, [each.runs for each in written], broker_name)
    held_back = halves_held_back(heard.unread)
    # Rows of both pairs of half topics lie in one file.
    halves_read = {queue.topic for queue in heard.facts} & {*HALF_TOPICS}
    can_leave_halves = halves_read <= {*held_back} or not held_back
    if runs is None or not can_leave_halves or any(each.kept is None for each in written):
        return None
    unread |= heard.unread
    if held_back:
        runs = runs.filter(pc.invert(pc.is_in(runs["topic"], pa.array(held_back))))
        for each in written:
            each.files.pop(HALVES, None)
    files_of_tasks.append_files(current, written)
    _land_suspects(current, [batch for each in written for batch in each.kept or ()], held_back)
    reached = frontier.reached_by(frontier_runs(current, runs, broker_name)).select(*QUEUE, "runs")
    return ReadQueues(_facts(current, heard), reached, _newest_ms(runs), lambda: heard.real_queues, {*unread})


def _pulled(current: Pass, access: Access) -> tuple[list[Written], Told]:
    arguments, settings, spark = current.arguments, current.settings, current.warehouse.spark
    ranges = [QueueRange(topic, queue_id, start, stop) for topic, queue_id, _, start, stop, *_ in arguments["queues"]]
    planned = sum(each.stop - each.start for each in ranges)
    # Each task makes a file per table: many messages are no reason for many files.
    most = max(
        MESSAGES_PER_TASK, planned // (files_of_tasks.STRETCHES_PER_CORE * spark.sparkContext.defaultParallelism)
    )
    groups = list(grouped(ranges, most))
    broker_name = arguments["broker_name"]
    reading = RecordReading(
        landing=Landing(
            broker_name,
            current.number,
            settings.for_broker(broker_name).role == ROLE_ENGINE,
            settings.land.trace_topic,
        ),
        table_paths=files_of_tasks.paths(current.warehouse),
        topics=None,
        max_body_bytes=settings.land.max_body_bytes,
        most_suspect_bytes=MATERIALIZED_BYTES // max(len(groups), 1),
    )
    peer = Peer(arguments["address"], access, settings.rocketmq.consumer_group)
    # Read once, here and now: asked again a broker may have less, and the frontier would move past what is missing.
    found = in_tasks(spark, partial(pull_and_write, peer=peer, reading=reading), groups)
    heard = Told()
    for _, each in found:
        heard.add(each)
    return [written for written, _ in found], heard


def _land_suspects(current: Pass, batches: Sequence[pa.RecordBatch], held_back: Sequence[str]) -> None:
    if not batches:
        current.counts |= {"never_visible": 0, f"quarantine_{ROCKETMQ}": 0}
        return
    table = pa.Table.from_batches(batches, ARROW_SCHEMA)
    rows = current.warehouse.spark.createDataFrame(table, from_arrow_schema(ARROW_SCHEMA))
    suspects = current.cached(_described(current, _readable(rows, held_back)))
    broker_name = current.arguments["broker_name"]
    messages.land_every_kind(current, suspects, broker_name=broker_name, source=ROCKETMQ, are_suspects=True)


def _facts(current: Pass, heard: Told) -> DataFrame:
    rows = [
        (*queue, facts.newest, facts.first_offset, facts.first_good[1] if facts.first_good else None,
         ":".join("" if part is None else str(part) for part in facts.last))
        for queue, facts in heard.facts.items()
    ]  # fmt: skip
    return local_frame(current.warehouse.spark, rows, FACTS)


def _newest_ms(runs: pa.Table) -> int | None:
    own = runs.filter(pc.is_in(runs["topic"], pa.array(TRANSACTION_TOPICS)))
    newest = pc.max(own["highest_store_timestamp"]).as_py()
    return None if newest is None else epoch_ms(newest)


def _land_by_spark(current: Pass, unread: dict[Queue, str], of_broker: BrokerQueues) -> set[Queue]:
    """Pull by Spark's reader, judge every row by its key, append those that are new, and move the frontier.

    Gives the queues of which the name servers tell no more.
    """
    with current.timed("read"):
        stored = _described(current, _source(current)).localCheckpoint(eager=True)
        lost = stored.where(F.col("reason") == RANGE_UNREAD).select("topic", "queue_id", F.unbase64("raw").alias("why"))
        unread |= {Queue(row["topic"], row["queue_id"]): bytes(row["why"]).decode() for row in lost.collect()}
        held_bytes = _bytes_held(stored)
    rows = _readable(stored.where(~F.col("reason").eqNullSafe(RANGE_UNREAD)), halves_held_back(unread))
    with current.planned_for(held_bytes):
        landed = messages.land_every_kind(current, rows, broker_name=current.arguments["broker_name"], source=ROCKETMQ)
        good = messages.without_place(landed.rows.where("reason is null"), landed.rivals)
        read = queues_of_rows(current, rows, good, {*unread})
        move_frontier(current, frontier_reports(current, read, of_broker))
        return untold(current, read, of_broker)


def _bytes_held(stored: DataFrame) -> int:
    """How much bodies (or what stands for them where a record is bad) and properties hold, as bytes_in_spark says."""
    names, values = F.map_keys("properties"), F.map_values("properties")
    texts = [F.octet_length(F.array_join(part, "")) for part in (names, values)]
    body = F.coalesce(F.octet_length("body"), F.octet_length("raw"))
    parts = (body, *texts, PROPERTY_BYTES * F.when(names.isNotNull(), F.size(names)))
    held = stored.agg(F.sum(sum((F.coalesce(part, F.lit(0)) for part in parts), F.lit(0)))).collect()[0][0]
    return int(held or 0)


def _source(current: Pass) -> DataFrame:
    arguments, ours = current.arguments, current.settings.rocketmq
    spark = current.warehouse.spark
    spark.dataSource.register(Rocketmq)
    options: dict[str, Any] = {
        "address": arguments["address"],
        "ranges": json.dumps(
            [[topic, queue_id, start, stop] for topic, queue_id, _, start, stop, *_ in arguments["queues"]]
        ),
        "group": ours.consumer_group,
        "timeout": ours.timeout_ms / 1000,
        "tls": ours.tls,
        "checks_host_name": ours.checks_host_name,
        "access_key_env": ours.access_key_env,
        "secret_key_env": ours.secret_key_env,
        "ca_file": ours.ca_file,
        "max_body_bytes": current.settings.land.max_body_bytes,
    }
    present = {name: value for name, value in options.items() if value is not None}
    return spark.read.format(SOURCE_NAME).options(**present).load()


def _described(current: Pass, records: DataFrame) -> DataFrame:
    """Rows of the live source as messages.land_every_kind takes them."""
    is_placed = F.col("position") >= 0
    place = F.concat(F.lit("at physical offset "), F.col("position"))
    whence = F.lit(f"{ROCKETMQ}:{current.arguments['address']}")
    described = records.withColumns(
        {
            "detail": F.when(F.col("reason").isNotNull() & is_placed, place),
            "raw": F.base64("raw"),
            "source": F.concat_ws(":", whence, F.when(is_placed, F.col("position").cast("string"))),
        }
    )
    return described.withColumn("content_hash", content_hash())


def _readable(rows: DataFrame, held_back: Sequence[str]) -> DataFrame:
    """The rows that may land: no half where its op may be among what could not be read."""
    return rows.where(~F.coalesce(F.col("topic").isin(*held_back), F.lit(False)))
