"""Rows of quarantine: one per distinct fault of a record, each kept once."""

from __future__ import annotations

import pytest
from builders import lines_of, rows, schema_of, table_of
from moment import NOW
from pyspark.sql import functions as F

from txmq_lib.rules.quarantine import not_yet_quarantined, quarantine_rows
from txmq_lib.spark.local_frame import local_frame

pytestmark = pytest.mark.spark

FAULTS = [  # reason, detail, raw, source
    ("BROKEN_JSON", "d", "{", "f:1"),
    ("BROKEN_JSON", "d", "{", "f:9"),
    ("BROKEN_JSON", "d", "{x", "f:2"),
    ("OP_TOKEN", "names x", "7,x,y", "f:3"),
    ("OP_TOKEN", "names y", "7,x,y", "f:3"),
    ("KEY_CONFLICT", "d", "{", "f:4"),
    ("A", None, "b", "f:5"),
    ("A", "b", None, "f:6"),
    (None, "A", "b", "f:7"),
]


def quarantined(spark, *, broker_name="b", kind="op", pass_number=4):
    bad = local_frame(spark, FAULTS, "reason string, detail string, raw string, source string")
    return quarantine_rows(bad, broker_name=F.lit(broker_name).cast("string"), kind=kind, raw=F.col("raw"), job="land",
                           pass_number=pass_number, now=NOW)  # fmt: skip


def test_equal_faults_are_one_and_different_ones_of_a_record_are_all_kept(spark):
    found = quarantined(spark)
    assert sorted(found.columns) == sorted(schema_of("quarantine").names)
    distinct = sorted({line[:3] for line in FAULTS}, key=str)
    assert sorted(((r.reason, r.detail, r.raw) for r in found.collect()), key=str) == distinct
    said = lines_of(found.where("raw = '{x'"), "broker_name", "kind", "reason", "detail", "raw", "source", "job",
                    "pass_number", "quarantined_timestamp")  # fmt: skip
    assert said == [("b", "op", "BROKEN_JSON", "d", "{x", "f:2", "land", 4, 0)]


def test_a_fault_is_the_same_in_every_pass_and_another_for_another_broker_or_kind(spark):
    first = quarantined(spark)
    others = [
        quarantined(spark, pass_number=5),
        quarantined(spark, broker_name="c"),
        quarantined(spark, kind="half"),
    ]
    left = [not_yet_quarantined(other, first).withColumn("run", F.lit(run)) for run, other in enumerate(others)]
    counts = left[0]
    for frame in left[1:]:
        counts = counts.unionByName(frame)
    assert table_of(counts.groupBy("run").count(), "run", "count") == {1: 8, 2: 8}


def test_what_is_in_quarantine_already_does_not_come_again(spark):
    found = quarantined(spark)
    there = rows(spark, "quarantine", [{"fingerprint": r.fingerprint} for r in found.collect() if r.raw == "{"])
    assert {r.raw for r in not_yet_quarantined(found, there).collect()} == {"{x", "7,x,y", "b", None}
