"""What one process learns of a live broker as it lands it, beside the rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Flag, auto

from txmq_lib.errors import RemotingError
from txmq_lib.pipeline.land.live.live_brokers import LiveBroker
from txmq_lib.pipeline.land.live.read_queues import BrokerQueues
from txmq_lib.rocketmq.remoting.connection import Access
from txmq_lib.rocketmq.store.consumer_offset_file import ConsumerOffsets

UNREAD = "unread"
BEHIND = "behind"
MOST_NAMED = 5


class Parts(Flag):
    """What of a broker a landing reads."""

    QUEUES = auto()
    OFFSETS = auto()


WHOLE = Parts.QUEUES | Parts.OFFSETS


@dataclass
class BrokerReading:
    """What one process learns of one broker beside the rows: sentences for people, and counts of what went wrong.

    offsets    the broker's consumer offsets as they were when the pass was planned; None where they were not read
    half_ends  the ends of its half queues just before that, by queue id
    passed     where its checks stood before the queues were planned, by half queue; empty where not all of them lands
    set_ups    in what the broker is not set up as by default, by name
    producers  ids of the clients connected then, by producer group; None where nobody told
    is_every_producer  whether that is all of them, not those of the groups that wait alone
    waiting_groups     gives the producer groups of undecided transactions
    known_boot         gives when the store of the broker that landed last was opened (ms)
    queues     what was learned of its real queues beside what is read
    failure    why nothing of it was read; None where it was
    """

    broker: LiveBroker
    access: Access
    parts: Parts = WHOLE
    offsets: ConsumerOffsets | None = None
    half_ends: dict[int, int] = field(default_factory=dict)
    passed: dict[int, int] = field(default_factory=dict)
    set_ups: list[str] = field(default_factory=list)
    producers: dict[str, tuple[str, ...]] | None = None
    is_every_producer: bool = True
    waiting_groups: Callable[[], Iterable[str]] = tuple
    known_boot: Callable[[], int | None] = lambda: None
    queues: BrokerQueues = field(default_factory=BrokerQueues)
    failure: RemotingError | None = None
    findings: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def is_whole(self) -> bool:
        """Whether all that was to be read of its queues could be."""
        return self.failure is None and not self.counts[UNREAD] and Parts.QUEUES in self.parts

    def forget(self) -> None:
        """What was learned: it is asked anew."""
        self.findings.clear()
        self.counts.clear()
        self.offsets = self.producers = self.failure = None
        self.half_ends.clear()
        self.passed.clear()
        self.set_ups.clear()
        self.queues = BrokerQueues()

    def tell(self, words: str) -> None:
        """Note a sentence about this broker."""
        self.findings.append(f"broker {self.broker.name}: {words}")

    def tell_each(self, of: str, each: Sequence[str]) -> None:
        """Note what happened to several, the first of them by name."""
        if each:
            rest = f" and {len(each) - MOST_NAMED} more" if len(each) > MOST_NAMED else ""
            self.tell(f"{of}: {'; '.join(each[:MOST_NAMED])}{rest}")
