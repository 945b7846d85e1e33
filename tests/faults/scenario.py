"""What the fault matrix runs, in the scenarios `whole`, `short` and `by-hand`.

whole    passes of the daily jobs over late, early, repeated and contradicting input of two brokers
short    a first reconcile of one broker
by-hand  a broker's store landed, answers, decisions of people, a landing taken back, upkeep
"""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from captured import unpack_store
from engine_model import Half, Transaction
from histories import START_MS, STORED, Event, audit_history, engine_history, rows_of

BATCHES, SPAN_MS = 2, 8_000
HISTORIES = 40
ASSIGNMENTS = (
    "transaction_timeout=2s",
    "transaction_check_interval=3s",
    "transaction_check_max=1",
    "brokers.watched.role=audit",
)
ENGINE_KINDS, AUDIT_KINDS = ("half", "end"), STORED
MISTYPED, LATER = "mistyped", "later"
ANSWER, DONE = "answer: ", "done"  # begins what the driver says itself: its JVM prints too
WHOLE, SHORT, BY_HAND = "whole", "short", "by-hand"
# Who asks in `by-hand`: nobody serves the group of the transaction that a person settles.
DATABASE, DATABASE_URL = "answers.db", "FAULTS_DATABASE_URL"
RESOLVERS = tuple(
    f"resolvers.{group}.{key}={value}"
    for group in "AB"
    for key, value in {
        "kind": "sql",
        "url_env": DATABASE_URL,
        "table": "log",
        "key_column": "id",
        "state_column": "state",
        "commit": "[DONE]",
        "rollback": "[UNDONE]",
        "unknown": "[OPEN]",
    }.items()
)


class Step(NamedTuple):
    """One job: `kind`, `file` and `broker` of a landing, what a person names; `now` in epoch ms. Upkeep may be LATER."""

    job: str
    now_ms: int
    kind: str = ""
    file: str = ""
    broker: str = ""
    transaction: str = ""

    @property
    def now(self) -> datetime:
        """The clock of the step."""
        return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=self.now_ms)


def write_inputs(place: Path, seed: int, scenario: str = WHOLE) -> list[Step]:
    """Write the files of all landings of a scenario to `place`; the steps in order."""
    place.mkdir(parents=True, exist_ok=True)
    dice = random.Random(seed)
    if scenario == BY_HAND:
        return _by_hand(place, dice)
    steps = _whole(place, dice)
    if scenario == SHORT:
        return [step for step in steps if step.now_ms == steps[0].now_ms and _is_of_first_reconcile(step)]
    return steps


def write_every_job(place: Path) -> list[Step]:
    """Inputs of `by-hand`, with a roll-up before its audit, and its steps as a driver reads them; the steps in order."""
    steps = write_inputs(place, 4, BY_HAND)
    audit = next(number for number, step in enumerate(steps) if step.job == "audit")
    steps.insert(audit, Step("rollup", steps[audit].now_ms))
    (place / "steps.json").write_text(json.dumps(steps), encoding="utf-8")
    return steps


def _whole(place: Path, dice: random.Random) -> list[Step]:
    engine = [engine_history(number, dice, BATCHES, SPAN_MS) for number in range(HISTORIES)]
    watched = [audit_history(number, dice, BATCHES, SPAN_MS) for number in range(HISTORIES)]
    steps: list[Step] = []
    for batch in range(BATCHES):
        now_ms = START_MS + (batch + 1) * 4_000
        for broker, kinds, histories in (("served", ENGINE_KINDS, engine), ("watched", AUDIT_KINDS, watched)):
            for kind in kinds:
                rows: list[Any] = rows_of(_events(histories, batch, kind))
                name = f"{broker}-{kind}-{batch}.jsonl"
                _write(place / name, rows, broken=kind == "half")
                steps.append(Step("land", now_ms, kind.replace("_", "-"), name, broker))
        for kind, rows in (("offset", _offsets(dice, batch)), ("ack", _acks(dice, batch))):
            name = f"{kind}-{batch}.jsonl"
            _write(place / name, rows, broken=True)
            steps.append(Step("land", now_ms, kind, name, "served"))
        steps += [Step(job, now_ms) for job in ("reconcile", "rollup", "audit")]
    return steps


def _by_hand(place: Path, dice: random.Random) -> list[Step]:
    events = [event for number in range(HISTORIES) for event in engine_history(number, dice, 1, SPAN_MS)]
    settled = Transaction("by hand", "H", START_MS)
    events.append(Event(0, "half", Half(settled, 9_999, 10**9, START_MS, "T", 0, None, "settled")))
    for kind in ENGINE_KINDS:
        _write(place / f"{kind}.jsonl", rows_of([event for event in events if event.kind == kind]), broken=False)
    _write_answers(place / DATABASE, dice, [event.what.transaction for event in events if event.kind == "half"])
    unpack_store("basic", place)
    late = [event for number in range(HISTORIES, 2 * HISTORIES) for event in engine_history(number, dice, 1, SPAN_MS)]
    _write(place / "late.jsonl", rows_of([event for event in late if event.kind == "half"]), broken=False)
    at = [START_MS + 4_000 + 1_000 * second for second in range(9)]
    return [
        Step("land", at[0], "half", "half.jsonl", "served"),
        Step("land", at[0], "end", "end.jsonl", "served"),
        Step("land", at[0], "half", "half.jsonl", MISTYPED),
        Step("land-store", at[0], file="store", broker="watched"),
        *[Step(job, at[0]) for job in ("reconcile", "audit", "maintain")],
        # Nobody has seen these: the feeds give them after they were taken back as well.
        Step("land", at[1], "half", "late.jsonl", MISTYPED),
        Step("take-back", at[1], broker=MISTYPED),
        Step("resolve", at[2]),
        Step("settle", at[2], transaction=settled.transaction_id),
        Step("reconcile", at[2]),
        # The others are given up, and taken up again.
        Step("reconcile", at[8]),
        Step("resume", at[8], broker="served"),
        *[Step(job, at[8]) for job in ("reconcile", "audit")],
        Step("maintain", at[8], LATER),
    ]


def _write_answers(database: Path, dice: random.Random, transactions: Iterable[Transaction]) -> None:
    states = {one.transaction_id: dice.choice(("DONE", "UNDONE", "OPEN", None)) for one in transactions}
    with sqlite3.connect(database) as log:
        log.execute("create table log (id text primary key, state text)")
        log.executemany("insert into log values (?, ?)", [each for each in states.items() if each[1]])
    log.close()


def _is_of_first_reconcile(step: Step) -> bool:
    return step.job == "reconcile" or (step.broker == "served" and step.kind in ENGINE_KINDS)


def _events(histories: list[list[Event]], batch: int, kind: str) -> list[Event]:
    return [event for history in histories for event in history if (event.batch, event.kind) == (batch, kind)]


def _offsets(dice: random.Random, batch: int) -> list[Any]:
    return [
        {
            "ts": START_MS + dice.randrange(8_000),
            "group": dice.choice("GH"),
            "topic": "T",
            "queueId": dice.randrange(3),
            "offset": batch * 50 + dice.randrange(100),
            "increaseOnly": dice.random() < 0.8,
            "clientId": dice.choice("xy"),
        }
        for _ in range(60)
    ]


def _acks(dice: random.Random, batch: int) -> list[Any]:
    base = {"group": "A", "topic": "T", "queueId": 0, "clientId": "x"}
    first = batch * 20
    taken = list(range(first, first + 20))
    return [
        {"ts": START_MS + first, **base, "event": "allocated", "offsets": []},
        {"ts": START_MS + first + 1, **base, "event": "taken", "offsets": taken},
        {"ts": START_MS + first + 2, **base, "event": "acked", "offsets": dice.sample(taken, 12)},
    ]


def _write(path: Path, rows: list[Any], *, broken: bool) -> None:
    lines = [json.dumps(row) for row in rows] + (['{"torn'] if broken else [])
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
