"""Runs and Spark frames from Python, on the session that is there."""

from __future__ import annotations

from pathlib import Path

import pytest
from moment import NOW_TEXT
from pyspark.sql import SparkSession
from truth import CAPTURES

import txmq_lib as txmq


def test_a_run_lands_and_judges_and_its_rows_are_frames_of_the_session(spark: SparkSession, tmp_path: Path):
    half, op = (str(CAPTURES / "restart" / f"{name}.jsonl.gz") for name in ("half", "op"))
    sources = [{"kind": "half", "paths": [half], "broker": "a"}, {"kind": "op", "paths": [op], "broker": "a"}]
    opened = txmq.open(warehouse=tmp_path / "w", settings=["role=audit", f"sources={sources}"])
    report = opened.run(now=NOW_TEXT, session=spark)
    assert report.job == "run"
    verdicts = opened.verdicts()
    assert verdicts.spark(spark).where("verdict is not null").count() == verdicts.count() == 65
    times = verdicts.spark(spark).selectExpr("cast(min(born_timestamp) as string)").first()[0]
    assert times.startswith("2026-")


def test_a_store_without_a_role_is_refused_before_spark_is_asked(tmp_path: Path):
    sources = [{"kind": "store", "paths": [str(tmp_path)], "broker": "a"}]
    with pytest.raises(txmq.TxmqError, match="role"):
        txmq.open(warehouse=tmp_path / "w", settings=[f"sources={sources}"]).run()


def test_a_run_without_a_source_that_can_be_read_is_refused_before_spark_is_asked(tmp_path: Path):
    sources = [{"kind": "store", "paths": [str(tmp_path / "gone")], "broker": "a"}]
    opened = txmq.open(warehouse=tmp_path / "w", settings=["role=audit", f"sources={sources}"])
    with pytest.raises(txmq.TxmqError, match="gone is no directory"):
        opened.run()
