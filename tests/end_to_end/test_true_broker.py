"""What txmq says of brokers whose whole truth is known: nothing that is not so, and all that was shown."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from true_broker import Key, Read, Record, Shown, TrueBroker, flipped, parted
from truth import verdicts

from txmq_lib.names import VERDICTS

pytestmark = pytest.mark.long

HISTORIES = int(os.environ.get("TXMQ_HISTORIES", "600"))
SEED = int(os.environ.get("TXMQ_SEED", "20261123"))
SETTINGS = ("role=audit", "transaction_timeout=2s", "file_reserved_time=3650d")
KINDS = ("half", "op", "message", "max_time")
BATCHES = 3
STORIES_OF_A_STORE = 150
TAKEN = ("Real0", "Real1")
SAYS_NOT_COMMITTED = {"ROLLED_BACK"}
SAYS_UNDECIDED = {"PENDING", "DISCARDED", "DISCARDED_UNSEEN", "EXPIRED_UNSEEN"}
SAYS_COMMITTED = {"COMMITTED", "COMMITTED_OP_LOST", "COMMITTED_AND_DISCARDED", "CONFLICT", "DUPLICATED"}
# A verdict that is new says one of these, or must not be held to any.
assert SAYS_NOT_COMMITTED | SAYS_UNDECIDED | SAYS_COMMITTED | {"RESOLVED_UNKNOWN", "DIVERTED"} == {*VERDICTS}

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
    records, verdict = list(landed), said(rows)
    places = {record.place for record in records}
    for story in broker.stories:
        is_committed = story.was_committed_before(records)
        assert not (verdict.get(story.key) in SAYS_NOT_COMMITTED and is_committed), (broker.name, story.key)
        assert not (verdict.get(story.key) in SAYS_COMMITTED and not story.commits), (broker.name, story.key)
        # Whoever settles it by hand would have it visible twice.
        is_seen = any(message.prepared and message.place in places for message in story.commits)
        assert not (verdict.get(story.key) in SAYS_UNDECIDED and is_seen), (broker.name, story.key)


class Files:
    """What of a broker lands by and by as files: what was read of it at several times, some of it never."""

    def __init__(self, broker: TrueBroker, readings: int) -> None:
        self.broker, self.shown = broker, Shown()
        self.reads = list(read_at_times(broker, readings))

    def land(self, house, kind: str, reads: Iterable[Read]) -> None:
        landing = [read for read in reads if read.record.kind == kind]
        if landing:
            rows = [read.row() for read in landing]
            house.land_rows(kind.replace("_", "-"), rows, broker=self.broker.name, now=when(self.broker))
        for read in landing:
            self.shown.show(read)


def read_at_times(broker: TrueBroker, readings: int) -> Iterator[Read]:
    """All queues of a broker read at so many moments, the last one behind the last record.

    Each reading tells where the queues ended then, or does not of some (a landed file need not); it goes on behind the
    one before, or begins anew. Of some queues the file of a reading was lost.
    """
    dice, kept = broker.dice, {record.place for record in with_holes(broker)}
    places = [record.place for record in broker.log]
    moments = [*sorted(dice.sample(places[len(places) // 3 :], k=readings - 1)), places[-1] + 1]
    queues = sorted({record.queue for record in broker.log})
    tells = {queue: dice.random() < 0.7 for queue in queues}
    goes_on = dice.random() < 0.5
    for number, moment in enumerate(moments):
        begin = moments[number - 1] if goes_on and number else 0
        for queue in queues:
            there = [record for record in broker.log if record.queue == queue and record.place < moment]
            if readings > 1 and dice.random() < 0.25:
                continue
            for record in there:
                if record.place >= begin and record.place in kept:
                    yield Read(record, number, len(there) if tells[queue] else None)


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
    for broker, readings in zip(brokers, (1, 2), strict=True):
        broker.live(HISTORIES // 4, topics=max(3, HISTORIES // 40))
        files = Files(broker, readings)
        for part in parted(list(files.reads), dice, BATCHES):
            for kind in dice.sample(KINDS, k=len(KINDS)):
                files.land(cut, kind, part)
                if dice.random() < 0.3:
                    cut.audit(when(broker))
                    assert_files_true(files, told(cut, broker))
            cut.audit(when(broker))
            assert said(told(cut, broker)) == files.shown.verdicts()
            assert_files_true(files, told(cut, broker))
        for kind in KINDS:
            files.land(at_once, kind, files.reads)
        tally.update(files.shown.verdicts().values())
    at_once.audit(when(brokers[-1]))
    for broker in brokers:
        assert told(cut, broker) == told(at_once, broker)
        tally.update(row["reason"] for row in told(cut, broker).values())
    assert {"ROLLED_BACK", "RESOLVED_UNKNOWN", "COMMITTED", "PENDING"} <= tally.keys()
    assert HISTORIES < 600 or {"file_end", "unread"} <= tally.keys()


def assert_files_true(files: Files, rows: Told) -> None:
    if not files.shown.is_mistaken:
        assert_true(files.broker, rows, files.shown.records.values())


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
        ("left out", (f"land.topics={[*TAKEN]}",), (0, 0, 0)),
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
            taken = [one for one in landed if one.kind != "message" or what != "left out" or one.topic in TAKEN]
            assert_true(broker, told(house, broker), taken)
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
        for kind in KINDS:
            rows = [record.row() for record in broker.log if record.kind == kind]
            house.land_rows(kind.replace("_", "-"), rows, broker=broker.name)
        house.audit(when(broker))
        assert_no_more_than_true(broker, told(house, broker))


def assert_no_more_than_true(broker: TrueBroker, rows: Told) -> None:
    """All of the log has landed, some of it damaged before: a verdict may know less than is so, and never other."""
    truth = {Key(*key): one.verdict for key, one in verdicts(broker.facts()).items()}
    for key in rows.keys() & truth.keys():
        verdict, reason, true = rows[key]["verdict"], rows[key]["reason"], truth[key]
        if verdict in ("DUPLICATED", "ROLLED_BACK") or reason == "no_op":
            assert verdict == true, (broker.name, key)
        if verdict == "CONFLICT":  # of two messages one may be damaged
            assert true in ("CONFLICT", "DUPLICATED"), (broker.name, key)
        if verdict in SAYS_UNDECIDED and reason != "op_unread":
            assert true in SAYS_UNDECIDED, (broker.name, key)


def assert_no_false_rollback(
    broker: TrueBroker, rows: Told, landed: Iterable[Record], damaged: Iterable[Record]
) -> None:
    """A flipped bit may make another transaction of one, but never a rolled back one of a committed one."""
    records = list(landed)
    stories = {story.key: story for story in broker.stories}
    rolled_back = [key for key, verdict in said(rows).items() if verdict in SAYS_NOT_COMMITTED]
    assert not [key for key in rolled_back if key in stories and stories[key].was_committed_before(records)]
    renamed = {record.place for record in damaged if record.kind == "half"}
    may_be_new = [
        story
        for story in broker.stories
        if not story.was_committed_before(records) and renamed & {half.place for half in story.copies}
    ]
    assert len([key for key in rolled_back if key not in stories]) <= len(may_be_new)
