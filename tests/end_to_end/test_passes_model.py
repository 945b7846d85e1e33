"""Whole passes over thousands of random histories side by side, against the reference in plain Python."""

from __future__ import annotations

import os
import random
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pytest
from engine_model import Check, Engine, GivenUp, Limits, Pending, Transaction, Visible
from histories import PLACES, START_MS, STORED, Event, audit_history, engine_history, rows_of
from truth import Facts, pending, said

K = TypeVar("K")
BATCHES, SPAN_MS = 4, 12_000
LIMITS = Limits(timeout_ms=2_000, interval_ms=3_000, check_max=2, reserved_ms=14_000)
SETTINGS = (
    "transaction_timeout=2s",
    "transaction_check_interval=3s",
    "transaction_check_max=2",
    "file_reserved_time=14s",
)
HISTORIES = int(os.environ.get("TXMQ_HISTORIES", "600"))
SEED = int(os.environ.get("TXMQ_SEED", "20261121"))
KINDS = (*STORED, "end")


def pass_ms(batch: int) -> int:
    """When the pass after a batch takes place: once the clock jumps back, and at last everything expires."""
    return START_MS + (4_000, 8_000, 6_500, 16_000, 20_000, 30_000)[batch]


def moment(ms: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)


def ms(value: datetime | None) -> int | None:
    return None if value is None else round(value.timestamp() * 1000)


def landed(house, histories: list[list[Event]], batch: int) -> list[dict[str, list[Event]]]:
    """Land one batch of all histories; what landed of each, in landing order."""
    together: dict[str, list[Event]] = defaultdict(list)
    of_histories = []
    for history in histories:
        mine = defaultdict(list)
        for event in history:
            if event.batch == batch:
                mine[event.kind].append(event)
                together[event.kind].append(event)
        of_histories.append(mine)
    for kind in KINDS:
        if together[kind]:
            house.land_rows(kind.replace("_", "-"), rows_of(together[kind]), broker="b")
    return of_histories


def feed(model: Engine, batch: int, events: dict[str, list[Event]]) -> None:
    model.land_halves(event.what for event in events["half"])
    model.land_ends(batch, enumerate(event.what for event in events["end"]))


@pytest.mark.long
@pytest.mark.parametrize(
    ("rolls_back", "is_small"),
    [(False, True), (True, True), (False, False), (True, False)],
    ids=str,
    indirect=["is_small"],
)
def test_engine_passes_do_to_every_history_what_the_model_does(open_house, rolls_back, is_small):
    house = open_house(*SETTINGS, f"roll_back_given_up={str(rolls_back).lower()}")
    dice = random.Random(SEED + rolls_back)
    histories = [engine_history(number, dice, BATCHES, SPAN_MS) for number in range(HISTORIES // 2)]
    models = [Engine(LIMITS._replace(rolls_back_given_up=rolls_back)) for _ in histories]
    for batch in range(BATCHES + 2):
        for model, events in zip(models, landed(house, histories, batch), strict=True):
            feed(model, batch, events)
            model.reconcile(pass_ms(batch))
        house.reconcile(moment(pass_ms(batch)))
        if batch in (1, BATCHES + 1):
            house.audit(moment(pass_ms(batch)))
        assert pending_rows(house) == {
            transaction: row for model in models for transaction, row in model.pending.items()
        }, f"after batch {batch}"
    assert_same(house, models)
    by_outcome = Counter(judgement.outcome for model in models for judgement in model.judged.values())
    assert by_outcome.keys() >= {"accepted", "repeated", "contradicting", "refused"}
    assert {row.reason for model in models for row in model.given_up} == {"expired", "check_max"}
    assert sum(model.conflicts for model in models)


def assert_same(house, models: list[Engine]) -> None:
    """Every table the engine writes, against all models."""
    judged = Counter((place_of(row) // PLACES, row["outcome"], row["reason"]) for row in house.rows("end_outcome"))
    assert judged == Counter(
        (number, *judgement) for number, model in enumerate(models) for judgement in model.judged.values()
    )
    messages = house.rows("message")
    visible = Counter(Visible(row["topic"], row["queue_id"], row["queue_offset"], row["prepared_transaction_offset"],
                              bytes(row["body"]).decode()) for row in messages)  # fmt: skip
    assert visible == Counter(message for model in models for message in model.visible)
    ops = Counter(row["half_queue_offset"] for row in house.rows("op_message"))
    assert ops == Counter({offset: times for model in models for offset, times in model.named_by_ops.items() if times})
    gone = Counter(
        GivenUp(
            key_of(row), row["half_commit_log_offset"], row["check_times"], row["reason"], ms(row["given_up_timestamp"])
        )
        for row in house.rows("trans_check_max_time")
    )
    assert gone == Counter(row for model in models for row in model.given_up)
    checks = Counter(
        Check(key_of(row), row["check_times"], ms(row["check_timestamp"]), row["tran_state_table_offset"])
        for row in house.rows("check_request")
    )
    assert checks == Counter(check for model in models for check in model.checks)
    found = {key_of(row): row["verdict"] for row in house.rows("verdict")}
    assert found == {key: verdict for model in models for key, verdict in model.verdicts().items()}
    conflicts = sum(row["reason"] == "KEY_CONFLICT" for row in house.rows("quarantine"))
    assert conflicts == sum(model.conflicts for model in models)


def place_of(row: dict) -> int:
    return row["commit_log_offset"]


def key_of(row: dict) -> Transaction:
    return Transaction(row["transaction_id"], row["producer_group"], ms(row["born_timestamp"]))


def pending_rows(house) -> dict[Transaction, Pending]:
    return {
        key_of(row): Pending(tuple(row["half_offsets"]), row["check_times"], ms(row["last_check_timestamp"]))
        for row in house.rows("pending_half")
    }


def facts_of(events: list[Event]) -> Facts:
    """What landed, each message once, as the truth of captures takes it."""
    return facts_of_rows(
        {kind: {event.what["commitLogOffset"]: event.what for event in events if event.kind == kind} for kind in STORED}
    )


def facts_of_rows(landed: dict[str, dict[int, dict]]) -> Facts:
    """The same of rows by kind and physical offset."""
    return Facts(*[[*landed[kind].values()] for kind in STORED])


@pytest.mark.long
@pytest.mark.parametrize("is_small", [True, False], indirect=True)
def test_what_a_broker_stored_gets_the_same_verdicts_at_once_and_cut_anywhere(open_house, is_small):
    at_once, cut = (open_house("role=audit", *SETTINGS[:3], name=name) for name in ("once", "cut"))
    dice = random.Random(SEED + 2)
    histories = [audit_history(number, dice, BATCHES, SPAN_MS) for number in range(HISTORIES // 2)]
    events: list[Event] = []
    for batch in range(BATCHES):
        landed(cut, histories, batch)
        events += [event for history in histories for event in history if event.batch == batch]
        cut.reconcile(moment(pass_ms(batch)))
        cut.audit(moment(pass_ms(batch)))
        judge_audit(cut, facts_of(events))
    landed(at_once, [[event._replace(batch=0) for event in history] for history in histories], 0)
    at_once.reconcile(moment(pass_ms(BATCHES)))
    at_once.audit(moment(pass_ms(BATCHES)))
    judge_audit(at_once, facts_of(events))


def without_proof(verdicts: dict[K, str]) -> dict[K, str]:
    """What is proved of a rollback, tests/end_to_end/test_proof_of_rollback.py judges: here it is resolved."""
    return {key: "ROLLED_BACK" if verdict == "RESOLVED_UNKNOWN" else verdict for key, verdict in verdicts.items()}


def judge_audit(house, facts: Facts) -> None:
    expected = {(key.transaction_id, key.born_ms): verdict for key, verdict in said(facts).items()}
    rows = house.rows("verdict")
    with_half = {
        (row["transaction_id"], ms(row["born_timestamp"])): row["verdict"] for row in rows if row["half_count"]
    }
    assert without_proof(with_half) == without_proof(expected)
    undecided = {(row["transaction_id"], ms(row["born_timestamp"])) for row in house.rows("pending_half")}
    assert undecided == {(key.transaction_id, key.born_ms) for key in pending(facts)}
