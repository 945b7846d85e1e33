"""The reference model itself, against what a real broker did: so that it and the passes cannot be wrong together."""

from __future__ import annotations

import pytest
from engine_model import End, Engine, Half, Limits, Transaction
from truth import facts, key_of, rows

LIMITS = Limits(timeout_ms=2_000, interval_ms=3_000, check_max=3, reserved_ms=72 * 3_600_000)
END_OF_TIME = 1_795_300_000_000


def half_of(row: dict) -> Half:
    properties = row["properties"]
    key = key_of(row)
    return Half(
        Transaction(key.transaction_id, properties.get("PGROUP"), key.born_ms),
        row["queueOffset"],
        row["commitLogOffset"],
        row["storeTimestamp"],
        properties.get("REAL_TOPIC"),
        int(properties["REAL_QID"]) if "REAL_QID" in properties else None,
        properties.get("CHECK_IMMUNITY_TIME_IN_SECONDS"),
        row["bodyBase64"],
    )


def end_of(row: dict) -> End:
    header = row["header"]
    return End(
        row["ts"],
        header["producerGroup"],
        int(header["tranStateTableOffset"]),
        int(header["commitLogOffset"]),
        int(header["commitOrRollback"]),
        header.get("fromTransactionCheck") == "true",
    )


def judged(capture: str) -> tuple[Engine, list[dict]]:
    """The model after one pass over a capture, and the ends it was given in landing order."""
    model, ends = Engine(LIMITS), rows(capture, "ends") + rows(capture, "ends_crafted")
    model.land_halves(map(half_of, facts(capture).half))
    model.land_ends(0, enumerate(map(end_of, ends)))
    model.reconcile(END_OF_TIME)
    return model, ends


@pytest.mark.parametrize(("capture", "transactions", "contradicting"), [("consumer", 1063, 0), ("basic", 376, 3)])
def test_the_first_accepted_end_decides_as_the_broker_did(capture, transactions, contradicting):
    model, _ = judged(capture)
    decided = {
        (row["transaction_id"], row["born_timestamp"]): row["first_accepted_end"] for row in rows(capture, "verdicts")
    }
    ours = {(key.transaction_id, key.born_ms): decision for key, decision in model.decided.items()}
    assert ours == {key: end for key, end in decided.items() if end is not None}
    visible = {row["properties"]["UNIQ_KEY"] for row in facts(capture).visible if row["sysFlag"] & 12 == 8}
    differing = {key for key in model.chains if (key.transaction_id in visible) != (model.decided.get(key) == "commit")}
    assert len(model.chains) == transactions
    # Which of two contradicting ends came first the broker's threads decided, not the time of receipt.
    assert differing <= model.contradicting
    assert len(differing) == contradicting


def test_ends_that_the_broker_refused_are_refused_for_the_reason_it_gave():
    model, ends = judged("basic")
    remarks = {  # what the broker's remark holds -> the reason
        "The producer group wrong": "PRODUCER_GROUP_WRONG",
        "The transaction state table offset wrong": "STATE_TABLE_OFFSET_WRONG",
        "Find prepared transaction message failed": "PREPARED_NOT_FOUND",
        "newLimit < 0": "PREPARED_NOT_FOUND",  # no message begins at that physical offset
        "Cannot parse null string": "PREPARED_NOT_FOUND",  # a visible message is there, no half
        "commitOrRollback field wrong": "COMMIT_OR_ROLLBACK_WRONG",
        "not set any response code": "IMMUNITY_EXPIRED",
    }
    reasons = {place: outcome.reason for (_, place), outcome in model.judged.items()}
    refusals = {
        place: next(reason for remark, reason in remarks.items() if remark in end["remark"])
        for place, end in enumerate(ends)
        if "scenario" in end and end["responseCode"]
    }
    assert len(refusals) == 8
    assert {place: reason for place, reason in reasons.items() if reason is not None} == refusals
