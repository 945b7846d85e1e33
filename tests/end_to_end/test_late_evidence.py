"""What lands last of a transaction decides it, whatever landed before and however little of the past is read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from histories import HALF_TOPIC, MAX_TIME_TOPIC, OP_TOPIC, message_row
from house import House
from moment import NOW, NOW_MS
from test_copies_and_rivals import end

from txmq_lib.delta import warehouse
from txmq_lib.delta.log_view import LEAST_ROW_BYTES
from txmq_lib.passes import retention, runner
from txmq_lib.passes.current import Pass

DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS
HALF = {"UNIQ_KEY": "T1", "PGROUP": "GID_A", "REAL_TOPIC": "Topic", "REAL_QID": "0", "TRAN_MSG": "true"}


def stored(topic: str, place: int, properties: dict[str, str] = HALF, **fields: Any) -> dict[str, Any]:
    """A message of T1, or about it, as a broker stored it at a physical offset."""
    defaults = {"queue_offset": place // 1_000, "born_ms": NOW_MS - 60_000, "body": "body", **fields}
    return message_row(topic, place=place, stored_ms=NOW_MS - 60_000 + place, properties=properties, **defaults)


@pytest.fixture(params=["files", "delta"])
def reads_in_part(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """No table is so small that it is read whole: files that may matter are read, or Delta finds them."""
    monkeypatch.setattr(warehouse, "READ_WHOLE_BYTES", -1)
    if request.param == "delta":
        monkeypatch.setattr(warehouse, "FEW_FILES", -1)
    return str(request.param)


# Halves in front of a given-up row and behind it (R73: resumed), the commit of the one given up, the row that says so.
EVIDENCE = {
    "half": [stored(HALF_TOPIC, 1_000), stored(HALF_TOPIC, 3_000)],
    "message": [stored("Topic", 4_000, sys_flag=8, prepared=2_000)],
    "max-time": [stored(MAX_TIME_TOPIC, 2_000)],
}


@pytest.mark.long
@pytest.mark.usefixtures("reads_in_part")
@pytest.mark.parametrize("order", [*permutations(EVIDENCE)], ids="-".join)
def test_a_message_of_a_given_up_row_closes_a_resumed_transaction_whichever_lands_last(
    open_house: Callable[..., House], order: tuple[str, ...]
):
    house = open_house("role=audit")
    for kind in order:
        house.land_rows(kind, EVIDENCE[kind])
        house.reconcile()
    assert house.rows("pending_half") == []
    house.audit()
    assert [row["verdict"] for row in house.rows("verdict")] == ["COMMITTED_AND_DISCARDED"]


@pytest.mark.long
@pytest.mark.usefixtures("reads_in_part")
def test_an_op_that_landed_before_its_half_closes_it(open_house: Callable[..., House]):
    house = open_house("role=audit")
    house.land_rows("op", [stored(OP_TOPIC, 5_000, {"TAGS": "d"}, body="1,")])
    house.reconcile()
    house.land_rows("half", EVIDENCE["half"][:1])
    house.reconcile()
    assert house.rows("pending_half") == []


@pytest.mark.long
@pytest.mark.usefixtures("reads_in_part")
def test_a_verdict_is_looked_for_only_in_files_that_can_hold_it(open_house: Callable[..., House]):
    house = open_house("role=audit")
    house.land_rows("half", [stored(HALF_TOPIC, 1_000)])
    assert house.audit().counts["verdict_PENDING"] == 1
    house.land_rows("op", [stored(OP_TOPIC, 5_000, {"TAGS": "d"}, body="1,")])
    house.land_rows("message", [stored("Topic", 4_000, sys_flag=8, prepared=1_000)])
    assert house.audit().counts["verdict_COMMITTED"] == 1
    assert [row["verdict"] for row in house.rows("verdict")] == ["COMMITTED"]
    for file in Path(house.warehouse.path("verdict")).rglob("*.parquet"):
        file.unlink()  # whoever opens one now fails
    house.land_rows("half", [stored(HALF_TOPIC, 6_000, {**HALF, "UNIQ_KEY": "T2"}, born_ms=NOW_MS - DAY_MS)])
    assert house.audit().counts["verdict_PENDING"] == 1


def test_what_is_pending_is_written_where_as_many_others_are(open_house: Callable[..., House]):
    house = open_house("role=audit")
    house.land_rows("half", [stored(HALF_TOPIC, 1_000)])
    house.reconcile(NOW - timedelta(seconds=59))
    house.land_rows("op", [stored(OP_TOPIC, 5_000, {"TAGS": "d"}, body="1,")])
    house.land_rows("half", [stored(HALF_TOPIC, 6_000, {**HALF, "UNIQ_KEY": "T2"})])
    with house.writing() as steps:
        house.reconcile(NOW - timedelta(seconds=59))
    assert [row["transaction_id"] for row in house.rows("pending_half")] == ["T2"]
    assert steps == ["started", "pending_half", "committed"]  # nobody is asked: then it would be written without a look
    house.land_rows("message", [stored("Other", 7_000)])
    with house.writing() as steps:
        house.reconcile(NOW - timedelta(seconds=59))
    assert "pending_half" not in steps


def test_a_small_pass_opens_of_small_tables_only_files_that_may_matter(open_house: Callable[..., House]):
    house = open_house("role=audit")
    house.land_rows("half", [stored(HALF_TOPIC, 1_000)])
    house.land_rows("message", [stored("Topic", 4_000, sys_flag=8, prepared=1_000)])
    house.land_rows("op", [stored(OP_TOPIC, 5_000, {"TAGS": "d"}, body="1,")])
    house.reconcile()
    for table in ("half_message", "message", "op_message"):
        for file in Path(house.warehouse.path(table)).rglob("*.parquet"):
            file.unlink()  # whoever opens one now fails
    second = {**HALF, "UNIQ_KEY": "T2"}
    house.land_rows("half", [stored(HALF_TOPIC, 6_000, second, born_ms=NOW_MS - DAY_MS)])
    house.reconcile()
    assert [row["transaction_id"] for row in house.rows("pending_half")] == ["T2"]


def test_copies_and_halves_that_landed_before_are_found_though_what_is_new_is_at_hand(
    open_house: Callable[..., House],
):
    house = open_house()
    house.land_rows("half", EVIDENCE["half"][:1])
    house.reconcile(NOW - timedelta(seconds=59))
    house.land_rows("half", EVIDENCE["half"][1:])  # a copy
    house.reconcile(NOW - timedelta(seconds=59))
    assert [row["half_offsets"] for row in house.rows("pending_half")] == [[1, 3]]
    house.land_rows("half", [stored(HALF_TOPIC, 900_000, {**HALF, "UNIQ_KEY": "T2"}, born_ms=NOW_MS - DAY_MS)])
    house.land_rows("end", [end(0, 8, transactionId="T1", commitLogOffset=1_000, tranStateTableOffset=1)])
    assert house.reconcile(NOW - timedelta(seconds=59)).counts["ends_accepted"] == 1
    assert [row["transaction_id"] for row in house.rows("pending_half")] == ["T2"]
    assert [row["transaction_id"] for row in house.rows("message")] == ["T1"]


def test_of_a_table_the_files_that_may_matter_are_read_or_more(open_house: Callable[..., House], reads_in_part: str):
    house = open_house("role=audit")
    for place in (1_000, 300_000):
        house.land_rows("half", [stored(HALF_TOPIC, place, {**HALF, "UNIQ_KEY": f"T{place}"})])
    near = [(300_000, 300_000)]
    rows = house.warehouse.read("half_message", may_matter=lambda file: file.may_hold("commit_log_offset", near))
    found = sorted(row["commit_log_offset"] for row in rows.collect())
    assert found == ([300_000] if reads_in_part == "files" else [1_000, 300_000])
    held = house.warehouse.read("end_outcome", may_matter=lambda file: file.partition["is_held"] == "true")
    assert held.isEmpty()


def test_what_is_pending_counts_whatever_the_last_commit_of_its_table_was(
    open_house: Callable[..., House], monkeypatch: pytest.MonkeyPatch
):
    house = open_house()
    house.land_rows("half", EVIDENCE["half"])
    house.reconcile(NOW - timedelta(seconds=59))
    assert retention.keep_for(house.warehouse, "pending_half", file_retention_ms=WEEK_MS, log_retention_ms=90 * DAY_MS)
    monkeypatch.setattr(runner, "SMALL_PASS_BYTES", 0)
    sizes: list[int | None] = []
    tuned = runner.tuned
    monkeypatch.setattr(
        runner, "tuned", lambda spark, **options: [sizes.append(options["input_bytes"]), tuned(spark, **options)][1]
    )
    assert house.reconcile().counts["check_request"] == 1
    assert sizes[0] is not None
    assert sizes[0] > 100


# Three transactions resolved in a topic of which nothing landed: nothing proves what became of them.
UNPROVEN = [stored(HALF_TOPIC, place, {**HALF, "UNIQ_KEY": f"T{place}"}) for place in (1_000, 2_000, 3_000)]
OPS = [stored(OP_TOPIC, 5_000, {"TAGS": "d"}, body="1,2,3,")]


def without_proof(house: House) -> None:
    """A warehouse where the halves of UNPROVEN are RESOLVED_UNKNOWN, and stay so."""
    house.land_rows("half", UNPROVEN)
    house.land_rows("op", OPS)
    assert house.audit().counts["verdict_RESOLVED_UNKNOWN"] == len(UNPROVEN)


def test_what_lacks_proof_counts_as_much_as_what_is_new(
    open_house: Callable[..., House], monkeypatch: pytest.MonkeyPatch
):
    house = open_house("role=audit")
    without_proof(house)
    sizes: list[int | None] = []
    tuned = runner.tuned
    monkeypatch.setattr(
        runner, "tuned", lambda spark, **options: [sizes.append(options["input_bytes"]), tuned(spark, **options)][1]
    )
    new: list[int | None] = []
    new_bytes = Pass.new_bytes
    monkeypatch.setattr(Pass, "new_bytes", lambda self, tables: [new.append(new_bytes(self, tables)), new[-1]][1])
    house.land_rows("half", [stored(HALF_TOPIC, 6_000, {**HALF, "UNIQ_KEY": "T6000"})])
    sizes.clear()
    new.clear()
    assert house.audit().counts["verdict_PENDING"] == 1
    assert [size - fresh for size, fresh in zip(sizes, new, strict=True)] == [len(UNPROVEN) * LEAST_ROW_BYTES]


def test_an_audit_keeps_no_body_of_what_it_judges(open_house: Callable[..., House], monkeypatch: pytest.MonkeyPatch):
    house = open_house("role=audit")
    without_proof(house)
    house.land_rows("max-time", [stored(MAX_TIME_TOPIC, 4_000, UNPROVEN[0]["properties"])])
    kept: list[str] = []
    cached = Pass.cached
    monkeypatch.setattr(Pass, "cached", lambda self, frame: [kept.extend(frame.columns), cached(self, frame)][1])
    house.audit()
    assert "half_commit_log_offset" in kept, "given-up rows are kept"
    assert not {"body", "properties"} & {*kept}


def test_a_store_time_ahead_of_the_clock_expires_nothing_before_the_clock_does(open_house: Callable[..., House]):
    house = open_house("role=audit", "file_reserved_time=1h")
    ahead = {**stored(HALF_TOPIC, 2_000, {**HALF, "UNIQ_KEY": "T2"}), "storeTimestamp": NOW_MS + 3650 * DAY_MS}
    house.land_rows("half", [stored(HALF_TOPIC, 1_000), ahead])  # both born a minute before NOW
    assert house.audit().counts == {"verdict_PENDING": 2, "verdict": 2, "orphan": 0}
    as_old_as_reserved = NOW + timedelta(minutes=59)
    assert house.audit(as_old_as_reserved).counts == {"idle": 1}
    assert house.audit(as_old_as_reserved + timedelta(milliseconds=1)).counts["verdict_EXPIRED_UNSEEN"] == 2
    assert house.audit(as_old_as_reserved + timedelta(days=1)).counts == {"idle": 1}
