"""Engine role: from half and end rows alone txmq decides what the broker's rules accept first, once."""

from __future__ import annotations

import base64

import pytest
import truth
from truth import CAPTURES, Transaction, rows

SETTINGS = ("transaction_timeout=2", "transaction_check_interval=3", "transaction_check_max=3")
CLEARED = {"REAL_TOPIC", "REAL_QID", "TRAN_MSG", *("MIN_OFFSET", "MAX_OFFSET")}
REFUSED = {  # scenario of the capture -> our reason; the broker's code is in the capture
    "s11_wrong_group": "PRODUCER_GROUP_WRONG",
    "s11_wrong_queue_offset": "STATE_TABLE_OFFSET_WRONG",
    "s11_commitlog_of_other_group": "PRODUCER_GROUP_WRONG",
    "s11_commitlog_not_a_boundary": "PREPARED_NOT_FOUND",
    "s11_commitlog_beyond_end": "PREPARED_NOT_FOUND",
    "s11_bad_commitOrRollback": "COMMIT_OR_ROLLBACK_WRONG",
    "s11_end_on_visible_message": "PREPARED_NOT_FOUND",
    "s06_imm_late": "IMMUNITY_EXPIRED",
}


@pytest.fixture
def engine(open_house, request):
    house = open_house(*SETTINGS)
    ends = [CAPTURES / request.param / f"{name}.jsonl.gz" for name in ("ends", "ends_crafted")]
    house.land("half", CAPTURES / request.param / "half.jsonl.gz")
    house.land("end", *[path for path in ends if path.exists()])
    house.reconcile()
    return house


def first_accepted(capture: str) -> dict[Transaction, str | None]:
    return {
        Transaction(row["transaction_id"], row["born_timestamp"]): row["first_accepted_end"]
        for row in rows(capture, "verdicts")
    }


def decided(house) -> dict[Transaction, str]:
    return {
        Transaction(row["transaction_id"], int(row["born_timestamp"].timestamp() * 1000 + 0.5)): row["decision"]
        for row in house.rows("end_outcome")
        if row["is_effective"]
    }


@pytest.mark.parametrize("engine", ["basic"], indirect=True)
def test_what_the_engine_writes_itself_is_no_sign_that_the_source_was_read_further(engine):
    newest_ms = max(row["storeTimestamp"] for row in rows("basic", "half"))
    frontier = engine.rows("landing_frontier")
    read_to = {row["highest_store_timestamp"].timestamp() for row in frontier if row["highest_store_timestamp"]}
    assert max(read_to) == pytest.approx(newest_ms / 1000, abs=0.0005)
    visible = {(row["topic"], row["queue_id"]) for row in engine.rows("message")}
    assert visible
    assert visible <= {(row["topic"], row["queue_id"]) for row in frontier}


@pytest.mark.parametrize(("engine", "capture"), [("basic", "basic"), ("consumer", "consumer")], indirect=["engine"])
def test_the_first_accepted_end_decides_and_its_message_is_the_half_it_names(engine, capture):
    first_ends = first_accepted(capture)
    ours = decided(engine)
    assert ours == {key: end for key, end in first_ends.items() if end is not None}
    visible = {row["properties"]["UNIQ_KEY"] for row in rows(capture, "visible") if row["sysFlag"] & 0xC == 8}
    differing = {key for key in first_ends if (key.transaction_id in visible) != (ours.get(key) == "commit")}
    outcomes = engine.rows("end_outcome")
    contradicted = {row["transaction_id"] for row in outcomes if row["outcome"] == "contradicting"}
    assert len(differing) == {"basic": 3, "consumer": 0}[capture]
    assert {key.transaction_id for key in differing} <= contradicted
    assert_messages_equal_their_halves(engine, capture)
    before = engine.versions()
    engine.reconcile()
    assert engine.versions() == before


def assert_messages_equal_their_halves(engine, capture) -> None:
    halves = {row["commitLogOffset"]: row for row in rows(capture, "half")}
    messages = engine.rows("message")
    assert len(messages) == sum(1 for decision in decided(engine).values() if decision == "commit")
    for message in messages:
        half = halves[message["prepared_transaction_offset"]]
        stored = half["properties"]
        assert message["topic"] == stored["REAL_TOPIC"]
        assert message["queue_id"] == int(stored["REAL_QID"])
        assert bytes(message["body"]) == base64.b64decode(half["bodyBase64"])
        assert message["properties"] == {name: value for name, value in stored.items() if name not in CLEARED}
        assert (message["tags"], message["keys"], message["flag"]) == (half["tags"], half["keys"], half["flag"])
        assert int(message["born_timestamp"].timestamp() * 1000 + 0.5) == half["bornTimestamp"]
        assert message["born_host"] == half["bornHost"]
        assert message["sys_flag"] == half["sysFlag"] | 8
    queues: dict[tuple[str, int], list[int]] = {}
    for message in messages:
        queues.setdefault((message["topic"], message["queue_id"]), []).append(message["queue_offset"])
    assert all(sorted(offsets) == list(range(len(offsets))) for offsets in queues.values())


@pytest.mark.parametrize("engine", ["basic"], indirect=True)
def test_what_the_broker_refused_is_refused_and_what_it_repeated_is_repeated(engine):
    outcomes = {
        (row["commit_log_offset"], int(row["ts"].timestamp() * 1000 + 0.5), row["commit_or_rollback"]): row
        for row in engine.rows("end_outcome")
    }
    crafted = rows("basic", "ends_crafted")
    for end in crafted:
        header = end["header"]
        row = outcomes[(int(header["commitLogOffset"]), end["ts"], int(header["commitOrRollback"]))]
        if end["responseCode"] == 0:
            assert row["outcome"] in ("accepted", "repeated", "contradicting"), end
        else:
            assert (row["outcome"], row["code"]) == ("refused", end["responseCode"]), end
            assert row["reason"] == REFUSED[end["scenario"]], end
    quarantined = [row for row in engine.rows("quarantine") if row["kind"] == "end"]
    assert sorted(row["reason"] for row in quarantined) == sorted(REFUSED.values())
    twice = next(end for end in crafted if end["scenario"] == "s10_duplicate_end")
    assert outcomes[(31224, twice["ts"], 8)]["outcome"] == "repeated"
    assert truth.rows("basic", "verdicts")
