"""What makes two rows one transaction: broker, id, group and born time, nulls equal (R56, R66)."""

from __future__ import annotations

import pytest
from builders import at, lines_of

from txmq_lib.rules.transaction_key import join_transaction, transactions_of
from txmq_lib.spark.local_frame import local_frame

pytestmark = pytest.mark.spark

KEY = "broker_name string, transaction_id string, producer_group string, born_timestamp timestamp"
ONE = ("b", "T", "PG", at(0))
OTHERS = {
    "another broker": ("c", "T", "PG", at(0)),
    "another id": ("b", "U", "PG", at(0)),
    "another group": ("b", "T", "PH", at(0)),
    "no group": ("b", "T", None, at(0)),
    "an orphan twin, born a millisecond later": ("b", "T", "PG", at(1)),
}


def test_rows_join_on_all_four_and_no_group_equals_no_group(spark):
    keyed = [(*ONE, "the same"), *((*key, why) for why, key in OTHERS.items())]
    left = local_frame(spark, keyed, f"{KEY}, why string")
    right = local_frame(spark, [(*ONE, 1), (*OTHERS["no group"], 2), ("b", None, "PG", at(0), 3)], f"{KEY}, n int")
    joined = join_transaction(left, right, "left")
    assert joined.columns == [*left.columns, "n"]
    expected = {why: None for why in OTHERS} | {"the same": 1, "no group": 2}
    assert {row.why: row.n for row in joined.collect()} == expected
    assert lines_of(join_transaction(left, right, "left_semi"), "why") == [("no group",), ("the same",)]
    assert lines_of(join_transaction(left, right, "left_anti"), "why") == sorted(
        (why,) for why in OTHERS if why != "no group"
    )


def test_a_transaction_is_one_however_many_rows_it_has(spark):
    groupless = OTHERS["no group"]
    frame = local_frame(spark, [(*ONE, 1), (*ONE, 2), (*groupless, 3), (*groupless, 4)], f"{KEY}, n int")
    assert lines_of(transactions_of(frame), "broker_name", "transaction_id", "producer_group", "born_timestamp") == [
        ("b", "T", None, 0),
        ("b", "T", "PG", 0),
    ]
