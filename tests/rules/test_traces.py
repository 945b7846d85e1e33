"""EndTransaction records of the trace topic, laid out as TraceDataEncoder.encoderFromContextBean lays them out (R129)."""

from __future__ import annotations

from builders import at
from moment import NOW_MS

from txmq_lib.rules.traces import MOST_BYTES, end_traces, trace_faults, trace_records
from txmq_lib.spark.local_frame import local_frame

DDL = (
    "broker_name string, topic string, queue_id int, queue_offset bigint, store_timestamp timestamp,"
    " content_hash bigint, born_host string, body binary"
)


def end(state: str, *, time: object = NOW_MS, check: str = "false", id_: str = "T1", group: str = "PG") -> str:
    fields = ["EndTransaction", str(time), "R", group, "TopicA", id_, "tag", "key", "10.0.0.1:10911", "2", id_, state]
    return "\x01".join([*fields, check]) + "\x02"


PUB = "\x01".join(["Pub", str(NOW_MS), "R", "PG", "TopicA", "T1", "", "", "h:1", "3", "1", "2", "ID", "true"]) + "\x02"
SUB = "\x01".join(["SubAfter", "req", "T1", "5", "true", "keys", "0", str(NOW_MS)]) + "\x02"
# Why, the body, (position, state, is from a check) of each record, whether the message is at fault.
BODIES = [
    ("a commit", end("COMMIT_MESSAGE"), [(0, "commit", False)], False),
    ("a rollback that answers a check", end("ROLLBACK_MESSAGE", check="true"), [(0, "rollback", True)], False),
    ("as RocketMQ spells it", end("UNKNOW"), [(0, "unknown", False)], False),
    ("among others", PUB + end("COMMIT_MESSAGE") + SUB + end("ROLLBACK_MESSAGE", check="true"),
     [(1, "commit", False), (3, "rollback", True)], False),
    ("no end", PUB + SUB, [], False),
    ("nothing", "", [], False),
    ("a later version writes more", end("COMMIT_MESSAGE")[:-1] + "\x01host\x02", [(0, "commit", False)], False),
    ("a state that there is not, one good", end("COMMITTED") + end("COMMIT_MESSAGE"), [(1, "commit", False)], True),
    ("cut short", f"EndTransaction\x01{NOW_MS}\x01R\x02", [], True),
    ("no time", end("COMMIT_MESSAGE", time="now"), [], True),
    ("a time beyond all", end("COMMIT_MESSAGE", time=10**17), [], True),
    ("no boolean", end("COMMIT_MESSAGE", check="perhaps"), [], True),
    ("no id", end("COMMIT_MESSAGE", id_="null"), [], True),
    ("no group", end("COMMIT_MESSAGE", group=""), [], True),
]  # fmt: skip


def test_each_end_that_a_client_tells_is_a_row_or_a_fault(spark):
    rows = [
        ("b", "RMQ_SYS_TRACE_TOPIC", 0, number, at(number), 7, "10.0.0.9:4711", body.encode())
        for number, (_, body, _, _) in enumerate(BODIES)
    ]
    messages = local_frame(spark, rows, DDL)
    records = trace_records(messages)
    found = sorted(end_traces(records).collect(), key=lambda row: (row["queue_offset"], row["position"]))
    for number, (why, _, named, _) in enumerate(BODIES):
        here = [row for row in found if row["queue_offset"] == number]
        assert [(row["position"], row["state"], row["is_from_check"]) for row in here] == named, why
    columns = ("transaction_id", "producer_group", "real_topic", "client", "store_host")
    assert {tuple(row[name] for name in columns) for row in found} == {
        ("T1", "PG", "TopicA", "10.0.0.9:4711", "10.0.0.1:10911")
    }
    moments = end_traces(records).selectExpr("unix_millis(ended_timestamp) AS ms").distinct().collect()
    assert [row["ms"] for row in moments] == [NOW_MS]
    bad = {row["queue_offset"]: row for row in trace_faults(messages, records).collect()}
    assert sorted(bad) == [number for number, (_, _, _, is_bad) in enumerate(BODIES) if is_bad]
    assert {row["reason"] for row in bad.values()} == {"TRACE_RECORD"}
    assert bad[8]["detail"] == f"a record of an end that cannot be read: EndTransaction|{NOW_MS}|R"


def test_bytes_that_are_no_text_spoil_their_own_record_only(spark):
    body = b"EndTransaction\x01\xff\xfe\x02" + end("COMMIT_MESSAGE").encode()
    messages = local_frame(spark, [("b", "X", 0, 0, at(0), 7, None, body)], DDL)
    records = trace_records(messages)
    assert [(row["position"], row["client"]) for row in end_traces(records).collect()] == [(1, None)]
    assert trace_faults(messages, records).count() == 1


def test_a_message_larger_than_any_client_writes_is_told_and_not_read(spark):
    bodies = [
        b"\x02" * (MOST_BYTES - 200) + end("COMMIT_MESSAGE").encode(),
        b"\x02" * MOST_BYTES + end("COMMIT_MESSAGE").encode(),
    ]
    rows = [("b", "X", 0, number, at(number), 7, None, body) for number, body in enumerate(bodies)]
    messages = local_frame(spark, rows, DDL)
    records = trace_records(messages)
    assert [(row["queue_offset"], row["position"]) for row in end_traces(records).collect()] == [(0, MOST_BYTES - 200)]
    (large,) = trace_faults(messages, records).collect()
    assert (large["queue_offset"], large["reason"]) == (1, "TRACE_BODY_TOO_LARGE")
    assert large["detail"] == f"a body of {len(bodies[1])} bytes, and 1048576 are the most"
