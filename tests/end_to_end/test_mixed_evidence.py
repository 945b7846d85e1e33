"""Files with holes, stores, live readings, take-backs, another broker and settings that change, in any order that the
evidence can come in (Evidence), and in any cut: the rows of one landing of all.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from house import House, wall_clock
from live_capture import LiveCapture, live_capture
from test_true_broker import KINDS, Files, assert_true, when
from true_broker import Key, Read, Record, Shown, TrueBroker, parted

from txmq_lib.config.settings import Settings
from txmq_lib.names import ORPHAN_HALF_LANDED
from txmq_lib.pipeline.land.job import run_land_rocketmq
from txmq_lib.pipeline.take_back import run_take_back

HISTORIES = int(os.environ.get("TXMQ_HISTORIES", "600"))
SEED = int(os.environ.get("TXMQ_SEED", "20261124"))
ROLE = ("role=audit", "transaction_timeout=2s")
# From one under which all that hangs has expired to one under which nothing has.
RESERVED = ("2s", "20s", "3650d")
# Which real topics a store or a live reading takes.
TOPICS: tuple[tuple[str, ...], ...] = (("*",), ("Real0", "Real1"), ("Real?",), ("Real2",))
STORIES = 40
SAME = ("verdict", "orphan", "quarantine")
OF_A_PASS = {"pass_number", "quarantined_timestamp", "source"}


@dataclass(frozen=True)
class Moment:
    """A broker at a moment, as its store or a live reading of its queues shows it.

    store    the directory; None of a live reading
    upto     the physical offset at which the broker's log ends then
    records  all that it shows
    topics   the real topics that are taken
    """

    store: Path | None
    upto: int
    records: Sequence[Record]
    topics: tuple[str, ...]

    @property
    def taken(self) -> Iterator[Record]:
        """What lands of it."""
        for record in self.records:
            if record.kind != "message" or any(fnmatch(record.topic, pattern) for pattern in self.topics):
                yield record


@dataclass
class Evidence:
    """What lands of a broker: files of one kind each, stores and live readings in the order of their moments.

    A file waits for the live readings that saw less than it holds. A broker that shows less than has landed of it was
    made anew: that is other evidence.
    """

    files: list[tuple[str, list[Read]]]
    moments: list[Moment]

    def waits_for(self, read: Read) -> int:
        """How many live readings come before a file that holds it."""
        return sum(moment.store is None and moment.upto <= read.record.place for moment in self.moments)

    def cut(self) -> Evidence:
        """Files cut so that all of one wait for the same live readings."""
        counts = range(len(self.moments) + 1)
        parts = [
            (kind, [each for each in part if self.waits_for(each) == n]) for kind, part in self.files for n in counts
        ]
        return Evidence([(kind, part) for kind, part in parts if part], self.moments)

    @property
    def records(self) -> list[Record]:
        """All that has been shown by it."""
        shown = {read.record.place: read.record for _, part in self.files for read in part}
        shown |= {record.place: record for moment in self.moments for record in moment.taken}
        return [*shown.values()]

    @property
    def is_mistaken(self) -> bool:
        """Whether files of two readings look like those of one (Shown)."""
        shown = Shown()
        for _, part in self.files:
            for read in part:
                shown.show(read)
        return shown.is_mistaken


@dataclass
class Landing:
    """A house that takes evidence step by step."""

    house: House
    broker: TrueBroker
    served: LiveCapture
    reserved: str = "3650d"

    def file(self, part: tuple[str, list[Read]]) -> None:
        kind, reads = part
        if reads:
            rows = [read.row() for read in reads]
            self.house.land_rows(kind.replace("_", "-"), rows, broker=self.broker.name, now=when(self.broker))

    def other(self, part: tuple[str, list[Record]]) -> None:
        """What another broker has at the same places, of transactions by the same ids."""
        kind, records = part
        rows, name = [record.row() for record in records], f"{self.broker.name}-other"
        self.house.land_rows(kind.replace("_", "-"), rows, broker=name, now=when(self.broker))

    def moment(self, moment: Moment) -> None:
        self._set(moment.topics)
        if moment.store is not None:
            self.house.land_store(moment.store, broker=self.broker.name, now=when(self.broker))
        else:
            queues: dict[tuple[str, int], list[bytes]] = defaultdict(list)
            for record in moment.records:
                queues[record.queue].append(record.encoded())
            self.served.broker.queues = {**queues}
            run_land_rocketmq(
                self.house.warehouse,
                self.house.settings,
                name_servers=[self.served.address],
                now=when(self.broker),
                wall_clock=wall_clock,
                environ={},
            )
        self._set(TOPICS[0])

    def reserve(self, reserved: str) -> None:
        self.reserved = reserved
        self._set(TOPICS[0])

    def _set(self, topics: Sequence[str]) -> None:
        assignments = [*ROLE, f"file_reserved_time={self.reserved}", f"land.topics={json.dumps(topics)}"]
        self.house.settings = Settings.load(assignments=assignments, warehouse=self.house.warehouse.uri)

    def audit(self) -> None:
        self.house.audit(when(self.broker))

    def take_back(self) -> None:
        run_take_back(
            self.house.warehouse,
            self.house.settings,
            broker_name=self.broker.name,
            now=when(self.broker),
            wall_clock=wall_clock,
            tell=lambda counts: None,
        )

    def rows(self) -> dict[str, list[str]]:
        """What any order must leave: rows without what tells when they were written, and from which file."""
        found = {}
        for table in SAME:
            # That a half landed later than its message is history.
            rows = [row for row in self.house.rows(table) if row.get("state") != ORPHAN_HALF_LANDED]
            kept = [{name: value for name, value in row.items() if name not in OF_A_PASS} for row in rows]
            found[table] = sorted(repr(sorted(row.items())) for row in kept)
        return found


def evidence_of(broker: TrueBroker, place: Path, files_of_kind: dict[str, int], moments: int) -> Evidence:
    dice = broker.dice
    reads = Files(broker, dice.choice((1, 2))).reads
    files = [
        (kind, part)
        for kind, parts in files_of_kind.items()
        for part in parted([read for read in reads if read.record.kind == kind], dice, parts)
    ]
    places = [record.place for record in broker.log]
    shown: list[Moment] = []
    ends = sorted(dice.choice(places[len(places) // 3 :]) for _ in range(moments - 1))
    for number, upto in enumerate([*ends, places[-1] + 1][:moments]):
        topics = dice.choice(TOPICS)
        if number % 2 == dice.randrange(2):
            shown.append(Moment(None, upto, [record for record in broker.log if record.place < upto], topics))
            continue
        store = broker.write_store(place / f"{broker.name}-{number}", upto, removed=min(number, 1) * dice.randrange(2))
        lowest = min(int(path.name) for path in (store / "commitlog").iterdir())
        shown.append(Moment(store, upto, [record for record in broker.log if lowest <= record.place < upto], topics))
    return Evidence(files, shown).cut()


def of_another(broker: TrueBroker) -> list[tuple[str, list[Record]]]:
    """What lands of another broker that has the same log: halves, and some of its messages, no op."""
    halves = [record for record in broker.log if record.kind == "half"]
    messages = [record for record in broker.log if record.kind == "message" and record.place % 2]
    return [("half", halves), ("message", messages)]


def steps(
    evidence: Evidence, others: Sequence[Any], dice: random.Random, *, may_take_back: bool
) -> Iterator[tuple[str, Any]]:
    """The evidence mixed; files and moments wait as Evidence says, a take-back makes all of the broker land again."""
    waiting: list[tuple[str, Any]] = [("file", part) for part in evidence.files]
    waiting += [("moment", None) for _ in evidence.moments]
    waiting += [("other", part) for part in others]
    dice.shuffle(waiting)
    done: list[tuple[str, Any]] = []
    moments, live = iter(evidence.moments), 0
    while waiting:
        may_come = (
            number
            for number, (what, part) in enumerate(waiting)
            if what != "file" or evidence.waits_for(part[1][0]) <= live
        )
        what, part = waiting.pop(next(may_come))
        if what != "other":
            done.append((what, part))
        if what == "moment":
            part = next(moments)
            live += part.store is None
        yield what, part
        if dice.random() < 0.3:
            yield "reserve", dice.choice(RESERVED)
            yield "audit", None
        if may_take_back and dice.random() < 0.2:
            yield "take_back", None
            may_take_back, moments, live = False, iter(evidence.moments), 0
            waiting += done
            dice.shuffle(waiting)


def in_order(evidence: Evidence) -> Iterator[tuple[str, Any]]:
    """The evidence in few steps: of files all that may come, then moments up to the next live reading."""
    live = 0
    for moment in (*evidence.moments, None):
        if moment is None or moment.store is None:
            for kind in KINDS:
                reads = [each for of_kind, part in evidence.files for each in part if of_kind == kind]
                yield "file", (kind, [each for each in reads if evidence.waits_for(each) == live])
            live += 1
        if moment is not None:
            yield "moment", moment


def assert_any_order_is_one(
    open_house,
    place: Path,
    seed: str,
    tally: Counter[str],
    *,
    files_of_kind: dict[str, int],
    moments: int,
    takes_back: bool,
) -> None:
    dice = random.Random(seed)
    broker = TrueBroker(f"b{seed}", dice)
    broker.live(STORIES, topics=4)
    evidence, others = evidence_of(broker, place, files_of_kind, moments), of_another(broker)
    with live_capture("restart", place / broker.name, broker.name) as served:
        mixed = Landing(open_house(*ROLE, name=f"mixed-{seed}"), broker, served)
        reserved = dice.choice(RESERVED)
        mixed.reserve(dice.choice(RESERVED))
        for what, part in steps(evidence, others, dice, may_take_back=takes_back):
            getattr(mixed, what)(*([] if part is None else [part]))
        mixed.reserve(reserved)
        mixed.audit()
        once = Landing(open_house(*ROLE, name=f"once-{seed}"), broker, served)
        once.reserve(reserved)
        for part in others:
            once.other(part)
        for what, part in in_order(evidence):
            getattr(once, what)(part)
        once.audit()
    found = mixed.rows()
    for table, rows in once.rows().items():
        assert found[table] == rows, (seed, table)
    judged = [row for row in once.house.rows("verdict") if row["half_count"]]
    verdicts = [row for row in judged if row["broker_name"] == broker.name]
    tally.update(row["verdict"] for row in verdicts)
    tally.update(row["reason"] for row in verdicts)
    assert verdicts
    if not evidence.is_mistaken:
        assert_true(broker, {key_of(row): row for row in verdicts}, evidence.records)
    # No op of the other one has landed, nor what it gave up, whatever has of this one.
    of_other = {row["verdict"] for row in judged if row["broker_name"] != broker.name}
    assert not of_other & {"ROLLED_BACK", "COMMITTED", "CONFLICT", "DISCARDED", "COMMITTED_AND_DISCARDED"}


def key_of(row: dict[str, Any]) -> Any:
    """The key of a verdict as the true broker has it."""
    return Key(row["transaction_id"], round(row["born_timestamp"].timestamp() * 1000))


@pytest.mark.long
def test_one_history_of_mixed_evidence(open_house, tmp_path):
    once = {"half": 1, "op": 1, "message": 2, "max_time": 1}
    assert_any_order_is_one(open_house, tmp_path, "short6", Counter(), files_of_kind=once, moments=1, takes_back=False)


@pytest.mark.long
def test_mixed_evidence_in_any_order_and_cut_gives_the_rows_of_one_landing(open_house, tmp_path):
    tally: Counter[str] = Counter()
    parts = dict.fromkeys(KINDS, 2)
    for number in range(1, 1 + max(2, HISTORIES // 75)):
        assert_any_order_is_one(
            open_house,
            tmp_path,
            f"{SEED}-{number}",
            tally,
            files_of_kind=parts,
            moments=number % 4,
            takes_back=number % 2 > 0,
        )
    assert {"ROLLED_BACK", "RESOLVED_UNKNOWN", "COMMITTED", "PENDING", "EXPIRED_UNSEEN"} <= tally.keys()
    assert HISTORIES < 600 or {"read_past_op", "log_read", "live_read", "unread", "gap"} <= tally.keys()
