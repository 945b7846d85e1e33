"""What txmq says of brokers whose whole truth is known: nothing that is not so, and all that was shown."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from true_broker import Key, Record, Shown, TrueBroker, flipped, parted
from truth import verdicts

pytestmark = pytest.mark.long

HISTORIES = int(os.environ.get("TXMQ_HISTORIES", "600"))
SEED = int(os.environ.get("TXMQ_SEED", "20261123"))
SETTINGS = ("role=audit", "transaction_timeout=2s", "file_reserved_time=3650d")
KINDS = ("half", "op", "message", "max_time")
BATCHES = 3
STORIES_OF_A_STORE = 150
SAYS_NOT_COMMITTED = {"ROLLED_BACK"}
SAYS_COMMITTED = {"COMMITTED", "COMMITTED_OP_LOST", "COMMITTED_AND_DISCARDED", "CONFLICT", "DUPLICATED"}

Told = dict[Key, dict[str, Any]]


def when(broker: TrueBroker) -> datetime:
    return datetime.fromtimestamp(broker.now_ms / 1000, UTC) + timedelta(minutes=1)


def told(house, broker: TrueBroker) -> Told:
    """Rows of `verdict` of a broker's transactions that have a half row, without what differs from pass to pass."""
    return {
        Key(row["transaction_id"], round(row["born_timestamp"].timestamp() * 1000)): {
            name: value for name, value in row.items() if name != "pass_number"
        }
        for row in house.rows("verdict")
        if row["broker_name"] == broker.name and row["half_count"]
    }


def said(rows: Told) -> dict[Key, str]:
    return {key: row["verdict"] for key, row in rows.items()}


def assert_true(broker: TrueBroker, rows: Told, landed: Iterable[Record]) -> None:
    """No verdict says what is not so."""
    ops, verdict = [record for record in landed if record.kind == "op"], said(rows)
    for story in broker.stories:
        is_committed = story.was_committed_before(ops)
        assert not (verdict.get(story.key) in SAYS_NOT_COMMITTED and is_committed), (broker.name, story.key)
        assert not (verdict.get(story.key) in SAYS_COMMITTED and not story.commits), (broker.name, story.key)


class Files:
    """What of a broker lands by and by as files: records, some never, and where their queues ended."""

    def __init__(self, broker: TrueBroker) -> None:
        self.broker, self.shown = broker, Shown()
        self.records = list(with_holes(broker))
        # Whoever reads them reads all: he tells where a queue ends, or does not (a landed file need not).
        queues = sorted({record.queue for record in broker.log})
        self.ends = {queue: broker.end_of(queue) if broker.dice.random() < 0.7 else None for queue in queues}

    def land(self, house, kind: str, records: Iterable[Record]) -> None:
        landing = [record for record in records if record.kind == kind]
        rows = [record.row(self.ends[record.queue]) for record in landing]
        if rows:
            house.land_rows(kind.replace("_", "-"), rows, broker=self.broker.name, now=when(self.broker))
        for record in landing:
            self.shown.show(record, self.ends[record.queue])


def with_holes(broker: TrueBroker) -> Iterable[Record]:
    """The records that ever land: not all of some queues' stretches and ends, nor some here and there."""
    dice, holes = broker.dice, {}
    queues = sorted({record.queue for record in broker.log if record.kind == "message"})
    for queue in dice.sample(queues, k=len(queues) // 3):
        low, size = dice.randrange(broker.end_of(queue)), broker.end_of(queue)
        holes[queue] = range(low, size if dice.random() < 0.5 else low + dice.randrange(1, 4))
    for record in broker.log:
        if record.queue_offset not in holes.get(record.queue, ()) and dice.random() > 0.01:
            yield record


@pytest.mark.parametrize("is_small", [True, False], indirect=True)
def test_files_with_holes_in_any_order_prove_what_they_show_and_no_more(open_house, is_small):
    at_once, cut = (open_house(*SETTINGS, name=name) for name in ("once", "cut"))
    dice = random.Random(SEED)
    tally: Counter[str] = Counter()
    brokers = [TrueBroker(name, dice) for name in ("a", "b")]
    for broker in brokers:
        broker.live(HISTORIES // 4, topics=max(3, HISTORIES // 40))
        files = Files(broker)
        for part in parted(list(files.records), dice, BATCHES):
            for kind in dice.sample(KINDS, k=len(KINDS)):
                files.land(cut, kind, part)
                if dice.random() < 0.3:
                    cut.audit(when(broker))
                    assert_true(broker, told(cut, broker), files.shown.records.values())
            cut.audit(when(broker))
            assert said(told(cut, broker)) == files.shown.verdicts()
        for kind in KINDS:
            files.land(at_once, kind, files.records)
        tally.update(files.shown.verdicts().values())
    at_once.audit(when(brokers[-1]))
    for broker in brokers:
        assert told(cut, broker) == told(at_once, broker)
    assert {"ROLLED_BACK", "RESOLVED_UNKNOWN", "COMMITTED", "PENDING"} <= tally.keys()


def grown(broker: TrueBroker, place: Path, removed: Iterable[int]) -> Iterable[tuple[Path, list[Record]]]:
    """The store at several moments, each without its first files, and the records that have been in one of them."""
    places = [record.place for record in broker.log]
    moments = [*sorted(broker.dice.sample(places[len(places) // 4 :], k=2)), places[-1] + 1]
    seen: dict[int, Record] = {}
    for number, (upto, files) in enumerate(zip(moments, removed, strict=True)):
        store = broker.write_store(place / f"{broker.name}-{number}", upto, removed=files)
        lowest = min(int(path.name) for path in (store / "commitlog").iterdir())
        seen |= {record.place: record for record in broker.log if lowest <= record.place < upto}
        yield store, [*seen.values()]


@pytest.mark.parametrize(
    ("what", "settings", "removed"),
    [
        ("whole", (), (0, 0, 0)),
        ("left out", ("land.topics=['Real0', 'Real1*']",), (0, 0, 0)),
        ("removed", (), (0, 2, 4)),
    ],
)
def test_a_store_says_only_what_was_read_of_it(open_house, tmp_path, what, settings, removed):
    dice, house = random.Random(f"{SEED} {what}"), open_house(*SETTINGS, *settings)
    reasons: Counter[str] = Counter()
    for number in range(max(2, HISTORIES // (4 * STORIES_OF_A_STORE))):
        broker = TrueBroker(f"s{number}", dice)
        broker.live(STORIES_OF_A_STORE, topics=6)
        for store, landed in grown(broker, tmp_path, removed):
            house.land_store(store, broker=broker.name, now=when(broker))
            house.audit(when(broker))
            assert_true(broker, told(house, broker), landed)
        found = told(house, broker)
        reasons.update(row["reason"] for row in found.values() if row["verdict"] == "RESOLVED_UNKNOWN")
        if what == "whole":
            assert said(found) == {Key(*key): one.verdict for key, one in verdicts(broker.facts()).items()}
    assert bool(reasons) == (what != "whole")


def test_a_flipped_bit_of_a_store_makes_no_committed_transaction_a_rolled_back_one(open_house, tmp_path):
    dice, house = random.Random(f"{SEED} flipped"), open_house(*SETTINGS)
    for number in range(max(2, HISTORIES // (4 * STORIES_OF_A_STORE))):
        broker = TrueBroker(f"s{number}", dice)
        broker.live(STORIES_OF_A_STORE, topics=6)
        damaged = dice.sample(broker.log, k=12)
        flips = [(record, dice.randrange(record.size), dice.randrange(8)) for record in damaged]
        for store, landed in grown(broker, tmp_path, (0, 0, 0)):
            there = {record.place for record in landed}
            for record, at, bit in flips:
                if record.place in there:
                    flipped(store, record, at, bit)
            house.land_store(store, broker=broker.name, now=when(broker))
            house.audit(when(broker))
            assert_no_false_rollback(broker, told(house, broker), landed, damaged)


def assert_no_false_rollback(
    broker: TrueBroker, rows: Told, landed: Iterable[Record], damaged: Iterable[Record]
) -> None:
    """A flipped bit may make another transaction of one, but never a rolled back one of a committed one."""
    ops = [record for record in landed if record.kind == "op"]
    stories = {story.key: story for story in broker.stories}
    rolled_back = [key for key, verdict in said(rows).items() if verdict in SAYS_NOT_COMMITTED]
    assert not [key for key in rolled_back if key in stories and stories[key].was_committed_before(ops)]
    renamed = {record.place for record in damaged if record.kind == "half"}
    may_be_new = [
        story
        for story in broker.stories
        if not story.was_committed_before(ops) and renamed & {half.place for half in story.copies}
    ]
    assert len([key for key in rolled_back if key not in stories]) <= len(may_be_new)
