"""Columns over rows of several brokers that have topics, offsets and places of the same names."""

from __future__ import annotations

from txmq_lib.pipeline.land.live.by_broker import is_among, value_of
from txmq_lib.pipeline.land.records.messages import without_place
from txmq_lib.pipeline.land.records.offset_spans import within_spans
from txmq_lib.rules.traces import KEPT, trace_faults
from txmq_lib.spark.local_frame import local_frame

ROWS = [(broker, topic, 0, offset) for broker in "abc" for topic in ("T", "U") for offset in (3, 4, 5)]
SCHEMA = "broker_name string, topic string, queue_id int, queue_offset bigint"


def kept(spark, condition) -> set[tuple[str, str, int]]:
    rows = local_frame(spark, ROWS, SCHEMA).where(condition).collect()
    return {(row["broker_name"], row["topic"], row["queue_offset"]) for row in rows}


def test_a_topic_is_among_those_of_its_own_broker(spark):
    everywhere = {(broker, topic, offset) for broker, topic, _, offset in ROWS}
    assert kept(spark, is_among({"a": ["T"], "b": ["U"], "c": []})) == {
        one for one in everywhere if one[:2] in {("a", "T"), ("b", "U")}
    }
    assert kept(spark, ~is_among({"a": [], "b": []})) == everywhere
    assert kept(spark, ~is_among({})) == everywhere


def test_each_row_has_the_value_of_its_broker_and_none_where_that_has_none(spark):
    for values in ({"a": 7, "b": None}, {"b": None}, {}):
        rows = local_frame(spark, ROWS, SCHEMA).withColumn("value", value_of(values, "bigint")).collect()
        assert {row["broker_name"]: row["value"] for row in rows} == {name: values.get(name) for name in "abc"}


def test_offsets_lie_in_the_span_of_their_own_broker(spark):
    found = kept(spark, within_spans({"a": (3, 3), "b": (4, 9), "other": (0, 9)}))
    assert {(broker, offset) for broker, _, offset in found} == {("a", 3), ("b", 4), ("b", 5)}
    assert kept(spark, within_spans({})) == set()
    many = {f"broker{number}": (0, 9) for number in range(1_000)} | {"c": (5, 5)}
    assert {(broker, offset) for broker, _, offset in kept(spark, within_spans(many))} == {("c", 5)}


def test_a_record_kept_out_takes_their_places_from_records_of_its_broker_alone(spark):
    places = [(*row, 100 * row[-1], 100 * row[-1]) for row in ROWS if row[1] == "T"]
    rows = local_frame(spark, places, f"{SCHEMA}, commit_log_offset bigint, position bigint")
    rivals = local_frame(spark, [("b", 400)], "broker_name string, position bigint")
    placed = {
        (row["broker_name"], row["queue_offset"]): row["commit_log_offset"]
        for row in without_place(rows, rivals).collect()
    }
    assert {key for key, place in placed.items() if place is None} == {("b", 4), ("b", 5)}
    assert len(placed) == 9


def test_a_trace_that_cannot_be_read_is_a_fault_of_the_broker_that_has_it(spark):
    columns = ("broker_name", "topic", "queue_id", "queue_offset")
    assert columns == KEPT[:4]
    messages = local_frame(
        spark,
        [(broker, "T", 0, 3, b"body", None, None) for broker in "ab"],
        f"{SCHEMA}, body binary, reason string, detail string",
    )
    records = local_frame(
        spark, [("b", "T", 0, 3, 0, "odd", True)], f"{SCHEMA}, position int, record string, is_odd boolean"
    )
    assert [row["broker_name"] for row in trace_faults(messages, records).collect()] == ["b"]
