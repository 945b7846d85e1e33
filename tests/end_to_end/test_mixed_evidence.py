"""Files with holes, stores, take-backs and settings that change, in any order and cut: the rows of one landing of all."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from house import House, wall_clock
from test_true_broker import KINDS, Files, assert_true, when
from true_broker import Key, Read, Record, Shown, TrueBroker, parted

from txmq_lib.config.settings import Settings
from txmq_lib.names import ORPHAN_HALF_LANDED
from txmq_lib.pipeline.take_back import run_take_back

HISTORIES = int(os.environ.get("TXMQ_HISTORIES", "600"))
SEED = int(os.environ.get("TXMQ_SEED", "20261124"))
ROLE = ("role=audit", "transaction_timeout=2s")
# From one under which all that hangs has expired to one under which nothing has.
RESERVED = ("2s", "20s", "3650d")
STORIES = 40
SAME = ("verdict", "orphan", "quarantine")
OF_A_PASS = {"pass_number", "quarantined_timestamp", "source"}


@dataclass
class Evidence:
    """What lands of a broker: files of one kind each in any order, stores in that of their moments."""

    files: list[tuple[str, list[Read]]]
    stores: list[tuple[Path, list[Record]]]

    @property
    def records(self) -> list[Record]:
        """All that has been shown by it."""
        shown = {read.record.place: read.record for _, part in self.files for read in part}
        shown |= {record.place: record for _, records in self.stores for record in records}
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
    landed: list[Any] = field(default_factory=list)
    stores: int = 0

    def file(self, part: tuple[str, list[Read]]) -> None:
        kind, reads = part
        if reads:
            rows = [read.row() for read in reads]
            self.house.land_rows(kind.replace("_", "-"), rows, broker=self.broker.name, now=when(self.broker))

    def store(self, store: Path) -> None:
        self.house.land_store(store, broker=self.broker.name, now=when(self.broker))

    def reserve(self, reserved: str) -> None:
        uri = self.house.warehouse.uri
        self.house.settings = Settings.load(assignments=[*ROLE, f"file_reserved_time={reserved}"], warehouse=uri)

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
            apply=True,
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


def evidence_of(broker: TrueBroker, place: Path, files_of_kind: dict[str, int], stores: int) -> Evidence:
    dice = broker.dice
    reads = Files(broker, dice.choice((1, 2))).reads
    files = [
        (kind, part)
        for kind, parts in files_of_kind.items()
        for part in parted([read for read in reads if read.record.kind == kind], dice, parts)
    ]
    places = [record.place for record in broker.log]
    shown: list[tuple[Path, list[Record]]] = []
    for number in range(stores):
        upto = dice.choice(places[len(places) // 3 :]) if number == 0 else places[-1] + 1
        store = broker.write_store(place / f"{broker.name}-{number}", upto, removed=number * dice.randrange(2))
        lowest = min(int(path.name) for path in (store / "commitlog").iterdir())
        shown.append((store, [record for record in broker.log if lowest <= record.place < upto]))
    return Evidence(files, shown)


def steps(evidence: Evidence, dice: random.Random, *, may_take_back: bool) -> Iterator[tuple[str, Any]]:
    """The evidence mixed; stores keep their order, a take-back makes all land again."""
    waiting: list[tuple[str, Any]] = [("file", part) for part in evidence.files]
    waiting += [("store", None) for _ in evidence.stores]
    dice.shuffle(waiting)
    done: list[tuple[str, Any]] = []
    stores = iter(evidence.stores)
    while waiting:
        what, part = waiting.pop()
        done.append((what, part))
        yield what, part if what == "file" else next(stores)[0]
        if dice.random() < 0.3:
            yield "reserve", dice.choice(RESERVED)
            yield "audit", None
        if may_take_back and dice.random() < 0.2:
            yield "take_back", None
            may_take_back, stores = False, iter(evidence.stores)
            waiting += done
            dice.shuffle(waiting)


def assert_any_order_is_one(
    open_house,
    place: Path,
    seed: str,
    tally: Counter[str],
    *,
    files_of_kind: dict[str, int],
    stores: int,
    takes_back: bool,
) -> None:
    dice = random.Random(seed)
    broker = TrueBroker(f"b{seed}", dice)
    broker.live(STORIES, topics=4)
    evidence = evidence_of(broker, place, files_of_kind, stores)
    mixed = Landing(open_house(*ROLE, name=f"mixed-{seed}"), broker)
    reserved = dice.choice(RESERVED)
    mixed.reserve(dice.choice(RESERVED))
    for what, part in steps(evidence, dice, may_take_back=takes_back):
        getattr(mixed, what)(*([] if part is None else [part]))
    mixed.reserve(reserved)
    mixed.audit()
    once = Landing(open_house(*ROLE, name=f"once-{seed}"), broker)
    once.reserve(reserved)
    for kind in KINDS:
        once.file((kind, [read for of_kind, part in evidence.files for read in part if of_kind == kind]))
    for store, _ in evidence.stores:
        once.store(store)
    once.audit()
    found = mixed.rows()
    for table, rows in once.rows().items():
        assert found[table] == rows, (seed, table)
    verdicts = [row for row in once.house.rows("verdict") if row["half_count"]]
    tally.update(row["verdict"] for row in verdicts)
    tally.update(row["reason"] for row in verdicts)
    assert verdicts
    if not evidence.is_mistaken:
        assert_true(broker, {key_of(row): row for row in verdicts}, evidence.records)


def key_of(row: dict[str, Any]) -> Any:
    """The key of a verdict as the true broker has it."""
    return Key(row["transaction_id"], round(row["born_timestamp"].timestamp() * 1000))


def test_one_history_of_mixed_evidence(open_house, tmp_path):
    once = {"half": 1, "op": 1, "message": 2, "max_time": 1}
    assert_any_order_is_one(open_house, tmp_path, "short6", Counter(), files_of_kind=once, stores=1, takes_back=False)


@pytest.mark.long
def test_mixed_evidence_in_any_order_and_cut_gives_the_rows_of_one_landing(open_house, tmp_path):
    tally: Counter[str] = Counter()
    parts = dict.fromkeys(KINDS, 2)
    for number in range(max(2, HISTORIES // 150)):
        assert_any_order_is_one(
            open_house,
            tmp_path,
            f"{SEED}-{number}",
            tally,
            files_of_kind=parts,
            stores=number % 3,
            takes_back=number % 2 > 0,
        )
    assert {"ROLLED_BACK", "RESOLVED_UNKNOWN", "COMMITTED", "PENDING", "EXPIRED_UNSEEN"} <= tally.keys()
    assert {"read_past_op", "log_read", "unread", "gap"} <= tally.keys()
