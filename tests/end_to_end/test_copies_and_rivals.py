"""Several copies of one transaction, and several halves at one place: each is decided once, and told alike by all jobs."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from house import wall_clock
from moment import NOW, NOW_MS
from pyspark.sql import functions as F
from resolving import decided, half, verdicts

from txmq_lib.errors import UsageError
from txmq_lib.pipeline.decision_request import DecisionRequest
from txmq_lib.pipeline.decisions import decide
from txmq_lib.pipeline.land.files.events import END_CONTENT, OFFSET_CONTENT
from txmq_lib.pipeline.land.kinds import EVENT_TABLES


def copy_of(original: dict[str, Any], number: int, **properties: str) -> dict[str, Any]:
    """What a check puts back of a half: a copy at queue offset `number`."""
    copied_properties = {**original["properties"], "TRANSACTION_CHECK_TIMES": "1", **properties}
    return {**original, "queueOffset": number, "commitLogOffset": 1000 * number, "properties": copied_properties}


def message_of(original: dict[str, Any], place: int, topic: str = "TopicA", offset: int = 0) -> dict[str, Any]:
    """What a commit of the half at `place` leaves in its real topic."""
    return {
        **original, "topic": topic, "sysFlag": 8, "queueOffset": offset, "commitLogOffset": 90_000 + offset,
        "preparedTransactionOffset": place,
    }  # fmt: skip


def op_of(offset: int, place: int = 95_000) -> dict[str, Any]:
    """An op that names the half at a queue offset."""
    return {
        **half(0), "topic": "RMQ_SYS_TRANS_OP_HALF_TOPIC", "commitLogOffset": place, "storeTimestamp": NOW_MS,
        "properties": {"TAGS": "d"}, "bodyBase64": b64encode(f"{offset},".encode()).decode(),
    }  # fmt: skip


def without_topic(row: dict[str, Any]) -> dict[str, Any]:
    """The half without its real topic and queue."""
    kept = {name: value for name, value in row["properties"].items() if name not in ("REAL_TOPIC", "REAL_QID")}
    return {**row, "properties": kept}


@pytest.mark.long
def test_a_message_of_a_copy_without_real_topic_counts_for_audit_as_it_does_for_reconcile(open_house):
    house = open_house("role=audit")
    house.land_rows("half", [without_topic(half(0)), copy_of(half(0), 1)])
    house.land_rows("message", [message_of(half(0), place=0)])
    house.reconcile()
    assert house.rows("pending_half") == []
    assert verdicts(house) == {"T0": "COMMITTED_OP_LOST"}
    house.land_rows("op", [op_of(0)])
    assert verdicts(house) == {"T0": "COMMITTED"}


def test_a_given_up_row_has_the_real_topic_of_its_transaction(open_house):
    house = open_house("role=audit")
    given_up = {**without_topic(half(0)), "topic": "TRANS_CHECK_MAX_TIME_TOPIC", "commitLogOffset": 50_000}
    house.land_rows("half", [half(0)])
    house.land_rows("max-time", [given_up])
    house.land_rows("message", [message_of(half(0), place=50_000)])
    house.reconcile()
    assert house.rows("pending_half") == []
    assert verdicts(house) == {"T0": "COMMITTED_AND_DISCARDED"}


def end(number: int, code: int, **fields: Any) -> dict[str, Any]:
    """An END_TRANSACTION of a producer, received before NOW."""
    return {
        "ts": NOW_MS - 50_000, "producerGroup": "GID_A", "tranStateTableOffset": number, "commitLogOffset": 1000 * number,
        "commitOrRollback": code, "msgId": f"T{number}", "transactionId": f"T{number}", **fields,
    }  # fmt: skip


@pytest.mark.long
def test_settle_reckons_with_an_end_of_another_copy_that_has_landed_and_is_not_judged_yet(open_house):
    house = open_house()
    house.land_rows("half", [half(0), copy_of(half(0), 1)])
    house.land_rows("end", [end(0, 12)])
    request = DecisionRequest(("T0",), decision="commit", reason="ticket 7", decided_by="me@here")
    with pytest.raises(UsageError, match="would find this end contradicting"):
        decide(house.warehouse, house.settings, request, now=NOW, wall_clock=wall_clock)
    house.reconcile()
    assert (decided(house), verdicts(house)) == ({"T0": ["rollback accepted"]}, {"T0": "ROLLED_BACK"})


def test_an_end_means_one_of_two_halves_at_one_place_or_none(open_house):
    house = open_house()
    house.land_rows("half", [half(0), {**half(1), "commitLogOffset": 0}])
    nobodys = {"tranStateTableOffset": 7, "transactionId": "T7"}
    house.land_rows("end", [end(1, 8, commitLogOffset=0), end(0, 12, **nobodys)])
    house.reconcile()
    outcomes = [(row["end_transaction_id"], row["transaction_id"], row["outcome"]) for row in house.rows("end_outcome")]
    assert sorted(outcomes) == [("T1", "T1", "accepted"), ("T7", None, "held")]
    assert [row["transaction_id"] for row in house.rows("message")] == ["T1"]


def test_ends_that_differ_in_which_optional_field_holds_a_text_are_two(open_house):
    house = open_house()
    nothing = {"msgId": None, "transactionId": None}
    first, second = (end(0, 8, **{**nothing, name: "X"}) for name in ("msgId", "transactionId"))
    for row in (first, second):
        house.land_rows("end", [{name: value for name, value in row.items() if value is not None}])
    assert sorted((row["msg_id"] or "", row["transaction_id"] or "") for row in house.rows("end_transaction")) == [
        ("", "X"), ("X", ""),
    ]  # fmt: skip


def test_a_file_landed_before_hashes_told_nulls_apart_adds_nothing_when_it_lands_again(open_house):
    house = open_house()
    nameless = {name: value for name, value in end(0, 8).items() if name != "msgId"}
    ends = [nameless, nameless, end(1, 8), {**end(1, 8), "topic": "TopicA"}]
    reports = [{"ts": NOW_MS, "group": "G", "topic": "T", "queueId": 0, "offset": 5}] * 2
    contents = {"end": END_CONTENT, "offset": OFFSET_CONTENT}
    for kind, rows in (("end", ends), ("offset", reports)):
        house.land_rows(kind, rows)
        table = EVENT_TABLES[kind]
        before = len(house.rows(table))
        former = house.warehouse.read(table).withColumn("content_hash", F.xxhash64(*contents[kind]))
        former.localCheckpoint().write.format("delta").mode("overwrite").save(f"{house.warehouse.uri}/{table}")
        house.land_rows(kind, rows)
        assert len(house.rows(table)) == before == len(rows)
        house.land_rows(kind, [*rows, rows[0]])
        assert len(house.rows(table)) == before + 1, "one more of a content than ever before"


@pytest.mark.long
def test_the_end_of_a_half_in_quarantine_decides_nothing_of_the_one_at_its_place(open_house):
    house = open_house()
    house.land_rows("half", [half(0), half(1), half(2)])
    # Other halves at the places of two of them: the rows that stand there stay, these go to quarantine.
    house.land_rows("half", [
        {**half(number), "properties": {**half(number)["properties"], "UNIQ_KEY": f"R{number}"}} for number in (0, 1)
    ])  # fmt: skip
    assert {row["transaction_id"] for row in house.rows("quarantine")} == {"R0", "R1"}
    # R17: no id is verified where nobody else claims the place.
    house.land_rows("end", [end(0, 8, transactionId="R0"), end(1, 8), end(2, 8, transactionId="R2")])
    house.reconcile()
    outcomes = {row["end_transaction_id"]: (row["outcome"], row["reason"]) for row in house.rows("end_outcome")}
    assert outcomes == {"R0": ("refused", "TRANSACTION_ID_WRONG"), "T1": ("accepted", None), "R2": ("accepted", None)}
    assert verdicts(house) == {"T0": "PENDING", "T1": "COMMITTED", "T2": "COMMITTED"}
