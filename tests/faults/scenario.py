"""What the fault matrix runs: passes of every job over late, early, repeated and contradicting input of two brokers."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from histories import START_MS, Event, audit_history, engine_history, rows_of

BATCHES, SPAN_MS = 2, 8_000
HISTORIES = 40
ASSIGNMENTS = (
    "transaction_timeout=2s",
    "transaction_check_interval=3s",
    "transaction_check_max=1",
    "brokers.watched.role=audit",
)
ENGINE_KINDS, AUDIT_KINDS = ("half", "end"), ("half", "op", "message", "max_time")


class Step(NamedTuple):
    """One job: `kind`, `file` and `broker` of a landing; `now` in epoch ms."""

    job: str
    now_ms: int
    kind: str = ""
    file: str = ""
    broker: str = ""

    @property
    def now(self) -> datetime:
        """The clock of the step."""
        return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=self.now_ms)


def write_inputs(place: Path, seed: int, *, is_short: bool = False) -> list[Step]:
    """Write the files of all landings to `place`; the steps in order. A short one is a first reconcile of one broker."""
    place.mkdir(parents=True, exist_ok=True)
    dice = random.Random(seed)
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
    if is_short:
        return [step for step in steps if step.now_ms == steps[0].now_ms and _is_of_first_reconcile(step)]
    return steps


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
