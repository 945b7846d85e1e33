"""Where restored and given-up messages go, and their rows, made of their halves before a pass writes anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

from pyspark.sql import DataFrame

from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.arrow_files import WrittenFile, arrow_schema
from txmq_lib.delta.row_groups import RowGroups
from txmq_lib.names import COMMIT, MAX_TIME_TOPIC, OP_TOPIC
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.reconcile.in_arrow import message_rows
from txmq_lib.pipeline.reconcile.in_arrow.message_files import (
    DestinationFiles,
    TableFromHalves,
    halves_of,
    is_possible,
    laid_down,
    write_files,
)
from txmq_lib.pipeline.reconcile.in_arrow.numbering import numbered_destinations
from txmq_lib.pipeline.reconcile.tally import Decided, Tally
from txmq_lib.rules import check, effects
from txmq_lib.spark.local_frame import local_frame

MESSAGE_TABLE, GIVEN_UP_TABLE = "message", "trans_check_max_time"


class Destinations(NamedTuple):
    """Topic, queue and queue offset of each restored and given-up message, counted from `queue_ends`.

    messages        rows of effects.restored_destinations; where numbering.py gave the offsets: their queues alone
    message_files   with their rows, made of the halves already: [] for none, and where another process has written
                    them; None where Spark has to make the rows
    given_up        rows of effects.given_up_destinations
    given_up_files  as `message_files`
    queue_ends      rows of landing_frontier
    """

    messages: DataFrame
    message_files: Sequence[WrittenFile] | None
    given_up: DataFrame
    given_up_files: Sequence[WrittenFile] | None
    queue_ends: DataFrame


def find_destinations(current: Pass, decided: Decided, tally: Tally, kept: ExitStack) -> Destinations:
    """Where restored and given-up messages go; and their rows, where those are made in Arrow.

    kept  holds what lies on disk as long as destinations are read

    InvariantViolation where a destination has no half, or a half several destinations.
    """
    queue_ends = current.read_once("landing_frontier")
    messages, message_files = _numbered_in_arrow(current, decided, tally, queue_ends) or _with_files(
        current,
        kept,
        lambda: effects.restored_destinations(decided.deciding, queue_ends),
        decided.deciding,
        _message_table(current),
        tally.decisions[COMMIT],
    )
    given_up, given_up_files = _with_files(
        current,
        kept,
        lambda: effects.given_up_destinations(decided.giving_up, queue_ends),
        decided.giving_up,
        _given_up_table(current),
        tally.actions.get(check.GIVE_UP, 0),
    )
    return Destinations(messages, message_files, given_up, given_up_files, queue_ends)


def _numbered_in_arrow(
    current: Pass, decided: Decided, tally: Tally, queue_ends: DataFrame
) -> tuple[DataFrame, Sequence[WrittenFile]] | None:
    """The queues that get messages, and files with these; None where Spark has to number them."""
    target, count = _message_table(current), tally.decisions[COMMIT]
    if not count or decided.files is None or not is_possible(current, target.table):
        return None
    next_offsets = queue_ends.select(*effects.QUEUE, "next_offset").collect()
    others = (OP_TOPIC, MAX_TIME_TOPIC)
    row_counts = {queue: rows for queue, rows in tally.rows_per_queue.items() if queue[1] not in others}
    with current.timed("destinations"):
        destinations = numbered_destinations(
            decided.files,
            current.directory("destinations-"),
            row_counts=row_counts,
            starts={(row["broker_name"], row["topic"], row["queue_id"]): row["next_offset"] for row in next_offsets},
            threads=current.warehouse.spark.sparkContext.defaultParallelism,
        )
        halves = None if destinations is None else halves_of(current, destinations)
    if destinations is None or halves is None:
        return None
    queues = local_frame(current.warehouse.spark, list(row_counts), "broker_name string, topic string, queue_id int")
    return queues, _files(current, target, destinations, halves, count)


def _with_files(
    current: Pass,
    kept: ExitStack,
    find: Callable[[], DataFrame],
    cheaper: DataFrame,
    target: TableFromHalves,
    count: int,
) -> tuple[DataFrame, Sequence[WrittenFile] | None]:
    """The `count` destinations that `find` gives, computed once, and files with the rows that go there.

    No files (None) where Spark has to make the rows, [] where there are none.
    cheaper  has the offsets of their halves in the commit log, too, and is cheaper to look through
    """
    if not is_possible(current, target.table):
        return current.cached(find()), None
    if not count:
        return current.warehouse.empty(target.table), []
    with current.timed("destinations"):
        frame, in_files = kept.enter_context(laid_down(current, find(), target.offset, count=count, cheaper=cheaper))
        halves = halves_of(current, in_files)
    if halves is None:
        return frame, None
    return frame, _files(current, target, in_files, halves, count)


def _files(
    current: Pass, target: TableFromHalves, destinations: DestinationFiles, halves: Sequence[RowGroups], count: int
) -> Sequence[WrittenFile]:
    # Another process wrote these rows, having found a half for each; the step has the name of its table.
    if not current.is_own and current.has_landed(target.table, target.table):
        return []
    warehouse = current.warehouse
    with current.timed(target.table):
        return write_files(
            str(warehouse.local_path(target.table)),
            target,
            destinations,
            halves,
            count=count,
            threads=warehouse.spark.sparkContext.defaultParallelism,
            on_part=partial(warehouse.on_part, target.table, target.table),
        )


def _message_table(current: Pass) -> TableFromHalves:
    # A rebuilt broker may have had another half at the same physical offset.
    half = {"queue_id": "half_queue_id", "queue_offset": "half_queue_offset"}
    make_rows = partial(
        message_rows.restored,
        schema=arrow_schema(table_spec(MESSAGE_TABLE)),
        now=current.now,
        pass_number=current.number,
    )
    on = {"broker_name": "broker_name", "commit_log_offset": "commit_log_offset", **half}
    return TableFromHalves(table=MESSAGE_TABLE, on=on, make_rows=make_rows)


def _given_up_table(current: Pass) -> TableFromHalves:
    make_rows = partial(
        message_rows.given_up,
        schema=arrow_schema(table_spec(GIVEN_UP_TABLE)),
        now=current.now,
        pass_number=current.number,
        rolls_back=current.settings.roll_back_given_up,
    )
    half = {"queue_id": "half_queue_id", "queue_offset": "half_queue_offset"}
    on = {"broker_name": "broker_name", "commit_log_offset": "half_commit_log_offset", **half}
    return TableFromHalves(table=GIVEN_UP_TABLE, on=on, make_rows=make_rows)
