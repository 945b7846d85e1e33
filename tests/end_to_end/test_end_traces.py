"""Ends that clients say they sent: from files, from a store, told beside the verdict and never in its place (R129)."""

from __future__ import annotations

import json
from base64 import b64encode

import pytest
from deciding_broker import Deciding
from house import BROKER, wall_clock
from moment import NOW
from record_encoder import encode_record
from resolving import half
from small_log import START_MS, SmallLog
from test_copies_and_rivals import message_of, op_of

from txmq_lib.cli import main
from txmq_lib.pipeline.land.job import run_land_rocketmq

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"


def end(id_: str, state: str, *, group: str = "GID_A", check: str = "false") -> str:
    fields = ["EndTransaction", str(START_MS), "R", group, "TopicA", id_, "t", "k", "10.0.0.1:10911", "2", id_, state]
    return "\x01".join([*fields, check]) + "\x02"


def trace_message(offset: int, *records: str) -> dict[str, object]:
    body = b64encode("".join(records).encode()).decode()
    place = {"topic": TRACE_TOPIC, "queueOffset": offset, "commitLogOffset": 500_000 + offset}
    return {
        **half(0),
        **place,
        "bornHost": "10.0.0.9:4711",
        "properties": {"UNIQ_KEY": f"M{offset}"},
        "bodyBase64": body,
    }


@pytest.mark.long
def test_a_conflict_is_told_with_the_ends_that_its_clients_sent(open_house, capsys):
    house = open_house("role=audit")
    copies = [half(1), {**half(1), "queueOffset": 2, "commitLogOffset": 2000}]
    house.land_rows("half", copies)
    house.land_rows("op", [op_of(1), {**op_of(2, 96_000), "queueOffset": 1}])
    house.land_rows("message", [message_of(half(1), 1000)])
    traces = [
        trace_message(0, end("T1", "COMMIT_MESSAGE"), end("T7", "UNKNOW")),
        trace_message(1, "Pub\x01x\x02"),
        trace_message(2, end("T1", "ROLLBACK_MESSAGE", check="true"), end("T1", "NONE")),
    ]
    report = house.land_rows("trace", traces)
    assert report.counts["trace"] == 3
    again = house.land_rows("trace", traces).counts
    assert (again["trace"], again["already_there"]) == (0, 2), "one without an end left no row, and is looked at again"
    assert [(row["kind"], row["reason"]) for row in house.rows("quarantine")] == [("trace", "TRACE_RECORD")]
    house.audit()
    (verdict,) = house.rows("verdict")
    assert (verdict["verdict"], verdict["reason"]) == ("CONFLICT", "two_ops"), "what clients say changes no verdict"
    assert main(["--warehouse", house.warehouse.uri, "trace", "T1"]) == 0
    printed = capsys.readouterr().out
    assert "means: visible, with a second end accepted: its clients sent a commit and a rollback" in printed
    main(["--warehouse", house.warehouse.uri, "verdicts", "--format", "json", "--now", NOW.isoformat()])
    assert json.loads(capsys.readouterr().out)["client_ends"] == "commit, rollback to a check"
    house.land_rows("trace", [{**trace_message(0, end("T1", "UNKNOW"))}])
    assert [row["reason"] for row in house.rows("quarantine")] == ["TRACE_RECORD", "KEY_CONFLICT"]


def test_a_store_gives_them_where_the_trace_topic_is_set_and_else_its_messages(open_house, tmp_path):
    log = SmallLog()
    first = log.half("T1")
    log.commit(first)
    log.op(first)
    log.append(TRACE_TOPIC, {"UNIQ_KEY": "M"}, end("T1", "COMMIT_MESSAGE", group="G"))
    store = log.write_store(tmp_path / "store")
    plain = open_house("role=audit", name="plain")
    plain.land_store(store)
    assert TRACE_TOPIC in {row["topic"] for row in plain.rows("message")}
    assert plain.rows("end_trace") == []
    house = open_house("role=audit", f"land.trace_topic={TRACE_TOPIC}", 'land.topics=["Real"]')
    house.land_store(store)
    assert {row["topic"] for row in house.rows("message")} == {"Real"}
    (row,) = house.rows("end_trace")
    assert (row["broker_name"], row["transaction_id"], row["state"], row["is_from_check"]) == (
        BROKER, "T1", "commit", False,
    )  # fmt: skip


def test_what_was_committed_to_the_topic_of_traces_is_a_message_and_no_rollback(open_house, tmp_path):
    log = SmallLog()
    traced = log.half("T1", TRACE_TOPIC)
    log.commit(traced)
    log.append(TRACE_TOPIC, {"UNIQ_KEY": "M"}, end("T1", "COMMIT_MESSAGE", group="G"))
    log.op(traced)
    house = open_house("role=audit", f"land.trace_topic={TRACE_TOPIC}")
    house.land_store(log.write_store(tmp_path / "store"))
    house.audit()
    assert [row["verdict"] for row in house.rows("verdict")] == ["COMMITTED"]
    assert [row["state"] for row in house.rows("end_trace")] == ["commit"]


def test_a_live_broker_gives_them_once_and_only_where_the_trace_topic_is_set(open_house):
    broker = Deciding(halves=1)
    body = (end("T0", "COMMIT_MESSAGE") + end("T0", "ROLLBACK_MESSAGE", check="true")).encode()
    record = encode_record(9000, topic=TRACE_TOPIC.encode(), body=body, properties=b"UNIQ_KEY\x01M\x02")
    broker.broker.queues[TRACE_TOPIC, 0] = [record]
    try:
        plain = open_house("role=audit", "rocketmq.timeout=5s", name="plain")
        house = open_house("role=audit", "rocketmq.timeout=5s", f"land.trace_topic={TRACE_TOPIC}")
        for each in (plain, house):
            run_land_rocketmq(
                each.warehouse, each.settings, name_servers=[broker.names.address], now=NOW, wall_clock=wall_clock,
                environ={},
            )  # fmt: skip
        again = run_land_rocketmq(
            house.warehouse, house.settings, name_servers=[broker.names.address], now=NOW, wall_clock=wall_clock,
            environ={},
        )  # fmt: skip
    finally:
        broker.close()
    assert plain.rows("end_trace") == [] == plain.rows("message") == house.rows("message")
    found = [(row["state"], row["is_from_check"], row["client"]) for row in house.rows("end_trace")]
    assert sorted(found) == [("commit", False, "10.1.2.3:42426"), ("rollback", True, "10.1.2.3:42426")]
    ends = {row["topic"]: row["next_offset"] for row in house.rows("landing_frontier")}
    assert (ends[TRACE_TOPIC], "idle" in again.counts) == (1, True)
