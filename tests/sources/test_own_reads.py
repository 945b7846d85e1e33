"""Reads of one's own: a store and a topic in one line each, once `register` has told a session of them."""

from __future__ import annotations

import pytest
from captured import as_stored, unpack_store
from live_capture import live_capture
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from truth import rows as capture_rows

import txmq_lib as txmq

pytestmark = pytest.mark.spark
OFFSETS = {as_stored(row)["queue_offset"] for row in capture_rows("basic", "half")}


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    txmq.register(spark)
    return spark


def test_a_whole_store_is_read_in_one_line(session, tmp_path):
    frame = session.read.format("rocketmq_store").load(str(unpack_store("basic", tmp_path)))
    halves = frame.where("topic = 'RMQ_SYS_TRANS_HALF_TOPIC'")
    assert {row["queue_offset"] for row in halves.collect()} == OFFSETS
    assert frame.where("reason is not null").count() == 0


def test_a_topic_is_read_by_name_server_and_name(session, tmp_path):
    with live_capture("basic", tmp_path, "broker-a") as served:
        source = session.read.format("rocketmq").option("namesrv", served.names.address)
        frame = source.option("topic", "RMQ_SYS_TRANS_HALF_TOPIC").load()
        found = {row["queue_offset"] for row in frame.collect()}
        with pytest.raises(PySparkException, match="the name servers know no topic nowhere"):
            source.option("topic", "nowhere").load().count()
    assert found == OFFSETS
    with pytest.raises(PySparkException, match="option topic is missing"):
        session.read.format("rocketmq").option("namesrv", "127.0.0.1:9").load().count()
