"""How far a landing has read a store's queues and its log: reports for landing_frontier."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.land.store.known_logs import whole_log_topic
from txmq_lib.pipeline.land.store.store_plan import header_time_ms
from txmq_lib.pipeline.land.topics import is_landed_topic
from txmq_lib.pipeline.shared.watermark import Frontier
from txmq_lib.rocketmq.store.consume_queue import QueueBounds
from txmq_lib.rules.frontier import WHOLE_QUEUE_ID
from txmq_lib.rules.moments import epoch_us
from txmq_lib.rules.reach import QueueKey, Reach, of_another_life
from txmq_lib.rules.run_lists import Run, highest

Kept = Mapping[QueueKey, QueueBounds]


def frontier_reports(
    current: Pass,
    frontier: Frontier,
    reached: Iterable[Reach],
    bounds: Mapping[tuple[str, int], QueueBounds],
    stretches: Sequence[tuple[int, int]],
) -> list[Reach]:
    """Frontier reports of a store: what was read and is kept of each queue, and of the log.

    reached    of each queue that was read
    bounds     of each queue that the store has
    stretches  of the log that were read without a bad record, and of which nothing was left out unseen
    """
    arguments = current.arguments
    broker_name = arguments["broker_name"]
    kept = {
        (broker_name, *queue): bound
        for queue, bound in bounds.items()
        if is_landed_topic(queue[0], arguments["topics"])
    }
    reports = list(_of_queues(arguments, {one.key: one for one in reached}, kept))
    if arguments["last"] is None:
        return reports
    row = _of_log(arguments, stretches)
    # A log of which other topics were taken is to be read from its first record on.
    unread = row._replace(next_offset=arguments["lowest_offset"], runs=())
    reports += [row, *(unread._replace(topic=topic) for topic in arguments.get("former_logs", ()))]
    if not arguments["is_rebuilt"]:
        return reports
    landed = frontier.rows(lambda key: key[0] == broker_name)
    return of_another_life(landed, reports, now_us=epoch_us(current.now))


def _of_queues(arguments: Mapping[str, Any], reached: Mapping[QueueKey, Reach], kept: Kept) -> Iterator[Reach]:
    lost_us = None if (lost_ms := arguments["lost_before_ms"]) is None else lost_ms * 1_000
    log_end = arguments["to_offset"]
    for key in {**reached, **kept}:
        bound = kept.get(key)
        # Without consume queues nobody knows which queue lost something.
        has_lost = bound is None or bound.lowest_offset > 0
        end = None if bound is None else bound.next_offset
        report = reached.get(key) or Reach(*key, next_offset=end or 0)
        # That the queue ends there where the log does: an offset before it that has not landed is a hole in what was
        # read.
        end_of_queue = () if end is None else (Run(end, end, log_end, log_end),)
        yield report._replace(
            lowest_kept_offset=None if bound is None else bound.lowest_offset,
            lost_before_timestamp=lost_us if has_lost else None,
            is_end_known=True,
            runs=(*(report.runs or ()), *end_of_queue),
            told_end=highest(report.told_end, end),
        )


def _of_log(arguments: Mapping[str, Any], stretches: Sequence[tuple[int, int]]) -> Reach:
    """The row that says how far the log was read."""
    next_offset, (offset, store_ms, size) = arguments.get("read_before") or (arguments["to_offset"], arguments["last"])
    read_ms = header_time_ms(store_ms)
    return Reach(
        arguments["broker_name"],
        whole_log_topic(arguments["topics"]),
        WHOLE_QUEUE_ID,
        next_offset=next_offset,
        highest_store_timestamp=None if read_ms is None else read_ms * 1_000,
        lowest_kept_offset=arguments["lowest_offset"],
        is_end_known=True,
        source_identity=f"{offset}:{store_ms}:{size}",
        runs=tuple(Run(*stretch) for stretch in stretches),
    )
