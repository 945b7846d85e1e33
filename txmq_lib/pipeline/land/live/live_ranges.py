"""Which offsets of a live broker's queues a pass reads: cut so that what lands is not torn. Asks, and writes nothing.

Semantics 3.1: a half's copies, its op, its visible and its given-up message lie in queues of their own, and all grow
while one asks. So the ends are asked for in the order in which they must not miss each other: halves first, then ops,
given-up messages, real topics last. What was decided about a half that lands has landed with it; a message that an op
speaks of has, too, because a broker writes it first (R23).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from txmq_lib.errors import RefusedError
from txmq_lib.names import HALF_TOPICS, MAX_TIME_TOPIC, OP_TOPICS
from txmq_lib.rocketmq.remoting.broker import Pulled, Queue, max_offsets, min_offsets, pull_request, pulled
from txmq_lib.rocketmq.remoting.connection import LARGE_ANSWER, Connection
from txmq_lib.rocketmq.remoting.queue_entries import has_no_op_topic, listed
from txmq_lib.rocketmq.remoting.queue_reader import QueueRange, stated_offset
from txmq_lib.rocketmq.store.message_format import HEADER_FIELDS, MAX_TIMESTAMP_MS, read_frame, read_header

SHRANK, REBUILT = "shrank", "rebuilt"
_TIERS = (HALF_TOPICS, OP_TOPICS, (MAX_TIME_TOPIC,))
_COMMIT_LOG_OFFSET, _STORE_TIMESTAMP = map(HEADER_FIELDS.index, ("commit_log_offset", "store_timestamp"))

# Of a record: queue offset, physical offset, store time (ms). Where it could not be read it has its queue offset only,
# where its store time is none Spark can hold, all but that.
Identity = tuple[int, int | None, int | None]


@dataclass(frozen=True)
class KnownQueue:
    """What the tables know of a queue.

    next_offset  of what landed in any way: it never goes back, and says nothing of what lies below
    identity     of the last record read live, good or bad; null where none was
    is_untold    whether the last live landing was not told of it; null where none has said
    landed       offset and physical offset of the last row that landed in any way; null where none has a place
    """

    next_offset: int
    lowest_kept_offset: int | None
    identity: Identity | None
    is_untold: bool | None = None
    landed: tuple[int, int] | None = None

    @property
    def was_told_of(self) -> bool:
        """Whether the last live landing read it, or found it empty."""
        return not self.is_untold and (self.is_untold is False or self.identity is not None)

    @property
    def last_offset(self) -> int | None:
        """Where the record lies by which it is known again; null where it has none."""
        last = self.identity or self.landed
        return None if last is None else last[0]

    def is_other(self, found: Identity | None) -> bool:
        """Whether the record found at last_offset is not the one that was there; null says nothing."""
        if found is None:
            return False
        return found != self.identity if self.identity is not None else found[:2] != self.landed


@dataclass(frozen=True)
class QueuePlan:
    """What is read of a queue: [start, stop) of what it keeps, which is [low, high).

    lost    messages that retention deleted before anybody read them
    change  SHRANK or REBUILT where its content is not what was read before; it is then read from its lowest offset
    """

    queue: Queue
    low: int
    high: int
    start: int
    stop: int
    lost: int
    change: str | None

    @property
    def range(self) -> QueueRange:
        """The offsets to read."""
        return QueueRange(*self.queue, self.start, self.stop)

    @property
    def is_whole(self) -> bool:
        """Whether it is read to its end."""
        return self.stop == self.high


def plan_queues(
    connection: Connection,
    group: str,
    queues: Sequence[Queue],
    known: Mapping[Queue, KnownQueue],
    *,
    most: int,
    looks_at_all: bool = False,
) -> tuple[list[QueuePlan], list[RefusedError]]:
    """A plan per queue, and why others cannot be read; `most` messages are read in all, halves last.

    looks_at_all  whether also queues that end where they ended may hold other records than those that were read
    Errors  RemotingError where the broker cannot be asked
    """
    highs, refusals = _highs(connection, queues)
    lows: dict[Queue, int] = {}
    for queue, low in zip(highs, min_offsets(connection, list(highs)), strict=True):
        if isinstance(low, RefusedError):
            refusals.append(low)
        else:
            lows[queue] = low
    changed = _changed(connection, group, highs, lows, known, looks_at_all=looks_at_all)
    plans = [
        _queue_plan(queue, min(low, highs[queue]), highs[queue], known.get(queue), changed.get(queue))
        for queue, low in lows.items()
    ]
    return list(_bounded(plans, most)), refusals


def _highs(connection: Connection, queues: Sequence[Queue]) -> tuple[dict[Queue, int], list[RefusedError]]:
    highs: dict[Queue, int] = {}
    refusals: list[RefusedError] = []
    tiered = {topic for tier in _TIERS for topic in tier}
    others = tuple({queue.topic for queue in queues} - tiered)
    for tier in (*_TIERS, others):
        # Each tier is answered before the next is asked: several threads of a broker take what is under way at once.
        of_tier = [queue for queue in queues if queue.topic in tier]
        for queue, high in zip(of_tier, max_offsets(connection, of_tier), strict=True):
            if isinstance(high, RefusedError):
                refusals.append(high)
            else:
                highs[queue] = high
    return highs, refusals


def _changed(
    connection: Connection,
    group: str,
    highs: Mapping[Queue, int],
    lows: Mapping[Queue, int],
    known: Mapping[Queue, KnownQueue],
    *,
    looks_at_all: bool,
) -> dict[Queue, str]:
    """Queues whose content is not what was read before: too short, or another record where the last one was."""
    changed = {queue: SHRANK for queue in lows if queue in known and highs[queue] < _landed_to(known[queue])}
    to_look_at = {
        queue: place
        for queue in lows
        if queue not in changed
        and queue in known
        and (place := known[queue].last_offset) is not None
        and highs[queue] > place + (0 if looks_at_all or known[queue].identity is None else 1)
        and lows[queue] <= place
    }
    for queue, found in _looked_at(connection, group, to_look_at):
        if found.is_found and known[queue].is_other(_identity(found.body, queue, to_look_at[queue])):
            changed[queue] = REBUILT
    return changed


def _identity(body: bytes, queue: Queue, place: int) -> Identity | None:
    """What a landing would keep of the record at this offset of the queue; null where no record can be made out."""
    frame = read_frame(body, 0, len(body))
    if frame is None:
        return None
    if stated_offset(body, frame, queue) != place:
        return place, None, None
    header = read_header(body, frame)
    store_ms = header[_STORE_TIMESTAMP]
    return place, header[_COMMIT_LOG_OFFSET], store_ms if 0 <= store_ms <= MAX_TIMESTAMP_MS else None


def _looked_at(connection: Connection, group: str, places: Mapping[Queue, int]) -> Iterator[tuple[Queue, Pulled]]:
    """What lies at one offset of each queue. A queue that refuses is left out: reading it will be refused too."""
    to_list = []
    requests = (pull_request(group, queue, place, 1) for queue, place in places.items())
    for queue, answer in zip(places, connection.ask_all(requests, most_bytes=LARGE_ANSWER), strict=True):
        if has_no_op_topic(queue, answer):
            to_list.append(queue)  # asked when the connection has nothing under way
            continue
        with suppress(RefusedError):
            yield queue, pulled(connection, answer)
    for queue in to_list:
        with suppress(RefusedError):
            yield queue, listed(connection, queue, places[queue], 1)


def _next(known: KnownQueue) -> int:
    """Where a live reading goes on. Files may have brought high offsets alone; landing is by key."""
    return known.identity[0] + 1 if known.identity is not None else 0


def _landed_to(known: KnownQueue) -> int:
    """Up to where the queue has landed live, else in any way."""
    return _next(known) if known.identity is not None else known.next_offset


def _queue_plan(queue: Queue, low: int, high: int, known: KnownQueue | None, change: str | None) -> QueuePlan:
    if known is None or change is not None:
        return QueuePlan(queue, low, high, low, high, low, change)
    start = max(_next(known), low)
    # What was gone when the tables last heard of the queue was counted then.
    gone_before = max(_landed_to(known), known.lowest_kept_offset or 0)
    return QueuePlan(queue, low, high, start, high, max(start - gone_before, 0), change)


def _bounded(plans: Sequence[QueuePlan], most: int) -> Iterator[QueuePlan]:
    """The plans cut to `most` messages: shares are equal, what a small queue leaves goes to the larger ones.

    Halves get what the others leave, or a half would land whose op has not, and be asked about.
    """
    is_half = [plan.queue.topic in HALF_TOPICS for plan in plans]
    others = [plan for plan, half in zip(plans, is_half, strict=True) if not half]
    halves = [plan for plan, half in zip(plans, is_half, strict=True) if half]
    for group in (others, halves):
        waiting = sorted(group, key=lambda plan: plan.high - plan.start)
        while waiting:
            plan = waiting.pop(0)
            taken = min(plan.high - plan.start, most // (len(waiting) + 1))
            most -= taken
            yield QueuePlan(plan.queue, plan.low, plan.high, plan.start, plan.start + taken, plan.lost, plan.change)
