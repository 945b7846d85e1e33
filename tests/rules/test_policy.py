"""Limits per broker, with a default for the rest."""

from __future__ import annotations

import pytest
from builders import table_of
from pyspark.sql import functions as F

from txmq_lib.rules.policy import Limits, Policies
from txmq_lib.spark.local_frame import local_frame

pytestmark = pytest.mark.spark

POLICIES = Policies(
    Limits("engine", 6_000, 60_000, 15, 259_200_000),
    {"real": Limits("audit", 2_000, 3_000, 3, 2**40), "plain": Limits("engine", 1, 2, 0, 5)},
)


def test_a_broker_has_its_own_limits_and_all_others_the_default(spark):
    frame = local_frame(spark, [("real",), ("plain",), ("Real",), ("other",)], "broker_name string")
    names = ("role", "transaction_timeout_ms", "transaction_check_interval_ms", "transaction_check_max",
             "file_reserved_time_ms")  # fmt: skip
    limited = frame.select("broker_name", *[POLICIES.column(name).alias(name) for name in names])
    default = ("engine", 6_000, 60_000, 15, 259_200_000)
    assert table_of(limited, "broker_name", *names) == {
        "real": ("audit", 2_000, 3_000, 3, 2**40),
        "plain": ("engine", 1, 2, 0, 5),
        "Real": default,
        "other": default,
    }


def test_a_role_is_held_by_name(spark):
    frame = local_frame(spark, [("real",), ("plain",), ("other",)], "broker_name string")
    roles = frame.withColumns({"audit": POLICIES.has_role("audit"), "engine": POLICIES.has_role("engine")})
    assert table_of(roles, "broker_name", "audit", "engine") == {
        "real": (True, False),
        "plain": (False, True),
        "other": (False, True),
    }


def test_without_brokers_of_their_own_the_default_holds_for_all(spark):
    frame = spark.range(1).select(F.lit("b").alias("broker_name"))
    alone = Policies(POLICIES.default, {})
    assert table_of(frame.withColumn("max", alone.column("transaction_check_max")), "broker_name", "max") == {"b": 15}
