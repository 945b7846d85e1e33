"""What Spark plans in a reconcile: expressions of its own only, no row goes through Python."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from house import House
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from truth import CAPTURES

from txmq_lib.passes.current import Pass

# Spark's operators that hand rows to Python: BatchEvalPython, MapInArrow, FlatMapGroupsInPandas and the like.
OF_PYTHON = re.compile(r"\w*(?:Python|Pandas|InArrow)\w*", re.IGNORECASE)


def plan_of(frame: DataFrame) -> str:
    """The physical plan of a frame."""
    return str(frame._jdf.queryExecution().executedPlan().toString())


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The plans of all frames that passes keep or write: there is no other way for a row."""
    plan_texts: list[str] = []

    def noting(whole: Callable[..., Any]) -> Callable[..., Any]:
        def noted(self: Pass, *arguments: Any, **named: Any) -> Any:
            plan_texts.extend(plan_of(one) for one in arguments if isinstance(one, DataFrame))
            return whole(self, *arguments, **named)

        return noted

    for name in ("cached", "append", "overwrite", "upsert"):
        monkeypatch.setattr(Pass, name, noting(getattr(Pass, name)))
    return plan_texts


def test_an_operator_of_python_shows_in_a_plan(spark: SparkSession):
    same = F.udf(lambda value: value, "long")
    assert OF_PYTHON.search(plan_of(spark.range(1).select(same("id"))))


@pytest.mark.parametrize("is_small", [True, False], indirect=True)
def test_no_row_of_a_reconcile_goes_through_python(plans: list[str], open_house: Callable[..., House], is_small: bool):
    house = open_house("transaction_timeout=2", "transaction_check_interval=3", "roll_back_given_up=true")
    house.land("half", CAPTURES / "restart" / "half.jsonl.gz")
    house.land("end", CAPTURES / "restart" / "ends.jsonl.gz")
    plans.clear()
    house.reconcile()
    assert len(plans) > 10
    assert {found for plan in plans for found in OF_PYTHON.findall(plan)} == set()
