"""Where restored and given-up messages go, and their rows, made of their halves before a pass writes anything."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

from pyspark.sql import DataFrame

from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.arrow_files import WrittenFile, arrow_schema
from txmq_lib.delta.row_groups import RowGroups
from txmq_lib.names import COMMIT, MAX_TIME_TOPIC, OP_TOPIC
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.reconcile import effects_in_arrow, files_of_halves
from txmq_lib.pipeline.reconcile.numbering import numbered_places
from txmq_lib.pipeline.reconcile.tally import Decided, Tally
from txmq_lib.rules import check, effects
from txmq_lib.spark.local_frame import local_frame

MESSAGE_TABLE, GIVEN_UP_TABLE = "message", "trans_check_max_time"


class Placed(NamedTuple):
    """Where restored and given-up messages go, from `queue_ends` (rows of landing_frontier).

    message_places   of numbered messages (numbering.py) the queues alone
    message_files    with their rows, made of the halves already: [] for none, and where another process has written
                     them; None where Spark has to make the rows
    given_up_places  of given-up messages
    given_up_files   as `message_files`
    """

    message_places: DataFrame
    message_files: Sequence[WrittenFile] | None
    given_up_places: DataFrame
    given_up_files: Sequence[WrittenFile] | None
    queue_ends: DataFrame


def place(current: Pass, decided: Decided, tally: Tally, kept: ExitStack) -> Placed:
    """Places of restored and given-up messages, and their rows where those are made from Arrow.

    kept  holds what lies on disk as long as places are read

    InvariantViolation where a place has no half, or a half several places.
    """
    deciding, giving_up = decided.deciding, decided.giving_up
    queue_ends = current.read("landing_frontier")
    commits, given_up = tally.decisions[COMMIT], tally.actions.get(check.GIVE_UP, 0)
    numbered = _numbered_here(current, decided, tally, queue_ends)
    message_places, message_files = numbered or _made(
        current, kept, effects.restored_places(deciding, queue_ends), deciding, _of_messages(current), commits
    )
    given_up_places, given_up_files = _made(
        current, kept, effects.given_up_places(giving_up, queue_ends), giving_up, _of_given_up(current), given_up
    )
    return Placed(message_places, message_files, given_up_places, given_up_files, queue_ends)


def _numbered_here(
    current: Pass, decided: Decided, tally: Tally, queue_ends: DataFrame
) -> tuple[DataFrame, Sequence[WrittenFile]] | None:
    """The queues that get messages, and files with these; None where Spark has to number them."""
    made, count = _of_messages(current), tally.decisions[COMMIT]
    if not count or decided.files is None or not files_of_halves.is_possible(current, made.table):
        return None
    next_offsets = queue_ends.select(*effects.QUEUE, "next_offset").collect()
    others = (OP_TOPIC, MAX_TIME_TOPIC)
    row_counts = {queue: rows for queue, rows in tally.rows_per_queue.items() if queue[1] not in others}
    with current.timed("places"):
        laid = numbered_places(
            decided.files,
            current.directory("places-"),
            row_counts=row_counts,
            starts={(row["broker_name"], row["topic"], row["queue_id"]): row["next_offset"] for row in next_offsets},
            threads=current.warehouse.spark.sparkContext.defaultParallelism,
        )
        halves = None if laid is None else files_of_halves.halves_of(current, laid)
    if laid is None or halves is None:
        return None
    frame = local_frame(current.warehouse.spark, list(row_counts), "broker_name string, topic string, queue_id int")
    return frame, _files(current, made, laid, halves, count)


def _made(
    current: Pass,
    kept: ExitStack,
    places: DataFrame,
    cheaper: DataFrame,
    rows: files_of_halves.TableOfHalves,
    count: int,
) -> tuple[DataFrame, Sequence[WrittenFile] | None]:
    """`count` places, computed once, and files with the rows there: None where Spark has to make the rows, [] for none.

    cheaper  has the places' offsets in the commit log, too
    """
    if not count or not files_of_halves.is_possible(current, rows.table):
        return current.cached(places), [] if not count else None
    with current.timed("places"):
        frame, laid = kept.enter_context(
            files_of_halves.laid_down(current, places, rows.offset, count=count, cheaper=cheaper)
        )
        halves = files_of_halves.halves_of(current, laid)
    if halves is None:
        return frame, None
    return frame, _files(current, rows, laid, halves, count)


def _files(
    current: Pass,
    rows: files_of_halves.TableOfHalves,
    places: files_of_halves.Places,
    halves: Sequence[RowGroups],
    count: int,
) -> Sequence[WrittenFile]:
    # Another process landed these rows, having found a half for each place; the step is called as its table.
    if not current.is_own and current.has_landed(rows.table, rows.table):
        return []
    warehouse = current.warehouse
    with current.timed(rows.table):
        return files_of_halves.write_files(
            str(warehouse.local_path(rows.table)),
            rows,
            places,
            halves,
            count=count,
            threads=warehouse.spark.sparkContext.defaultParallelism,
            on_part=partial(warehouse.on_part, rows.table, rows.table),
        )


def _of_messages(current: Pass) -> files_of_halves.TableOfHalves:
    # A rebuilt broker may have had another half at the same physical offset.
    half = {"queue_id": "half_queue_id", "queue_offset": "half_queue_offset"}
    made = partial(
        effects_in_arrow.restored,
        schema=arrow_schema(table_spec(MESSAGE_TABLE)),
        now=current.now,
        pass_number=current.number,
    )
    on = {"broker_name": "broker_name", "commit_log_offset": "commit_log_offset", **half}
    return files_of_halves.TableOfHalves(table=MESSAGE_TABLE, on=on, made=made)


def _of_given_up(current: Pass) -> files_of_halves.TableOfHalves:
    made = partial(
        effects_in_arrow.given_up,
        schema=arrow_schema(table_spec(GIVEN_UP_TABLE)),
        now=current.now,
        pass_number=current.number,
        rolls_back=current.settings.roll_back_given_up,
    )
    half = {"commit_log_offset": "half_commit_log_offset", "queue_offset": "half_queue_offset"}
    return files_of_halves.TableOfHalves(table=GIVEN_UP_TABLE, on={"broker_name": "broker_name", **half}, made=made)
