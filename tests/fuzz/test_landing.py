"""Hostile lines, op bodies and whole passes: a short part of `make fuzz`, against the contract in plain Python."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from fuzz import contract
from fuzz.landing import GOOD, JUDGED, run_lines, written
from fuzz.ops import run_ops
from fuzz.passes import SETTINGS, run_passes
from fuzz.traces import run_traces
from house import House
from pyspark.sql import SparkSession

from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse

LINES, OPS, ROWS = 600, 200, 30
SEED = 20261121


@pytest.mark.parametrize("name", JUDGED)
def test_every_line_lands_as_it_says_or_is_told_why_not(spark: SparkSession, tmp_path: Path, name: str):
    tally = run_lines(spark, tmp_path, name, LINES, SEED)
    assert tally.tried > LINES
    assert tally.escapes == []


def test_every_token_of_an_op_body_is_a_row_or_told_of(spark: SparkSession):
    assert run_ops(spark, OPS, SEED).escapes == []


def test_every_end_of_a_trace_message_is_a_row_or_told_of(spark: SparkSession):
    assert run_traces(spark, OPS, SEED).escapes == []


@pytest.mark.long
def test_passes_end_with_every_good_row_and_views_answer(spark: SparkSession, tmp_path: Path):
    warehouse = Warehouse(spark, str(tmp_path / "it's a [warehouse] {1}"))
    house = House(warehouse, tmp_path, Settings.load(assignments=list(SETTINGS), warehouse=warehouse.uri))
    assert run_passes(house, ROWS, SEED).escapes == []


@pytest.mark.parametrize("kind", GOOD)
def test_lines_are_good_and_bad_and_seldom_open(kind: str):
    chance = Random(SEED)
    found = [contract.judged(kind, written(chance, kind)) for _ in range(1000)]
    good = sum(not judgement.faults and not judgement.is_open for judgement in found)
    bad = sum(bool(judgement.faults) and not judgement.is_open for judgement in found)
    assert good > 250
    assert bad > 250
    assert good + bad > 900
