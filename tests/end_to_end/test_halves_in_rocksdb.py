"""Halves whose index a broker keeps in RocksDB (R116 to R121): what the broker forgot without a trace is told."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import truth
from captured import EPOCH, unpack_store
from house import BROKER

from txmq_lib.cli.run.status import limits
from txmq_lib.config.settings import Settings
from txmq_lib.views.advice import advice
from txmq_lib.views.problems import problems
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.status import read_status
from txmq_lib.views.trace import trace

# broker.conf of the capture: transactionTimeOut 2000, transactionCheckInterval 3000, transactionCheckMax 3.
SETTINGS = ("role=audit", "transaction_timeout=2", "transaction_check_interval=3", "transaction_check_max=3")
AFTERWARDS = datetime(2026, 11, 24, tzinfo=UTC)
UNCHECKED_AFTER_MS = 2_000 + (3 + 2) * 3_000
FILES = {"half": "half", "op": "op", "message": "visible"}
CAPTURE = "rocks"


def newest_ms(*names: str) -> int:
    return max(row["storeTimestamp"] for name in names for row in truth.rows(CAPTURE, name))


def expected(read_to_ms: int) -> dict[str, str]:
    """Verdict by transaction id: what the producer and the topics tell, and for the forgotten ones how old the log is."""

    def verdict(judged_row: truth.Row) -> str:
        if judged_row["truth"] != "GIVEN_UP_WITHOUT_TRACE":
            return judged_row["truth"]
        return "DISCARDED_UNSEEN" if read_to_ms > judged_row["born_timestamp"] + UNCHECKED_AFTER_MS else "PENDING"

    return {row["transaction_id"]: verdict(row) for row in truth.rows(CAPTURE, "verdicts")}


def judged(house) -> dict[str, str]:
    return {row["transaction_id"]: row["verdict"] for row in house.rows("verdict")}


def land_files(house, *kinds: str) -> None:
    for kind in kinds:
        house.land(kind, truth.CAPTURES / CAPTURE / f"{FILES[kind]}.jsonl.gz")


def test_files_give_each_of_300_transactions_what_became_of_it(open_house):
    house = open_house(*SETTINGS)
    land_files(house, *FILES)
    house.reconcile(AFTERWARDS)
    house.audit(AFTERWARDS)
    expected_verdicts = expected(newest_ms("half", "op", "visible"))
    assert judged(house) == expected_verdicts
    # 26 have no trace: 21 of them were born more than 17 s before the newest record.
    counts_or_advice = {"COMMITTED": 200, "ROLLED_BACK": 70, "DUPLICATED": 4, "DISCARDED_UNSEEN": 21, "PENDING": 5}
    assert Counter(expected_verdicts.values()) == counts_or_advice
    assert not house.rows("quarantine")
    reader = WarehouseReader(house.warehouse.uri)
    status = read_status(reader, AFTERWARDS, lag_window_ms=600_000)
    told_of = [one.text for one in problems(status, limits(house.settings)) if "without a trace" in one.text]
    assert len(told_of) == 1
    assert told_of[0].startswith("21 ")
    (forgotten,) = trace(reader, "C000020253AC4E0E2F2A752BFC8D0021")
    counts_or_advice = advice(forgotten.events)
    assert counts_or_advice is not None
    assert "only txmq knows" in counts_or_advice.meaning
    assert "--to-broker" in " ".join(counts_or_advice.to_do)
    (committed,) = trace(reader, "C000020253AC4E0E2F2A752BE7930001")
    assert [event.text for event in committed.events if event.event in ("half_stored", "op_written")] == [
        "half message stored at queue 0 of the RocksDB pair offset 1 (physical 400) for Ship-ment_3 queue 0",
        "op message 0 names physical offset 400",
    ]
    assert {row["transaction_id"] for row in house.rows("pending_half")} == {
        key for key, verdict in expected_verdicts.items() if verdict in ("PENDING", "DISCARDED_UNSEEN")
    }


def test_a_store_gives_each_of_them_the_same(open_house, tmp_path: Path):
    house = open_house(*SETTINGS)
    house.land_store(unpack_store(CAPTURE, tmp_path))
    house.audit(AFTERWARDS)
    assert judged(house) == expected(newest_ms("half", "op", "visible"))
    assert not house.rows("quarantine")
    frontier = {row["topic"]: (row["queue_id"], row["next_offset"]) for row in house.rows("landing_frontier")}
    assert frontier["RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"] == (0, len(truth.rows(CAPTURE, "half")))
    assert frontier["RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"] == (0, len(truth.rows(CAPTURE, "op")))


@pytest.mark.long
@pytest.mark.parametrize("order", [("op", "half", "message"), ("message", "half", "op")])
def test_the_order_of_landings_does_not_matter(open_house, order):
    house = open_house(*SETTINGS)
    for kind in order:
        land_files(house, kind)
        house.audit(AFTERWARDS)
    assert judged(house) == expected(newest_ms("half", "op", "visible"))


@pytest.mark.long
def test_it_is_pending_until_something_stored_later_lands_and_an_op_or_other_settings_correct_it(open_house):
    house = open_house(*SETTINGS)
    half = next(row for row in truth.rows(CAPTURE, "half") if row["queueOffset"] == 40)
    due_ms = max(half["bornTimestamp"] + 2_000, half["storeTimestamp"]) + 15_000
    later = next(row for row in truth.rows(CAPTURE, "visible") if row["storeTimestamp"] > due_ms)

    def verdict() -> str:
        house.audit(AFTERWARDS)
        (judged_row,) = (
            row for row in house.rows("verdict") if row["transaction_id"] == half["properties"]["UNIQ_KEY"]
        )
        ends = None if judged_row["op_count"] else EPOCH.replace(tzinfo=None) + timedelta(milliseconds=due_ms)
        assert judged_row["checks_end_timestamp"] == ends
        return judged_row["verdict"]

    house.land_rows("half", [half])
    assert verdict() == "PENDING"
    house.land_rows("message", [{**later, "queueOffset": 0, "storeTimestamp": due_ms}])
    assert verdict() == "PENDING"
    house.land_rows("message", [{**later, "queueOffset": 1, "storeTimestamp": due_ms + 1}])
    assert verdict() == "DISCARDED_UNSEEN"
    first_settings = house.settings
    house.settings = Settings.load(assignments=[*SETTINGS, "transaction_check_max=4"], warehouse=house.warehouse.uri)
    due_ms += 3_000
    assert verdict() == "PENDING"
    house.settings, due_ms = first_settings, due_ms - 3_000
    assert verdict() == "DISCARDED_UNSEEN"
    op = next(row for row in truth.rows(CAPTURE, "op"))
    place = {"TRANS_OFFSET": str(half["commitLogOffset"])}
    late = {**op, "commitLogOffset": 10**9, "queueOffset": 281, "properties": {**op["properties"], **place}}
    house.land_rows("op", [late])
    assert verdict() in ("RESOLVED_UNKNOWN", "ROLLED_BACK")
    house.reconcile(AFTERWARDS)
    (checkpoints,) = (
        dict(row["checkpoints"]) for row in house.rows("pass") if row["job"] == "reconcile" and row["checkpoints"]
    )
    assert checkpoints == {f"{BROKER}/-2": 41}, "all of its queue is decided: the offset behind the half"


def test_both_pairs_of_topics_side_by_side_do_not_meet(open_house):
    """A broker that was switched: queue 0 of either half topic, the same offsets, each half with its own op."""
    house = open_house(*SETTINGS)
    land_files(house, *FILES)
    before = {row["properties"]["UNIQ_KEY"] for row in truth.rows("restart", "half")}
    house.land("half", truth.CAPTURES / "restart" / "half.jsonl.gz")
    house.audit(AFTERWARDS)
    verdicts = judged(house)
    assert {key: verdict for key, verdict in verdicts.items() if key not in before} == expected(
        newest_ms("half", "op", "visible")
    )
    assert {verdicts[key] for key in before} <= {"PENDING", "EXPIRED_UNSEEN"}


def test_ops_that_name_nothing_are_told(open_house):
    house = open_house(*SETTINGS)
    op = next(row for row in truth.rows(CAPTURE, "op"))
    properties = {name: value for name, value in op["properties"].items() if name != "TRANS_OFFSET"}
    house.land_rows("op", [{**op, "properties": properties}])
    house.land_rows("op", [{**op, "queueOffset": 1, "properties": {**properties, "TRANS_OFFSET": "x"}}])
    assert [(row["reason"], row["topic"], row["queue_id"]) for row in house.rows("quarantine")] == [
        ("OP_HALF_PLACE", op["topic"], 0),
        ("OP_TOKEN", op["topic"], 0),
    ]


def test_an_engine_takes_no_half_of_such_a_broker(open_house):
    house = open_house("role=engine")
    land_files(house, "half")
    assert {row["reason"] for row in house.rows("quarantine")} == {"HALF_IN_ROCKSDB"}
    assert not house.rows("half_message")


@pytest.mark.long
def test_what_expired_before_its_checks_were_over_is_told_as_forgotten_once_they_are(open_house):
    """The reserved time is shorter than the checks: whatever landed in between, the verdict is that of one landing."""
    cut, once = (open_house(*SETTINGS, "file_reserved_time=5s", name=name) for name in ("cut", "once"))
    half = next(row for row in truth.rows(CAPTURE, "half") if row["queueOffset"] == 40)
    due_ms = max(half["bornTimestamp"] + 2_000, half["storeTimestamp"]) + 15_000
    later = next(row for row in truth.rows(CAPTURE, "visible") if row["storeTimestamp"] > due_ms)
    stored = [
        {**later, "queueOffset": number, "storeTimestamp": due_ms + past} for number, past in enumerate((-9_000, 1))
    ]
    for house in (cut, once):
        house.land_rows("half", [half])
    for row, verdict in zip(stored, ("EXPIRED_UNSEEN", "DISCARDED_UNSEEN"), strict=True):
        cut.land_rows("message", [row])
        cut.audit(AFTERWARDS)
        assert set(judged(cut).values()) == {verdict}
    once.land_rows("message", stored)
    once.audit(AFTERWARDS)
    assert judged(once) == judged(cut)
